import json
import os
from pathlib import Path

import pytest

from eyechart.errors import IncompleteError, ResultError
from eyechart.results import Result, read_result, to_json, write_result
from eyechart.results.fields import metric_from_dict, metric_to_dict
from eyechart.results.job_results import INPUTS, check_complete, check_owner, is_done
from eyechart.types import DatasetSpec, EncodeOptions, Job, MeanOf, Metric, ModelSpec


def result(**changes):
    fields = {
        "dataset": "wds/x",
        "model": "m",
        "pretrained": "p",
        "task": "t",
        "language": "en",
        "values": {"acc1": Metric(0.5)},
    }
    return Result(**{**fields, **changes})


def job(output, **changes):
    fields = {"model": ModelSpec("onnx", "m", "p"), "dataset": DatasetSpec("wds/x", "wds", "r"), "task": "t"}
    return Job(**{**fields, "settings": {}, "output": output, **changes})


def test_a_result_comes_back_as_it_was_written(tmp_path):
    value = Metric(0.5, 0.4, 0.6, 0.1, 7, primary=True, mean_of=MeanOf("rank", 1, {"query": "text"}, "image", "label"))
    written = write_result(result(values={"acc1": value}), [{"id": "1", "rank": 2}], tmp_path / "r.json")

    read = read_result(tmp_path / "r.json")

    assert read == written
    assert read.values == {"acc1": value}
    assert (read.metrics, read.intervals, read.chance) == ({"acc1": 0.5}, {"acc1": (0.4, 0.6)}, {"acc1": 0.1})
    assert list(read.iter_records()) == [{"id": "1", "rank": 2}]


def test_what_stands_among_the_metrics_and_is_none_comes_back_apart_from_them(tmp_path):
    facts = {"weight_decay": 0.1, "epochs": 10, "normalized": True, "acc5": None, "save_path": "x"}

    write_result(result(facts=facts), [], tmp_path / "r.json")

    body, read = json.loads((tmp_path / "r.json").read_text()), read_result(tmp_path / "r.json")
    assert body["metrics"] == {**facts, "acc1": 0.5}
    assert (read.facts, read.metrics, read.altered) == (facts, {"acc1": 0.5}, False)


def test_results_that_differ_in_their_ending_have_records_of_their_own(tmp_path):
    for language in ("en", "de"):
        write_result(result(), [{"id": language}], tmp_path / f"model-1.{language}")

    for language in ("en", "de"):
        assert list(read_result(tmp_path / f"model-1.{language}").iter_records()) == [{"id": language}]


def test_the_first_keys_are_those_of_clip_benchmark(tmp_path):
    write_result(result(), [], tmp_path / "r.json")

    body = json.loads((tmp_path / "r.json").read_text())

    assert list(body)[:6] == ["dataset", "model", "pretrained", "task", "metrics", "language"]


def test_a_metric_that_is_not_a_number_becomes_null_so_that_the_file_is_valid_json():
    assert json.loads(to_json({"acc5": float("nan"), "x": [float("inf"), 1.5]})) == {"acc5": None, "x": [None, 1.5]}


def test_a_result_of_clip_benchmark_can_be_read(tmp_path):
    path = tmp_path / "peer.json"
    path.write_text(
        '{"dataset": "cifar10", "model": "ViT-B-32", "pretrained": "openai", "task": "zeroshot_classification", '
        '"metrics": {"acc1": 0.9, "acc5": NaN}, "language": "en"}'
    )

    result = read_result(path)

    assert result.metrics == {"acc1": 0.9}
    assert [name for name, metric in result.values.items() if metric.primary] == ["acc1"]


def test_of_unknown_metrics_the_first_by_name_is_primary(tmp_path):
    path = tmp_path / "peer.json"
    path.write_text('{"dataset": "x", "model": "m", "task": "t", "metrics": {"zeal": 1, "beta": 2, "gamma": 3}}')

    assert [name for name, metric in read_result(path).values.items() if metric.primary] == ["beta"]


@pytest.mark.parametrize("content", ["", '{"dataset": "x", "metr', "[1, 2]", '{"dataset": "x"}'])
def test_a_half_written_or_foreign_file_is_not_a_result(tmp_path, content):
    path = tmp_path / "r.json"
    path.write_text(content)

    with pytest.raises(ResultError):
        read_result(path)
    assert not is_done(job(path), {})[0]


NOW = {"settings": "s", "model": "m", "data": "d", "code": "c"}


def test_a_job_is_done_when_its_result_was_made_from_what_is_there_now(tmp_path):
    this = job(tmp_path / "r.json")
    written = write_result(result(job={"identity": NOW}), [], this.output)

    assert is_done(this, NOW) == (written, "")


@pytest.mark.parametrize("part", NOW)
@pytest.mark.parametrize("now", ["another", None])
def test_what_is_not_known_to_be_the_same_is_not_the_same(tmp_path, part, now):
    this = job(tmp_path / "r.json")
    write_result(result(job={"identity": NOW}), [], this.output)

    done, why = is_done(this, {**NOW, part: now})

    assert not done
    assert INPUTS[part] in why


@pytest.mark.parametrize("part", NOW)
def test_what_is_unknown_then_and_now_is_not_the_same(tmp_path, part):
    this = job(tmp_path / "r.json")
    unknown = {**NOW, part: None}
    write_result(result(job={"identity": unknown}), [], this.output)

    done, why = is_done(this, unknown)

    assert not done
    assert "only a run can tell" in why


def test_a_result_that_was_changed_by_hand_is_made_again(tmp_path):
    this = job(tmp_path / "r.json")
    write_result(result(job={"identity": NOW}), [], this.output)
    this.output.write_text(this.output.read_text().replace("0.5", "0.9"))

    assert read_result(this.output).altered
    assert "was modified" in is_done(this, NOW)[1]


def test_a_result_whose_records_were_cut_is_made_again(tmp_path):
    this = job(tmp_path / "r.json")
    write_result(result(job={"identity": NOW}), [{"id": "a"}, {"id": "b"}], this.output)
    records = tmp_path / "r.records.jsonl"
    records.write_text(records.read_text()[:12])

    assert "records" in is_done(this, NOW)[1]


def test_a_result_that_does_not_say_what_it_was_made_from_is_made_again(tmp_path):
    path = tmp_path / "r.json"
    names = {"dataset": "wds/x", "model": "m", "pretrained": "p", "task": "t", "language": "en"}
    path.write_text(json.dumps(names | {"metrics": {"acc1": 1.0}}))

    assert "does not record its inputs" in is_done(job(path), NOW)[1]


@pytest.mark.parametrize(
    ("counts", "share"),
    [
        ({"listed": 20, "failed": 11}, 0.45),
        ({"listed": 20, "failed": 5, "unreadable": 6}, 0.45),
        ({"listed": 30, "failed": 21, "skipped": 10}, 0.45),
        ({"listed": 10, "failed": 10, "skipped": 10}, 1.0),
    ],
)
def test_samples_that_the_user_skips_are_not_lost(tmp_path, counts, share):
    made = result(counts=counts, path=tmp_path / "r.json")

    assert check_complete(made, share) is None
    assert isinstance(check_complete(made, share + 0.001), IncompleteError)


def test_the_result_of_something_else_is_not_written_over(tmp_path):
    this = job(tmp_path / "r.json")
    write_result(result(model="another"), [], this.output)

    with pytest.raises(ResultError, match="holds the result of"):
        check_owner(this)


@pytest.mark.parametrize(
    "content",
    [
        '{"dataset": "a", "metrics": {}}\n{"dataset": "b", "metrics": {}}\n',
        '{\n "images": []\n}\n',
        "[1, 2]",
        "notes",
    ],
    ids=["results line by line", "other JSON", "a list", "a text"],
)
def test_what_is_no_result_is_not_written_over(tmp_path, content):
    this = job(tmp_path / "r.json")
    this.output.write_text(content)

    with pytest.raises(ResultError, match="is not overwritten"):
        check_owner(this)


@pytest.mark.parametrize("append", [False, True])
def test_a_folder_as_output_is_refused_before_anything_is_computed(tmp_path, append):
    with pytest.raises(ResultError, match="is a folder"):
        check_owner(job(tmp_path, append=append))


@pytest.mark.parametrize(
    "damage", [lambda text: text[:40], lambda text: text.replace("0.5", "0.6", 1), lambda text: ""]
)
def test_a_damaged_result_may_be_written_again(tmp_path, damage):
    this = job(tmp_path / "r.json")
    write_result(result(), [], this.output)
    this.output.write_text(damage(this.output.read_text()))

    with pytest.raises(ResultError):
        read_result(this.output)
    check_owner(this)


def test_a_failed_write_leaves_the_old_result_and_no_temporary_file(tmp_path):
    write_result(result(), [{"id": "old"}], tmp_path / "r.json")

    def records():
        yield {"id": "new"}
        raise OSError(28, os.strerror(28))

    with pytest.raises(ResultError, match="No space left"):
        write_result(result(values={"acc1": Metric(0.9)}), records(), tmp_path / "r.json")

    assert read_result(tmp_path / "r.json").metrics == {"acc1": 0.5}
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_file()) == ["r.json", "r.records.jsonl"]


def test_the_jobs_digest_ignores_where_and_how_fast_it_runs(tmp_path):
    base = job(tmp_path / "a.json")

    assert job(tmp_path / "b.json", encoding=EncodeOptions(batch_size=1, workers=0)).digest == base.digest
    assert job(tmp_path / "a.json", model=ModelSpec("onnx", "m", "p", device="cuda")).digest == base.digest
    assert job(tmp_path / "a.json", model=ModelSpec("onnx", "m", "p", precision="fp16")).digest != base.digest


def test_a_run_killed_between_records_and_result_leaves_no_result_beside_records_of_another(tmp_path, monkeypatch):
    """The kill is an exception here that nothing catches; `make chaos` kills for real."""
    path = tmp_path / "r.json"
    write_result(result(), [{"id": "old"}], path)

    def killed(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("eyechart.results.files.write_atomic", killed)
    with pytest.raises(KeyboardInterrupt):
        write_result(result(), [{"id": "new"}], path)
    assert not path.exists()


def test_writing_the_same_result_again_never_takes_it_away(tmp_path, monkeypatch):
    path = tmp_path / "r.json"
    write_result(result(), [{"id": "same"}], path)
    monkeypatch.setattr(Path, "unlink", None)

    write_result(result(), [{"id": "same"}], path)

    assert [record["id"] for record in read_result(path).iter_records()] == ["same"]


def test_a_result_of_a_later_schema_is_refused_instead_of_guessed(tmp_path):
    path = tmp_path / "r.json"
    write_result(result(), [], path)
    body = json.loads(path.read_text())
    path.write_text(json.dumps(body | {"schema": body["schema"] + 1}))

    with pytest.raises(ResultError, match=f"r.json has schema {body['schema'] + 1}, later than {body['schema']}"):
        read_result(path)


def test_what_an_interval_covers_and_the_draws_of_its_records_are_kept():
    metric = Metric(
        0.5, 0.4, 0.6, covers=("test samples", "training draws"), mean_of=MeanOf("rank", 1, draws=("rank", "rank_2"))
    )
    fields = json.loads(json.dumps(metric_to_dict(metric)))
    assert fields["covers"] == ["test samples", "training draws"]
    assert metric_from_dict(fields) == metric
    assert "covers" not in metric_to_dict(Metric(0.5))
