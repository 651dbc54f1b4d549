"""A model's position among published ones: its rank by benchmark, and over the common benchmarks.

Ranks are among models of at most its size. Published numbers are rounded and measured ones have an interval, so a rank
is a range if these leave the order open.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from eyechart.io.safe_parse import is_number
from eyechart.report.loader import PUBLISHED, LoadedResult
from eyechart.report.reference import Publication, load_publication, why_not_comparable
from eyechart.report.result_table import Column, ResultTable, make_table
from eyechart.results import Result


@dataclass(frozen=True)
class PublishedRank:
    """A rank: 1 + the number of better published models, and the range left open by rounding and the interval."""

    value: float
    rank: int
    low: int
    high: int
    among: int
    """Number of ranked models, including this one."""
    best: float | None
    """The best published number."""
    published: float | None = None
    """The published number for the very same weights, which are not ranked against themselves."""


@dataclass(frozen=True)
class BenchmarkRank:
    """The rank on one benchmark, by one metric."""

    benchmark: int
    metric: str
    rank: PublishedRank


@dataclass(frozen=True)
class LeaderboardPosition:
    """One row of a table among the models of one publication."""

    model: int
    publication: Publication
    parameters: float | None
    compared: int
    """Published models of at most this size; all of them, if the size is not known."""
    unknown_size: int
    """Published models left out because their size is not known."""
    lines: tuple[BenchmarkRank, ...]
    overall: PublishedRank | None
    """By the mean over the benchmarks of ``lines``, of fractions to maximise."""
    averaged: int
    """Number of benchmarks averaged."""
    left_out: tuple[str, ...]
    """Benchmarks of both that are not comparable."""


@dataclass(frozen=True)
class _Number:
    """A number with its interval, negated if lower is better."""

    value: float
    low: float
    high: float


def published_positions(
    found: Sequence[LoadedResult], references: Sequence[str]
) -> tuple[ResultTable, list[LeaderboardPosition]]:
    """Combine results and publications in one table, and rank the models in it."""
    publications = [load_publication(name) for name in dict.fromkeys(references)]
    table = make_table([*found, *(item for publication in publications for item in publication.found)])
    return table, leaderboard_positions(table, publications)


def leaderboard_positions(table: ResultTable, publications: Sequence[Publication]) -> list[LeaderboardPosition]:
    """Rank each unpublished model in each publication that shares a benchmark with it."""
    own = [m for m, model in enumerate(table.models) if model.origin != PUBLISHED]
    sizes = _sizes(table)
    found = (_position(table, m, publication, sizes) for publication in publications for m in own)
    return [position for position in found if position.lines or position.left_out]


def _position(table: ResultTable, m: int, publication: Publication, sizes: Mapping[int, float]) -> LeaderboardPosition:
    rows = sorted({row for (row, _), item in table.cells.items() if publication.holds(item) and row != m})
    mine, unit = sizes.get(m), publication.half_unit
    compared = [row for row in rows if mine is None or sizes.get(row, math.inf) <= mine + _ROUNDED]
    lines, left_out, numbers = [], [], []
    for b, results in table.by_benchmark.items():
        theirs = {row: results[row] for row in rows if row in results}
        if m not in results or not theirs:
            continue
        reason = why_not_comparable(table, b, results[m], next(iter(theirs.values())))
        metrics = [] if reason else _metrics(results[m], list(theirs.values()))
        if not metrics:
            left_out.append(f"{table.benchmarks[b].label}: {reason or 'no metric in common'}")
            continue
        ranked = {row: result for row, result in theirs.items() if row in compared}
        parts = [_numbers(name, results[m], ranked, unit) for name in metrics]
        lines += [
            BenchmarkRank(b, name, _rank(table, m, own, others, sign))
            for name, (own, others, sign) in zip(metrics, parts, strict=True)
        ]
        if all(table.in_per_cent(Column(b, name)) and part[2] > 0 for name, part in zip(metrics, parts, strict=True)):
            numbers.append(_mean(parts))
    overall = _overall(table, m, numbers) if len(numbers) > 1 else None
    unknown = 0 if mine is None else sum(row not in sizes for row in rows)
    return LeaderboardPosition(
        m, publication, mine, len(compared), unknown, tuple(lines), overall, len(numbers), tuple(left_out)
    )


_ROUNDED = 5_000
"""Published sizes are rounded to 0.01 million parameters."""
_Part = tuple[_Number, Mapping[int, _Number], float]


def _sizes(table: ResultTable) -> dict[int, float]:
    """Return the number of parameters of each model that reports it."""
    cards = ((row, item.result.model_card) for (row, _), item in table.cells.items())
    return {row: float(card["parameters"]) for row, card in cards if is_number(card.get("parameters"))}


def _metrics(mine: Result, theirs: Sequence[Result]) -> list[str]:
    """Choose the metrics to compare: the publication's primary ones, else the result's, of those that both have."""
    shared = set(mine.values).intersection(*(result.values for result in theirs))
    for names in (theirs[0].primary, mine.primary):
        found = [name for name in names if name in shared]
        if found:
            return found
    return sorted(shared)[:1]


def _numbers(name: str, mine: Result, theirs: Mapping[int, Result], unit: float) -> _Part:
    metric = mine.values[name]
    sign = -1.0 if metric.lower_is_better else 1.0
    ends = [sign * (metric.value if end is None else end) for end in (metric.low, metric.high)]
    others = {row: sign * result.values[name].value for row, result in theirs.items()}
    return (
        _Number(sign * metric.value, min(ends), max(ends)),
        {row: _Number(value, value - unit, value + unit) for row, value in others.items()},
        sign,
    )


def _rank(table: ResultTable, m: int, own: _Number, others: Mapping[int, _Number], sign: float = 1.0) -> PublishedRank:
    same = next((row for row in others if _weights(table, row) == _weights(table, m)), None)
    rivals = [number for row, number in others.items() if row != same]
    return PublishedRank(
        value=sign * own.value,
        rank=1 + sum(number.value > own.value for number in rivals),
        low=1 + sum(number.low > own.high for number in rivals),
        high=1 + sum(number.high > own.low for number in rivals),
        among=1 + len(rivals),
        best=sign * max(number.value for number in rivals) if rivals else None,
        published=None if same is None else sign * others[same].value,
    )


def _weights(table: ResultTable, row: int) -> tuple[str, str]:
    return table.models[row].name, table.models[row].pretrained


def _mean(parts: Sequence[_Part]) -> tuple[_Number, Mapping[int, _Number]]:
    """Average the metrics of a benchmark, which then counts once; they share samples, so interval ends are averaged."""
    rows = set.intersection(*(set(others) for _, others, _ in parts))
    return _average([own for own, _, _ in parts]), {
        row: _average([others[row] for _, others, _ in parts]) for row in rows
    }


def _average(numbers: Sequence[_Number]) -> _Number:
    n = len(numbers)
    return _Number(*(math.fsum(getattr(x, end) for x in numbers) / n for end in ("value", "low", "high")))


def _overall(
    table: ResultTable, m: int, numbers: Sequence[tuple[_Number, Mapping[int, _Number]]]
) -> PublishedRank | None:
    """Rank by the mean over benchmarks, among the models that have all of them, with independent errors."""
    rows = set.intersection(*(set(others) for _, others in numbers))
    if not rows:
        return None
    own, n = [mine for mine, _ in numbers], len(numbers)
    value = math.fsum(x.value for x in own) / n
    down = math.sqrt(math.fsum((x.value - x.low) ** 2 for x in own)) / n
    up = math.sqrt(math.fsum((x.high - x.value) ** 2 for x in own)) / n
    means = {row: _average([others[row] for _, others in numbers]) for row in rows}
    return _rank(table, m, _Number(value, value - down, value + up), means)
