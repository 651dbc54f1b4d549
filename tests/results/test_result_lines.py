"""Several results in one file, one a line: none is lost, whoever else writes and whoever is killed."""

import json
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from eyechart.errors import ResultError, UsageError
from eyechart.outputs import check_outputs
from eyechart.report.loader import load_results
from eyechart.results import Result, read_result, write_result
from eyechart.results.files import append_line
from eyechart.results.job_results import check_owner, is_done
from eyechart.types import DatasetSpec, Job, Metric, ModelSpec

NOW = {"settings": "s", "model": "m", "data": "d", "code": "c"}


def job(output, dataset="a", language="en", **changes):
    spec = DatasetSpec(dataset, "wds", "root", language=language)
    return Job(**{"model": ModelSpec("onnx", "m", "p"), "dataset": spec, "task": "t", "settings": {},
                  "output": output, "append": True, **changes})  # fmt: skip


def save(this, value=0.5, records=("x",), identity=NOW):
    result = Result(*this.names[:5], {"acc1": Metric(value)}, job={"identity": identity})
    return write_result(result, [{"id": one} for one in records], this.output, place=this.place)


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines() if line]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "result.json"


def test_each_result_has_its_line_its_checksum_and_its_records(path):
    save(job(path, "a"), records=["one"])
    save(job(path, "a", "de"), records=["two", "three"])

    assert [(body["dataset"], body["language"]) for body in lines(path)] == [("a", "en"), ("a", "de")]
    found = [item.result for item in load_results([path]).found]
    assert not any(result.altered for result in found)
    assert [[record["id"] for record in result.iter_records()] for result in found] == [["one"], ["two", "three"]]


def test_the_last_line_of_a_job_is_its_result_and_the_records_of_the_older_one_go(path):
    save(job(path, "a"), 0.1, ["old"])
    save(job(path, "b"), 0.2)
    save(job(path, "a"), 0.3, ["new"])

    found = {item.result.dataset: item.result for item in load_results([path.parent]).found}
    assert {name: result.metrics["acc1"] for name, result in found.items()} == {"a": 0.3, "b": 0.2}
    assert [record["id"] for record in found["a"].iter_records()] == ["new"]
    assert len(list(path.parent.glob("*.records.jsonl"))) == 2


def test_lines_of_another_tool_are_kept_as_they_are(path):
    theirs = (
        '{"dataset": "a", "model": "m", "pretrained": "p", "task": "t", "metrics": {"acc1": NaN}, "language": "en"}'
    )
    path.write_text(f"{theirs}\n{theirs}\n")

    check_owner(job(path, "b"))
    save(job(path, "b"))

    assert path.read_text().startswith(f"{theirs}\n{theirs}\n")
    assert [item.origin for item in load_results([path]).found] == ["CLIP_benchmark", "CLIP_benchmark", "eyechart"]


def test_half_a_line_of_a_killed_writer_costs_no_other(path):
    save(job(path, "a"))
    with path.open("a") as stream:
        stream.write('{"dataset": "b", "metr')

    check_owner(job(path, "c"))
    save(job(path, "c"))

    loaded = load_results([path])
    assert [item.result.dataset for item in loaded.found] == ["a", "c"]
    assert ["line 2" in skipped.reason for skipped in loaded.skipped] == [True]


def test_a_run_that_is_killed_before_its_line_leaves_the_older_result_with_its_records(path, monkeypatch):
    save(job(path, "a"), 0.1, ["old"])

    def killed(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("eyechart.results.files.append_line", killed)
    with pytest.raises(KeyboardInterrupt):
        save(job(path, "a"), 0.9, ["new"])

    (found,) = load_results([path]).found
    assert [record["id"] for record in found.result.iter_records()] == ["old"]


def test_writers_at_the_same_time_lose_nothing(path):
    """Each writes lines longer than any buffer; they end up whole, in some order."""
    texts = [json.dumps({"number": number, "filling": "x" * 20_000}) for number in range(200)]

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda text: append_line(path, text.encode()), texts))

    assert sorted(body["number"] for body in lines(path)) == list(range(200))


def test_a_disk_that_is_full_is_told_and_leaves_the_other_lines(path, monkeypatch):
    save(job(path, "a"))

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("eyechart.results.files.os.fsync", full)
    with pytest.raises(ResultError, match="No space left"):
        save(job(path, "b"))
    assert "a" in [item.result.dataset for item in load_results([path]).found]


def test_what_is_done_is_found_among_the_lines(path):
    save(job(path, "a"))

    assert is_done(job(path, "a"), NOW)[0].metrics == {"acc1": 0.5}
    assert is_done(job(path, "b"), NOW) == (None, "")  # not there: nothing to say
    assert "different data" in is_done(job(path, "a"), NOW | {"data": "other"})[1]


def test_a_line_that_was_changed_is_not_done(path):
    save(job(path, "a"))
    path.write_text(path.read_text().replace("0.5", "0.6"))

    assert is_done(job(path, "a"), NOW)[0] is None


def test_a_file_of_one_result_over_several_lines_takes_no_other(path):
    this = replace(job(path, "a"), append=False)
    write_result(Result(*this.names[:5], {"acc1": Metric(0.5)}), [], path)

    with pytest.raises(ResultError, match="no line can be appended"):
        check_owner(job(path, "a"))


@pytest.mark.parametrize("content", ["notes\nmore notes\n", "[1, 2]\n", '{"images": []}\n{"images": []}\n'])
def test_nothing_is_added_to_a_file_that_holds_no_results(path, content):
    path.write_text(content)

    with pytest.raises(ResultError, match="is not overwritten"):
        check_owner(job(path))


def test_a_file_of_several_results_is_not_written_over_by_one(path):
    save(job(path, "a"))
    save(job(path, "b"))

    with pytest.raises(ResultError, match="--append"):
        check_owner(replace(job(path, "a"), append=False))
    with pytest.raises(ResultError, match="holds 2 results"):
        read_result(path)


def test_jobs_that_append_may_share_an_output(tmp_path):
    shared = [job(tmp_path / "r.json", dataset) for dataset in ("a", "b")]

    check_outputs(shared)
    assert len({this.place for this in shared}) == 2
    with pytest.raises(UsageError, match="Two jobs would write"):
        check_outputs([*shared, job(tmp_path / "r.json", "a")])


def test_files_beside_a_shared_output_are_named_without_slashes():
    this = job(Path("out/result.json"), "wds/vtab/x y", "zh-CN")

    assert this.place.parent == Path("out")
    assert this.place.name.startswith("result.wds-vtab-x-y_zh-CN_t.")


def test_a_line_is_synchronised_with_the_disk(path, monkeypatch):
    synced = []
    sync = os.fsync
    monkeypatch.setattr(
        os, "fsync", lambda file: synced.append(str(Path(f"/proc/self/fd/{file}").readlink())) or sync(file)
    )

    for name in ("a", "b"):
        append_line(path, name.encode())

    assert synced == [str(path), str(path.parent), str(path)]
