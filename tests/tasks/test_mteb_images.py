"""Tasks of MTEB with images, on small data in the layouts of their repositories, against MTEB's own evaluation."""

import math
import warnings
from copy import copy
from functools import partial
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import eyechart
from eyechart.datasets.mteb import _load_folder, _with_folder, image_column
from eyechart.errors import DataError, EyechartError
from eyechart.report.paired_records import check_records
from eyechart.tasks.mteb import flat_scores
from eyechart.tasks.mteb_records import label_ranking_precision
from eyechart.types import DatasetInfo
from support.mteb_images import (
    aro,
    cifar10,
    cv_bench,
    imagecode,
    pages,
    png,
    retrieval,
    sentence,
    sts12,
    sts17,
    voc,
    winoground,
    write_parquet,
)

mteb = pytest.importorskip("mteb")
pytestmark = pytest.mark.filterwarnings("ignore")  # the library's own, and those of what it uses

composed = {"image": lambda i: png(20000 + i), "text": lambda i: sentence(800 + i)}
DATA = {
    "mteb/cifar10": cifar10,
    "VOC2007": voc,
    "Winoground": winoground,
    "AROVisualAttribution": aro,
    "ImageCoDe": imagecode,
    "STS12VisualSTS": sts12,
    "STS17MultilingualVisualSTS": sts17,
    "VidoreArxivQARetrieval": pages,
    "CVBenchCount": cv_bench,
    "CIRRIT2IRetrieval": partial(retrieval, queries=composed, documents={"image": lambda i: png(21000 + i)}),
    "OVENIT2ITRetrieval": partial(retrieval, queries=composed, documents=composed),
    "CUB200I2IRetrieval": partial(
        retrieval, queries={"image": lambda i: png(22000 + i)}, documents={"image": lambda i: png(22000 + i)}
    ),
    "Vidore3HrRetrieval": partial(
        retrieval,
        queries={"text": lambda i: sentence(900 + i)},
        documents={"image": lambda i: png(23000 + i)},
        subsets=("english", "french", "german", "italian", "portuguese", "spanish"),
        n=12,
    ),
    "Vidore3HrBM25sReranking.v2": partial(
        retrieval,
        queries={"text": lambda i: sentence(900 + i)},
        documents=composed,
        subsets=("english", "french", "german", "italian", "portuguese", "spanish"),
        n=12,
        candidates=6,
    ),
}
"""Data of tasks, by the name of a task or a repository."""
PRIMARY = {
    "CIFAR10ZeroShot": "acc1",
    "CIFAR10": "accuracy",
    "VOC2007": "lrap",
    "CIFAR10Clustering": "nmi",
    "Winoground": "acc",
    "AROVisualAttribution": "acc",
    "ImageCoDe": "acc",
    "STS12VisualSTS": "cosine_spearman",
    "VisualSTS17Multilingual": "cosine_spearman",
    "VidoreArxivQARetrieval": "ndcg@5",
    "CVBenchCount": "recall@1",
    "CIRRIT2IRetrieval": "ndcg@10",
    "OVENIT2ITRetrieval": "ndcg@10",
    "CUB200I2IRetrieval": "hit_rate@1",
    "Vidore3HrRetrieval": "ndcg@10",
    "Vidore3HrBM25sReranking.v2": "ndcg@10",
}
"""Tasks of every type, and our name of their main score."""


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    for name, write in DATA.items():
        write(folder / name)
    return folder


@pytest.fixture(scope="module")
def clip(tmp_path_factory):
    from support.zoo_transformers import clip as save_clip

    folder = tmp_path_factory.mktemp("models") / "clip"
    folder.mkdir()
    save_clip(folder)
    return folder


@pytest.fixture(scope="module")
def oracle(clip):
    """MTEB's own wrapper of CLIP on the same weights."""
    from mteb.models.model_implementations.clip_models import CLIPModel
    from mteb.models.model_meta import ModelMeta

    model = CLIPModel(str(clip), revision="x", device="cpu")
    meta = {"name": "x/clip", "revision": "x", "modalities": ["text", "image"]}
    model.mteb_model_meta = ModelMeta.create_empty(overwrites=meta)
    return model


@pytest.fixture(scope="module")
def warm_cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def run(here, root, clip, warm_cache, monkeypatch):
    monkeypatch.setenv("EYECHART_CACHE", str(warm_cache))

    def evaluate(name, model=None, **settings):
        settings = {"dataset_root": str(root), "output": f"{name}.json"} | settings
        model = (
            {"model": str(clip), "model_type": "transformers", "device": "cpu"} if model is None else {"model": model}
        )
        [result] = eyechart.evaluate(dataset=f"mteb/{name}", **model, **settings)
        return result

    return evaluate


def alone(oracle, root, name):
    """What MTEB computes on the same files."""
    task = copy(mteb.get_task(name))
    for one in task.metadata.tasks if task.is_aggregate else [task]:
        one.data_loaded = False
        _load_folder(one, Path(_with_folder(one, {"data_root": str(root)})["folder"]))
    [found] = mteb.evaluate(oracle, task, cache=None, co2_tracker=False, show_progress_bar=False).task_results
    return flat_scores(found.to_dict()["scores"])


@pytest.mark.parametrize("name", PRIMARY)
def test_every_task_type_gets_the_numbers_of_mteb_with_records_and_an_interval(name, run, root, oracle):
    result = run(name)

    theirs = {metric: value for metric, value in alone(oracle, root, name).items() if not math.isnan(value)}
    assert theirs
    for metric, value in theirs.items():
        assert result.metrics[metric] == pytest.approx(value, abs=1e-6), metric
    assert result.primary == (PRIMARY[name],)
    primary = result.values[PRIMARY[name]]
    assert primary.value == pytest.approx(result.metrics["main_score"], abs=1e-5)  # MTEB rounds retrieval to 5 digits
    assert primary.chance is not None
    assert 0 < result.counts["listed"] == result.counts["scored"]
    records = list(result.iter_records())
    assert len(records) == result.counts["listed"] == len({record["id"] for record in records})
    check_records(eyechart.read_result(result.path))
    if name != "CIFAR10Clustering":  # mutual information is no mean
        assert primary.low < primary.high


def test_some_of_these_numbers_are_neither_zero_nor_one(run):
    values = {name: run(name).metrics[PRIMARY[name]] for name in ("AROVisualAttribution", "CVBenchCount", "ImageCoDe")}

    assert all(0 < value < 1 for value in values.values()), values


class Blind:
    """An encoder that does not look: all its vectors are the same."""

    def __init__(self, value):
        self.value = value

    def encode_images(self, images):
        return np.full((len(images), 8), self.value, np.float32)

    def encode_texts(self, texts):
        return np.full((len(texts), 8), self.value, np.float32)


@pytest.mark.parametrize(
    ("name", "value"), [*((name, 1.0) for name in PRIMARY), ("AROVisualAttribution", 0.0), ("CIRRIT2IRetrieval", 0.0)]
)
def test_a_model_that_does_not_look_gets_chance_or_less(name, value, run):
    result = run(name, Blind(value))

    judged = {metric: found for metric, found in result.values.items() if found.chance is not None}
    assert PRIMARY[name] in judged
    for metric, found in judged.items():
        assert found.value <= found.chance + 1e-9, metric


def test_what_mteb_gives_for_ties_stands_next_to_our_number(run):
    result = run("AROVisualAttribution", Blind(1.0))

    assert (result.metrics["main_score"], result.metrics["text_acc"]) == (1.0, 1.0)
    assert result.metrics["acc"] == 0.0


class OnlyImages:
    def encode_images(self, images):
        return np.stack([np.asarray(image.convert("RGB").resize((4, 4)), np.float32).ravel() for image in images])


def test_a_model_without_texts_runs_the_tasks_on_images_and_is_refused_for_others(run):
    assert run("STS12VisualSTS", OnlyImages()).metrics["cosine_spearman"] > 0.3
    with pytest.raises(EyechartError, match="text"):
        run("CIFAR10ZeroShot", OnlyImages())


class Both(OnlyImages):
    def encode_texts(self, texts):
        return np.stack([np.random.default_rng(len(text)).normal(size=48) for text in texts]).astype(np.float32)


def test_one_image_is_embedded_once_for_all_tasks(run, root):
    seen = []

    class Counting(Both):
        def encode_images(self, images):
            seen.extend(image for image in images if image.size == (24, 24))  # loading it tries others
            return super().encode_images(images)

    model = Counting()
    both = ["mteb/CIFAR10ZeroShot", "mteb/CIFAR10Clustering"]
    eyechart.evaluate(dataset=both, model=model, output="r_{dataset}.json", dataset_root=str(root))
    assert len(seen) == 60


def test_data_that_are_not_the_tasks_are_an_error_without_a_traceback_of_the_library(run, tmp_path, root):
    write_parquet(tmp_path / "CIFAR10ZeroShot", {"default": {"test": _renamed(root)}})

    with pytest.raises(DataError, match="CIFAR10ZeroShot"):
        run("CIFAR10ZeroShot", dataset_root=str(tmp_path))


def test_a_missing_split_and_a_damaged_file_are_named(run, tmp_path):
    folder = aro(tmp_path / "AROVisualAttribution")
    [file] = folder.rglob("*.parquet")
    content = file.read_bytes()
    file.write_bytes(content[:3000] + bytes(3000) + content[6000:])
    with pytest.raises(DataError, match=r"AROVisualAttribution does not contain .*deserialize"):
        run("AROVisualAttribution", dataset_root=str(tmp_path))
    (folder / "README.md").unlink()
    file.unlink()
    (folder / "train.csv").write_text("a\n1\n")
    with pytest.raises(EyechartError, match="AROVisualAttribution has no split 'test'"):
        run("AROVisualAttribution", dataset_root=str(tmp_path))


def test_classes_that_are_never_predicted_are_no_warning_on_the_terminal(run):
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        run("CIFAR10ZeroShot")
    assert not [one for one in found if "ill-defined" in str(one.message)]


def _renamed(root):
    from datasets import load_dataset

    return load_dataset(str(root / "mteb/cifar10"), split="test").rename_column("img", "picture")


def test_tasks_with_sound_or_video_are_refused_by_name(run):
    name = next(t.metadata.name for t in mteb.get_tasks() if "audio" in t.metadata.modalities)
    with pytest.raises(EyechartError, match="audio"):
        run(name)


def test_two_models_are_compared_on_the_same_samples(run, capsys):
    from eyechart.cli import main

    first, second = run("AROVisualAttribution"), run("AROVisualAttribution", Both(), output="second.json")
    assert main(["compare", str(first.path), str(second.path)]) == 0
    assert "AROVisualAttribution" in capsys.readouterr().out


@pytest.fixture
def late(here):
    """A late-interaction model in full precision, and the vectors that its library gives for images and texts."""
    from support import late_models

    (here / "col").mkdir()
    late_models.PAGE_MODELS["ColPali"](here / "col")
    return {"model": str(here / "col"), "store_precision": "fp32"}, partial(late_models.library_pages, here / "col")


def image(seed):
    return Image.open(BytesIO(png(seed)["bytes"]))


def maxsim_matrix(queries, documents):
    return np.array([[float((query @ document.T).max(1).sum()) for document in documents] for query in queries])


def test_late_interaction_models_search_pages_by_maxsim(run, late):
    settings, encode = late
    texts, pages_found = encode([sentence(700 + i) for i in range(25)]), encode([image(11000 + i) for i in range(25)])
    scores = maxsim_matrix(texts, pages_found)

    result = run("VidoreArxivQARetrieval", **settings)

    expected = (scores >= scores.diagonal()[:, None]).sum(1)
    assert [record["rank"] for record in result.iter_records()] == expected.tolist()


def test_late_interaction_models_join_the_vectors_of_an_image_and_a_text(run, late):
    settings, encode = late
    texts, images = encode([sentence(800 + i) for i in range(30)]), encode([image(20000 + i) for i in range(30)])
    joined = [np.concatenate(both) for both in zip(texts, images, strict=True)]
    scores = maxsim_matrix(joined, encode([image(21000 + i) for i in range(30)]))

    result = run("CIRRIT2IRetrieval", **settings)

    ranks = (scores[:, None, :] > scores[:, :, None]).sum(2) + 1
    expected = [int(min(row[i], row[(i + 1) % 30])) for i, row in enumerate(ranks)]
    assert [record["rank"] for record in result.iter_records()] == expected


def test_late_interaction_models_are_refused_where_one_vector_is_needed(run, late):
    for name in ("CIFAR10Clustering", "CIFAR10ZeroShot"):
        with pytest.raises(EyechartError, match="several vectors"):
            run(name, **late[0])


def test_label_ranking_precision_is_that_of_scikit_learn():
    from sklearn.metrics import label_ranking_average_precision_score

    rng = np.random.default_rng(0)
    present, scores = rng.random((50, 6)) < 0.3, rng.integers(0, 4, (50, 6)) / 4.0
    present[0], present[1] = False, True

    ours = label_ranking_precision(present, scores).mean()
    assert ours == pytest.approx(label_ranking_average_precision_score(present.astype(int), scores))


def test_an_image_is_named_by_its_own_row():
    rows = [{"image": None}, {"image": b"one"}, {"image": 7}]
    samples = iter(image_column(DatasetInfo("mixed", "collection"), rows))

    sample = next(samples)
    assert (sample.id, sample.image.source) == ("1", "mixed[1]")
    with pytest.raises(DataError, match=r"mixed\[2\]: a int is not an image"):
        next(samples)
