"""Which jobs are run again, and which results may be overwritten."""

import hashlib
import json

import pytest

from eyechart.config import make_config
from eyechart.io import digests
from eyechart.plan import plan_jobs
from eyechart.report import paired_records
from eyechart.results.fields import checksum
from support.data import png, write_multilabel
from support.runs import run_planned


@pytest.fixture(autouse=True)
def in_tmp_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EYECHART_CACHE", str(tmp_path / "cache"))


def run(skip=True, **changes):
    """Run the embedded model on a dataset; return the report of its only job."""
    settings = {"model": ["eyechart-tiny"], "dataset": ["demo/garments"], "limit": 20, "output": "r.json"} | changes
    config = make_config(settings | {"skip_existing": skip})
    (report,) = run_planned(plan_jobs(config), config)
    return report


def edit(path, change, *, seal):
    body = json.loads(path.read_text())
    change(body)
    body |= {"checksum": checksum(body)} if seal else {}
    path.write_text(json.dumps(body))


def better(body):
    body["metrics"]["acc1"] = body["metric_values"]["acc1"]["value"] = 0.99


def plain(body):
    """Leave the numbers, as another tool would write them."""
    body["metrics"]["acc1"] = 0.99
    for key in ("metric_values", "checksum", "schema"):
        del body[key]


def without_metric_values(body):
    body["metrics"]["acc1"] = 0.99
    del body["metric_values"]


def without_records(body):
    better(body)
    body["records"] = {"form": body["records"]["form"]}


EDITS = {
    "a number": (better, False),
    "a number and the checksum": (better, True),
    "a number; metric_values removed": (without_metric_values, False),
    "a number and the checksum; metric_values removed": (without_metric_values, True),
    "a number; all that is ours removed": (plain, False),
    "a number and the checksum; records removed": (without_records, True),
    "only the checksum removed": (lambda body: body.pop("checksum"), False),
}


@pytest.mark.parametrize("settled", [True, False])
@pytest.mark.parametrize(("change", "seal"), EDITS.values(), ids=EDITS)
def test_an_edited_result_is_not_done(tmp_path, monkeypatch, change, seal, settled):
    monkeypatch.setattr(digests, "SETTLED", -1 if settled else digests.SETTLED)
    first = run().result
    assert run().skipped

    edit(tmp_path / "r.json", change, seal=seal)
    again = run()

    assert not again.skipped
    assert again.result.metrics == first.metrics


def test_records_that_contradict_the_result_are_noticed_although_both_were_sealed_again(tmp_path):
    run()
    records = tmp_path / "r.records.jsonl"
    records.write_text(records.read_text().replace('"rank": 1,', '"rank": 3,'))

    def seal(body):
        body["records"]["sha256"] = hashlib.sha256(records.read_bytes()).hexdigest()

    edit(tmp_path / "r.json", seal, seal=True)

    assert not run().skipped
    assert run().skipped


def test_records_of_the_same_size_that_were_edited_are_noticed(tmp_path):
    run()
    records = tmp_path / "r.records.jsonl"
    before = records.read_text()
    records.write_text(before.replace('"rank": 1,', '"rank": 3,', 1))

    assert not run().skipped
    assert records.read_text() == before


def test_a_metric_that_is_no_mean_is_checked_as_well(tmp_path):
    write_multilabel(tmp_path / "data", labels=[[1, 0], [0, 1], [1, 1], [0, 1]], classes=("cat", "dog"))
    words = {"dataset": ["wds/x"], "dataset_root": "data", "limit": None}
    name = run(**words).result.primary[0]
    assert run(**words).skipped

    def change(body):
        body["metrics"][name] = body["metric_values"][name]["value"] = 0.123

    edit(tmp_path / "r.json", change, seal=True)

    assert not run(**words).skipped


def test_records_are_read_once_while_they_do_not_change(tmp_path, monkeypatch):
    monkeypatch.setattr(digests, "SETTLED", -1)
    run()
    reads = []
    read = paired_records.read_columns
    monkeypatch.setattr(paired_records, "read_columns", lambda result: reads.append(result) or read(result))

    assert [run().skipped for _ in range(3)] == [True] * 3
    assert len(reads) == 1
    (tmp_path / "r.records.jsonl").touch()
    assert run().skipped
    assert len(reads) == 2


# -------------------------------------------------------------------------------------------------- splits


@pytest.fixture
def photos(tmp_path):
    for split, seeds in (("test", range(4)), ("train", range(4, 10))):
        for seed in seeds:
            file = tmp_path / "photos" / split / ("cat", "dog")[seed % 2] / f"{seed}.png"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(png(seed))
    return {"dataset": ["photos"], "limit": None}


def test_the_result_of_another_split_is_not_overwritten(tmp_path, photos):
    first = run(**photos).result
    before = [(tmp_path / name).read_bytes() for name in ("r.json", "r.records.jsonl")]

    refused = run(**photos, split="train", skip=False)

    assert "holds the result of photos eyechart-tiny zeroshot_classification en test" in str(refused.error)
    assert "{split}" in str(refused.error)
    assert [(tmp_path / name).read_bytes() for name in ("r.json", "r.records.jsonl")] == before
    assert run(**photos).result == first


def test_splits_get_their_own_default_names(tmp_path, photos):
    for split in ("test", "train"):
        assert run(**photos, output="out/", split=split).error is None
        assert run(**photos, output="out/", split=split).skipped

    names = sorted(path.name for path in (tmp_path / "out").glob("*.json"))
    assert names == ["photos_eyechart-tiny.json", "photos_eyechart-tiny_train.json"]
    assert run(**photos, output="{split}.json", split="train").result.path.name == "train.json"


def test_an_appended_result_keeps_the_line_and_the_records_of_another_split(tmp_path, photos):
    words = photos | {"append": True, "output": "all.jsonl"}
    both = [run(**words, split=split).result for split in ("test", "train")]

    assert all(len(list(result.iter_records())) > 0 for result in both)
    assert [run(**words, split=split).skipped for split in ("test", "train")] == [True, True]
    assert both[0].metrics != both[1].metrics or both[0].counts != both[1].counts
    assert len((tmp_path / "all.jsonl").read_text().splitlines()) == 2


def test_a_result_is_not_saved_over_that_of_another_split(tmp_path, photos):
    test, train = (run(**photos, split=split, output=f"{split}.json").result for split in ("test", "train"))
    test.save("saved.json")

    with pytest.raises(Exception, match="another evaluation"):
        train.save("saved.json")


# ----------------------------------------------------------------------------------------------- user code


TASK = """
import os
from pathlib import Path
from eyechart.tasks.zeroshot_classification import ZeroshotClassification

class Own(ZeroshotClassification):
    name = "own"
{declared}

    def score(self, prediction, settings):
        outcome = super().score(prediction, settings)
        outcome.details["from"] = Path("note.txt").read_text() + os.environ["OWN_TASK"]
        return outcome
"""


@pytest.mark.parametrize(
    ("declared", "skipped"),
    [
        ("", False),
        ("    eyechart_identity = '1'", True),
        ("    def eyechart_identity(self): return Path('note.txt').read_text()", False),
    ],
)
def test_a_user_task_is_skipped_only_if_it_declares_an_unchanged_identity(tmp_path, monkeypatch, declared, skipped):
    module = f"task_{hashlib.sha256(declared.encode()).hexdigest()[:8]}"
    (tmp_path / f"{module}.py").write_text(TASK.format(declared=declared))
    (tmp_path / "note.txt").write_text("one")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("OWN_TASK", "x")
    assert run(task=[f"python:{module}:Own"]).result.details["from"] == "onex"
    assert run(task=[f"python:{module}:Own"]).skipped == bool(declared)

    (tmp_path / "note.txt").write_text("two")
    again = run(task=[f"python:{module}:Own"])

    assert again.skipped == skipped
    assert again.result.details["from"] == ("onex" if skipped else "twox")
