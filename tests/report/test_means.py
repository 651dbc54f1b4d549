"""A metric is the mean of its records' numbers: for any task, and checked whenever results are read."""

from __future__ import annotations

import json
import math
import shutil
from dataclasses import replace

import numpy as np
import pytest

from eyechart import read_result
from eyechart.cli import main
from eyechart.errors import ResultError
from eyechart.report.comparison import compare, unit_scores
from eyechart.report.loader import load_results
from eyechart.report.page.payload import make_payload
from eyechart.report.paired_records import FUNCTIONS, RecordsCache, align, read_checked, rows_of
from eyechart.report.record_columns import RecordColumns
from eyechart.report.result_table import make_table
from eyechart.results import write_result
from eyechart.results.fields import checksum
from eyechart.types import MeanOf
from support.make_results import sit


def columns(ids="abcd", **fields):
    """Columns of numbers and names; None in a list of numbers is a null, "" a field that is not there."""
    numbers = {
        name: np.array([math.inf if v is None else math.nan if v == "" else v for v in values], float)
        for name, values in fields.items()
        if not any(isinstance(value, str) and value for value in values)
    }
    names = {name: tuple(values) for name, values in fields.items() if name not in numbers}
    return RecordColumns("", tuple(ids), numbers, names)


class TestRows:
    def test_a_record_without_the_field_or_with_null_does_not_count(self):
        rows = rows_of(columns(anls=[0.5, "", None, 1.0]), MeanOf("anls"))

        assert (rows.ids, rows.mean()) == (("a", "d"), 0.75)

    def test_a_rank_that_is_null_was_not_found_and_counts_as_0(self):
        rows = rows_of(columns(rank=[1, 5, None, ""]), MeanOf("rank", at_most=4))

        assert (rows.ids, rows.values.tolist()) == (("a", "b", "c"), [1, 0, 0])

    def test_only_records_with_the_right_values_count(self):
        rows = rows_of(
            columns(rank=[1, 2, 1, 1], query=["text", "image", "text", "image"]), MeanOf("rank", 1, {"query": "image"})
        )

        assert (rows.ids, rows.mean()) == (("b", "d"), 0.5)

    def test_groups_count_alike_whatever_their_size(self):
        rows = rows_of(columns(rank=[1, 1, 1, 2], label=["x", "x", "x", "y"]), MeanOf("rank", 1, balance="label"))

        assert rows.mean() == 0.5

    def test_records_belong_to_the_unit_that_they_name_or_to_themselves(self):
        rows = rows_of(columns(score=[1, 2, 3, 4], image=["p", "p", "q", None]), MeanOf("score", cluster="image"))

        assert rows.units == ("p", "p", "q", "d")


class TestAlignment:
    def test_records_are_put_side_by_side_by_id_and_the_rest_is_counted(self):
        first = rows_of(columns("abcd", score=[1, 2, 3, None]), MeanOf("score"))
        second = rows_of(columns("dcbe", score=[40, 30, 20, 50]), MeanOf("score"))

        aligned = align([first, second])

        assert aligned.ids == ("b", "c")
        assert aligned.values.tolist() == [[2, 3], [20, 30]]
        assert aligned.left_out == 3

    def test_what_counts_for_none_of_them_is_not_called_left_out(self):
        """The rotations of a question, whose verdict stands at the first of them."""
        parts = [rows_of(columns("abcd", correct=[1, None, 0, None]), MeanOf("correct")) for _ in range(2)]

        assert align(parts).left_out == 0

    def test_nothing_in_common_is_nothing_to_compare(self):
        parts = [rows_of(columns(ids, score=[1, 2, 3, 4]), MeanOf("score")) for ids in ("abcd", "efgh")]

        assert align(parts) is None

    def test_the_groups_are_balanced_over_the_common_records(self):
        mean_of = MeanOf("rank", 1, balance="label")
        first = rows_of(columns("abcd", rank=[1, 2, 1, 1], label=["x", "x", "y", "y"]), mean_of)
        second = rows_of(columns("abc", rank=[1, 1, 2], label=["x", "x", "y"]), mean_of)

        assert align([first, second]).values.mean(axis=1) == pytest.approx([0.75, 0.5])

    def test_the_mean_over_units_is_the_mean_of_the_metrics(self, small_suite):
        result = read_result(small_suite / "postcards_Snellen-B_en_zeroshot_retrieval.json")
        names = ["image_retrieval_recall@1", "text_retrieval_recall@1"]
        read = read_checked(result)
        parts = [align([rows_of(read, result.values[name].mean_of)]) for name in names]

        _, scores = unit_scores([(part.units or part.ids, part.values) for part in parts])

        assert scores.shape == (1, 28)
        assert scores.mean() == pytest.approx(np.mean([result.metrics[name] for name in names]))


def test_every_mean_that_a_task_declares_is_one(suite):
    """All results of all tasks are read and checked, without a word."""
    checked = 0
    for found in load_results([suite]).found:
        read = read_checked(found.result)
        for name, metric in found.result.values.items():
            if metric.mean_of:
                assert rows_of(read, metric.mean_of).mean() == pytest.approx(metric.value, abs=1e-6), name
                checked += 1
    assert checked > 150


def test_where_scores_tie_the_function_over_records_gives_the_metric_that_the_task_wrote(suite, tmp_path):
    """A model that knows none of these colours: all of its scores are equal."""
    result = sit(suite.parent / "data" / "market", tmp_path / "r.json", "model")
    read = read_checked(result)
    metric = result.values["mean_average_precision"]

    assert np.unique(read.scores).size == 1
    assert FUNCTIONS[metric.function].value(read.scores, read.present) == pytest.approx(metric.value, abs=1e-12)


# ------------------------------------------------------------------------------------------- files that were changed


@pytest.fixture(scope="module")
def untouched(exam_data, tmp_path_factory):
    """Two results that agree with their records."""
    folder = tmp_path_factory.mktemp("untouched")
    sit(exam_data, folder / "good.json", "good")
    sit(exam_data, folder / "bad.json", "bad", range(20))
    return folder


@pytest.fixture
def results(untouched, tmp_path):
    """A copy of them that may be spoiled."""
    return shutil.copytree(untouched, tmp_path / "results")


def cut_records(folder):
    path = folder / "bad.records.jsonl"
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))
    return f"{path} was truncated or modified"


def edit_records(folder):
    path = folder / "bad.records.jsonl"
    path.write_text(path.read_text().replace('"rank": 2, "correct": false', '"rank": 1, "correct": true '))
    return f"{path} was truncated or modified"


def lose_records(folder):
    (folder / "bad.records.jsonl").unlink()
    return f"cannot read the records of {folder / 'bad.json'}"


def edit_metric(folder):
    path = folder / "bad.json"
    body = json.loads(path.read_text())
    body["metrics"]["acc1"] = body["metric_values"]["acc1"]["value"] = 0.99
    path.write_text(json.dumps(body))
    return f"{path} was modified after it was written"


def edit_metric_and_drop_the_checksum(folder):
    said = edit_metric(folder)
    path = folder / "bad.json"
    path.write_text(json.dumps({key: part for key, part in json.loads(path.read_text()).items() if key != "checksum"}))
    return said


def edit_metric_without_a_trace(folder):
    """Write the result again with another number: the file is whole, but its records tell."""
    result = read_result(folder / "bad.json")
    values = {**result.values, "acc1": replace(result.values["acc1"], value=0.99)}
    write_result(replace(result, values=values), list(result.iter_records()), folder / "bad.json")
    return "acc1 is 0.99, but its records give 0.8"


CHANGES = [
    cut_records,
    edit_records,
    lose_records,
    edit_metric,
    edit_metric_and_drop_the_checksum,
    edit_metric_without_a_trace,
]


@pytest.mark.parametrize("change", [cut_records, edit_records, lose_records])
def test_nobody_gets_a_record_of_a_file_that_was_changed(results, change):
    said = change(results)

    with pytest.raises(ResultError) as error:
        next(read_result(results / "bad.json").iter_records())

    assert said in error.value.message


@pytest.mark.parametrize("change", CHANGES)
def test_compare_refuses_what_was_changed(results, change):
    said = change(results)
    table = make_table(load_results([results]).found)

    with pytest.raises(ResultError) as error:
        compare(RecordsCache(table), 0, 1)

    assert said in error.value.message


@pytest.mark.parametrize("change", CHANGES)
def test_the_page_names_what_was_changed_and_pairs_nothing_with_it(results, change):
    said = change(results)

    payload = make_payload(load_results([results]).found)

    (notice,) = payload.overview["notices"]
    assert said in notice
    assert payload.pairs == []
    assert len(payload.overview["results"]) == 2


@pytest.mark.parametrize("change", CHANGES)
def test_build_names_what_was_changed(results, change, capsys):
    said = change(results)

    assert main(["build", str(results), "-o", "-"]) == 0

    out = capsys.readouterr()
    assert said in out.err
    assert "good" in out.out


def test_report_says_in_the_terminal_too_what_the_page_says_of_changed_files(results, capsys):
    said = cut_records(results)

    assert main(["report", str(results), "-o", str(results / "page.html")]) == 0

    assert said in capsys.readouterr().err


def test_untouched_results_are_not_spoken_of(results, capsys):
    assert main(["build", str(results), "-o", "-"]) == 0
    assert main(["report", str(results), "-o", str(results / "page.html")]) == 0

    assert capsys.readouterr().err == ""
    assert make_payload(load_results([results]).found).overview["notices"] == []


def test_a_mean_of_another_kind_is_an_error_of_the_file(results):
    path = results / "bad.json"
    body = json.loads(path.read_text())
    body["metric_values"]["acc1"]["mean_of"] = {"field": "rank", "at_most": "one"}
    body["checksum"] = checksum(body)
    path.write_text(json.dumps(body))

    with pytest.raises(ResultError, match="is damaged"):
        read_checked(read_result(path))


def test_what_is_no_mean_is_checked_against_its_records_as_well(small_suite, tmp_path):
    path = tmp_path / "market.json"
    old = read_result(small_suite / "market_Snellen-L_en_zeroshot_classification.json")
    values = {name: replace(metric, value=0.99) for name, metric in old.values.items()}
    changed = write_result(replace(old, values=values), list(old.iter_records()), path)

    with pytest.raises(ResultError, match=r"mean_average_precision is 0\.99, but its records give 0"):
        read_checked(changed)
