"""Ties never help: a model that knows nothing gets chance or less on every task there is."""

import json

import numpy as np
import pytest

from eyechart.tasks.base import Material
from eyechart.tasks.registry import TASKS, load_task
from eyechart.types import Answer
from support.data import noise_image, write_classification, write_multilabel, write_retrieval
from support.encoders import constant_encoder, random_encoder
from support.tasks import make_material, run_task

CLASSES = tuple(f"class {i}" for i in range(8))
WORDS = ("red", "dog", "runs", "street", "two", "a", "on", "old")


def classification(root):
    return "zeroshot_classification", "wds", write_classification(root, n=64, classes=CLASSES)


def multilabel(root):
    rows = np.random.default_rng(0).integers(0, 2, (60, 8)).tolist()
    return "zeroshot_classification", "wds", write_multilabel(root, labels=rows, classes=CLASSES)


def retrieval(root):
    captions = [[f"caption {i} {j}" for j in range(1 + i % 3)] for i in range(40)]
    return "zeroshot_retrieval", "wds", write_retrieval(root, captions=captions)


def save_images(root, n):
    root.mkdir(parents=True, exist_ok=True)
    for i in range(n):
        noise_image(i).save(root / f"{i}.png")


def collection(root):
    save_images(root, 40)
    documents = [
        {"_id": f"d{i}", "image": f"{i}.png"} if i % 2 else {"_id": f"d{i}", "text": f"text {i}"} for i in range(30)
    ]
    queries = [{"_id": f"q{i}", "image": f"{30 + i}.png"} for i in range(10)]
    relevance = [
        {"query-id": f"q{i}", "corpus-id": f"d{(3 * i + j) % 30}", "score": 1} for i in range(10) for j in range(3)
    ]
    for name, rows in (("corpus", documents), ("queries", queries), ("qrels", relevance)):
        (root / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return "zeroshot_retrieval", "collection", root


def texts(root):
    root.mkdir(parents=True)
    documents = [{"_id": f"d{i}", "text": f"text {i}"} for i in range(30)]
    queries = [{"_id": f"q{i}", "text": f"query {i}"} for i in range(20)]
    relevance = [
        {"query-id": f"q{i}", "corpus-id": f"d{(i + 7 * j) % 30}", "score": 1 + j} for i in range(20) for j in range(3)
    ]
    for name, rows in (("corpus", documents), ("queries", queries), ("qrels", relevance)):
        (root / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return "text_retrieval", "text_collection", root


def selection(root):
    save_images(root, 60)
    rows = [
        {"images": [f"{2 * i}.png", f"{2 * i + 1}.png"], "texts": [f"one {i}", f"two {i}"]}
        if i % 2
        else {"images": [f"{2 * i}.png"], "texts": [f"right {i}", f"wrong {i}"]}
        for i in range(30)
    ]
    (root / "questions.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return "image_caption_selection", "selection", root


def associations(root):
    save_images(root, 50)
    rows = [
        {"images": [f"{5 * i + j}.png" for j in range(5)], "texts": [f"cue {i}"], "right": [[0, 0], [1, 0]]}
        for i in range(10)
    ]
    (root / "questions.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return "image_caption_selection", "selection", root


def similarity(root):
    save_images(root, 40)
    rows = [{"image_1": f"{i}.png", "image_2": f"{39 - i}.png", "score": i % 6} for i in range(40)]
    (root / "pairs.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return "visual_sts", "pairs", root


def clustering(root):
    return "clustering", "wds", write_classification(root, n=64, classes=CLASSES)


def probe(task):
    def make(root):
        # The training images are others than those that are scored: noise that was seen would be known.
        write_classification(root, classes=CLASSES, labels=[i % 8 for i in range(48)])
        write_classification(root, classes=CLASSES, labels=[i % 8 for i in range(100)], split="train", first=1000)
        return task, "wds", root

    make.__name__ = task
    return make


MAKERS = [
    classification,
    multilabel,
    retrieval,
    collection,
    texts,
    selection,
    associations,
    similarity,
    clustering,
    probe("knn"),
    probe("logistic_probe"),
    probe("linear_probe"),
]
WITHOUT_CHANCE = {"image_caption", "mteb"}
"""A caption has no score of its own; what chance gets in MTEB's tasks is MTEB's matter."""
OPTIONS = {"recall_k": [1, 5, 10], "metrics": "full", "fewshot_epochs": 2}


def outcomes(make, encoders, tmp_path):
    """Run a task with several encoders on the same data."""
    task, reader, root = make(tmp_path / "data")
    return [run_task(task, make_material(root, encoder, tmp_path, reader=reader), **OPTIONS) for encoder in encoders]


def captions(tmp_path, say):
    """Caption images with what a function says, which never looks."""
    truth = [[f"{WORDS[i % 8]} {WORDS[i % 5]} {WORDS[i % 3]} {WORDS[i % 7]}"] for i in range(40)]
    manifest = make_material(write_retrieval(tmp_path / "data", captions=truth), constant_encoder(), tmp_path).manifest

    class Blind:
        def generate(self, prompts, repeat=0):
            return ((prompt.id, Answer(say(i))) for i, prompt in enumerate(prompts))

    task = load_task("captioning")
    settings = task.settings({})
    return task.score(task.predict(Material(manifest, Blind(), None, tmp_path / "r.json"), settings), settings)


def test_every_registered_task_is_tried_here(tmp_path):
    tried = {make(tmp_path / str(i))[0] for i, make in enumerate(MAKERS)}
    tried |= {"captioning", "questions"} | WITHOUT_CHANCE  # questions: tests/vlm/test_chance.py

    assert tried == set(TASKS.names())


@pytest.mark.parametrize("make", MAKERS)
def test_a_constant_encoder_gets_chance_or_less(make, tmp_path):
    (found,) = outcomes(make, [constant_encoder()], tmp_path)

    judged = {name: metric for name, metric in found.metrics.items() if metric.chance is not None}
    assert judged
    for name, metric in judged.items():
        assert metric.value <= metric.chance + 1e-9, name


@pytest.mark.parametrize("make", MAKERS)
def test_random_encoders_get_chance_or_less_on_average(make, tmp_path):
    runs = outcomes(make, [random_encoder(seed) for seed in range(12)], tmp_path)

    for name, metric in runs[0].metrics.items():
        if metric.chance is not None:
            above = [found.metrics[name].value - found.metrics[name].chance for found in runs]
            # The mean of a ranking's precision lies above the share of positives by a little in small sets.
            room = 0.03 if name == "mean_average_precision" else 0.001
            assert np.mean(above) < 4 * np.std(above) / np.sqrt(len(above)) + room, name


@pytest.mark.parametrize("make", [classification, retrieval, selection])
def test_random_encoders_get_chance_and_not_less_where_it_is_exact(make, tmp_path):
    runs = outcomes(make, [random_encoder(seed) for seed in range(30)], tmp_path)

    for name, metric in runs[0].metrics.items():
        if metric.chance is not None:
            values = [found.metrics[name].value for found in runs]
            assert abs(np.mean(values) - metric.chance) < 4 * np.std(values) / np.sqrt(len(values)) + 1e-9, name


@pytest.mark.parametrize("make", MAKERS)
def test_the_interval_holds_the_value(make, tmp_path):
    (found,) = outcomes(make, [random_encoder()], tmp_path)

    for name, metric in found.metrics.items():
        if metric.low is not None:
            assert metric.low <= metric.value <= metric.high, name


def test_a_writer_that_always_says_the_same_gets_chance(tmp_path):
    for name, metric in captions(tmp_path, lambda _: "a red dog runs on two").metrics.items():
        assert metric.value == pytest.approx(metric.chance), name


def test_writers_that_say_anything_get_chance_on_average(tmp_path):
    def say(seed):
        rng = np.random.default_rng(seed)
        return lambda _: " ".join(rng.choice(WORDS, 4))

    runs = [captions(tmp_path / str(seed), say(seed)) for seed in range(12)]

    for name in runs[0].metrics:
        above = [found.metrics[name].value - found.metrics[name].chance for found in runs]
        assert abs(np.mean(above)) < 4 * np.std(above) / np.sqrt(len(above)), name
