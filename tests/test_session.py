"""What the jobs of a run share, and what they must not share."""

from pathlib import Path

from eyechart import evaluate
from eyechart.datasets.webdataset import open_webdataset
from eyechart.session import Session
from eyechart.types import DatasetSpec, Job, ModelSpec
from support.data import write_classification


def job(root, **changes):
    dataset = DatasetSpec("wds/x", "wds", str(root), **changes)
    return Job(ModelSpec("onnx", "m"), dataset, "zeroshot_classification", {}, Path("r.json"))


def test_a_dataset_is_read_once(tmp_path):
    root, session = write_classification(tmp_path, n=8), Session()

    assert session.manifest(job(root)) is session.manifest(job(root))


def test_what_was_opened_to_be_checked_is_not_opened_again_to_be_read(tmp_path, monkeypatch):
    opened = []

    def counted(spec):
        opened.append(spec.name)
        return open_webdataset(spec)

    monkeypatch.setattr("eyechart.datasets.webdataset.open_webdataset", counted)
    evaluate(
        model_type="onnx",
        model=["eyechart-tiny"],
        pretrained=["eyechart-tiny"],
        dataset=["wds/x"],
        dataset_root=str(write_classification(tmp_path / "data")),
        output=str(tmp_path / "result.json"),
    )

    assert opened == ["wds/x"]


def test_another_limit_is_another_manifest(tmp_path):
    root, session = write_classification(tmp_path, n=8), Session()

    assert [len(session.manifest(job(root, limit=limit))) for limit in (None, 3, 5)] == [8, 3, 5]
