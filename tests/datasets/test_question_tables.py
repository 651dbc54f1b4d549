"""Tables: streaming TSV files, rows like those of a data frame, spreadsheets."""

import csv
import io
import os
import re
import subprocess
import sys
import zipfile
from datetime import date, datetime, time, timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eyechart import vlm
from eyechart.datasets.questions.prediction_files import dump, load_table, write_xlsx
from eyechart.datasets.questions.row_table import RowTable as Table
from eyechart.datasets.questions.row_table import as_table
from eyechart.datasets.questions.table_files import KEEP, pieces, read_header, read_tsv, write_tsv
from eyechart.errors import DataError
from support.vlm_data import image_cell, write_benchmark

# The csv module leaves a lone carriage return unquoted, where it cannot be told from the end of a line.
CELLS = st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\r"), max_size=30)


def write_with_csv_module(path: Path, rows: list[list[str]]) -> None:
    text = io.StringIO()
    csv.writer(text, delimiter="\t", lineterminator="\n").writerows(rows)
    path.write_bytes(text.getvalue().encode())


@settings(deadline=None, max_examples=60)
@given(rows=st.lists(st.tuples(CELLS, CELLS, CELLS), min_size=1, max_size=6))
def test_reads_what_the_csv_module_writes(rows, tmp_path_factory):
    path = tmp_path_factory.mktemp("tsv") / "t.tsv"
    marked = [(f"x{a}", b, c) for a, b, c in rows]  # a row of three empty cells is a blank line to nobody
    write_with_csv_module(path, [["a", "b", "c"], *map(list, marked)])

    found = [tuple(row[name] or "" for name in "abc") for row in read_tsv(path).rows]

    assert found == marked


@settings(deadline=None, max_examples=60)
@given(rows=st.lists(st.tuples(CELLS, CELLS), min_size=1, max_size=6))
def test_what_we_write_the_csv_module_reads(rows, tmp_path_factory):
    path = tmp_path_factory.mktemp("tsv") / "t.tsv"
    write_tsv(path, Table([{"a": f"x{a}", "b": b} for a, b in rows]))

    with path.open(encoding="utf-8", newline="") as stream:
        found = list(csv.reader(stream, delimiter="\t"))

    assert found == [["a", "b"], *([f"x{a}", b] for a, b in rows)]


def test_large_cells_stay_in_the_file_until_they_are_asked_for(tmp_path):
    large = "x" * (KEEP + 1) + '"\t\n'
    write_tsv(tmp_path / "t.tsv", Table([{"index": "1", "image": large, "question": "q"}]))

    [row] = read_tsv(tmp_path / "t.tsv").rows

    assert row.is_large("image")
    assert row.without("image") == {"index": "1", "question": "q"}
    assert row.has("image")
    assert row["image"] == large
    assert row.to_dict() == {"index": "1", "image": large, "question": "q"}


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
@given(rows=st.lists(st.tuples(CELLS, CELLS), min_size=1, max_size=5), blank=st.booleans())
def test_a_record_is_where_its_offset_says(mark, rows, blank):
    text = io.StringIO()
    csv.writer(text, delimiter="\t", lineterminator="\n\n" if blank else "\n").writerows((f"x{a}", b) for a, b in rows)
    data = mark + text.getvalue().encode()

    found = list(pieces(io.BytesIO(data), Path("t.tsv")))

    assert len(found) == len(rows)
    for record in found:
        part = data[record.offset : record.offset + record.length]
        [again] = pieces(io.BytesIO(part), Path("t.tsv"))
        assert (again.cells, again.length) == (record.cells, record.length)


def test_large_cells_of_a_table_with_a_byte_order_mark_are_read_where_they_are(tmp_path):
    cells = [str(i) * (KEEP + i) for i in range(1, 4)]
    lines = ["index\timage", *(f"{i}\t{cell}" for i, cell in enumerate(cells))]
    (tmp_path / "t.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8-sig")

    assert [row["image"] for row in read_tsv(tmp_path / "t.tsv").rows] == cells


def test_words_that_mean_nothing_to_pandas_stay_words(lmu_data):
    words = ["None", "NA", "N/A", "null", "nan", "NaN"]
    rows = [{"index": i, "question": "q", "A": word, "B": "x", "answer": "A"} for i, word in enumerate(words)]
    dataset = vlm.build_dataset(str(write_benchmark(lmu_data / "Words.tsv", rows)))

    prompts = [dataset.build_prompt(i)[-1]["value"] for i in range(len(words))]

    assert list(dataset.data["A"]) == words
    assert all(f"A. {word}\n" in prompt for word, prompt in zip(words, prompts, strict=True))


def test_an_empty_cell_is_missing(tmp_path):
    (tmp_path / "t.tsv").write_text("index\thint\n1\t\n2\t \n")

    assert read_tsv(tmp_path / "t.tsv")["hint"] == [None, " "]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is empty"),
        ("a\tb\n1\t2\t3\n", "line 2: 3 cells for 2 columns"),
        ("a\tb\n1\t2\n3\n", "line 3: 1 cell for 2 columns"),
        ("a\ta\n1\t2\n", "'a' occurs more than once"),
        ('a\tb\n1\t2\n1\t"open\n', "line 3: a quoted cell is never closed"),
    ],
)
def test_a_broken_table_is_named_with_its_line(tmp_path, content, message):
    (tmp_path / "t.tsv").write_text(content)

    with pytest.raises(DataError, match=message):
        read_tsv(tmp_path / "t.tsv")


def test_a_table_that_is_not_utf8_is_refused(tmp_path):
    (tmp_path / "t.tsv").write_bytes(b"a\nok\n\xff\xfe\n")

    with pytest.raises(DataError, match="line 3: not UTF-8"):
        read_tsv(tmp_path / "t.tsv")


def test_a_large_cell_after_a_byte_order_mark_is_read_from_its_place(tmp_path):
    cell = image_cell(200, 200) + "A" * 9000
    (tmp_path / "t.tsv").write_bytes(b"\xef\xbb\xbf" + f"index\timage\tquestion\n1\t{cell}\tWhich?\n".encode())

    [row] = read_tsv(tmp_path / "t.tsv").rows

    assert row.is_large("image")
    assert row["image"] == cell


def test_byte_order_mark_and_windows_line_ends(tmp_path):
    (tmp_path / "t.tsv").write_bytes(b"\xef\xbb\xbfindex\tquestion\r\n1\tq\r\n\r\n")

    table = read_tsv(tmp_path / "t.tsv")

    assert table.columns == ["index", "question"]
    assert table["question"] == ["q"]


def test_a_table_works_where_recipes_expect_a_data_frame():
    table = Table([{"answer": "a", "n": 1}, {"answer": "b", "n": 2}])

    table["hit"] = [True, False]
    lines = [table.iloc[i] for i in range(len(table))]

    assert "answer" in table
    assert list(table) == ["answer", "n", "hit"]
    assert [line["hit"] for line in lines] == [True, False]
    assert lines[0].get("nothing") is None
    assert dict(zip(table["answer"], table["n"], strict=True)) == {"a": 1, "b": 2}
    with pytest.raises(ValueError, match="1 values for the column"):
        table["hit"] = [1]


def test_pandas_frames_and_series_are_taken(lmu_data):
    pandas = pytest.importorskip("pandas")
    write_benchmark(lmu_data / "Pets.tsv", [{"index": 7, "question": "q", "A": "cat", "B": "dog", "answer": "B"}])
    dataset = vlm.build_dataset("Pets")

    series = dataset.data.iloc[0]
    frame = pandas.DataFrame({"a": [1.5, None], "b": ["None", "x"]})

    assert dataset.build_prompt(series) == dataset.build_prompt(0)
    assert as_table(frame).to_dict() == [{"a": 1.5, "b": "None"}, {"a": None, "b": "x"}]


HOSTILE = [
    "=1+1",
    '=HYPERLINK("http://x","y")',
    "@SUM(A1)",
    "+1",
    "__import__('os').system('touch pwned')",
    "\x00\x01\x1b[31m",
    "_x0041_ and \r\n",
    "None",
    "NA",
    "nan",
    "007",
    "http://example.com/" + "a" * 2100,
    "\ud800 lone",
    "<b>&amp;</b>",
]


def test_spreadsheets_keep_every_text_and_evaluate_none(tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    dump([{"index": i, "prediction": text} for i, text in enumerate(HOSTILE)], tmp_path / "p.xlsx")

    found = load_table(tmp_path / "p.xlsx")["prediction"]
    sheet = openpyxl.load_workbook(tmp_path / "p.xlsx").active
    kinds = {sheet.cell(row, 2).data_type for row in range(2, len(HOSTILE) + 2)}

    assert found == HOSTILE
    assert kinds == {"s"}


@settings(deadline=None, max_examples=15)
@given(texts=st.lists(st.text(max_size=50), min_size=1, max_size=20))
def test_any_text_survives_a_spreadsheet(texts, tmp_path_factory):
    path = tmp_path_factory.mktemp("x") / "p.xlsx"
    dump([{"prediction": f"x{text}"} for text in texts], path)

    assert load_table(path)["prediction"] == [f"x{text}" for text in texts]


def test_a_spreadsheet_that_cuts_says_so(tmp_path):
    from eyechart.datasets.questions.prediction_files import LIMIT, write_xlsx

    cut = write_xlsx(tmp_path / "p.xlsx", ["index", "prediction"], [[1, "short"], [2, "y" * (LIMIT + 1)]])

    assert cut == ["row 2, prediction"]
    assert len(load_table(tmp_path / "p.xlsx")["prediction"][1]) == LIMIT


def test_json_lines_lose_nothing(tmp_path):
    long = "z" * 100_000
    dump([{"index": 1, "prediction": text} for text in [*HOSTILE, long]], tmp_path / "p.jsonl")

    assert load_table(tmp_path / "p.jsonl")["prediction"] == [*HOSTILE, long]


MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
SHARED = "application/vnd.openxmlformats-officedocument.spreadsheetml.sharedStrings+xml"


@pytest.mark.parametrize(
    ("stored", "text"),
    [
        ("_x0042_", "B"),
        ("_x005F_x0042_", "_x0042_"),
        ("_x005F_x005F_x005F_x0042_", "_x005F_x0042_"),
        ("x005F_", "x005F_"),
    ],
)
def test_escapes_of_a_spreadsheet_are_decoded_once_wherever_its_texts_stand(tmp_path, stored, text):
    """Excel keeps texts in a table of their own, which is shared by the cells; other programs write them in place."""
    write_xlsx(tmp_path / "in_place.xlsx", ["index", "prediction"], [[1, text]])
    assert load_table(tmp_path / "in_place.xlsx")["prediction"] == [text]

    shared = f'<sst xmlns="{MAIN}" count="1" uniqueCount="1"><si><t>{stored}</t></si></sst>'
    with zipfile.ZipFile(tmp_path / "in_place.xlsx") as old, zipfile.ZipFile(tmp_path / "shared.xlsx", "w") as new:
        for name in old.namelist():
            part = old.read(name).decode()
            if name == "xl/worksheets/sheet1.xml":
                part = re.sub(r'<c r="B2"[^>]*>.*?</c>', '<c r="B2" t="s"><v>0</v></c>', part)
                assert 't="s"' in part
            if name == "[Content_Types].xml":
                part = part.replace("</Types>", f'<Override PartName="/xl/texts.xml" ContentType="{SHARED}" /></Types>')
            new.writestr(name, part)
        new.writestr("xl/texts.xml", shared)

    assert load_table(tmp_path / "shared.xlsx")["prediction"] == [text]


def test_a_damaged_spreadsheet_is_a_clear_error(tmp_path):
    (tmp_path / "p.xlsx").write_bytes(b"not a zip")

    with pytest.raises(DataError, match="is not a valid spreadsheet"):
        load_table(tmp_path / "p.xlsx")


def test_spaces_around_the_names_of_columns_are_none_of_theirs(tmp_path):
    path = tmp_path / "t.tsv"
    path.write_text("index \t question\n1\tq\n")

    assert read_header(path) == read_tsv(path).columns == ["index", "question"]


STREAM = """
import sys
from pathlib import Path
from eyechart.vlm import build_dataset
dataset = build_dataset(sys.argv[1])
for row in dataset.questions.rows:
    message = dataset.build_prompt(row)
    assert Path(message[0]["value"]).stat().st_size > 500_000
    Path(message[0]["value"]).unlink()
status = Path("/proc/self/status").read_text()
print(len(dataset), int(status.partition("VmHWM:")[2].split()[0]) // 1024)
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the peak is read from /proc")
def test_a_large_file_streams(lmu_data):
    megabytes, most = (1000, 500) if os.environ.get("EYECHART_LARGE") else (150, 120)
    cell = _large_image()
    path = lmu_data / "Large.tsv"
    path.parent.mkdir(parents=True, exist_ok=True)
    count = megabytes * 1_000_000 // len(cell) + 1
    with path.open("w") as stream:
        stream.write("index\timage\tquestion\tanswer\n")
        stream.writelines(f"{i}\t{cell}\tWhat is number {i}?\tyes\n" for i in range(count))
    assert path.stat().st_size > megabytes * 1_000_000

    done = subprocess.run([sys.executable, "-c", STREAM, str(path)], capture_output=True, text=True, timeout=250)
    path.unlink()

    assert done.returncode == 0, done.stderr
    rows, peak = map(int, done.stdout.split())
    print(f"{megabytes} MB streamed in {peak} MB of memory")  # noqa: T201 - the figure that this test is for
    assert rows == count
    assert peak < most, f"{peak} MB"


def _large_image() -> str:
    """Return an image of noise, 3 MB in base64."""
    import base64

    import numpy as np
    from PIL import Image

    noise = np.random.default_rng(0).integers(0, 256, (900, 850, 3), dtype=np.uint8)
    written = io.BytesIO()
    Image.fromarray(noise).save(written, "PNG", compress_level=0)
    return base64.b64encode(written.getvalue()).decode()


def test_date_cells_of_a_spreadsheet_are_read_as_dates(tmp_path):
    book = pytest.importorskip("openpyxl").Workbook()
    cells = {
        datetime.fromisoformat("2024-01-02"): "2024-01-02",
        date(2024, 2, 29): "2024-02-29",
        datetime.fromisoformat("2024-01-02 13:45"): "2024-01-02 13:45:00",
        time(7, 30): "07:30:00",
        timedelta(hours=2, minutes=5): "2:05:00",
        "2024-01-02": "2024-01-02",
    }
    book.active.append(["index", "prediction"])
    for index, cell in enumerate(cells):
        book.active.append([index, cell])
    book.save(tmp_path / "p.xlsx")

    assert load_table(tmp_path / "p.xlsx")["prediction"] == list(cells.values())
