"""Models with several vectors per input: vectors of their own libraries, in any batch; pooling; refusals."""

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from eyechart.cli import main
from eyechart.errors import ModelError, UsageError
from eyechart.manifest import DatasetScan
from eyechart.models.encoders.sentence_transformers import SentenceTransformersFamily
from eyechart.models.encoders.transformers import TransformersFamily
from eyechart.models.family import families_in
from eyechart.types import ModelSpec
from support import late_models
from support.late_models import PAGE_MODELS, TEXT_MODELS, TEXTS, edited, library_pages, library_texts

pytest.importorskip("sentence_transformers")


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Save each model once."""
    made = {}

    def folder(name):
        if name not in made:
            made[name] = tmp_path_factory.mktemp("model") / name.replace(" ", "-")
            made[name].mkdir()
            {**TEXT_MODELS, **PAGE_MODELS}[name](made[name])
        return made[name]

    return folder


def load(folder, family=SentenceTransformersFamily, **options):
    spec = ModelSpec("sentence-transformers", str(folder), options=options)
    family().check(spec)
    return family().load(spec)


def pages():
    draw = np.random.default_rng(0)
    return [
        Image.fromarray(draw.integers(0, 255, (*size, 3), np.uint8))
        for size in ((40, 60), (90, 30), (28, 28), (64, 64))
    ]


def check(encode, inputs, expected):
    """Compare with the library in one batch, in parts and in another order."""
    for order in ([*range(len(inputs))], [*range(len(inputs))][::-1], [1], [0, 2]):
        found = encode([inputs[i] for i in order])
        assert len(found) == len(order)
        for place, number in enumerate(order):
            rows = found[place : place + 1].rows
            assert rows.shape == expected[number].shape
            np.testing.assert_allclose(rows, expected[number], atol=1e-5)


@pytest.mark.parametrize("name", TEXT_MODELS)
def test_texts_have_the_vectors_of_sentence_transformers_by_role(folders, name):
    model = load(folders(name))

    for role in ("query", "document"):
        expected = library_texts(folders(name), role)
        check(lambda texts, role=role: model.encode_texts(texts, instruction=role), TEXTS, expected)
    check(model.encode_texts, TEXTS, library_texts(folders(name), "query"))
    assert not np.allclose(
        model.encode_texts(TEXTS[:1]).rows[:3], model.encode_texts(TEXTS[:1], instruction="document").rows[:3]
    )
    assert model.card.multi_vector
    assert (model.card.prompting, model.card.similarity, model.card.inputs) == ("role", "maxsim", ("text",))


@pytest.mark.parametrize("name", PAGE_MODELS)
@pytest.mark.parametrize("family", [SentenceTransformersFamily, TransformersFamily])
def test_pages_and_queries_have_the_vectors_of_transformers(folders, name, family):
    folder = folders(name)
    model = load(folder, family)

    check(model.encode_texts, TEXTS, library_pages(folder, TEXTS))
    prepared = [model.prepare_image(page) for page in pages()]
    check(model.encode_images, prepared, library_pages(folder, pages()))
    assert model.card.inputs == ("image", "text")
    assert families_in(folder, "encoder") == ["sentence-transformers"]


def test_long_texts_are_reported_by_the_length_of_their_role(folders):
    model = load(folders("PyLate"))
    long = " ".join(["cat"] * 15)

    model.encode_texts([long])
    assert model.truncated([long, "cat"]) == [True, False]  # queries have 12 tokens
    model.encode_texts([long], instruction="document")
    assert model.truncated([long, "cat"]) == [False, False]
    assert model.truncated([long + " cat" * 10]) == [True]


@pytest.mark.parametrize("name", ["MultiVectorEncoder", "ColPali"])
def test_token_pooling_is_that_of_the_library_and_part_of_the_identity(folders, name):
    import torch
    from sentence_transformers.multi_vector_encoder.modules import HierarchicalTokenPooling

    folder, pooling = folders(name), HierarchicalTokenPooling(3)
    plain, pooled = load(folder), load(folder, token_pooling=3)
    if name == "ColPali":
        prepared = [plain.prepare_image(page) for page in pages()]
        found, expected = pooled.encode_images(prepared), library_pages(folder, pages())
    else:
        found, expected = pooled.encode_texts(TEXTS, instruction="document"), library_texts(folder, "document")
    expected = pooling.pool([torch.from_numpy(item) for item in expected])
    for i, item in enumerate(expected):
        np.testing.assert_allclose(found[i : i + 1].rows, item.numpy(), atol=1e-5)
    assert found.sizes.max() < 12
    np.testing.assert_array_equal(pooled.encode_texts(TEXTS).rows, plain.encode_texts(TEXTS).rows)  # queries
    assert pooled.card.fingerprint != plain.card.fingerprint


def test_options_that_do_not_apply_are_refused(folders, tmp_path):
    with pytest.raises(UsageError, match="max_seq_length is not supported"):
        load(folders("ColPali"), max_seq_length=5)
    plain = late_models._bert(tmp_path / "bert")
    with pytest.raises(UsageError, match="token_pooling needs a model with several vectors per input"):
        load(plain, token_pooling=2)


@pytest.mark.parametrize("name", ["colpali-engine", "no model type"])
def test_a_checkpoint_without_a_projection_is_refused_not_completed_at_random(tmp_path, name):
    folder = tmp_path / "model"
    if name == "colpali-engine":
        late_models._bert(folder)
        edited(folder, "config.json", architectures=["ColQwen2_5"])
    else:
        late_models.multi_vector(folder)
        modules = json.loads((folder / "modules.json").read_text())
        (folder / "modules.json").write_text(json.dumps([modules[0], *modules[2:]]))
        edited(folder, "config_sentence_transformers.json", model_type=None)

    with pytest.raises(ModelError, match="has no projection"):
        load(folder)


@pytest.mark.parametrize("task", ["auto", "zeroshot_classification", "linear_probe", "clustering"])
def test_tasks_for_single_vectors_refuse_the_model_before_data_are_read(folders, tmp_path, monkeypatch, capsys, task):
    monkeypatch.setattr(DatasetScan, "samples", lambda _: pytest.fail("data were read"))
    monkeypatch.chdir(tmp_path)
    words = ["--model", str(folders("ColPali")), "--dataset", "demo/garments", "--task", task, "--output", "out.json"]

    code = main(["eval", *words, *(["--folds", "2"] if task == "linear_probe" else [])])

    assert code != 0
    message = " ".join(capsys.readouterr().err.split())
    assert "returns several vectors per input (late interaction), which" in message
    assert not Path("out.json").exists()
