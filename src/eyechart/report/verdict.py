"""The answer of a table of results: which model is ahead, on which columns it is separable, what is above chance."""

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from eyechart.io.text_tables import one_line
from eyechart.messages import UserMessage
from eyechart.report.collection_means import average
from eyechart.report.comparison import SuiteRanking, SuiteScores, against_best
from eyechart.report.loader import PUBLISHED
from eyechart.report.paired_records import LEVEL, POWER, RecordsCache, differences
from eyechart.report.result_table import Column, ResultTable, metric_label
from eyechart.results.views import FORMS, fixed, real_minus
from eyechart.stats import holm, mean_of_intervals, more_units_to_decide
from eyechart.stats.intervals import normal_cdf, two_sided_z

NAMED = 3
"""Names listed in a sentence; of more, the number is given."""
MOST_UNITS = 1e7
"""Above this number of additional images, no number is given."""
UNTESTED = "No difference can be tested: no two results have records of the same samples, prompts and settings."
MORE = {
    True: "; about {n:,} more images would decide{between}",
    False: "; about {n:,} more samples would decide{between}",
}
"""Advice by whether the units are images."""


@dataclass(frozen=True)
class VerdictCell:
    """A model's value in one column, on the metric's scale, and its place among the others."""

    value: float
    low: float | None
    high: float | None
    chance: float | None
    difference: float | None
    """Distance to the best of the column, at most 0, in the direction of better; None for a published model."""
    mark: str | None
    """``best``, ``tied`` (not separable from the best), ``behind``; None if it cannot be tested."""
    above_chance: bool | None
    """Whether it is better than chance, corrected for all cells; None without an interval or a chance level."""


@dataclass(frozen=True)
class ModelAverage:
    """The mean of a model over the benchmarks that all models have."""

    value: float
    low: float | None
    high: float | None
    """None if a benchmark has no interval."""
    rank_low: int | None
    rank_high: int | None
    """Simultaneous rank interval; None if the models cannot be paired."""


@dataclass(frozen=True)
class Verdict:
    """Cells by model and column index, averages by model, and the answer in words, the most important first."""

    columns: tuple[Column, ...]
    cells: Mapping[tuple[int, int], VerdictCell]
    averages: Mapping[int, ModelAverage]
    sentences: tuple[UserMessage, ...]
    ranking: SuiteRanking | None = None


def make_verdict(cache: RecordsCache, metric: str | None = None) -> Verdict:
    """Judge the models of the cache's table by the primary metrics, or by one metric; drops the records it has read."""
    builder = VerdictBuilder(cache, metric)
    for benchmark in range(len(cache.table.benchmarks)):
        builder.add(benchmark)
        cache.forget(benchmark)
    return builder.verdict()


class VerdictBuilder:
    """Collects tests benchmark by benchmark, so that only the records of one have to be in memory."""

    def __init__(self, cache: RecordsCache, metric: str | None = None) -> None:
        self.cache, self.table = cache, cache.table
        self.columns = tuple(cache.table.columns(metric))
        self.suite = SuiteScores(cache)
        self.tests: dict[Column, tuple[int, dict[int, float]]] = {}

    def add(self, benchmark: int) -> None:
        """Test the columns of one benchmark, whose records are read."""
        columns = [column for column in self.columns if column.benchmark == benchmark]
        if columns:
            self.suite.add(columns)
        self.tests |= {column: found for column in columns if (found := against_best(self.cache, column))}

    def judge_alone(self, column: Column) -> dict[int, VerdictCell]:
        """Judge a column that is not part of the verdict, by tests of this column only."""
        if found := against_best(self.cache, column):
            self.tests[column] = found
        return self._judge([column])[0]

    def verdict(self) -> Verdict:
        """Judge all columns together, and put the outcome in words."""
        cells = {(m, c): cell for c, found in enumerate(self._judge(self.columns)) for m, cell in found.items()}
        ranking = self.suite.ranking()
        verdict = Verdict(self.columns, cells, self._averages(ranking), (), ranking)
        return replace(verdict, sentences=_Words(self.table, verdict).sentences())

    def _judge(self, columns: Sequence[Column]) -> list[dict[int, VerdictCell]]:
        """Return the cells of each column by model; p-values are corrected by Holm's method over these columns.

        The best is known only afterwards, so of M models the M - 1 tests against it stand for M (M - 1) / 2 pairs. Of
        many models that guess, some have an interval above chance: their one-sided p-values are those of a normal
        distribution with this interval.
        """
        tests = {column: self.tests[column] for column in columns if column in self.tests}
        pairs = [min(1.0, p * (1 + len(found)) / 2) for _, found in tests.values() for p in found.values()]
        adjusted = iter(holm(pairs))
        corrected = {column: (best, {m: next(adjusted) for m in found}) for column, (best, found) in tests.items()}
        table, judged, by_luck = self.table, list[dict[int, VerdictCell]](), dict[tuple[int, int], float]()
        for c, column in enumerate(columns):
            marks = _marks(self.cache, column, corrected.get(column))
            metrics, leader, contest = table.metrics_in(column), table.leader(column), table.contestants(column)
            known, sign = table.known(column, "chance"), -1 if table.lower_is_better(column) else 1
            found = {}
            for m, x in metrics.items():
                chance, end = known if x.chance is None else x.chance, x.low if sign > 0 else x.high
                if chance is not None and end is not None:
                    reach = two_sided_z(LEVEL) * sign * (x.value - chance) / max(sign * (x.value - end), 1e-12)
                    by_luck[c, m] = normal_cdf(-reach) if sign * end > sign * chance else 1.0
                behind = sign * (x.value - metrics[leader].value) if m in contest and leader is not None else None
                found[m] = VerdictCell(x.value, x.low, x.high, chance, behind, marks.get(m), None)
            judged.append(found)
        for (c, m), p_value in zip(by_luck, holm(list(by_luck.values())), strict=True):
            judged[c][m] = replace(judged[c][m], above_chance=p_value < (1 - LEVEL) / 2)
        for column, found in zip(columns, judged, strict=True):
            leader = table.leader(column)
            if leader is not None and found[leader].above_chance is False:  # then no model is the best
                found |= {m: replace(cell, mark="tied") for m, cell in found.items() if cell.mark == "best"}
        return judged

    def _averages(self, ranking: SuiteRanking | None) -> dict[int, ModelAverage]:
        table, mean = self.table, average(self.table, self.columns)
        ranks = dict(zip(ranking.models, ranking.ranks, strict=True)) if ranking else {}
        columns = [column for column in self.columns if column.benchmark in mean.used]
        if not mean.common or not columns:
            return {}
        sizes = Counter(column.benchmark for column in columns)
        weights = [1 / (len(mean.used) * sizes[column.benchmark]) for column in columns]
        correlations = self.suite.correlations(columns)
        metrics = [table.metrics_in(column) for column in columns]
        found = {}
        for m, value in enumerate(mean.values):
            if value is None:
                continue
            own = [known[m] for known in metrics]
            ends = [(x.low, x.high) for x in own if x.low is not None and x.high is not None]
            low = high = None
            if len(ends) == len(own):
                interval = mean_of_intervals([x.value for x in own], ends, weights, correlations[m])
                low, high = max(0.0, interval.low), min(1.0, interval.high)
            found[m] = ModelAverage(value, low, high, *ranks.get(m, (None, None)))
        return found


def separable(column: Iterable[VerdictCell]) -> bool:
    """Whether one model of a column is the best, and separable from all contestants."""
    marks = [cell.mark for cell in column if cell.difference is not None]
    return marks.count("best") == 1 and {"tied", None}.isdisjoint(marks)


def _marks(cache: RecordsCache, column: Column, tested: tuple[int, Mapping[int, float]] | None) -> dict[int, str]:
    """Mark models by corrected p-values of `against_best`; without any, by whether their intervals overlap."""
    table, contest = cache.table, cache.table.contestants(column)
    lower = table.lower_is_better(column)
    best = table.best(column)
    if not best:
        return {}
    if tested is not None:
        first, adjusted = tested
        marks = {m: "tied" if p_value >= 1 - LEVEL else "behind" for m, p_value in adjusted.items()}
        return marks | {first: "tied"} | dict.fromkeys(best, "best")
    results = table.by_benchmark[column.benchmark]
    ends = {
        m: (-x.high, -x.low) if lower else (x.low, x.high)
        for m, x in contest.items()
        if x.low is not None and x.high is not None
        if cache.allow.issuperset(differences(results[best[0]], results[m]))
    }
    if best[0] not in ends or len(ends) < 2:
        return {}
    marks = {m: "tied" if high >= ends[best[0]][0] else "behind" for m, (_, high) in ends.items()}
    return marks | dict.fromkeys(best, "best")


class _Words:
    """Puts marks, the lead of the first model and chance levels into sentences."""

    def __init__(self, table: ResultTable, verdict: Verdict) -> None:
        own = {m for m, row in enumerate(table.models) if row.origin != PUBLISHED} or set(range(len(table.models)))
        self.table, self.columns, self.ranking = table, verdict.columns, verdict.ranking
        self.at: list[dict[int, VerdictCell]] = [{} for _ in verdict.columns]
        for (m, c), cell in verdict.cells.items():
            if m in own:
                self.at[c][m] = cell
        self.models = sorted({m for there in self.at for m in there})
        self.tested = [c for c, there in enumerate(self.at) if sum(bool(cell.mark) for cell in there.values()) > 1]

    def sentences(self) -> tuple[UserMessage, ...]:
        """Return who is ahead, unless all are at chance, then what is not above chance."""
        chance, at_chance = self._chance()
        if len(self.models) < 2 or at_chance == len(self.columns):
            return tuple(chance)
        if not self.tested:
            return UserMessage(UNTESTED), *chance
        return *(self._by_ranking(self.ranking) if self.ranking else self._by_columns()), *chance

    def _by_ranking(self, ranking: SuiteRanking) -> list[UserMessage]:
        """Describe the lead of the first model on average."""
        ranked, lead, n = ranking.models, ranking.lead, len(ranking.models)
        tied = [m for m, (low, _) in zip(ranked, ranking.ranks, strict=True) if low == 1][1:]
        results = [result for b in ranking.benchmarks for result in self.table.by_benchmark[b].values()]
        images = all(r.record_info.get("form") in FORMS or r.task == "zeroshot_retrieval" for r in results)
        used = [c for c, column in enumerate(self.columns) if column.benchmark in ranking.benchmarks]
        every = len({column.benchmark for column in self.columns})
        where = UserMessage("on average")
        if len(used) == 1:
            where = UserMessage("on {name}", name=self._titles(used))
        elif len(ranking.benchmarks) < every:
            k = len(ranking.benchmarks)
            where = UserMessage("on average over {n} of {all} benchmarks", n=k, all=every)

        def number(value: float) -> str:
            value *= 100 if ranking.in_per_cent else 1
            return real_minus(fixed(value, 1 if abs(value) >= 0.05 or not value else 2))

        gap = "{value} points" if ranking.in_per_cent else "{value} ({metric})"
        more: UserMessage | str = ""
        undecided = sum(high - low for low, high in ranking.ranks) / 2  # pairs, for which the test is corrected
        if tied and (units := _rounded(more_units_to_decide(lead, 1 - (1 - LEVEL) / undecided, POWER))):
            between = UserMessage(" between the first two") if n > 2 else ""
            more = UserMessage(MORE[images], n=units, between=between)
        fields: dict[str, Any] = {
            "first": self._name(ranked[0]),
            "second": self._name(ranked[1]),
            "gap": UserMessage(gap, value=number(lead.difference), metric=self.columns[used[0]].metric),
            "range": UserMessage("too few samples for an interval")
            if lead.interval is None
            else UserMessage("95 %: {low} to {high}", low=number(lead.interval.low), high=number(lead.interval.high)),
            "where": where,
            "n": n,
            "others": self._names([self._name(m) for m in tied]),
            "more": more,
        }
        if n == 2:
            text = "{first} and {second} are equal {where} ({range}): {outcome}."
            if lead.difference:
                text = "{first} is ahead of {second} by {gap} {where} ({range}): {outcome}{more}."
            fields["outcome"] = self._outcome(not tied, ranked, single=len(used) == 1)
        elif not lead.difference:
            text = "{first} shares the first place of {n} models {where} with {others}: not separable."
        elif tied:
            text = "{first} is first of {n} models {where}, but not separable from {others}{more}."
        else:
            text = "{first} is the best of {n} models {where}: {gap} ahead of {second} ({range})."
        return [UserMessage(text, **fields), *self._not_ranked(ranked)]

    def _outcome(self, significant: bool, pair: Sequence[int], *, single: bool) -> UserMessage:
        """Count the columns on which two models are separable, besides the average or the single column compared."""
        n, separate = len(self.tested), [self.at[c] for c in self.tested if separable(self.at[c].values())]
        if n == 1 or len(self.models) > 2:
            return UserMessage("separable" if significant else "not separable")
        texts = {
            (True, True): "separable on {k} of {n} columns{against}",
            (True, False): "separable on average, but not on any of {n} columns",
            (False, True): "not separable on average, but on {k} of {n} columns{against}",
            (False, False): "not separable on any of {n} columns",
        }
        if single:  # its test is corrected like that of any other column
            there = "not separable there, but on {k} of {n} columns{against}"
            texts |= {(True, False): texts[False, False], (False, True): there}
        lost, against = sum(there[pair[1]].mark == "best" for there in separate), UserMessage("")
        if lost:
            against = UserMessage(", {lost} of them won by {second}", lost=lost, second=self._name(pair[1]))
        return UserMessage(texts[significant, bool(separate)], n=n, k=len(separate), against=against)

    def _by_columns(self) -> list[UserMessage]:
        """Describe models without a common average, by the marks of each column."""
        n, only = len(self.tested), self.at[self.tested[0]]
        if n == 1:
            known = {m: cell for m, cell in only.items() if cell.mark}
            best = max(known, key=lambda m: known[m].difference or 0.0)
            tied = [self._name(m) for m, cell in known.items() if m != best and cell.mark != "behind"]
            text = "{first} is first of {n} models {where}, but not separable from {others}{more}."
            names, where = self._names(tied), UserMessage("on {name}", name=self._titles(self.tested))
            fields = {"first": self._name(best), "n": len(known), "where": where, "others": names, "more": ""}
            said = UserMessage(text if tied else "{first} is the best of {n} models {where}.", **fields)
            return [said, *self._not_ranked(known)]
        text = (
            "There is no common average of these {models} models; on {k} of {n} columns one is separable from the rest."
        )
        k = sum(separable(self.at[c].values()) for c in self.tested)
        return [UserMessage(text, models=len(self.models), k=k, n=n)]

    def _not_ranked(self, ranked: Collection[int]) -> list[UserMessage]:
        left = [self._name(m) for m in self.models if m not in ranked]
        text = "Not ranked, without records of the same samples: {names}."
        return [UserMessage(text, names=self._names(left))] if left else []

    def _chance(self) -> tuple[list[UserMessage], int]:
        """Name the columns on which no model, or some, are not above chance; also count the former."""
        groups: dict[tuple[int, ...], list[int]] = {}
        for c, there in enumerate(self.at):
            if low := tuple(m for m, cell in there.items() if cell.above_chance is False):
                everyone = len(low) == len(there) and len(self.models) > 1
                groups.setdefault(() if everyone else low, []).append(c)
        at_chance = groups.pop((), [])
        said = [UserMessage("No model is above chance on {names}.", names=self._titles(at_chance))] if at_chance else []
        largest = sorted(groups.items(), key=lambda group: -len(group[1]))
        for low, columns in largest[:NAMED]:
            text = "{models} {n:is|are} not above chance on {names}."
            names = [self._name(m) for m in low]
            said.append(UserMessage(text, models=self._names(names), n=len(low), names=self._titles(columns)))
        if rest := sum(len(columns) for _, columns in largest[NAMED:]):
            said.append(UserMessage("On {n} more columns some models are not above chance.", n=rest))
        return said, len(at_chance)

    def _name(self, model: int) -> str:
        return one_line(self.table.models[model].label)

    def _names(self, names: Sequence[str]) -> str:
        if len(names) < 2:
            return "".join(names)
        if len(names) <= NAMED:
            return UserMessage("{names} and {last}", names=", ".join(names[:-1]), last=names[-1])
        return UserMessage("{names} and {n} more", names=", ".join(names[:NAMED]), n=len(names) - NAMED)

    def _titles(self, columns: Sequence[int]) -> str:
        """Name columns by their benchmark; with the metric if only some of the benchmark's columns are meant."""
        meant, every = Counter(self.columns[c].benchmark for c in columns), Counter(c.benchmark for c in self.columns)
        names = dict[str, None]()
        for column in (self.columns[c] for c in columns):
            label = one_line(self.table.benchmarks[column.benchmark].label)
            whole = meant[column.benchmark] == every[column.benchmark]
            names[label if whole else f"{label} {metric_label(self.table, column)}"] = None
        return self._names(list(names))


def _rounded(units: float | None) -> int | None:
    """Round a number of images to two digits; None if there is none, or more than anybody has."""
    if units is None or units > MOST_UNITS:
        return None
    step = 10 ** max(0, math.floor(math.log10(units)) - 1) if units >= 1 else 1
    return math.ceil(units / step) * step
