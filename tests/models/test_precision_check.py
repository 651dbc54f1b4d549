"""The precision check: how far another way is from plain float32 is measured once, on the first images, and said."""

import dataclasses
import re

import numpy as np
import pytest
import torch

from eyechart import evaluate
from eyechart.errors import OutOfMemoryError
from eyechart.inference.image_batches import stack
from eyechart.models.lazy_model import model_names
from eyechart.models.towers import precision as precisions
from eyechart.models.towers.precision import PrecisionCheck, is_due, measure, precision_notices
from eyechart.types import ModelCard
from support.data import noise_image, write_classification
from support.embedding import embed, samples
from support.encoders import random_encoder
from support.zoo import load

CARD = ModelCard("test", "a model", "digest", "8x8", precision="bf16")
TURNED = np.array([[1, 0], [0.9, 0.1], [0, 1], [0.1, 0.9]], np.float32)


def vectors(count, seed=0):
    return np.random.default_rng(seed).standard_normal((count, 8)).astype(np.float32)


def check(encode, card=CARD):
    return PrecisionCheck(card, "bf16 on cpu", lambda: encode)


def test_what_is_measured():
    other = TURNED[[0, 1, 2, 3]] @ np.array([[0.8, 0.6], [-0.6, 0.8]], np.float32)  # all turned alike: neighbours stay

    found = measure("a way", TURNED, other)

    assert (found.images, found.changed, found.same) == (4, 0, False)
    assert found.mean == pytest.approx(0.8)
    assert found.lowest == pytest.approx(0.8)
    assert measure("a way", TURNED, TURNED[[0, 2, 1, 3]]).changed == 4


def test_lengths_of_vectors_do_not_count_but_bits_do():
    found = measure("a way", TURNED, TURNED * 3)

    assert (found.lowest, found.changed, found.same) == (pytest.approx(1), 0, False)
    assert measure("a way", TURNED, TURNED.copy()).same


def test_a_cosine_that_is_all_but_one_is_not_rounded_to_one():
    found = measure("a way", TURNED, TURNED + np.float32([1e-5, 0]))

    assert re.search(r"cosine 1 - \de-1\d on average, 1 - \de-1\d at least; the nearest other image", found.message)
    assert measure("a way", TURNED, TURNED * 2).message.count("1.000000") == 2


def test_a_vector_that_overflowed_is_like_nothing():
    broken = TURNED.copy()
    broken[1] = [np.inf, np.nan]

    found = measure("a way", TURNED, broken)

    assert (found.lowest, found.mean) == (0, pytest.approx(0.75))


def test_of_images_that_are_equally_near_any_may_be_found():
    plain = np.array([[1, 0], [0, 1], [0, 1], [0, 1]], np.float32)
    other = plain + np.array([[0, 0], [0, 0], [0.001, 0], [0, 0]], np.float32)

    assert measure("a way", plain, other).changed == 0


def test_the_first_images_are_encoded_twice_and_no_others():
    rows, seen = vectors(200), []

    def encode(batch):
        seen.append(len(batch))
        return batch

    pairs = check(encode)
    for start in range(0, 200, 40):
        pairs.see(rows[start : start + 40], rows[start : start + 40] + np.float32(1e-3))

    assert seen == [40, 24]
    assert not pairs.due
    (notice,) = precision_notices(CARD)
    assert notice.kind == "paired_check"
    assert (
        "bf16 on cpu, compared with plain fp32 on the first 64 images: cosine 1 - 6e-07 on average, 0.99999"
        in notice.message
    )
    assert not is_due(CARD)


def test_a_short_run_says_what_it_has_seen_and_the_next_one_measures_again():
    check(lambda batch: batch).see(vectors(5), vectors(5))

    assert is_due(CARD)
    assert precision_notices(CARD)[0].message.endswith("on the first 5 images: the same vectors, bit for bit.")
    check(lambda batch: batch).see(vectors(3), vectors(3))  # a shorter one does not take its place
    assert "first 5 images" in precision_notices(CARD)[0].message


def test_another_model_or_way_has_its_own_figures():
    check(lambda batch: batch).see(vectors(64), vectors(64))

    assert is_due(dataclasses.replace(CARD, precision="fp16"))
    assert precision_notices(dataclasses.replace(CARD, weights_digest="other")) == []


def test_no_room_for_two_ways_ends_the_check_and_not_the_run():
    def full(batch):
        raise OutOfMemoryError("full")

    pairs = check(full)
    pairs.see(vectors(5), vectors(5))

    assert not pairs.due
    assert precision_notices(CARD) == []


@pytest.mark.parametrize("content", ["{}", "[]", "no json", '{"way": 1}'])
def test_figures_that_are_none_are_measured_again(content):
    pairs = check(lambda batch: batch)
    pairs.path.parent.mkdir(parents=True, exist_ok=True)
    pairs.path.write_text(content)

    assert is_due(CARD)
    assert precision_notices(CARD) == []


def test_the_first_batches_of_a_run_are_compared(tmp_path):
    listed, encoder = list(samples(24)), random_encoder()
    seen = []
    encoder.precision_check = check(lambda batch: seen.append(np.array(batch)) or encoder.encode_images(batch))

    table, _ = embed(tmp_path, encoder, listed)

    assert precision_notices(CARD)[0].message.endswith("on the first 24 images: the same vectors, bit for bit.")
    assert [len(batch) for batch in seen] == [4] * 6
    keys = np.frombuffer(b"".join(key for key, _ in listed), np.uint8).reshape(24, -1)
    assert not table.missing(keys).any()


# Real models -----------------------------------------------------------------------------------------------------


def prepared(encoder, count=12):
    return stack([encoder.prepare_image(noise_image(i, (40, 30))) for i in range(count)])


@pytest.mark.parametrize("name", ["open_clip", "clip"])
@pytest.mark.parametrize(
    ("precision", "options"),
    [("bf16", {}), ("amp", {}), ("fp32", {"channels_last": True}), ("fp32", {"tf32": True}), ("bf16", {"tf32": True})],
)
def test_the_plain_way_is_the_model_in_float32(zoo, name, precision, options):
    plain, case = zoo.encoder(name), zoo.case(name)
    other = load(dataclasses.replace(case.spec, precision=precision, options={**case.spec.options, **options}))
    pixels = prepared(other)
    found = other.encode_images(pixels)

    other.precision_check.see(pixels, found)

    compared, as_it_is = other.precision_check._pairs[0]
    assert np.array_equal(as_it_is, found)
    np.testing.assert_allclose(compared, plain.encode_images(pixels), atol=1e-5)
    if precision != "fp32":
        assert not np.allclose(as_it_is, compared, atol=1e-6)  # it is another way


def test_nothing_is_compared_where_nothing_was_asked_for(zoo):
    case = zoo.case("open_clip")

    assert load(case.spec).precision_check is None
    assert load(dataclasses.replace(case.spec, options={"tf32": False})).precision_check is None


def test_weights_that_were_loaded_rounded_have_nothing_to_be_compared_with(zoo):
    assert load(dataclasses.replace(zoo.case("internvl_c_retrieval").spec, precision="bf16")).precision_check is None
    assert load(dataclasses.replace(zoo.case("internvl_c_retrieval").spec, precision="amp")).precision_check is not None


def test_a_model_that_only_reads_keeps_no_second_copy(zoo):
    spec = zoo.case("sentence-transformers-text").spec

    assert load(dataclasses.replace(spec, precision="bf16")).precision_check is None


def test_a_model_of_which_no_second_copy_fits_is_not_compared(zoo, monkeypatch):
    monkeypatch.setattr(precisions, "LARGEST", 10)
    case = zoo.case("open_clip")

    assert load(dataclasses.replace(case.spec, precision="bf16")).precision_check is None
    assert load(dataclasses.replace(case.spec, precision="amp")).precision_check is not None  # needs no copy


def test_a_result_says_it_also_when_its_vectors_come_from_the_store(zoo, tmp_path, monkeypatch):
    write_classification(tmp_path / "data", n=20, classes=("cat", "dog"), templates=("a {c}.",))
    monkeypatch.chdir(tmp_path)
    spec = zoo.case("open_clip").spec

    def run(output, precision):
        (result,) = evaluate(
            model_type=spec.family, model=[spec.name], pretrained=[spec.pretrained], dataset=["data"],
            output=output, precision=precision,
        )  # fmt: skip
        return [notice["message"] for notice in result.notices if notice["kind"] == "paired_check"]

    first, again, plain = run("a.json", "bf16"), run("b.json", "bf16"), run("c.json", "fp32")

    assert first[0].startswith("bf16 on cpu, compared with plain fp32 on the first 20 images: cosine ")
    assert again == first
    assert plain == []
    assert len(model_names()) == 2  # bf16 and fp32: they never share vectors


def test_a_check_that_is_done_keeps_no_second_model(zoo):
    encoder = load(dataclasses.replace(zoo.case("open_clip").spec, precision="bf16"))
    pixels = prepared(encoder, 4)
    for _ in range(16):
        encoder.precision_check.see(pixels, encoder.encode_images(pixels))

    assert not encoder.precision_check.due
    kept = [value for value in vars(encoder.precision_check).values() if isinstance(value, torch.nn.Module)]
    assert kept == []
    assert encoder._plain is None
