"""Circular sets: a table in which every question stands once per rotation of its options."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from eyechart.datasets.questions.rows import STORED, Record, RowTable
from eyechart.datasets.questions.tsv import read_tsv, write_tsv
from eyechart.errors import DataError
from eyechart.metrics.circular import can_rotate, circular_rows, row_index


@dataclass(frozen=True)
class Made:
    """What a circular set holds."""

    questions: int
    rows: int
    kept: int
    """Questions that would mean something else after rotation, asked once."""


def make_circular(source: Path, target: Path) -> Made:
    """Write the circular set of a table; images are copied once and shared by the rotations.

    Raises:
        DataError: If the table has no questions with options, or an index that cannot be counted on from.
    """
    if not source.is_file():
        raise DataError(f"There is no file {source}.")
    table = read_tsv(source)
    for column in ("index", "answer", "A", "B"):
        if column not in table:
            raise DataError(f"{source} has no column {column!r}.", advice="Circular sets are made of multiple choice.")
    try:
        rows = circular_rows([_light(row) for row in table.rows])
    except ValueError as error:
        raise DataError(f"{source}: {error}.") from error
    originals = {row_index(row): row for row in table.rows}
    columns = [*table.columns, *(["g_index"] if "g_index" not in table else [])]
    write_tsv(target, RowTable((_full(row, originals) for row in rows), columns))
    kept = sum(not can_rotate(row.without("image")) for row in table.rows)
    return Made(len(table), len(rows), kept)


_HERE = "<picture>"
"""Stands for an image while rows are rotated: its bytes never need to be in memory."""


def _light(row: Record) -> dict[str, object]:
    """Return a row without its image's bytes: a large image is a mark."""
    cells = row.without("image")
    if "image" in row:
        cells["image"] = _HERE if row.is_large("image") else row["image"]
    return cells


def _full(row: dict[str, object], originals: dict[int, Record]) -> Record:
    """Put the image's bytes back where the mark is, to be read from the source when they are written."""
    if row.get("image") != _HERE:
        return Record(row)
    original = originals[row_index(row)]
    return Record({**row, "image": STORED}, lambda _column: str(original["image"]))
