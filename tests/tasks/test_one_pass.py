"""Many tasks on one dataset embed each image once."""

import pytest

import eyechart
from eyechart.models.onnx_encoder import OnnxEncoder
from support.data import write_classification, write_retrieval

TINY = {"model_type": "onnx", "model": ["eyechart-tiny"], "pretrained": ["eyechart-tiny"]}
TASKS = ["zeroshot_classification", "logistic_probe", "clustering", "knn"]
PROBES = 3 * 2
"""Two texts are encoded together, again and one by one when the model is loaded."""


@pytest.fixture
def counted(monkeypatch):
    """Count what the embedded model is asked to encode."""
    seen = {"images": 0, "texts": 0}
    encode_images, encode_texts = OnnxEncoder.encode_images, OnnxEncoder.encode_texts

    def images(self, batch):
        seen["images"] += len(batch)
        return encode_images(self, batch)

    def texts(self, texts, **options):
        seen["texts"] += len(texts)
        return encode_texts(self, texts, **options)

    monkeypatch.setattr(OnnxEncoder, "encode_images", images)
    monkeypatch.setattr(OnnxEncoder, "encode_texts", texts)
    return seen


def evaluate(root, tmp_path, tasks, **settings):
    return eyechart.evaluate(
        **TINY,
        dataset=["wds/x"],
        dataset_root=str(root),
        task=tasks,
        output=str(tmp_path / "{task}.json"),
        **settings,
    )


def test_classification_probe_clustering_neighbours_and_prompts_share_one_pass(tmp_path, counted):
    root = write_classification(tmp_path / "data", n=12)
    write_classification(root, n=30, split="train", first=100)

    results = evaluate(root, tmp_path, TASKS)

    assert [result.task for result in results] == TASKS
    assert "prompt_sensitivity" in results[0].details
    assert counted == {"images": 12 + 30, "texts": 3 * 2 + PROBES}


def test_a_second_run_with_other_tasks_encodes_nothing(tmp_path, counted):
    root = write_classification(tmp_path / "data", n=12)
    write_classification(root, n=30, split="train", first=100)
    evaluate(root, tmp_path, ["logistic_probe"])
    before = dict(counted)

    evaluate(root, tmp_path, ["knn", "linear_probe", "clustering"])

    assert counted == before


def test_retrieval_in_full_needs_no_more_vectors(tmp_path, counted):
    root = write_retrieval(tmp_path / "data", captions=[["a", "b"], ["c"], ["d"]])
    evaluate(root, tmp_path, ["zeroshot_retrieval"])

    evaluate(root, tmp_path, ["zeroshot_retrieval"], metrics="full")

    assert counted == {"images": 3, "texts": 4 + PROBES}
