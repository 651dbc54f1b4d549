"""The tables of benchmarks scored by a rule: means of scores over groups of rows, in the form that each has."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from eyechart.metrics.cells import Row, as_score, as_text
from eyechart.scorers.own_shapes import OWN_SHAPES
from eyechart.scorers.tables import Rows, all_right, by_column, grouped, mean, need

Table = Any


def groups(
    rows: Iterable[Row],
    *,
    overall: str = "Overall",
    groups: Mapping[str, str] | None = None,
    scale: float = 1,
    digits: int | None = None,
    fixed: Sequence[str] = (),
    column: str = "score",
) -> Table:
    """Return the mean over all rows, and over those of each value of some columns, as ``column: name of a group``.

    ``fixed`` names the groups that are in the table in any case, empty ones with nothing.
    """
    found = need(rows)
    table = dict.fromkeys(fixed)
    for name, form in (groups or {}).items():
        for value, members in by_column(found, name):
            table[form.format(value)] = _number(members, scale, digits, column)
    return ({overall: _number(found, scale, digits, column)} if overall else {}) | table


def _number(rows: Rows, scale: float, digits: int | None, column: str) -> Any:
    value = scale * mean(rows, column)
    return value if digits is None else round(value, digits)


def records(
    rows: Iterable[Row],
    *,
    names: Sequence[str],
    groups: Mapping[str, str] | None = None,
    overall: str = "Overall",
    last: bool = False,
    scale: float = 1,
    fill: Mapping[str, str] | None = None,
) -> Table:
    """Return one line per group: its name, the mean and how many rows, under these names; ``fill`` is in each line."""
    found = need(rows)
    lines = [
        (form.format(value), members)
        for name, form in (groups or {}).items()
        for value, members in by_column(found, name)
    ]
    whole: list[tuple[str, Rows]] = [(overall, found)]
    ordered = [*lines, *whole] if last else [*whole, *lines]
    return [
        dict(zip(names, (name, scale * mean(members), len(members)), strict=False)) | dict(fill or {})
        for name, members in ordered
    ]


def per_group(rows: Iterable[Row], *, by: str, overall: str, inside: str) -> Table:
    """Return the mean over all, and in a part of its own the mean of each value of a column."""
    found = need(rows)
    return {overall: mean(found), inside: {name: mean(members) for name, members in by_column(found, by)}}


def counted(rows: Iterable[Row], *, name: str, total: str) -> Table:
    """Return the mean, and how many rows there are."""
    found = need(rows)
    return {name: mean(found), total: len(found)}


def tallied(rows: Iterable[Row], *, groups: Mapping[str, str]) -> Table:
    """Return the mean over all rows, how many there are and are right, and the mean over each value of some columns."""
    found = need(rows)
    table: dict[str, Any] = {"Overall": mean(found), "Total": len(found)}
    table["Correct"] = sum(as_score(row["score"]) > 0 for row in found)
    for name, form in groups.items():
        table |= {form.format(value): mean(members) for value, members in by_column(found, name)}
    return table


def whole_groups(rows: Iterable[Row], *, by: str, key: str, overall: str = "", scale: float = 1) -> Table:
    """Return, for each value of a column, the part of its groups (rows with the same key) that are all right.

    The overall number is the mean of those.
    """
    found = need(rows, by, key)
    table = {}
    for name, members in by_column(found, by):
        right = [all_right(group) or 0.0 for group in grouped(members, lambda row: as_text(row[key])).values()]
        table[name] = scale * sum(right) / len(right)
    return table | ({overall: sum(table.values()) / len(table)} if overall else {})


def in_fours(rows: Iterable[Row], *, fixed: Sequence[str], total: str = "total", size: int = 4) -> Table:
    """Return the part of groups of rows, four in a row, that are all right: per category of the last, and of all."""
    found = need(rows, "category")
    if len(found) % size:
        raise ValueError(f"questions are asked in groups of {size}, but there are {len(found)} rows")
    fours = [found[i : i + size] for i in range(0, len(found), size)]
    hits: dict[str, list[float]] = {name: [] for name in (*fixed, total)}
    for four in fours:
        right = all_right(four) or 0.0
        hits.setdefault(as_text(four[-1]["category"]), []).append(right)
        hits[total].append(right)
    return {name: sum(values) / len(values) if values else None for name, values in hits.items()}


SHAPES: dict[str, Callable[..., Table]] = {
    "groups": groups,
    "records": records,
    "per_group": per_group,
    "counted": counted,
    "tallied": tallied,
    "whole_groups": whole_groups,
    "in_fours": in_fours,
    **OWN_SHAPES,
}
"""Forms of tables by name."""
