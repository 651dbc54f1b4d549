"""A model's position among published ones: its rank by benchmark, and over the common benchmarks.

Ranks are among models of at most its size. Published numbers are rounded and measured ones have an interval, so a rank
is a range if these leave the order open.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from eyechart.io.safe_parse import is_number
from eyechart.report.loader import PUBLISHED, LoadedResult
from eyechart.report.reference import Publication, load_publication, other_samples, other_scale
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
class LeaderboardPosition:
    """One row of a table among the models of one publication."""

    model: int
    publication: Publication
    parameters: float | None
    compared: int
    """Published models of at most this size; all of them, if the size is not known."""
    unknown_size: int
    """Published models left out because their size is not known."""
    ranks: tuple[tuple[Column, PublishedRank], ...]
    """By benchmark and metric."""
    overall: PublishedRank | None
    """By the mean over the benchmarks of ``ranks``, of fractions to maximise."""
    averaged: int
    """Number of benchmarks averaged."""
    left_out: tuple[str, ...]
    """Benchmarks of both that are not comparable."""


class _Number(NamedTuple):
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
    cards = ((row, item.result.model_card) for (row, _), item in table.cells.items())
    sizes = {row: float(card["parameters"]) for row, card in cards if is_number(card.get("parameters"))}
    found = (_position(table, m, publication, sizes) for publication in publications for m in own)
    return [position for position in found if position.ranks or position.left_out]


ROUNDED = 5_000
"""Published sizes are rounded to 0.01 million parameters."""


def _position(table: ResultTable, m: int, publication: Publication, sizes: Mapping[int, float]) -> LeaderboardPosition:
    rows = sorted({row for (row, _), item in table.cells.items() if publication.holds(item) and row != m})
    mine = sizes.get(m)
    compared = [row for row in rows if mine is None or sizes.get(row, math.inf) <= mine + ROUNDED]
    ranks, left_out, averaged = [], [], []
    for b, results in table.by_benchmark.items():
        theirs = {row: results[row] for row in rows if row in results}
        if m not in results or not theirs:
            continue
        one = next(iter(theirs.values()))
        reason = other_samples(table, b, results[m], one) or other_scale(results[m], one)
        metrics = [] if reason else _metrics(results[m], list(theirs.values()))
        if not metrics:
            left_out.append(f"{table.benchmarks[b].label}: {reason or 'no metric in common'}")
            continue
        parts = []
        for name in metrics:
            metric = results[m].values[name]
            sign, unit = -1.0 if metric.lower_is_better else 1.0, publication.half_unit
            ends = [sign * (metric.value if end is None else end) for end in (metric.low, metric.high)]
            part = {m: _Number(sign * metric.value, min(ends), max(ends))}
            for row in (row for row in compared if row in theirs):
                value = sign * theirs[row].values[name].value
                part[row] = _Number(value, value - unit, value + unit)
            parts.append(part)
            ranks.append((Column(b, name), _rank(table, m, part, sign)))
        maximised = not any(results[m].values[name].lower_is_better for name in metrics)
        if maximised and all(table.in_per_cent(Column(b, name)) for name in metrics):
            averaged.append(_average(parts))  # the metrics share samples, so the ends of their intervals are averaged
    overall = None
    if len(averaged) > 1 and len(means := _average(averaged)) > 1:
        # Errors of different benchmarks are independent.
        value, own, n = means[m].value, [part[m] for part in averaged], len(averaged)
        down = math.sqrt(math.fsum((x.value - x.low) ** 2 for x in own)) / n
        up = math.sqrt(math.fsum((x.high - x.value) ** 2 for x in own)) / n
        overall = _rank(table, m, means | {m: _Number(value, value - down, value + up)})
    unknown = 0 if mine is None else sum(row not in sizes for row in rows)
    return LeaderboardPosition(
        m, publication, mine, len(compared), unknown, tuple(ranks), overall, len(averaged), tuple(left_out)
    )


def _metrics(mine: Result, theirs: Sequence[Result]) -> list[str]:
    """Choose the metrics to compare: the publication's primary ones, else the result's, of those that both have."""
    shared = set(mine.values).intersection(*(result.values for result in theirs))
    published, own = ([name for name in one.primary if name in shared] for one in (theirs[0], mine))
    return published or own or sorted(shared)[:1]


def _average(parts: Sequence[Mapping[int, _Number]]) -> dict[int, _Number]:
    """Average numbers by row, for the rows that all parts have."""
    rows = [row for row in parts[0] if all(row in part for part in parts)]
    return {
        row: _Number(*(math.fsum(ends) / len(parts) for ends in zip(*(part[row] for part in parts), strict=True)))
        for row in rows
    }


def _rank(table: ResultTable, m: int, numbers: Mapping[int, _Number], sign: float = 1.0) -> PublishedRank:
    """Rank a row among others, of which the same weights are left out."""
    own, weights = numbers[m], (table.models[m].name, table.models[m].pretrained)
    others = [row for row in numbers if row != m]
    same = next((row for row in others if (table.models[row].name, table.models[row].pretrained) == weights), None)
    rivals = [numbers[row] for row in others if row != same]
    return PublishedRank(
        value=sign * own.value,
        rank=1 + sum(number.value > own.value for number in rivals),
        low=1 + sum(number.low > own.high for number in rivals),
        high=1 + sum(number.high > own.low for number in rivals),
        among=1 + len(rivals),
        best=sign * max(number.value for number in rivals) if rivals else None,
        published=None if same is None else sign * numbers[same].value,
    )
