"""Tab-separated files of any size: read record by record, large cells left where they are.

The quoting is that of pandas and the csv module: a cell that starts with a quotation mark ends with one and may hold
tabs, line ends and doubled quotation marks. Python's csv module itself cannot be used: its limit on the size of a
cell is global to the process, and it does not tell where a record starts.
"""

from __future__ import annotations

import io
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import BinaryIO

from eyechart.datasets.questions.rows import STORED, Cell, Record, RowTable
from eyechart.errors import DataError
from eyechart.io.files import atomic_file

KEEP = 4096
"""Cells of at most this many bytes are kept in memory."""
MAX_RECORD = 512 * 1024 * 1024
"""Largest record that is read; a longer one is a quotation mark that nobody closed."""
_BOM = b"\xef\xbb\xbf"
_QUOTE = b'"'


@dataclass(frozen=True, slots=True)
class Piece:
    """A record: where it is, its first line's number and its cells."""

    offset: int
    length: int
    line: int
    cells: list[bytes]


def read_tsv(path: Path) -> RowTable:
    """Read a table; memory grows with the texts, not with the images.

    Raises:
        DataError: If the file cannot be read, is not UTF-8, or a record does not fit the header.
    """
    try:
        with path.open("rb") as stream:
            return _read(path, stream)
    except OSError as error:
        raise DataError(f"Cannot read {path} ({error.strerror}).") from error


def read_header(path: Path) -> list[str]:
    """Return the names of the columns."""
    with path.open("rb") as stream:
        return _names(next(pieces(stream, path), None), path)


def _names(first: Piece | None, path: Path) -> list[str]:
    return [_text(cell, path, 1).strip() for cell in first.cells] if first else []


def _read(path: Path, stream: BinaryIO) -> RowTable:
    stream_of_pieces = pieces(stream, path)
    columns = _names(next(stream_of_pieces, None), path)
    if not columns:
        raise DataError(f"{path} is empty.", advice="The first line names the columns: index, image, question, ...")
    if any("\r" in name for name in columns):
        raise DataError(f"{path}: lines end in a carriage return alone.", advice="Save the table with line feeds.")
    twice = next((name for name in columns if columns.count(name) > 1), None)
    if twice is not None:
        raise DataError(f"{path}: the column {twice!r} occurs more than once.")
    reader = _RecordReader(path, columns)
    return RowTable((reader.record(piece) for piece in stream_of_pieces), columns)


class _RecordReader:
    """Makes records, and fetches the cells that they left in the file."""

    def __init__(self, path: Path, columns: Sequence[str]) -> None:
        self.path, self.columns = path, columns
        self._state = path.stat()
        self._lock = threading.Lock()

    def record(self, piece: Piece) -> Record:
        if len(piece.cells) != len(self.columns):  # fewer: the file was cut, or a line break stands in a cell
            raise DataError(
                f"{self.path}, line {piece.line}: {len(piece.cells)} cells for {len(self.columns)} columns.",
                advice="Put cells that hold a tab or a line break between quotation marks; an empty cell has its tab.",
            )
        cells = {name: self._cell(cell, piece.line) for name, cell in zip(self.columns, piece.cells, strict=True)}
        stored = any(value is STORED for value in cells.values())
        return Record(cells, partial(self.fetch, piece.offset, piece.length) if stored else None)

    def _cell(self, cell: bytes, line: int) -> Cell:
        if not cell:
            return None
        return STORED if len(cell) > KEEP else _text(cell, self.path, line)

    def fetch(self, offset: int, length: int, column: str) -> str:
        """Read one cell of one record again."""
        with self.path.open("rb") as stream:
            state = self.path.stat()
            if (state.st_size, state.st_mtime_ns) != (self._state.st_size, self._state.st_mtime_ns):
                raise DataError(f"{self.path} was changed while it was read.", advice="Start again.")
            stream.seek(offset)
            cells = _Cells()
            for line in io.BytesIO(stream.read(length)):
                cells.feed(line)
        return _text(cells.done[list(self.columns).index(column)], self.path, 0)


def pieces(stream: BinaryIO, path: Path) -> Iterator[Piece]:
    """Yield the records of a stream, blank lines left out."""
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
                raise DataError(f"{path}, line {start}: a quotation mark opens a cell that is never closed.")
        if cells.done != [b""]:
            yield Piece(offset, length, start, cells.done)
        offset += length


class _Cells:
    """Cuts a record into cells, line by line: each line is looked at once, however many the record has."""

    def __init__(self) -> None:
        self.done: list[bytes] = []
        self._open: list[bytes] | None = None
        """The pieces of a quoted cell that goes on."""

    def feed(self, line: bytes) -> bool:
        """Take a line; tell whether the record ends with it."""
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
            # A doubled quotation mark is one of the text's own; a single one closes the cell.
            if _QUOTE in body.replace(b'""', b""):
                self.done.append(_unquote(b"".join(self._open)))
                self._open = None
        if self._open is None:
            return True
        self._open.append(line[len(text) :])
        return False


def _unquote(body: bytes) -> bytes:
    """Return a quoted cell's content; what follows its closing mark is kept as it is, as the csv module does."""
    marked = body.replace(b'""', b"\0\0")
    end = marked.index(_QUOTE)
    return body[:end].replace(b'""', _QUOTE) + body[end + 1 :]


def _text(cell: bytes, path: Path, line: int) -> str:
    try:
        return cell.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError(
            f"{path}, line {line}: not UTF-8 ({error.reason}).", advice="Save the table as UTF-8."
        ) from error


def write_tsv(path: Path, table: RowTable) -> None:
    """Write a table row by row, quoted as pandas does; images pass through without being kept."""
    with atomic_file(path) as stream:
        stream.write("\t".join(map(_quote, table.columns)).encode() + b"\n")
        for row in table.rows:
            cells = (_quote("" if row[name] is None else str(row[name])) for name in table.columns)
            stream.write("\t".join(cells).encode("utf-8", "surrogatepass") + b"\n")


def _quote(text: str) -> str:
    special = any(mark in text for mark in '"\t\n\r')
    return '"' + text.replace('"', '""') + '"' if special else text
