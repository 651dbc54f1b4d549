"""Ties never help: a model that knows nothing gets chance or less on every task."""

import numpy as np
import pytest

from eyechart.datasets.webdataset import open_webdataset
from eyechart.engine.local import LocalEmbeddings
from eyechart.listing import list_dataset
from eyechart.store import EmbeddingStore
from eyechart.tasks.base import Material
from eyechart.tasks.zeroshot_classification import ZeroshotClassification
from eyechart.tasks.zeroshot_retrieval import ZeroshotRetrieval
from eyechart.types import DatasetSpec
from support.data import write_classification, write_multilabel, write_retrieval
from support.encoders import constant_encoder, lazy, no_other_split, random_encoder

CLASSES = tuple(f"class {i}" for i in range(8))


def classification(root):
    return ZeroshotClassification(), write_classification(root, n=64, classes=CLASSES)


def multilabel(root):
    rows = np.random.default_rng(0).integers(0, 2, (60, 8)).tolist()
    return ZeroshotClassification(), write_multilabel(root, labels=rows, classes=CLASSES)


def retrieval(root):
    captions = [[f"caption {i} {j}" for j in range(1 + i % 3)] for i in range(40)]
    return ZeroshotRetrieval(), write_retrieval(root, captions=captions)


def outcome(make, encoder, tmp_path):
    task, root = make(tmp_path / "data")
    listing = list_dataset(open_webdataset(DatasetSpec("wds/x", "wds", str(root))))
    model = LocalEmbeddings(lazy(encoder), EmbeddingStore(tmp_path / encoder.card.name))
    settings = task.settings({"recall_k": [1, 5, 10]})
    return task.score(task.predict(Material(listing, model, no_other_split), settings), settings)


@pytest.mark.parametrize("make", [classification, multilabel, retrieval])
def test_a_constant_encoder_gets_chance_or_less(make, tmp_path):
    for name, metric in outcome(make, constant_encoder(), tmp_path).metrics.items():
        assert metric.value <= metric.chance + 1e-9, name


@pytest.mark.parametrize("make", [classification, multilabel, retrieval])
def test_random_encoders_get_chance_on_average(make, tmp_path):
    outcomes = [outcome(make, random_encoder(seed), tmp_path) for seed in range(30)]

    for name, metric in outcomes[0].metrics.items():
        values = [found.metrics[name].value for found in outcomes]
        error = np.std(values) / np.sqrt(len(values))
        # The mean of a ranking's precision lies above the share of positives by a little in small sets.
        room = 0.03 if name == "mean_average_precision" else 0
        assert abs(np.mean(values) - metric.chance) < 4 * error + room, name


@pytest.mark.parametrize("make", [classification, multilabel, retrieval])
def test_the_interval_holds_the_value(make, tmp_path):
    for metric in outcome(make, random_encoder(), tmp_path).metrics.values():
        assert metric.low <= metric.value <= metric.high
