"""Means over groups of rows, shared by the scorers."""

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from functools import partial
from operator import itemgetter
from statistics import fmean
from typing import Any, TypeVar

from eyechart.metrics.cells import Row, as_score, as_text, is_missing
from eyechart.metrics.circular import row_index

Rows = Sequence[Row]
Table = Any
"""A benchmark's own table: a mapping, or a list of lines."""
Key = TypeVar("Key", bound=Hashable)


def need(rows: Iterable[Row], *columns: str) -> Rows:
    """Return the rows as a list after checking that there are some and that none lacks a value in these columns."""
    found = list(rows)
    if not found:
        raise ValueError("there are no rows to score")
    for column in columns:
        missing = sum(is_missing(row.get(column)) for row in found)
        if missing:
            raise ValueError(f"{missing} of {len(found)} rows have no {column!r}, which this score needs")
    return found


def mean(rows: Iterable[Row], column: str = "score") -> float:
    """Return the mean of a column over rows."""
    return fmean(as_score(row[column]) for row in rows)


def all_right(rows: Rows, column: str = "score") -> float:
    """Judge rows that count together: 1 if none is wrong, else 0."""
    return float(all(as_score(row[column]) != 0 for row in rows))


def grouped(rows: Rows, key: Callable[[Row], Key]) -> dict[Key, list[Row]]:
    """Return rows by key, keys in order of appearance."""
    groups: dict[Key, list[Row]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return groups


def together(rows: Rows, size: int) -> list[list[Row]]:
    """Return the groups of rows that a benchmark asks together: so many indices in a row, from the smallest on.

    Raises:
        ValueError: If one is not whole: who then counts on finds other groups.
    """
    ordered = sorted(rows, key=row_index)
    first = row_index(ordered[0])
    groups = list(grouped(ordered, lambda row: (row_index(row) - first) // size).values())
    for group in groups:
        if len(group) != size:
            raise ValueError(
                f"questions are asked in groups of {size}, but that of index {group[0]['index']} has {len(group)}"
            )
    return groups


def by_column(rows: Rows, *columns: str) -> Iterator[tuple[str, list[Row]]]:
    """Yield the name and the rows of each value of each column, sorted; rows without a value are in no group.

    A value that two columns share is yielded twice: the second time with the column's name after it.
    """
    taken: set[str] = set()
    for column in columns:
        having = [row for row in rows if not is_missing(row.get(column))]
        groups = grouped(having, partial(_cell, column=column))
        for name, members in sorted(groups.items(), key=itemgetter(0)):
            yield (f"{name} ({column})" if name in taken else name), members
        taken |= groups.keys()


def _cell(row: Row, column: str) -> str:
    return as_text(row[column])


def percentages(rows: Rows) -> dict[str, float]:
    """Return the mean score in percent: `Overall`, each category and each l2-category."""
    groups = by_column(rows, "category", "l2-category")
    return {"Overall": 100 * mean(rows)} | {name: 100 * mean(members) for name, members in groups}


def hit(row: Row) -> int:
    """Count a row that scored anything."""
    return int(as_score(row["score"]) > 0)
