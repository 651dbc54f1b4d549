"""Whole evaluations with small models: what the batch size must not change, and what is counted."""

import dataclasses
import json
import shlex
import shutil

import numpy as np
import pytest

from eyechart import evaluate
from eyechart.cli import main
from eyechart.errors import OutOfMemoryError
from eyechart.inference.embeddings import CachedEncoder
from eyechart.models.lazy_model import LazyModel
from eyechart.models.towers.torch_encoder import TorchEncoder
from support.data import write_classification

CLASSES = ("cat", "dog", "bird", "fish", "horse", "ship", "truck")


@pytest.fixture
def place(tmp_path, monkeypatch):
    """Write a dataset whose 25 images are no multiple of any batch, and go there."""
    write_classification(tmp_path / "data", n=25, classes=CLASSES, templates=("a photo of a {c}.", "{c} " * 100))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(case, output, **options):
    spec = case.spec
    (result,) = evaluate(
        model_type=spec.family,
        model=[spec.name],
        pretrained=[spec.pretrained],
        dataset=["data"],
        output=output,
        **options,
    )
    return result


@pytest.mark.parametrize("name", ["open_clip", "open_clip-siglip", "clip", "siglip2-naflex", "chinese_clip"])
def test_batches_of_1_and_64_give_the_same_metrics(zoo, place, monkeypatch, name):
    results = []
    for size in (1, 64, 7):
        monkeypatch.setenv("EYECHART_CACHE", str(place / f"cache{size}"))
        results.append(run(zoo.case(name), f"r{size}.json", batch_size=size))

    assert results[0].metrics == results[1].metrics == results[2].metrics
    assert {result.counts["scored"] for result in results} == {25}


def test_cut_texts_are_counted_and_reported_also_from_the_store(zoo, place):
    results = [run(zoo.case("open_clip"), f"r{i}.json") for i in range(2)]

    for result in results:
        (notice,) = (notice for notice in result.notices if notice["kind"] == "truncated_texts")
        assert notice["count"] == len(CLASSES)
        assert notice["message"] == "7 texts exceed the context length of 77 tokens and were truncated."


def test_the_card_goes_into_the_result(zoo, place):
    result = run(zoo.case("open_clip"), "r.json")

    card = zoo.encoder("open_clip").card
    assert result.model_card["fingerprint"] == card.fingerprint
    assert result.model_card["weights_digest"] == card.weights_digest
    assert (result.model_card["parameters"], result.model_card["image_size"]) == (card.parameters, 32)
    assert (result.provenance["device"], result.provenance["precision"]) == ("cpu", "fp32")


def test_a_run_goes_on_with_smaller_batches_when_memory_is_short(zoo, place, monkeypatch):
    whole = run(zoo.case("open_clip"), "whole.json")
    monkeypatch.setenv("EYECHART_CACHE", str(place / "other"))
    encode = TorchEncoder.encode_images

    def short_of_memory(self, batch):
        if len(batch) > 4:
            raise OutOfMemoryError("the device is full")
        return encode(self, batch)

    monkeypatch.setattr(TorchEncoder, "encode_images", short_of_memory)

    result = run(zoo.case("open_clip"), "small.json")

    assert result.metrics == whole.metrics
    assert "smaller_batches" in {notice["kind"] for notice in result.notices}


def test_a_warm_run_does_not_load_the_model(zoo, place, monkeypatch):
    first = run(zoo.case("clip"), "first.json")
    monkeypatch.setattr(LazyModel, "load", lambda self, expected=None: pytest.fail("the model was loaded"))

    assert run(zoo.case("clip"), "second.json").metrics == first.metrics


def test_a_model_that_only_reads_is_refused_for_images(zoo, place):
    with pytest.raises(Exception, match="encodes texts, not images"):
        run(zoo.case("sentence-transformers-text"), "r.json")


def test_own_code_in_the_working_folder_is_found(place):
    (place / "my_own_model.py").write_text(
        "import numpy as np\n"
        "class Colours:\n"
        "    def prepare_image(self, image): return np.asarray(image.convert('RGB').resize((4, 4)), np.float32)\n"
        "    def encode_images(self, batch): return batch.mean(axis=(1, 2))\n"
        "    def encode_texts(self, texts): return np.array([[len(t), 1, 2] for t in texts], np.float32)\n"
    )

    (result,) = evaluate(model=["python:my_own_model:Colours"], dataset=["data"], output="own.json")

    assert result.counts["scored"] == 25
    assert (result.model, result.pretrained) == ("python:my_own_model:Colours", "")


def test_the_language_reaches_the_model(zoo, tmp_path):
    asked = []

    class Spy:
        card = dataclasses.replace(zoo.encoder("open_clip").card, weights_digest="spy")

        def encode_texts(self, texts, *, language="en"):
            asked.append(language)
            return np.ones((len(texts), 2), np.float32)

        def truncated(self, texts):
            return [False] * len(texts)

    from eyechart.store.vector_store import EmbeddingStore

    class Family:
        def identity(self, spec):
            return None

        def load(self, spec):
            return Spy()

    embeddings = CachedEncoder(LazyModel(zoo.case("open_clip").spec, Family()), EmbeddingStore(tmp_path))
    embeddings.texts(["a"], language="zh")
    embeddings.texts(["a"], language="de")

    assert asked == ["zh", "de"]


def test_internvls_command_runs_as_its_authors_print_it(zoo, place):
    shutil.copytree(zoo.case("internvl_c_classification").parts[0].parent, place / "pretrained")
    command = (
        'eval --model_type internvl --language "en" --task "zeroshot_classification" --dataset "wds/x" '
        "--dataset_root ./data/ --model internvl_c_classification "
        "--pretrained ./pretrained/internvl_c_13b_224px.pth --output result.json"
    )

    assert main([*shlex.split(command), "--quiet"]) == 0

    result = json.loads((place / "result.json").read_text())
    expected = {
        "dataset": "wds/x",
        "model": "internvl_c_classification",
        "pretrained": "./pretrained/internvl_c_13b_224px.pth",
        "task": "zeroshot_classification",
        "language": "en",
    }
    assert expected.items() <= result.items()
    assert set(result["metrics"]) == {"acc1", "acc5", "mean_per_class_recall"}


def test_the_japanese_command_runs_as_printed_and_names_the_default_architecture(zoo, place):
    zoo.case("ja_clip")
    command = (
        'eval --model_type "ja_clip" --pretrained "rinna/japanese-cloob-vit-b-16" --dataset wds/x --dataset_root data'
    )

    assert main([*shlex.split(command), "--output", "result.json", "--quiet"]) == 0

    result = json.loads((place / "result.json").read_text())
    assert (result["model"], result["pretrained"]) == ("ViT-B-32-quickgelu", "rinna/japanese-cloob-vit-b-16")
