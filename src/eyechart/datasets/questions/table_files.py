"""Files of rows: TSV of any size, streamed, and JSON, CSV or Hugging Face datasets on disk."""

import io
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

from eyechart.datasets.arrow_files import arrow_table, describe_columns
from eyechart.datasets.libraries import hugging_face_splits
from eyechart.datasets.locations import is_present
from eyechart.datasets.questions.row_table import Cell, Record, RowTable, StoredCell
from eyechart.datasets.row_dataset import json_objects, read_csv
from eyechart.errors import DataError, UsageError, unknown_name
from eyechart.io.files import atomic_file
from eyechart.io.safe_parse import read_json

KEEP = 4096
"""Cells of at most this many bytes are kept in memory."""
MAX_RECORD = 512 * 1024 * 1024
"""Maximum size of a record; a longer one is an unclosed quotation mark."""
_BOM = b"\xef\xbb\xbf"
_QUOTE = b'"'


@dataclass(frozen=True, slots=True)
class TsvRecord:
    """Position, first line number and cells of a record."""

    offset: int
    length: int
    line: int
    cells: list[bytes]


def read_tsv(path: Path) -> RowTable:
    """Read a table; memory grows with the texts, not with the images."""
    try:
        with path.open("rb") as stream:
            found = pieces(stream, path)
            columns = _names(found, path)
            if not columns:
                raise DataError(
                    "{path} is empty.",
                    advice="The first line must name the columns: index, image, question, ...",
                    path=path,
                )
            if any("\r" in name for name in columns):
                raise DataError(
                    "{path}: lines end with carriage returns only.",
                    advice="Save the table with line feeds (LF).",
                    path=path,
                )
            twice = next((name for name in columns if columns.count(name) > 1), None)
            if twice is not None:
                raise DataError("{path}: the column {name!r} occurs more than once.", path=path, name=twice)
            state = path.stat()
            return RowTable((_record(piece, path, columns, state) for piece in found), columns)
    except OSError as error:
        raise DataError("Cannot read {path} ({reason}).", path=path, reason=error.strerror) from error


def read_header(path: Path) -> list[str]:
    """Return the column names."""
    with path.open("rb") as stream:
        return _names(pieces(stream, path), path)


def _names(records: Iterator[TsvRecord], path: Path) -> list[str]:
    return [_text(cell, path, 1).strip() for record in islice(records, 1) for cell in record.cells]


def _record(piece: TsvRecord, path: Path, columns: Sequence[str], state: os.stat_result) -> Record:
    if len(piece.cells) != len(columns):  # fewer: a truncated file, or a line break in a cell
        raise DataError(
            "{path}, line {n}: {cells} cells for {columns} columns.",
            advice="Quote cells that contain a tab or a line break; an empty cell still needs its tab.",
            path=path,
            n=piece.line,
            cells=len(piece.cells),
            columns=len(columns),
        )

    where = (path, state, piece.offset, piece.length)
    cells: dict[str, Cell] = {}
    for place, (name, cell) in enumerate(zip(columns, piece.cells, strict=True)):
        large = len(cell) > KEEP
        cells[name] = StoredCell(partial(_stored, *where, place)) if large else _text(cell, path, piece.line) or None
    return Record(cells)


def _stored(path: Path, state: os.stat_result, offset: int, length: int, place: int) -> str:
    with path.open("rb") as stream:
        now = path.stat()
        if (now.st_size, now.st_mtime_ns) != (state.st_size, state.st_mtime_ns):
            raise DataError("{path} was modified while being read.", advice="Run again.", path=path)
        stream.seek(offset)
        cells = _Cells()
        for line in io.BytesIO(stream.read(length)):
            cells.feed(line)
    return _text(cells.done[place], path, 0)


def pieces(stream: BinaryIO, path: Path) -> Iterator[TsvRecord]:
    """Yield the records of a stream, skipping blank lines."""
    offset, number = 0, 0
    if stream.read(len(_BOM)) == _BOM:
        offset = len(_BOM)
    else:
        stream.seek(0)
    while True:
        line = stream.readline(MAX_RECORD)
        if not line:
            return
        start, number, length, cells = number + 1, number + 1, len(line), _Cells()
        while not cells.feed(line):
            line = stream.readline(MAX_RECORD)
            number, length = number + 1, length + len(line)
            if not line or length >= MAX_RECORD:
                raise DataError("{path}, line {start}: a quoted cell is never closed.", path=path, start=start)
        if cells.done != [b""]:
            yield TsvRecord(offset, length, start, cells.done)
        offset += length


class _Cells:
    """Splits a record into cells, line by line in a single pass."""

    def __init__(self) -> None:
        self.done: list[bytes] = []
        self._open: list[bytes] | None = None
        """Parts of a quoted cell that continues on the next line."""

    def feed(self, line: bytes) -> bool:
        """Parse a line; return True if it ends the record."""
        text = line.removesuffix(b"\n").removesuffix(b"\r")
        for place, part in enumerate(text.split(b"\t")):
            if self._open is None:
                if not part.startswith(_QUOTE):
                    self.done.append(part)
                    continue
                self._open, body = [], part[1:]
            else:
                self._open.append(b"\t" if place else b"")
                body = part
            self._open.append(body)
            # A doubled quotation mark is an escaped one; a single one closes the cell.
            if _QUOTE in body.replace(b'""', b""):
                # Like the csv module, keep what follows the closing mark.
                whole = b"".join(self._open)
                end = whole.replace(b'""', b"\0\0").index(_QUOTE)
                self.done.append(whole[:end].replace(b'""', _QUOTE) + whole[end + 1 :])
                self._open = None
        if self._open is None:
            return True
        self._open.append(line[len(text) :])
        return False


def _text(cell: bytes, path: Path, line: int) -> str:
    try:
        return cell.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError(
            "{path}, line {line}: not UTF-8 ({reason}).",
            advice="Save the table as UTF-8.",
            path=path,
            line=line,
            reason=error.reason,
        ) from error


def write_tsv(path: Path, table: RowTable) -> None:
    """Write a table row by row, quoted as pandas does; images are not kept in memory."""
    with atomic_file(path) as stream:
        stream.write("\t".join(map(_quote, table.columns)).encode() + b"\n")
        for row in table.rows:
            cells = (_quote(row[name]) for name in table.columns)
            stream.write("\t".join(cells).encode("utf-8", "surrogatepass") + b"\n")


def _quote(cell: Cell) -> str:
    text = "" if cell is None else str(cell)
    special = any(mark in text for mark in '"\t\n\r')
    return '"' + text.replace('"', '""') + '"' if special else text


Row = Mapping[str, Any]


@dataclass(frozen=True)
class RowSource:
    """Rows of a file or folder."""

    path: Path
    columns: Sequence[str]
    rows: Sequence[Row]


def open_source(path: Path, split: str = "") -> RowSource:
    """Open a file of rows, or a folder."""
    if path.is_dir():
        return _open_folder(path, split)
    if not path.is_file():
        raise DataError("There is no file or folder {path}.", path=path)
    if split:
        raise UsageError("{path} is a file and has no splits.", advice="Omit {--split}.", path=path)
    reader, readers = READERS.get(path.suffix.lower()), ", ".join(READERS)
    if reader is None:
        raise DataError(
            "{path} has an unknown format.", advice="Supported: {readers}, and folders.", path=path, readers=readers
        )
    rows = reader(path)
    if not rows:
        raise DataError("{path} has no rows.", path=path)
    return RowSource(path, list(dict.fromkeys(name for row in rows for name in row)), rows)


def _open_folder(path: Path, split: str) -> RowSource:
    tables = sorted(file for file in path.iterdir() if file.suffix.lower() in READERS)
    listed = any(file.suffix.lower() in (".jsonl", ".csv", ".tsv") for file in tables)
    near = is_present(path, ("*.arrow", "*.parquet", "data/*.arrow", "data/*.parquet"))
    splits = {} if listed and not near else hugging_face_splits(path)  # Parquet files deeper down are other data
    if splits:
        if split and split not in splits:
            raise unknown_name("split", split, splits)
        if not split and len(splits) != 1:
            names = ", ".join(splits)
            raise UsageError(
                "{path} has several splits: {splits}.", advice="Select one: {--split=NAME}", path=path, splits=names
            )
        return _arrow_source(path, splits[split or next(iter(splits))])
    if split:
        raise UsageError("{path} has no splits.", advice="Omit {--split}.", path=path)
    if len(tables) != 1:
        raise UsageError(
            "{path} must contain exactly one file of questions ({readers}); found: {held}.",
            advice="Pass the file itself, and the folder of the images with --images if it is a different one.",
            path=path,
            readers=", ".join(READERS),
            held=", ".join(file.name for file in tables) or "none",
        )
    return open_source(tables[0])


def _read_json(path: Path) -> list[Row]:
    """Read a list of objects, or an object with exactly one list of objects."""
    found = read_json(path, advice="If it has one object per line, name it .jsonl.")
    parts = found.values() if isinstance(found, dict) else [found]
    lists = [part for part in parts if isinstance(part, list) and part and all(isinstance(row, dict) for row in part)]
    if len(lists) != 1:
        raise DataError(
            "{path} is not a list of objects, nor an object with exactly one such list.",
            advice='Expected: [{{"image": "a.png", "question": "..."}}, ...].',
            path=path,
        )
    return lists[0]


READERS: dict[str, Callable[[Path], Sequence[Row]]] = {
    ".json": _read_json,
    ".jsonl": lambda path: [row for _, row in json_objects(path)],
    ".csv": lambda path: [row for _, row in read_csv(path)[1]],
    ".tsv": lambda path: [row for _, row in read_csv(path, "\t")[1]],
    ".parquet": lambda path: _arrow_source(path.parent, [path]).rows,
}


class ArrowRows(Sequence[Row]):
    """Rows of an Arrow table, read on access so that images stay in the file; labels are read as their names."""

    def __init__(self, table: Any) -> None:
        self.table = table
        described = describe_columns(table.schema)
        self.labels = {name: column.names for name, column in described.items() if column.kind == "label"}

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def __getitem__(self, place: Any) -> Any:
        row = {name: self.table.column(name)[place].as_py() for name in self.table.column_names}
        for name, words in self.labels.items():
            if isinstance(row[name], int) and 0 <= row[name] < len(words):
                row[name] = words[row[name]]
        return row


def _arrow_source(folder: Path, files: Sequence[Path]) -> RowSource:
    table = arrow_table(files)
    if not table.num_rows:
        raise DataError("{path} has no rows.", path=folder)
    return RowSource(folder, table.column_names, ArrowRows(table))
