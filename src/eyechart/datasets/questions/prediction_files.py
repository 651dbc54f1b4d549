"""Files of predictions and scores: JSON lines, spreadsheets and other tables, by suffix."""

import io
import re
import zipfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from datetime import date, datetime, time, timedelta
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

from eyechart.datasets.locations import need_file
from eyechart.datasets.questions.question_table import QuestionTable
from eyechart.datasets.questions.row_table import RowTable, as_table
from eyechart.datasets.questions.table_files import read_header, read_tsv, write_tsv
from eyechart.datasets.row_dataset import json_objects, read_csv
from eyechart.errors import DataError, MissingExtraError, import_extra
from eyechart.io.files import write_atomic
from eyechart.io.safe_parse import to_json
from eyechart.io.text_tables import is_formula, unguarded
from eyechart.messages import UserMessage
from eyechart.metrics.cell_values import LETTERS, as_text
from eyechart.types import Notice

LIMIT = 32_767
"""Maximum length of a cell."""
MAX_ROWS = 1_048_576
"""Maximum number of rows of a sheet; a few bytes of XML can claim any number."""
MAX_COLUMNS = 256
MAX_CELLS = 10_000_000
"""Maximum number of cells, including missing ones: each takes memory."""
MAX_UNPACKED = 512 * 1024 * 1024
"""Maximum unpacked size of the file."""
# Spreadsheets encode characters that XML cannot contain as _x001B_; text that looks like this is escaped as well.
_LOOKS_ESCAPED = re.compile(r"_(?=x[0-9A-Fa-f]{4}_)")
_NOT_XML = re.compile("[\x00-\x08\x0b-\x1f\ud800-\udfff\ufffe\uffff]")
_ESCAPED = re.compile(r"_x([0-9A-Fa-f]{4})_")


def write_xlsx(path: Path, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> list[str]:
    """Write a sheet; return the truncated cells, as ``row 3, prediction``. Text after ``=`` is not a formula."""
    openpyxl = import_extra("openpyxl", "xlsx")
    from openpyxl.cell import WriteOnlyCell

    book = openpyxl.Workbook(write_only=True)
    sheet = book.create_sheet("Sheet1")
    cut: list[str] = []
    for number, row in enumerate(chain([columns], rows)):
        cells = []
        for name, value in zip(columns, row, strict=True):
            if value is None or isinstance(value, bool | int | float):
                cells.append(value)
                continue
            text = _LOOKS_ESCAPED.sub("_x005F_", str(value))
            text = _NOT_XML.sub(lambda found: f"_x{ord(found[0]):04X}_", text)
            if len(text) > LIMIT:
                cut.append(f"row {number}, {name}")
                text = re.sub(r"_(x[0-9A-F]{0,4})?$", "", text[:LIMIT])  # an escape must not be cut in the middle
            cell = WriteOnlyCell(sheet, text)
            cell.data_type = "s"
            cell.quotePrefix = is_formula(str(value))  # the spreadsheet's own apostrophe, which is not part of the text
            cells.append(cell)
        sheet.append(cells)
    written = io.BytesIO()
    book.save(written)
    write_atomic(path, written.getvalue())
    return cut


def read_xlsx(path: Path) -> RowTable:
    """Read the first sheet: texts stay texts (``None`` and ``NA`` too), empty cells are missing."""
    excel = import_extra("openpyxl.reader.excel", "xlsx")
    try:
        with zipfile.ZipFile(path) as archive:
            size = sum(part.file_size for part in archive.infolist())
        if size > MAX_UNPACKED:  # a zip bomb, by the sizes in its directory, which the unpacker relies on
            raise DataError(
                "{path} unpacks to {n} bytes, more than the limit of {most}.", path=path, n=size, most=MAX_UNPACKED
            )
        with path.open("rb") as stream, closing(_open_book(excel, stream)) as book:
            return _first_sheet(book, path)
    except DataError:
        raise
    except OSError as error:
        raise DataError("Cannot read {path} ({reason}).", path=path, reason=error.strerror) from error
    except Exception as error:
        # openpyxl lets any exception of its zip and XML parsers escape on a damaged file.
        raise DataError("{path} is not a valid spreadsheet ({type}).", path=path, type=type(error).__name__) from error


def _open_book(excel: Any, stream: BinaryIO) -> Any:
    """Open a file like openpyxl, but without unescaping shared strings.

    openpyxl unescapes only underscores (``x005F_``) there, so that text which was escaped because it looked like an
    escape would be taken for one.
    """
    from openpyxl.cell.text import Text
    from openpyxl.xml.constants import SHARED_STRINGS, SHEET_MAIN_NS
    from openpyxl.xml.functions import iterparse

    class RawTexts(excel.ExcelReader):  # type: ignore[misc]
        def read_strings(self) -> None:
            part = self.package.find(SHARED_STRINGS)
            if part is None:
                return
            with self.archive.open(part.PartName[1:]) as source:
                for _, node in iterparse(source):
                    if node.tag == f"{{{SHEET_MAIN_NS}}}si":
                        self.shared_strings.append(Text.from_tree(node).content)
                        node.clear()

    reader = RawTexts(stream, read_only=True, data_only=True)
    reader.read()
    return reader.wb


def _first_sheet(book: Any, path: Path) -> RowTable:
    if not book.worksheets:
        raise DataError("{path} has no sheets.", path=path)
    sheet = book.worksheets[0]
    sheet.reset_dimensions()  # the declared size may be wrong, and rows beyond it would be lost
    head = next(sheet.iter_rows(max_row=1, values_only=True), ())
    width = len(head)
    if width > MAX_COLUMNS:
        raise DataError("{path} has more than {max_columns} columns.", path=path, max_columns=MAX_COLUMNS)
    places = {str(name): place for place, name in enumerate(head) if name is not None}
    rows: list[dict[str, Any]] = []
    # Only as wide as the first row: openpyxl pads rows, and one cell far to the right would create thousands.
    for number, row in enumerate(sheet.iter_rows(min_row=2, max_col=width or 1, values_only=True), 2):
        if number > MAX_ROWS:
            raise DataError("{path} has more than {max_rows} rows.", path=path, max_rows=MAX_ROWS)
        if row.count(None) == len(row):
            continue
        rows.append({name: _unescaped(row[place]) for name, place in places.items()})
        if len(rows) * width > MAX_CELLS:
            raise DataError("{path} has more than {max_cells} cells.", path=path, max_cells=MAX_CELLS)
    return RowTable(rows, places)


def _unescaped(value: Any) -> Any:
    if isinstance(value, datetime) and value.time() == time():
        value = value.date()  # a date cell: without the midnight that openpyxl adds
    if isinstance(value, date | time | timedelta):
        return str(value)
    return _ESCAPED.sub(lambda found: chr(int(found[1], 16)), value) if isinstance(value, str) else value


def load_table(path: Path) -> RowTable:
    """Read a table in any supported format."""
    if path.suffix not in _FORMATS:
        raise DataError(
            "{path} has an unknown format.", advice="Supported: {names}.", path=path, names=", ".join(_FORMATS)
        )
    return _FORMATS[path.suffix][0](need_file(path))


def dump(data: Any, path: str | Path) -> None:
    """Write a table, a data frame or a dict of numbers in the format of the file suffix."""
    file = Path(path)
    if file.suffix == ".json":
        write_atomic(file, (to_json(data, indent=1) + "\n").encode())
    elif file.suffix in _FORMATS:
        _FORMATS[file.suffix][1](file, as_table([data] if isinstance(data, Mapping) else data))
    else:
        names = ".json, " + ", ".join(_FORMATS)
        raise DataError("{path} has an unknown format.", advice="Supported: {names}.", path=file, names=names)


def _read_csv(path: Path) -> RowTable:
    columns, rows = read_csv(path)
    cells = ({unguarded(name): unguarded(cell) or None for name, cell in row.items()} for _, row in rows)
    return RowTable(cells, map(unguarded, columns))


def _write_text(path: Path, text: str) -> None:
    """Write a text; a lone surrogate, which UTF-8 cannot encode, becomes its JSON escape."""
    write_atomic(path, text.encode("utf-8", "backslashreplace"))


_FORMATS: dict[str, tuple[Callable[[Path], RowTable], Callable[[Path, RowTable], object]]] = {
    ".xlsx": (
        read_xlsx,
        lambda path, table: write_xlsx(path, table.columns, ([r[name] for name in table.columns] for r in table.rows)),
    ),
    ".tsv": (read_tsv, write_tsv),
    ".csv": (_read_csv, lambda path, table: _write_text(path, table.to_csv())),
    ".jsonl": (
        lambda path: RowTable(row for _, row in json_objects(path)),
        lambda path, table: _write_text(path, "".join(to_json(row.to_dict()) + "\n" for row in table.rows)),
    ),
}
"""Reader and writer of each suffix."""


SUFFIXES = (".jsonl", ".xlsx", ".tsv")
"""Formats of prediction files in order of preference; a spreadsheet may be VLMEvalKit's."""
PREDICTION = "prediction"
_LAST = (PREDICTION, "thinking")
_ASKED = ("question", *LETTERS)
"""The columns that identify the question of a prediction."""
_NOT_EXPORTED = frozenset({"images", "finish_reason", "transcript"})


def prediction_file(output: Path, repeat: int, suffix: str) -> Path:
    """Return the prediction file of a result, with a number for repeats."""
    return output.with_name(f"{output.stem}{f'_repeat{repeat}' if repeat else ''}{suffix}")


def find_predictions(output: Path, repeat: int) -> list[Path]:
    """Return the prediction files of an earlier run in order of preference, without the benchmark's own table."""
    files = [prediction_file(output, repeat, suffix) for suffix in SUFFIXES]
    return [path for path in files if path.is_file() and (path.suffix != ".tsv" or PREDICTION in read_header(path))]


def write_predictions(
    rows: Sequence[Mapping[str, Any]], output: Path, repeat: int, *, xlsx: bool
) -> tuple[Path, list[Notice]]:
    """Write the JSON-lines file and, on request, the spreadsheet.

    Return the file that a class in VLMEvalKit's form reads, and notices about what the spreadsheet could not hold.
    """
    lines = prediction_file(output, repeat, ".jsonl")
    dump(rows, lines)
    if not xlsx:
        return lines, []
    columns = [key for key in dict.fromkeys(key for row in rows for key in row) if key not in _NOT_EXPORTED]
    columns = [*(c for c in columns if c not in _LAST), *(c for c in _LAST if c in columns)]
    path = prediction_file(output, repeat, ".xlsx")
    try:
        cut = write_xlsx(path, columns, ([row.get(name) for name in columns] for row in rows))
    except MissingExtraError as error:
        message = UserMessage("{name} was not written. {hint}", name=path.name, hint=error.advice)
        return lines, [Notice("no_spreadsheet", 1, message)]
    if not cut:
        return path, []
    message = UserMessage(
        "{n} texts were truncated in {name}, for example {first}; the .jsonl file next to it is complete.",
        n=len(cut),
        name=path.name,
        first=cut[0],
    )
    return path, [Notice("xlsx_cut", len(cut), message)]


def read_agreeing(table: QuestionTable, files: Sequence[Path]) -> list[dict[str, Any]]:
    """Read the first of several prediction files; if another differs, which of them is current is unknown."""
    first, *others = [(file, read_predictions(table, file)) for file in files]
    for file, rows in others:
        said = {as_text(row["index"]): as_text(row[PREDICTION]) for row in rows}
        mine = {as_text(row["index"]): as_text(row[PREDICTION]) for row in first[1]}
        differ = [name for name in {**mine, **said} if not _is_same(mine.get(name), said.get(name))]
        if differ:
            raise DataError(
                "{first} and {name} have different predictions for {n} questions, for example index {index!r}.",
                advice="Keep the file you need and move the other away.",
                first=first[0],
                name=file.name,
                n=len(differ),
                index=differ[0],
            )
    return first[1]


def read_predictions(table: QuestionTable, file: Path) -> list[dict[str, Any]]:
    """Read predictions and join them with the benchmark's columns, which a spreadsheet may have truncated or lost."""
    found = load_table(file)
    for column in ("index", PREDICTION):
        if column not in found:
            raise DataError("{path} has no column {name!r}.", path=file, name=column)
    known = {as_text(row["index"]): row for row in table.rows}
    renamed = _renamed(table, [as_text(row["index"]).removesuffix(".0") for row in found.rows])
    rows: dict[str, dict[str, Any]] = {}
    for row in found.rows:
        index = as_text(row["index"])
        index = index if index in known and not renamed else index.removesuffix(".0")
        index = renamed.get(index, index)
        if index not in known or index in rows:
            why = "two predictions" if index in rows else "a prediction but no row in the dataset"
            raise DataError(
                "{file}: the index {index!r} has {why}.",
                advice="Check that the file belongs to this dataset.",
                file=file,
                index=index,
                why=why,
            )
        given = (column for column in _ASKED if isinstance(row.get(column), str | int | float))
        given = (column for column in given if row[column] != table.exported.get(column))
        other = next((column for column in given if not _is_same(row[column], known[index].get(column))), None)
        if other is not None:
            raise DataError(
                "{file}: the prediction for index {index!r} answers a different question than the dataset has now: "
                "{other!r} differs.",
                advice="Check that the file belongs to this dataset. If its rows changed, generate the answers again.",
                file=file,
                index=index,
                other=other,
            )
        rows[index] = {**row.without("image"), **known[index].without("image")}
    return list(rows.values())


def _renamed(table: QuestionTable, written: list[str]) -> dict[str, str]:
    """Return the table's index of rows that VLMEvalKit numbers differently: by position from 1, or with a prefix."""
    indices = [as_text(row["index"]) for row in table.rows]
    positions = {str(number): index for number, index in enumerate(indices, 1)}
    match table.exported.get("index"):
        case "position" if sorted(written) == sorted(positions) != sorted(indices):
            return positions
        case "prefixed":
            return {name: name.rpartition("_")[2] for name in written if name not in indices}
    return {}


def _is_same(one: object, other: object) -> bool:
    """Compare two cells, ignoring case, whitespace, number format and truncation by a spreadsheet."""
    left, right = (" ".join(as_text(cell).lower().split()) for cell in (one, other))
    short, long = sorted((left, right), key=len)
    if left == right or (len(short) > LIMIT // 8 and long.startswith(short)):
        return True
    try:
        return float(left) == float(right)
    except ValueError:
        return False
