"""Digests of all images, and thumbnails and previews of the worst mistakes, travel in the records."""

from __future__ import annotations

import base64
import io

import numpy as np
import pytest
from PIL import Image

from eyechart import evaluate, read_result
from eyechart.cli import main
from eyechart.io.images import ImageRef
from eyechart.plan import THUMBNAILS
from eyechart.report.page.overview import is_thumbnail
from eyechart.results.job_results import BYTES_EACH, LARGE_SIDE, READ_SIDE, SIDE, choose, with_images
from eyechart.types import DatasetInfo, Document, Sample, TextCollection
from support.data import write_classification


def image(colour, size=(300, 200)):
    stream = io.BytesIO()
    Image.new("RGB", size, colour).save(stream, "PNG")
    return ImageRef("memory", stream.getvalue())


def samples(*names):
    for name in names:
        yield Sample(name, image("red"), label=0)


def with_thumbnails(records, samples, count):
    return with_images(records, samples, count, {}, DatasetInfo("photos", "classification"))


def opened(url):
    return Image.open(io.BytesIO(base64.b64decode(url.partition(",")[2])))


def label(name, rank):
    return {"id": name, "label": 0, "rank": rank, "correct": rank == 1}


def test_the_worst_mistakes_are_chosen_and_nothing_that_is_right():
    assert choose([label("a", 1), label("b", 3), label("c", 9), label("d", 2)], 2) == ["c", "b"]
    assert choose([label("a", 1)], 5) == []


def test_a_caption_brings_its_image_and_those_found_instead():
    records = [{"id": "a#0", "query": "text", "image": "a", "rank": 3, "top": ["b", "c", "a"]}]

    assert choose(records, 10) == ["a", "b", "c"]


def test_an_unread_answer_is_no_mistake_but_a_wrong_one_is():
    assert choose([{"id": "a", "correct": None}, {"id": "b", "correct": False}], 5) == ["b"]


def test_they_are_small_images_that_the_report_accepts():
    (record,) = with_thumbnails([label("a", 2)], samples("a"), 5)

    assert is_thumbnail(record["thumbnail"])
    assert opened(record["thumbnail"]).size == (SIDE, SIDE * 200 // 300)


def test_a_preview_is_larger_and_one_that_people_read_larger_still():
    def preview(kind, size):
        given = iter([Sample("a", image("red", size), label=0)])
        (record,) = with_images([label("a", 2)], given, 5, {}, DatasetInfo("data", kind))
        return opened(record["preview"]).size if "preview" in record else None

    assert preview("classification", (3000, 1000)) == (LARGE_SIDE, round(LARGE_SIDE / 3))
    assert preview("questions", (1000, 3000)) == (round(READ_SIDE / 3), READ_SIDE)
    assert preview("questions", (200, 100)) == (200, 100)
    assert preview("questions", (SIDE, 50)) is None  # the thumbnail is as large


def test_every_record_of_an_image_has_its_digest():
    records = with_images([label("a", 1), label("b", 1)], iter(()), 0, {"a": "ff"}, DatasetInfo("x", "classification"))

    assert records == [label("a", 1) | {"digest": "ff"}, label("b", 1)]


def test_a_document_is_in_the_worst_query_that_shows_it_once():
    documents = (*(Document(name, "", image=f"{name}.png") for name in "abc"), Document("text", "words"))
    collection = TextCollection(documents, (Document("1", "q"), Document("2", "", image="a.png")), {})
    records = [
        {"id": "1", "query": "text", "rank": 2, "relevant": ["a"], "top": ["b", "text", "a"]},
        {"id": "2", "query": "image", "rank": 9, "relevant": ["c"], "top": ["b"]},
    ]
    names = ["a.png", "b.png", "c.png"]

    first, second = with_images(
        records,
        samples(*names),
        9,
        {name: name[0] * 32 for name in names},
        DatasetInfo("d", "collection", collection=collection),
    )

    assert first["images"].keys() == {"a"}
    assert second["images"].keys() == {"b", "c"}
    assert second["images"]["c"]["digest"] == "c" * 32
    assert opened(second["images"]["c"]["preview"]).size == (300, 200)
    assert second["digest"] == "a" * 32
    assert "thumbnail" in second
    assert "digest" not in first


def test_reading_stops_at_the_last_image_that_is_wanted():
    read = []

    def stream():
        for sample in samples("a", "b", "c"):
            read.append(sample.id)
            yield sample

    with_thumbnails([label("a", 1), label("b", 2), label("c", 1)], stream(), 5)

    assert read == ["a", "b"]


def test_a_broken_image_is_left_out():
    records = with_thumbnails([label("a", 2)], iter([Sample("a", ImageRef("x", b"no image"), label=0)]), 5)

    assert records == [label("a", 2)]


def test_none_are_made_unless_asked_for():
    records = [label("a", 2)]

    assert with_thumbnails(records, iter(()), 0) == records


def test_the_most_confident_mistake_comes_first_and_rank_decides_where_there_are_no_scores():
    sure = {"id": "sure", "label": 0, "rank": 2, "scores": [0.9, 0.1], "label_score": 0.1}
    unsure = {"id": "unsure", "label": 0, "rank": 9, "scores": [0.3, 0.2], "label_score": 0.2}

    assert choose([unsure, sure], 5) == ["sure", "unsure"]
    assert choose([unsure, sure], 1) == ["sure"]


def test_images_stop_at_the_bytes_that_so_many_may_take():
    rng = np.random.default_rng(0)
    noise = [Image.fromarray(rng.integers(0, 256, (96, 96, 3), np.uint8)) for _ in range(4)]
    streams = [io.BytesIO() for _ in noise]
    for one, stream in zip(noise, streams, strict=True):
        one.save(stream, "PNG")
    names = ["a", "b", "c", "d"]
    listed = [Sample(n, ImageRef(n, s.getvalue()), label=0) for n, s in zip(names, streams, strict=True)]

    records = with_thumbnails([label(name, 2 + place) for place, name in enumerate(names)], iter(listed), 4)

    worst_first = ["thumbnail" in record for record in reversed(records)]
    assert worst_first == sorted(worst_first, reverse=True)  # what does not fit is the least bad
    kept = [len(record["thumbnail"]) for record in records if "thumbnail" in record]
    assert min(kept) > BYTES_EACH  # noise packs badly
    assert 0 < len(kept) < 4
    assert sum(kept) <= 4 * BYTES_EACH


# ---------------------------------------------------------------------------------------------- which data have them


def kept(output, **settings):
    """Run the embedded model and count the images that its result keeps."""
    (result,) = evaluate(
        model_type="onnx", model=["eyechart-tiny"], pretrained=["eyechart-tiny"], output=str(output), num_workers=0,
        **settings,
    )  # fmt: skip
    return sum("thumbnail" in record for record in result.iter_records())


@pytest.fixture
def photos(tmp_path):
    """A folder of somebody's own: two classes that cannot be told apart, so half of the samples are mistakes."""
    for name in ("cat", "dog"):
        (tmp_path / "photos" / name).mkdir(parents=True)
        for i in range(60):
            Image.new("RGB", (8, 8), (i, 0, 0)).save(tmp_path / "photos" / name / f"{i}.png")
    return tmp_path / "photos"


def test_data_of_ones_own_have_some_unless_none_are_wanted(photos, tmp_path):
    assert kept(tmp_path / "a.json", dataset=[str(photos)]) == THUMBNAILS
    assert kept(tmp_path / "b.json", dataset=[str(photos)], thumbnails=0) == 0
    assert kept(tmp_path / "c.json", dataset=[str(photos)], thumbnails=3) == 3


def test_a_table_and_a_webdataset_of_ones_own_have_some(photos, tmp_path):
    rows = [f"{path},{path.parent.name}" for path in sorted(photos.glob("*/*.png"))]
    (tmp_path / "table.csv").write_text("\n".join(["image,label", *rows]))
    write_classification(tmp_path / "shards")

    assert kept(tmp_path / "a.json", dataset=[str(tmp_path / "table.csv")]) > 0
    assert kept(tmp_path / "b.json", dataset=["wds/mine"], dataset_root=str(tmp_path / "shards")) > 0


def test_benchmarks_with_a_name_and_the_defaults_of_others_have_none(photos, tmp_path):
    write_classification(tmp_path / "shards")

    assert kept(tmp_path / "a.json", dataset=["demo/garments"], limit=100) == 0
    assert kept(tmp_path / "b.json", dataset=["wds/cifar10"], dataset_root=str(tmp_path / "shards")) == 0
    for like in ("clip_benchmark", "internvl"):
        with pytest.warns(UserWarning, match="Defaults of the preset"):
            assert (
                kept(tmp_path / f"{like}.json", dataset=[str(photos)], like=like, precision="fp32", append=False) == 0
            )


def test_the_command_of_clip_benchmark_keeps_none_unless_asked(photos, tmp_path):
    def count(name, *flags):
        words = f"eval --dataset {photos} --model_type onnx --model eyechart-tiny --no_amp --output {tmp_path / name}"
        assert main([*words.split(), *flags], program="clip_benchmark") == 0
        return sum("thumbnail" in record for record in read_result(tmp_path / name).iter_records())

    assert count("a.json") == 0
    assert count("b.json", "--thumbnails", "2") == 2
