"""``eyechart build``: one table from many results, always with the same columns in the same order."""

from __future__ import annotations

import argparse
import csv
import io
import json

import pytest

from eyechart.cli import build
from eyechart.errors import UsageError
from eyechart.report.averages import average
from eyechart.report.load import Found, load_results
from eyechart.report.table import Column, make_table
from eyechart.results import Result


def run(*arguments):
    parser = argparse.ArgumentParser()
    build.add_arguments(parser)
    return build.run(parser.parse_args([str(argument) for argument in arguments]))


def result(model, dataset, task="zeroshot_classification", **metrics):
    chance = dict.fromkeys(metrics, 0.1)
    return Found(Result(dataset, model, "p", task, "en", metrics, chance=chance))


def test_the_default_is_clip_benchmarks_csv_in_a_fixed_order(suite, tmp_path, capsys):
    output = tmp_path / "benchmark.csv"

    assert run(suite, "--output", output) == 0

    rows = list(csv.reader(io.StringIO(output.read_text())))
    assert rows[0][:6] == ["dataset", "model", "pretrained", "task", "language", "model_fullname"]
    assert rows[0][6:] == sorted(rows[0][6:])
    assert rows[1][5] == f"{rows[1][1]} {rows[1][2]}"
    assert "60 results" in capsys.readouterr().out


def test_it_is_written_anew_each_time_not_appended(suite, tmp_path):
    output = tmp_path / "benchmark.csv"
    run(suite, "--output", output)
    first = output.read_bytes()

    run(suite, "--output", output)

    assert output.read_bytes() == first


def test_the_csv_can_be_read_back_with_its_intervals(suite, tmp_path):
    output = tmp_path / "benchmark.csv"
    run(suite, "--output", output, "--intervals")

    before, after = load_results([suite]).found, load_results([output]).found

    assert [dict(item.result.metrics) for item in after] == [
        dict(sorted(item.result.metrics.items())) for item in before
    ]
    assert all(a.result.intervals == b.result.intervals for a, b in zip(after, before, strict=True))


def test_parquet_holds_the_same_rows(suite, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    output = tmp_path / "benchmark.parquet"

    run(suite, "--output", output)

    table = parquet.read_table(output)
    assert table.num_rows == 60
    assert table.column_names[:2] == ["dataset", "model"]


def test_markdown_and_latex_escape_what_would_break_the_table(tmp_path, capsys):
    body = {"dataset": "a|b_%", "model": "m<b>", "pretrained": "$x", "task": "t", "metrics": {"acc1": 0.5}}
    (tmp_path / "r.json").write_text(json.dumps(body))

    run(tmp_path, "-o", "-", "--format", "markdown")
    markdown = capsys.readouterr().out
    run(tmp_path, "-o", "-", "--format", "latex")
    latex = capsys.readouterr().out

    assert "a\\|b_%" in markdown
    assert "m&lt;b>" in markdown
    assert r"a|b\_\%" in latex
    assert r"\$x" in latex


def test_the_matrix_marks_the_best_and_says_how_the_average_is_made(suite, capsys):
    run(suite, "-o", "-", "--layout", "matrix", "--format", "markdown")

    out = capsys.readouterr().out
    assert "**" in out
    assert "Average: the mean over benchmarks, over 10 that every model has." in out


def test_an_unknown_metric_is_refused(suite):
    with pytest.raises(UsageError, match="No result has the metric"):
        run(suite, "-o", "-", "--layout", "matrix", "--metric", "acc99")


def test_a_benchmark_with_two_columns_counts_once_in_the_average():
    found = [
        result("m", "cifar10", acc1=0.4),
        result("m", "coco", "zeroshot_retrieval", **{"image_retrieval_recall@1": 0.5, "text_retrieval_recall@1": 0.7}),
    ]
    table = make_table(found)

    assert average(table, table.columns()).values == (pytest.approx((0.4 + 0.6) / 2),)


def test_the_average_leaves_out_what_a_model_lacks_and_says_so():
    table = make_table([result("a", "x", acc1=0.5), result("b", "x", acc1=0.7), result("a", "y", acc1=0.1)])

    mean = average(table, table.columns())

    assert mean.values == (0.5, 0.7)
    assert "left out" in mean.describe("plain", table)
    assert "y" in mean.describe("plain", table)


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ("plain", (0.5, 0.5)),
        ("kind", ((0.6 + 0.3) / 2, (0.5 + 0.5) / 2)),
        ("rank", ((1 + 1 + 2) / 3, (2 + 2 + 1) / 3)),
        ("chance", ((0.8 + 0.4 + 0.3) / 3 / 0.9 - 0.1 / 0.9, (0.7 + 0.3 + 0.5) / 3 / 0.9 - 0.1 / 0.9)),
    ],
)
def test_four_ways_to_average(how, expected):
    found = [
        result("a", "x", acc1=0.8),
        result("a", "y", acc1=0.4),
        result("a", "z", "linear_probe", lp_acc1=0.3),
        result("b", "x", acc1=0.7),
        result("b", "y", acc1=0.3),
        result("b", "z", "linear_probe", lp_acc1=0.5),
    ]
    table = make_table(found)

    assert average(table, table.columns(), how).values == pytest.approx(expected)


def test_points_are_never_averaged_with_fractions():
    table = make_table([result("a", "x", acc1=0.5), result("a", "mme", "vlmevalkit", Overall=1500.0)])

    assert average(table, table.columns()).values == (0.5,)


def test_the_main_metric_is_the_one_most_results_have():
    found = [
        result("a", "coco", "zeroshot_retrieval", **{f"image_retrieval_recall@{k}": 0.5 for k in (1, 5, 10)}),
        result("b", "coco", "zeroshot_retrieval", **{"image_retrieval_recall@5": 0.5}),
    ]

    assert make_table(found).columns() == [Column(0, "image_retrieval_recall@5")]


def test_the_newest_of_two_results_for_one_cell_stands():
    def dated(date, value):
        return Found(Result("d", "m", "p", "t", "en", {"acc": value}, provenance={"date": date}))

    table = make_table([dated("2026-02-01", 0.2), dated("2026-01-01", 0.1)])

    assert table.value(0, table.columns()[0]) == 0.2
    assert [old.result.metrics["acc"] for old in table.replaced] == [0.1]


def test_two_folders_with_the_same_model_stay_two_rows():
    both = [Found(Result("d", "m", "p", "t", "en", {"acc": 0.1}), argument=folder) for folder in ("old", "new")]

    assert [model.label for model in make_table(both).models] == ["m p [new]", "m p [old]"]
