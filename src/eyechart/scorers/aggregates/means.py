"""Means over groups of rows: the aggregate most benchmarks share, and helpers for the others.

An aggregate is a plain function ``rows, **options -> table``. A row has the benchmark's columns and those of its
result: ``extracted``, ``score`` and further values of the rule. `reports` declares which numbers of the table become
metrics.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from statistics import fmean
from typing import Any, TypeVar

from eyechart.metrics.cell_values import Row, as_score, as_text, is_missing
from eyechart.metrics.repeated_questions import row_index
from eyechart.types import Notice

Rows = Sequence[Row]
Table = Any
"""A benchmark's own table: a mapping, or a list of lines."""
Line = dict[str, object]
Lines = list[Line]
Numbers = Mapping[str, float]
Item = TypeVar("Item")
Key = TypeVar("Key", bound=Hashable)
F = TypeVar("F", bound=Callable[..., Any])


def pick(*names: str, within: str = "") -> Callable[[Any], Numbers]:
    """Return a function that selects numbers from a table, or from a nested table."""

    def numbers(table: Any) -> Numbers:
        found = table.get(within, {}) if within else table
        return {name: float(found[name]) for name in names if name in found}

    return numbers


NO_NUMBERS = pick()


@dataclass(frozen=True)
class Reports:
    """Metadata of an aggregate."""

    numbers: Callable[[Any], Numbers] = NO_NUMBERS
    """Selects the numbers of the table that become metrics."""
    points: bool = False
    """True if those are points or percent, as in the table; otherwise fractions."""
    primary: str = "accuracy"
    """The primary metric of the benchmark."""
    unit: Callable[[Row], Hashable] | None = None
    """The question a row belongs to, if a question has several rows: it is right if all of them are."""
    chance: Callable[[Rows], float | None] | None = None
    """The accuracy of guessing, if it differs from that of single rows."""
    notices: Callable[[Rows], list[Notice]] = lambda _: []
    """Notices about these rows."""


def reports(*names: str, **known: Any) -> Callable[[F], F]:
    """Attach `Reports` to an aggregate; ``names`` are the numbers of its table that become metrics."""

    def attach(function: F) -> F:
        numbers: dict[str, Any] = {"numbers": pick(*names)} if names else {}
        function.reports = Reports(**numbers, **known)  # type: ignore[attr-defined]
        return function

    return attach


def need(rows: Iterable[Row], *columns: str) -> Rows:
    """Return the rows as a list; raise if there are none, or if one lacks a value in these columns."""
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


def all_right(rows: Rows) -> float:
    """Return 1 if all rows are right, else 0."""
    return float(all(as_score(row["score"]) != 0 for row in rows))


def hit(row: Row) -> int:
    """Return 1 if the row scored anything, else 0."""
    return int(as_score(row["score"]) > 0)


def grouped(rows: Iterable[Item], key: Callable[[Item], Key]) -> dict[Key, list[Item]]:
    """Return rows, or other items, by key, in order of appearance."""
    groups: dict[Key, list[Item]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return groups


def by_value(rows: Iterable[Row], column: str) -> dict[str, list[Row]]:
    """Return rows by the text in a column, in order of appearance."""
    return grouped(rows, lambda row: as_text(row[column]))


def together(rows: Rows, size: int) -> list[list[Row]]:
    """Return groups of ``size`` consecutive indices; raise if one is incomplete, which makes all after it wrong."""
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

    A value that two columns share is yielded twice, the second time with the column's name appended.
    """
    taken: set[str] = set()
    for column in columns:
        having = [row for row in rows if not is_missing(row.get(column))]
        groups = by_value(having, column)
        for name, members in sorted(groups.items(), key=itemgetter(0)):
            yield (f"{name} ({column})" if name in taken else name), members
        taken |= groups.keys()


_COUNTS: Mapping[str, Callable[[Rows], float]] = {
    "rows": len,
    "hits": lambda rows: sum(map(hit, rows)),
    "sum": lambda rows: sum(as_score(row["score"]) for row in rows),
}


def means(
    rows: Iterable[Row],
    *,
    groups: Mapping[str, str] | None = None,
    overall: str = "Overall",
    last: bool = False,
    scale: float = 1,
    digits: int | None = None,
    fixed: Sequence[str] = (),
    counts: Mapping[str, str] | None = None,
    inside: str = "",
    lines: Sequence[str] = (),
    fill: Mapping[str, str] | None = None,
    column: str = "score",
) -> Table:
    """Return the mean score of all rows, and of the rows of each value of some columns.

    Args:
        rows: The scored rows.
        groups: Columns to group by, each with a pattern for the group's name, in which ``{}`` is the column's value.
        overall: Name of the mean over all rows; empty to omit it.
        last: Whether it comes after the groups.
        scale: Factor applied to numbers: 100 for percent.
        digits: Number of decimals.
        fixed: Groups that are always in the table, empty ones with None.
        counts: Numbers next to the overall one: number of ``rows``, of ``hits`` among them, their ``sum``.
        inside: Name of the nested table that holds the groups.
        lines: Return a list of lines instead, with these column names: group, mean, number of rows.
        fill: Constant columns of each line.
        column: The column to average.
    """
    found = need(rows)

    def number(members: Rows) -> float:
        value = scale * mean(members, column)
        return value if digits is None else round(value, digits)

    named = [
        (form.format(name), members) for by, form in (groups or {}).items() for name, members in by_column(found, by)
    ]
    if lines:
        ordered = [*named, (overall, found)] if last else [(overall, found), *named]
        return [
            dict(zip(lines, (name, number(members), len(members)), strict=False)) | dict(fill or {})
            for name, members in ordered
        ]
    whole = {overall: number(found)} if overall else {}
    whole |= {name: _COUNTS[count](found) for name, count in (counts or {}).items()}
    table = dict.fromkeys(fixed) | {name: number(members) for name, members in named}
    if inside:
        return {**whole, inside: table}
    return table | whole if last else whole | table


def percentages(rows: Iterable[Row]) -> dict[str, float]:
    """Return the mean score in percent: `Overall`, each category and each l2-category."""
    found = need(rows)
    groups = by_column(found, "category", "l2-category")
    return {"Overall": 100 * mean(found)} | {name: 100 * mean(members) for name, members in groups}


def split_means(rows: Iterable[Row]) -> Table:
    """Return the mean score of open questions in percent: per split, or else per category, and `Overall`."""
    found = need(rows)
    column = "split" if any(not is_missing(row.get("split")) for row in found) else "category"
    return means(found, groups={column: "{}"}, last=True, scale=100)
