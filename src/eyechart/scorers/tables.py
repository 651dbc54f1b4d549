"""Means over groups of rows, shared by the scorers."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from statistics import fmean

from eyechart.metrics.cells import Row, as_score, as_text, is_missing

Rows = Sequence[Row]


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


def score_of(row: Row) -> float:
    """Return a row's score as a number between 0 and 1."""
    return as_score(row["score"])


def scored_rows(rows: Iterable[Row], score: Callable[[Row], float]) -> list[dict[str, object]]:
    """Return the rows with a `score`; what has one already is not scored again."""
    return [dict(row) if not is_missing(row.get("score")) else {**row, "score": score(row)} for row in rows]


def mean(rows: Iterable[Row], value: Callable[[Row], float] = score_of) -> float:
    """Return the mean of a value over rows."""
    return fmean(map(value, rows))


def grouped(rows: Rows, key: Callable[[Row], object]) -> dict[object, list[Row]]:
    """Return rows by key, keys in order of appearance."""
    groups: dict[object, list[Row]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return groups


def by_column(rows: Rows, *columns: str) -> Iterator[tuple[str, list[Row]]]:
    """Yield the name and the rows of each value of each column, sorted; rows without a value are in no group.

    A value that two columns share is yielded twice: the second time with the column's name after it.
    """
    taken: set[str] = set()
    for column in columns:
        present = [row for row in rows if not is_missing(row.get(column))]
        groups = grouped(present, lambda row, column=column: as_text(row[column]))  # type: ignore[misc]
        for name, members in sorted(groups.items(), key=lambda item: str(item[0])):
            yield (f"{name} ({column})" if name in taken else str(name)), members
        taken |= {str(name) for name in groups}


def percentages(rows: Rows) -> dict[str, float]:
    """Return the mean score in percent: `Overall`, each category and each l2-category."""
    groups = by_column(rows, "category", "l2-category")
    return {"Overall": 100 * mean(rows)} | {name: 100 * mean(members) for name, members in groups}
