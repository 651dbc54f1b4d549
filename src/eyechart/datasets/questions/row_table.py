"""Rows and tables with the parts of pandas' interface that benchmark recipes use, without pandas."""

import re
from collections import UserDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from eyechart.io.text_tables import csv_text
from eyechart.metrics.cell_values import LETTERS, is_missing

Cell = Any


@dataclass(frozen=True, slots=True)
class StoredCell:
    """A large cell (an image) that is read from its file on every access, and never kept."""

    read: Callable[[], str]


class Record(UserDict[str, Cell]):
    """One row: ``row["question"]``, ``row.get("hint")``, ``"A" in row``. A missing cell is None, all others are text.

    Cells may be given as `StoredCell`.
    """

    def __init__(self, cells: Mapping[str, Cell]) -> None:
        self.data = dict(cells)

    def __getitem__(self, column: str) -> Cell:
        value = self.data[column]
        return value.read() if isinstance(value, StoredCell) else value

    def get(self, column: str, default: Cell = None) -> Cell:
        """Return a cell, or a default; faster than the inherited method, which raises and catches a KeyError."""
        return self[column] if column in self.data else default

    def cell(self, column: str) -> Cell:
        """Return a cell unread: a `StoredCell` if it is large; None if it is missing."""
        return self.data.get(column)

    def has(self, column: str) -> bool:
        """True if a cell is not missing; it is not read."""
        return self.cell(column) is not None

    def is_large(self, column: str) -> bool:
        """True if a cell was left in its file."""
        return isinstance(self.cell(column), StoredCell)

    def to_dict(self) -> dict[str, Cell]:
        """Return all cells, including large ones."""
        return dict(self)

    def without(self, *columns: str) -> dict[str, Cell]:
        """Return all cells except some, such as images, which are not read."""
        return {key: self[key] for key in self.data if key not in columns}


class RowTable:
    """Rows with columns: ``table["answer"]``, ``table.iloc[3]``, ``"split" in table`` and ``len`` as in pandas."""

    def __init__(self, rows: Iterable[Mapping[str, Cell]], columns: Iterable[str] | None = None) -> None:
        self.rows = [row if isinstance(row, Record) else Record(row) for row in rows]
        self.columns = list(dict.fromkeys(columns or (key for row in self.rows for key in row)))
        for row in self.rows:
            for column in self.columns:
                if column not in row:
                    row[column] = None

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[str]:
        return iter(self.columns)

    def __contains__(self, column: object) -> bool:
        return column in self.columns

    def __getitem__(self, column: str) -> list[Cell]:
        if column not in self.columns:
            raise KeyError(column)
        return [row[column] for row in self.rows]

    def __setitem__(self, column: str, values: Iterable[Cell]) -> None:
        given = list(values)
        if len(given) != len(self.rows):
            raise ValueError(f"{len(given)} values for the column {column!r} of {len(self.rows)} rows")
        for row, value in zip(self.rows, given, strict=True):
            row[column] = value
        if column not in self.columns:
            self.columns.append(column)

    @property
    def iloc(self) -> list[Record]:
        """Rows by position."""
        return self.rows

    def keys(self) -> list[str]:
        """List the columns."""
        return list(self.columns)

    def iterrows(self) -> Iterator[tuple[int, Record]]:
        """Yield positions and rows."""
        return enumerate(self.rows)

    def pop(self, column: str) -> list[Cell]:
        """Remove a column and return it."""
        values = self[column]
        self.columns.remove(column)
        for row in self.rows:
            del row[column]
        return values

    def to_dict(self, orient: Literal["records"] = "records") -> list[dict[str, Cell]]:  # noqa: ARG002 - as pandas spells it
        """Return the rows as plain dicts."""
        return [row.to_dict() for row in self.rows]

    def to_csv(self) -> str:
        """Format the table as CSV; a missing cell is empty."""
        return csv_text([self.columns, *([row[name] for name in self.columns] for row in self.rows)])

    def to_pandas(self) -> Any:
        """Convert to a pandas data frame; the texts NA, None and nan stay texts."""
        import pandas as pd

        return pd.DataFrame(self.to_dict(), columns=self.columns)


_OPTION = re.compile(
    r"(?i:options?|choices?|opt|candidates?|选项)(?:[ _.-]?\(?([A-Z])\)?|[ _.-]([a-z])|[ _.-]?(\d{1,2}))"
    r"|\(?([A-Za-z])[).]|([A-Za-z])"
)


def option_columns(columns: Iterable[str]) -> dict[str, list[str]]:
    """Return the columns that hold options, by letter: A, a, "(A)", option_A, optionA, choice_1, ..."""
    found: dict[str, list[str]] = {}
    for name in columns:
        match = _OPTION.fullmatch(name)
        if match:
            found.setdefault(next(filter(None, match.groups())).upper(), []).append(name)
    numbers = sorted((name for name in found if name.isdigit()), key=int)
    for letter, number in zip(LETTERS, numbers, strict=False):  # choice_0 or choice_1 may be the first
        found.setdefault(letter, []).extend(found.pop(number))
    return found


def with_columns(table: RowTable, names: Mapping[str, str | Sequence[str]]) -> RowTable:
    """Add columns that the table has under other names, in place; several sources become a list of their cells.

    Large cells stay in their file. Existing columns are kept.
    """
    for column, sources in names.items():
        listed = [sources] if isinstance(sources, str) else list(sources)
        if column not in table and all(source in table for source in listed):
            table[column] = [_joined(row, listed, single=isinstance(sources, str)) for row in table.rows]
    return table


def _joined(row: Record, sources: Sequence[str], *, single: bool) -> Cell:
    if not all(map(row.has, sources)):
        return None

    def read() -> Cell:
        return row[sources[0]] if single else repr([str(row[source]) for source in sources])

    return StoredCell(read) if any(map(row.is_large, sources)) else read()


def as_table(data: Any) -> RowTable:
    """Convert a `RowTable`, a pandas data frame or a list of mappings to a `RowTable`."""
    if isinstance(data, RowTable):
        return data
    if hasattr(data, "to_dict") and hasattr(data, "columns"):
        return RowTable(map(as_record, data.to_dict("records")))
    return RowTable(data)


def as_record(line: Any) -> Record:
    """Convert a `Record`, a dict or a pandas series to a `Record`; pandas' missing values become None."""
    if isinstance(line, Record):
        return line
    missing = ("NAType", "NaTType")
    cells = {str(key): None if is_missing(v) or type(v).__name__ in missing else v for key, v in dict(line).items()}
    return Record(cells)
