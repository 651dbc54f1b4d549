"""Spreadsheets of predictions, as VLMEvalKit writes them: readable by people, never evaluated, cut only with a warning.

The file is an export. A cell of a spreadsheet holds at most 32767 characters; the lossless copy is the JSON-lines
file beside it.
"""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, BinaryIO

from eyechart.datasets.questions.rows import RowTable
from eyechart.errors import DataError, import_extra
from eyechart.io.cells import is_formula
from eyechart.io.files import write_atomic

LIMIT = 32_767
"""The longest text of a cell."""
MAX_ROWS = 1_048_576
"""Rows that a sheet can have; a few bytes of XML can claim any number."""
MAX_COLUMNS = 256
MAX_CELLS = 10_000_000
"""Cells of all rows together, missing ones included: each takes memory."""
MAX_UNPACKED = 512 * 1024 * 1024
"""Bytes that all parts of the file may have together when they are unpacked."""
# Spreadsheets write characters that XML has no room for as _x001B_; a text that looks so already is escaped as well.
_LOOKS_ESCAPED = re.compile(r"_(?=x[0-9A-Fa-f]{4}_)")
_NOT_XML = re.compile("[\x00-\x08\x0b-\x1f\ud800-\udfff\ufffe\uffff]")
_ESCAPED = re.compile(r"_x([0-9A-Fa-f]{4})_")


def write_xlsx(path: Path, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> list[str]:
    """Write a sheet; return which cells were cut, as ``row 3, prediction``.

    Texts are stored as texts: one that starts with ``=`` is no formula.
    """
    openpyxl = import_extra("openpyxl", "xlsx")
    book = openpyxl.Workbook(write_only=True)
    sheet = book.create_sheet("Sheet1")
    cut: list[str] = []
    sheet.append([_cell(sheet, name) for name in columns])
    for number, row in enumerate(rows, 1):
        cells = []
        for name, value in zip(columns, row, strict=True):
            if isinstance(value, str) and len(_escape(value)) > LIMIT:
                cut.append(f"row {number}, {name}")
            cells.append(_cell(sheet, value))
        sheet.append(cells)
    written = io.BytesIO()
    book.save(written)
    write_atomic(path, written.getvalue())
    return cut


def _cell(sheet: Any, value: Any) -> Any:
    from openpyxl.cell import WriteOnlyCell

    if value is None or isinstance(value, bool | int | float):
        return value
    text = _escape(str(value))
    # An escape must not be cut in the middle.
    text = re.sub(r"_(x[0-9A-F]{0,4})?$", "", text[:LIMIT]) if len(text) > LIMIT else text
    cell = WriteOnlyCell(sheet, text)
    cell.data_type = "s"
    cell.quotePrefix = is_formula(str(value))  # the spreadsheet's own apostrophe, which is no part of the text
    return cell


def _escape(text: str) -> str:
    return _NOT_XML.sub(lambda found: f"_x{ord(found[0]):04X}_", _LOOKS_ESCAPED.sub("_x005F_", text))


def read_xlsx(path: Path) -> RowTable:
    """Read the first sheet: texts stay texts (``None`` and ``NA`` too), an empty cell is missing."""
    excel = import_extra("openpyxl.reader.excel", "xlsx")
    try:
        _check_unpacked(path)
        with path.open("rb") as stream, closing(_open_book(excel, stream)) as book:
            return _first_sheet(book, path)
    except DataError:
        raise
    except OSError as error:
        raise DataError(f"Cannot read {path} ({error.strerror}).") from error
    except Exception as error:
        # openpyxl raises whatever its zip and XML parsers raise on a damaged file.
        raise DataError(f"{path} is not a spreadsheet ({type(error).__name__}).") from error


def _open_book(excel: Any, stream: BinaryIO) -> Any:
    """Open a file as openpyxl does, but with shared texts as they stand there.

    openpyxl takes the escape of an underscore (``x005F_``) out of them and leaves all others: what looked like an
    escape before it was escaped would then be taken for one.
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


def _check_unpacked(path: Path) -> None:
    """Refuse a zip bomb: the sizes in its list are what the unpacker goes by."""
    with zipfile.ZipFile(path) as archive:
        size = sum(part.file_size for part in archive.infolist())
    if size > MAX_UNPACKED:
        raise DataError(f"{path} unpacks to {size} bytes, more than the limit of {MAX_UNPACKED}.")


def _first_sheet(book: Any, path: Path) -> RowTable:
    if not book.worksheets:
        raise DataError(f"{path} has no sheet.")
    sheet = book.worksheets[0]
    sheet.reset_dimensions()  # what a sheet says of its own size may be wrong, and rows beyond it would be lost
    head = next(sheet.iter_rows(max_row=1, values_only=True), ())
    width = len(head)
    if width > MAX_COLUMNS:
        raise DataError(f"{path} has more than {MAX_COLUMNS} columns.")
    places = {str(name): place for place, name in enumerate(head) if name is not None}
    # Only as wide as the first row: openpyxl fills rows up, and one cell far to the right would make thousands.
    rows = sheet.iter_rows(min_row=2, max_col=width or 1, values_only=True)
    filled = _limited(rows, path, width)
    return RowTable(({name: _plain(row[place]) for name, place in places.items()} for row in filled), places)


def _limited(rows: Iterable[Sequence[Any]], path: Path, width: int) -> Iterator[Sequence[Any]]:
    """Yield the rows that hold something."""
    cells = 0
    for number, row in enumerate(rows, 2):
        if number > MAX_ROWS:
            raise DataError(f"{path} has more than {MAX_ROWS} rows.")
        if row.count(None) == len(row):
            continue
        cells += width
        if cells > MAX_CELLS:
            raise DataError(f"{path} has more than {MAX_CELLS} cells.")
        yield row


def _plain(value: Any) -> Any:
    return _ESCAPED.sub(lambda found: chr(int(found[1], 16)), value) if isinstance(value, str) else value
