"""``eyechart build``: one table from many results, always with the same columns in the same order."""

from __future__ import annotations

import argparse
import base64
import csv
import io
import json
import re

import pytest
from PIL import Image

from eyechart import evaluate
from eyechart.cli import build
from eyechart.datasets.questions.row_table import RowTable
from eyechart.datasets.questions.table_files import write_tsv
from eyechart.errors import UsageError
from eyechart.report.collection_means import average
from eyechart.report.loader import LoadedResult, load_results
from eyechart.report.paired_records import RecordsCache
from eyechart.report.result_table import Column, make_table
from eyechart.report.table_formats import FORMATS, Grid, matrix, result_rows
from eyechart.report.verdict import make_verdict
from eyechart.results import Result
from eyechart.types import Metric
from support.data import encoded
from support.make_results import VLMS, classification, exam, retrieval, sit
from support.make_results import run as run_tasks

RETRIEVAL = "zeroshot_retrieval"
PIXEL = base64.b64encode(encoded(Image.new("RGB", (4, 4), (200, 40, 40)))).decode()


def run(*arguments):
    parser = argparse.ArgumentParser()
    build.add_arguments(parser)
    return build.run(parser.parse_args([str(argument) for argument in arguments]))


def found(model, dataset, values, task="zeroshot_classification", measures="classification", **parts):
    """A result with these metrics; a plain number is a primary metric whose chance is a tenth."""
    metrics = {
        name: value if isinstance(value, Metric) else Metric(value, chance=0.1, primary=True)
        for name, value in values.items()
    }
    argument = parts.pop("argument", "")
    return LoadedResult(
        Result(dataset, model, "p", task, "en", metrics, data={"measures": measures}, **parts), argument=argument
    )


def probe(model, dataset, value):
    return found(model, dataset, {"lp_acc1": value}, "linear_probe", "probe")


def test_the_default_is_clip_benchmarks_csv_in_a_fixed_order(suite, tmp_path, capsys):
    output = tmp_path / "benchmark.csv"

    assert run(suite, "--output", output) == 0

    rows = list(csv.reader(io.StringIO(output.read_text())))
    assert rows[0][:6] == ["dataset", "model", "pretrained", "task", "language", "model_fullname"]
    assert rows[0][6:] == sorted(rows[0][6:])
    assert rows[1][5] == f"{rows[1][1]} {rows[1][2]}"
    assert "60 results" in capsys.readouterr().out


def test_it_is_written_anew_each_time_not_appended(small_suite, tmp_path):
    output = tmp_path / "benchmark.csv"
    run(small_suite, "--output", output)
    first = output.read_bytes()

    run(small_suite, "--output", output)

    assert output.read_bytes() == first


def test_the_csv_can_be_read_back_with_its_intervals(small_suite, tmp_path):
    output = tmp_path / "benchmark.csv"
    run(small_suite, "--output", output, "--intervals")

    before, after = load_results([small_suite]).found, load_results([output]).found

    assert [item.result.metrics for item in after] == [dict(sorted(item.result.metrics.items())) for item in before]
    assert all(a.result.intervals == b.result.intervals for a, b in zip(after, before, strict=True))


def test_how_a_probe_was_trained_is_in_the_table_whoever_wrote_the_result(tmp_path):
    """To us these are facts, which are told apart from the metrics; others have them among the metrics."""
    body = {"dataset": "d", "pretrained": "p", "task": "linear_probe", "language": "en"}
    facts = {"weight_decay": 0.5, "epochs": 3, "normalized": True}
    metrics = {"lp_acc1": 0.5, **facts}
    (tmp_path / "theirs.json").write_text(json.dumps(body | {"model": "theirs", "metrics": metrics}))
    (tmp_path / "ours.json").write_text(json.dumps(body | {"model": "ours", "metrics": metrics, "facts": facts}))
    output = tmp_path / "table" / "benchmark.csv"

    run(tmp_path, "--output", output)

    rows = list(csv.DictReader(io.StringIO(output.read_text())))
    assert {row["model"] for row in rows} == {"ours", "theirs"}
    assert {(float(row["weight_decay"]), float(row["epochs"]), row["normalized"]) for row in rows} == {(0.5, 3, "True")}


def test_truths_among_the_metrics_of_other_tools_are_columns_that_can_be_read_back(tmp_path):
    """CLIP_benchmark's probes write ``normalized`` among their metrics, and its table has it."""
    body = {"dataset": "d", "model": "m", "pretrained": "p", "task": "linear_probe", "language": "en"}
    for normalized in (True, False):
        metrics = {"lp_acc1": 0.5, "normalized": normalized}
        (tmp_path / f"{normalized}.json").write_text(json.dumps(body | {"metrics": metrics, "model": str(normalized)}))
    output = tmp_path / "table" / "benchmark.csv"

    run(tmp_path, "--output", output)

    rows = list(csv.DictReader(io.StringIO(output.read_text())))
    assert {row["model"]: row["normalized"] for row in rows} == {"True": "True", "False": "False"}
    assert {item.result.model: item.result.facts for item in load_results([output]).found} == {
        "True": {"normalized": True},
        "False": {"normalized": False},
    }


def test_parquet_holds_the_same_rows(small_suite, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    output = tmp_path / "benchmark.parquet"

    run(small_suite, "--output", output)

    table = parquet.read_table(output)
    assert table.num_rows == 20
    assert table.column_names[:2] == ["dataset", "model"]


@pytest.mark.parametrize("layout", ["rows", "matrix"])
def test_parquet_holds_half_a_character_as_it_is_seen(tmp_path, layout):
    parquet = pytest.importorskip("pyarrow.parquet")
    body = {"dataset": "d\ud800", "model": "m\ud800", "pretrained": "", "task": "knn", "metrics": {"knn_acc1": 0.5}}
    (tmp_path / "r.json").write_text(json.dumps(body))

    run(tmp_path / "r.json", "-o", tmp_path / "t.parquet", "--layout", layout)

    assert parquet.read_table(tmp_path / "t.parquet")["model"][0].as_py().startswith("m\\ud800")


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


def test_names_are_no_markup():
    names = ["__a__", "b*c*d", "`e`", "[f](https://example.org)", "[limit 5]", "*", "g_h", "~~i~~", "j<k>"]
    grid = Grid(("model", "acc1"), tuple((name, 0.5) for name in names))

    lines = FORMATS["markdown"](grid).decode().splitlines()[2:]
    escaped = [r"\_\_a__", r"b\*c\*d", r"\`e\`", r"[f]\(https://example.org)", "[limit 5]", r"\*", "g_h"]
    assert [line.split(" | ")[0][2:] for line in lines] == [*escaped, r"\~\~i\~\~", "j&lt;k>"]
    latex = FORMATS["latex"](grid).decode().splitlines()
    starts = [line for line in latex if line.startswith(("[", "*"))]  # arguments of the line break before
    assert not starts
    assert r"j\textless{}k\textgreater{} & $0.5000$ \\" in latex


def test_the_matrix_marks_the_best_and_says_how_the_average_is_made(suite, capsys):
    run(suite, "-o", "-", "--layout", "matrix", "--format", "markdown")

    out = capsys.readouterr()
    assert "<ins>" in out.out
    assert "**" not in out.out.split("\n\n")[0], "no best of the suite is separable from all others"
    assert "Average: the mean over benchmarks, over 10 benchmarks that every model has." in out.out
    assert out.err.count("1 failed") == 6  # an image of one benchmark is broken, for all six models
    assert "With lost samples: " in out.out
    assert "; Snellen-L on harbour: 1 failed; " in out.out


def test_where_lower_is_better_the_smallest_number_is_marked(suite, capsys):
    run(suite, "-o", "-", "--layout", "matrix", "--metric", "nll", "--format", "markdown", "--digits", 6)

    header, _, *lines = capsys.readouterr().out.splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[:6]]
    assert "digits nll ↓" in header
    for column in range(1, len(rows[0]) - 1):
        numbers = [float(re.sub(r"[^\d.]", "", row[column])) for row in rows]
        assert rows[numbers.index(min(numbers))][column].startswith(("**", "<ins>"))
        assert rows[numbers.index(max(numbers))][column][0].isdecimal()


def test_a_number_of_any_size_can_be_written(tmp_path, capsys):
    body = {"dataset": "d", "model": "m", "pretrained": "", "task": "vlmevalkit", "metrics": {"score": 1e30}}
    (tmp_path / "r.json").write_text(json.dumps(body))

    run(tmp_path, "-o", "-", "--layout", "matrix", "--digits", 2)

    assert "1000000000000000019884624838656.00" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        run(tmp_path, "--layout", "matrix", "--digits", -2)


@pytest.mark.parametrize("output", ["folder", "file/table.csv"])
def test_a_table_that_cannot_be_written_is_one_clear_error(small_suite, tmp_path, output):
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("")

    with pytest.raises(UsageError, match="Cannot write"):
        run(small_suite, "-o", tmp_path / output)


def test_a_result_that_a_newer_one_replaces_is_named(small_suite, tmp_path, capsys):
    source = small_suite / "digits_Snellen-B_en_zeroshot_classification.json"
    for name in ("a.json", "b.json"):
        (tmp_path / name).write_bytes(source.read_bytes())

    run(tmp_path, "-o", "-", "--layout", "matrix")

    assert f"occurs more than once: the newest result is shown, not {tmp_path / 'a.json'}." in capsys.readouterr().err


def test_of_results_without_a_date_none_is_called_the_newest():
    table = make_table([found("a", "x", {"acc1": 0.9}), found("a", "x", {"acc1": 0.3})])

    assert [line.partition(": ")[2] for line in table.notices] == [
        "the last result is shown, not None, which has no date."
    ]


def test_two_tasks_that_write_the_same_metric_have_columns_of_two_names():
    parquet = pytest.importorskip("pyarrow.parquet")
    both = [
        found("m", "cars", {"lp_acc1": v}, task, "probe")
        for task, v in (("linear_probe", 0.3), ("logistic_probe", 0.6))
    ]
    table = make_table(both)

    grid = matrix(table, table.columns())

    names = ["cars [linear_probe] lp_acc1", "cars [logistic_probe] lp_acc1"]
    assert grid.header == ("model", *names, "Average")
    read = parquet.read_table(io.BytesIO(FORMATS["parquet"](grid))).to_pydict()
    assert [read[name] for name in names] == [["30.0"], ["60.0"]]


def test_an_unknown_metric_is_refused(small_suite):
    with pytest.raises(UsageError, match="No result has the metric"):
        run(small_suite, "-o", "-", "--layout", "matrix", "--metric", "acc99")


# ------------------------------------------------------------------------------------------------------ averages


def test_a_benchmark_with_two_columns_counts_once_in_the_average():
    both = {"image_retrieval_recall@1": 0.5, "text_retrieval_recall@1": 0.7}
    table = make_table([found("m", "cifar10", {"acc1": 0.4}), found("m", "coco", both, RETRIEVAL, "retrieval")])

    assert average(table, table.columns()).values == (pytest.approx((0.4 + 0.6) / 2),)


def test_the_average_leaves_out_what_a_model_lacks_and_says_so():
    both = [found("a", "x", {"acc1": 0.5}), found("b", "x", {"acc1": 0.7})]
    table = make_table([*both, found("a", "y", {"acc1": 0.1})])

    mean = average(table, table.columns())

    assert mean.values == (0.5, 0.7)
    assert "left out, as not every model has a usable value: y" in mean.describe("plain", table)


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
    table = make_table(
        [
            found("a", "x", {"acc1": 0.8}),
            found("a", "y", {"acc1": 0.4}),
            probe("a", "z", 0.3),
            found("b", "x", {"acc1": 0.7}),
            found("b", "y", {"acc1": 0.3}),
            probe("b", "z", 0.5),
        ]
    )

    assert average(table, table.columns(), how).values == pytest.approx(expected)


@pytest.mark.parametrize(
    ("how", "expected", "lower"),
    [("plain", (0.2, 0.4), True), ("rank", (1, 2), True), ("chance", (0.75, 0.5), False)],
)
def test_averages_of_what_should_be_low(how, expected, lower):
    both = [
        found(model, "x", {"brier": Metric(value, chance=0.8, primary=True, lower_is_better=True)})
        for model, value in (("a", 0.2), ("b", 0.4))
    ]
    table = make_table(both)

    mean = average(table, table.columns(), how)

    assert (mean.values, mean.lower_is_better) == (pytest.approx(expected), lower)


def test_what_is_best_by_chance_has_no_share_above_it():
    metric = Metric(0.2, chance=0.0, primary=True, lower_is_better=True)
    table = make_table([found("a", "x", {"brier": metric})])

    assert average(table, table.columns(), "chance").values == (None,)


def test_the_leader_of_a_column_is_the_best_not_the_largest():
    low, high = (Metric(value, primary=True, lower_is_better=True) for value in (0.01, 0.4))
    table = make_table([found("a", "x", {"ece": high}), found("b", "x", {"ece": low})])

    assert table.models[table.leader(Column(0, "ece"))].name == "b"


def test_what_should_be_low_is_never_averaged_with_what_should_be_high():
    values = {"acc1": 0.5, "ece": Metric(0.1, primary=True, lower_is_better=True)}
    table = make_table([found("a", "x", {"acc1": values["acc1"]}), found("a", "y", {"ece": values["ece"]})])

    mean = average(table, table.columns())

    assert mean.values == (0.5,)
    assert "left out, as not every model has a usable value: y" in mean.describe("plain", table)


def test_points_are_never_averaged_with_fractions():
    points = found("a", "mme", {"Overall": 1500.0}, "vlmevalkit", "questions")
    table = make_table([found("a", "x", {"acc1": 0.5}), points])

    assert average(table, table.columns()).values == (0.5,)


def test_a_model_below_chance_leaves_the_others_in_per_cent():
    table = make_table([found("a", "x", {"acc1": 0.05}), found("b", "x", {"acc1": 0.64})])

    grid = matrix(table, table.columns(), how="chance")

    assert [row[-1] for row in grid.rows] == ["-5.6", "60.0"]


@pytest.mark.parametrize("how", ["plain", "chance"])
def test_points_are_points_however_small_they_are(how):
    """Two perfect rankings have a median rank of one, not of a hundred per cent."""
    median = Metric(1.0, chance=0.5, primary=True, lower_is_better=True, points=True)
    table = make_table([found(model, "coco", {"text_retrieval_median_rank": median}) for model in "ab"])

    grid = matrix(table, table.columns(), how=how)

    assert [row[1:] for row in grid.rows] == [("1.0", None), ("1.0", None)]
    assert "There is none: only fractions are averaged" in grid.note


def test_tasks_and_scorers_say_which_of_their_numbers_are_points(tmp_path):
    retrieval(tmp_path / "postcards", n=12)
    classification(tmp_path / "stamps", n=12, classes=4, haze=0.2)
    rows = [{"index": i, "image": PIXEL, "answer": "['a red thing', 'a thing']"} for i in range(4)]
    write_tsv(tmp_path / "captions.tsv", RowTable(rows))
    run_tasks(tmp_path / "out", tmp_path, ["wds/postcards", "wds/stamps"], ["Snellen-L"], metrics="full")
    evaluate(
        dataset=[str(tmp_path / "captions.tsv")], model=VLMS[:1], num_workers=0, questions={"xlsx": False},
        output=str(tmp_path / "out" / "captions.json"),
    )  # fmt: skip

    points = {
        name for item in load_results([tmp_path / "out"]).found for name, m in item.result.values.items() if m.points
    }

    assert points >= {"text_retrieval_median_rank", "image_retrieval_median_rank", "nll", "Bleu_4", "CIDEr"}
    assert not points & {"acc1", "ece", "accuracy", "text_retrieval_recall@5", "mean_recall@5"}


# ------------------------------------------------------------------------------------- what may not stand together


@pytest.mark.parametrize("layout", ["csv", "markdown"])
def test_other_data_or_fewer_samples_in_one_column_are_named(exam_data, tmp_path, capsys, layout):
    sit(exam_data, tmp_path / "in" / "whole.json", "whole", range(10))
    sit(exam_data, tmp_path / "in" / "part.json", "part", limit=50)

    run(tmp_path / "in", "--layout", "matrix", "--format", layout, "--output", tmp_path / "table")

    said = "Not comparable with the best, as these differ: whole on exam: dataset, samples."
    assert said in capsys.readouterr().err
    assert (said in (tmp_path / "table").read_text()) == (layout == "markdown")


def test_a_row_of_two_models_with_one_name_is_named(exam_data, tmp_path, capsys):
    sit(exam_data, tmp_path / "in" / "a.json", "same", range(10))
    sit(exam(tmp_path / "other"), tmp_path / "in" / "b.json", "same", range(90))

    run(tmp_path / "in", "--layout", "matrix", "--output", tmp_path / "table.csv")

    assert "same is not the same model in all of its results" in capsys.readouterr().err


def test_one_model_on_many_benchmarks_is_one_model(suite, answers):
    assert make_table(load_results([suite, answers]).found).notices == []


def test_per_cent_beside_fractions_are_named():
    table = make_table([found("a", "x", {"acc1": 0.9}), found("b", "x", {"acc1": 88.5})])

    (said,) = table.notices

    assert said.startswith("x: acc1: some values are fractions, others are larger than 1.")


# ------------------------------------------------------------------------------------------------- rows and columns


def recalls(model, *ks):
    """A retrieval result at these k, the first being the primary one."""
    metrics = {f"{way}_retrieval_recall@{k}": Metric(0.5, primary=k == ks[0]) for k in ks for way in ("image", "text")}
    return found(model, "coco", metrics, RETRIEVAL, "retrieval")


def test_the_columns_are_the_primary_metrics_that_most_results_have():
    table = make_table([recalls("a", 1, 5, 10), recalls("b", 1, 5), recalls("c", 5)])

    assert table.columns() == [Column(0, "image_retrieval_recall@5"), Column(0, "text_retrieval_recall@5")]


def test_if_as_many_have_one_as_the_other_the_first_in_order_stands():
    assert [column.metric for column in make_table([recalls("a", 10), recalls("b", 5)]).columns()] == [
        "image_retrieval_recall@5",
        "text_retrieval_recall@5",
    ]


def test_a_task_that_names_no_primary_metric_is_shown_by_its_first():
    table = make_table([found("a", "x", {"purity": Metric(0.5), "acc": Metric(0.2)}, "python:mine:Own", "own")])

    assert table.columns() == [Column(0, "purity")]


def test_benchmarks_stand_together_by_what_they_measure(small_suite):
    measures = [benchmark.measures for benchmark in make_table(load_results([small_suite]).found).benchmarks]

    assert measures == sorted(measures, key=measures.index)
    assert len(dict.fromkeys(measures)) == 4


def test_the_newest_of_two_results_for_one_cell_stands():
    dated = [
        found("m", "x", {"acc1": value}, provenance={"date": date})
        for date, value in (("2026-02-01", 0.2), ("2026-01-01", 0.1))
    ]

    table = make_table(dated)

    assert table.values(table.columns()[0]) == [0.2]
    assert [old.result.metrics["acc1"] for old in table.replaced] == [0.1]


def test_two_folders_with_the_same_model_stay_two_rows():
    both = [found("m", "x", {"acc1": 0.1}, argument=folder) for folder in ("old", "new")]

    assert [model.label for model in make_table(both).models] == ["m p [new]", "m p [old]"]


def test_a_matrix_with_intervals_shows_how_far_they_reach(tmp_path):
    values = {"acc1": Metric(1.0, 0.603, 1.0, primary=True)}
    table = make_table([found("a", "x", values), found("b", "x", {"acc1": Metric(0.5, 0.4, 0.6, primary=True)})])

    grid = matrix(table, table.columns(), intervals=True, verdict=make_verdict(RecordsCache(table)))

    assert [row[1] for row in grid.rows] == ["100.0 \N{MINUS SIGN}39.7 +0.0", "50.0 ±10.0"]
    assert "| **100.0 \N{MINUS SIGN}39.7 +0.0** |" in FORMATS["markdown"](grid).decode()
    latex = FORMATS["latex"](grid).decode()
    assert r"$\mathbf{100.0}_{-39.7}^{+0.0}$" in latex
    assert r"$50.0 \pm 10.0$" in latex


def test_a_latex_table_goes_into_a_paper_as_it_is(suite, tmp_path, capsys):
    run(suite, "-o", tmp_path / "t.tex", "--layout", "matrix", "--intervals")
    text = (tmp_path / "t.tex").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if not line.startswith("%")]
    body = "\n".join(lines)

    assert text.startswith("% needs \\usepackage{booktabs}\n")
    assert body.isascii()
    assert re.sub(r"\\[{}]", "", body).count("{") == re.sub(r"\\[{}]", "", body).count("}")
    assert re.sub(r"\\\$", "", body).count("$") % 2 == 0
    names = [re.match(r"\\(\w+)", line)[1] for line in lines if line.startswith("\\") and "&" not in line]
    assert names == ["begin", "centering", "caption", "label", "begin", "toprule", "cmidrule", "midrule", "bottomrule",
                     "end", "end"]  # fmt: skip
    spec = re.search(r"begin\{tabular\}\{(\w+)\}", body)[1]
    rows = [line for line in lines if line.endswith("\\\\")]
    for row in rows:
        spanned = sum(int(n) - 1 for n in re.findall(r"\\multicolumn\{(\d+)\}", row))
        assert len(re.findall(r"(?<!\\)&", row)) + 1 + spanned == len(spec)
    assert len(rows) == 2 + 6
    assert r"\multicolumn{2}{c}{postcards}" in rows[0]
    assert r"n = " in body
    assert "paired tests on the same samples" in body
    assert r"$\underline{" in body


def test_rows_are_per_cent_for_people_and_fractions_for_programs():
    grid = result_rows(
        [found("a", "x", {"acc1": Metric(0.5, 0.4, 0.6), "CIDEr": Metric(0.5, points=True)})], intervals=True
    )

    assert "| 0.5000 |  |  | 50.00 | 40.00 | 60.00 |" in FORMATS["markdown"](grid).decode()
    assert "0.5,,,0.5,0.4,0.6" in FORMATS["csv"](grid).decode()
