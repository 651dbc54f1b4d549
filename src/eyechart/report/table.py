"""Models x benchmarks: the one source of every table, in ``build`` and on the page."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from eyechart.benchmarks import benchmark_name
from eyechart.languages import canonical
from eyechart.report.load import OURS, PUBLISHED, Found
from eyechart.report.rows import ModelRow, name_rows
from eyechart.results import Result
from eyechart.results.numbers import is_fraction, level
from eyechart.types import Metric


@dataclass(frozen=True)
class BenchmarkColumn:
    """A dataset read by a task in one language."""

    dataset: str
    task: str
    language: str = "en"
    measures: str = field(default="", compare=False)
    """What the task measures, in a word: tables group and average by it."""
    suffix: str = field(default="", compare=False)
    """Tells benchmarks apart whose columns would have the same name."""

    @property
    def label(self) -> str:
        """Name it in one line; English goes without saying."""
        language = "" if self.language == "en" else f"({self.language})"
        return " ".join(part for part in (self.dataset, language, self.suffix) if part)


@dataclass(frozen=True)
class Column:
    """One metric of one benchmark."""

    benchmark: int
    metric: str


@dataclass(frozen=True)
class ResultTable:
    """Results by row and benchmark."""

    models: tuple[ModelRow, ...]
    benchmarks: tuple[BenchmarkColumn, ...]
    cells: Mapping[tuple[int, int], Found]
    """(model, benchmark) -> its result."""
    replaced: tuple[Found, ...] = ()
    """Older results of the same run, which are not shown."""
    names: tuple[str, ...] = ()
    """Which models are called by several names."""

    @property
    def notices(self) -> list[str]:
        """Name the results that are not shown, and what stands together but may not be of one kind."""
        return [*self.names, *self._not_shown(), *self._several_models(), *self._several_scales()]

    def _not_shown(self) -> list[str]:
        return [
            f"{ModelRow(one.model, one.pretrained).label} on {one.dataset} ({one.language}) occurs more than once: "
            f"the {'newest' if one.provenance.get('date') else 'last'} result is shown, "
            f"not {one.path}{'' if one.provenance.get('date') else ', which has no date'}."
            for one in (item.result for item in self.replaced)
        ]

    def _several_models(self) -> list[str]:
        """Name the rows whose results were made with other weights or another precision."""
        found: dict[int, dict[str, Result]] = {}
        for (model, _), item in sorted(self.cells.items(), key=lambda cell: cell[0]):
            card = item.result.model_card
            if card.get("weights_digest"):
                form = card["weights_digest"], card.get("precision")
                found.setdefault(model, {}).setdefault(str(form), item.result)
        return [
            f"{self.models[model].label} is not the same model in all of its results (weights or precision): "
            f"{', '.join(str(result.path) for result in results.values())}."
            for model, results in found.items()
            if len(results) > 1
        ]

    def _several_scales(self) -> list[str]:
        """Name the metrics that some results give as fractions and others, it seems, as per cent."""
        mixed: dict[int, list[str]] = {}
        for b in range(len(self.benchmarks)):
            for column in (Column(b, name) for name in self.metrics_of(b)):
                found = self.metrics_in(column).values()
                if any(metric.points or metric.lower_is_better for metric in found):
                    continue
                if {metric.value > 1 for metric in found} == {False, True}:
                    mixed.setdefault(b, []).append(column.metric)
        return [
            f"{self.benchmarks[b].label}: {', '.join(names)}: some numbers are fractions, others larger than 1. "
            "Per cent cannot stand beside fractions: divide by 100."
            for b, names in mixed.items()
        ]

    @cached_property
    def by_benchmark(self) -> dict[int, dict[int, Result]]:
        """Return the results of each benchmark by model."""
        groups: dict[int, dict[int, Result]] = {}
        for (model, benchmark), found in sorted(self.cells.items(), key=lambda item: item[0]):
            groups.setdefault(benchmark, {})[model] = found.result
        return groups

    def spellings(self, benchmark: int) -> list[str]:
        """List what the results of a benchmark call its dataset, if that is not the one name that is shown."""
        written = {result.dataset for result in self.by_benchmark[benchmark].values()}
        return sorted(written) if written != {self.benchmarks[benchmark].dataset} else []

    @cached_property
    def primary(self) -> dict[int, tuple[str, ...]]:
        """Return the metrics that stand for each benchmark."""
        return {b: primary_metrics(list(results.values())) for b, results in self.by_benchmark.items()}

    def metrics_of(self, benchmark: int) -> list[str]:
        """List the metrics that any result of a benchmark has, sorted as people count."""
        return self._metrics[benchmark]

    @cached_property
    def _metrics(self) -> dict[int, list[str]]:
        names = {b: {name for r in results.values() for name in r.values} for b, results in self.by_benchmark.items()}
        return {b: sorted(found, key=natural) for b, found in names.items()}

    def columns(self, metric: str | None = None) -> list[Column]:
        """List the columns of the primary metrics, or of one metric wherever it exists."""
        if metric is None:
            return [Column(b, name) for b in range(len(self.benchmarks)) for name in self.primary[b]]
        return [Column(b, metric) for b in range(len(self.benchmarks)) if metric in self.metrics_of(b)]

    def metrics_in(self, column: Column) -> dict[int, Metric]:
        """Return the metric of a column for each model that has it."""
        results = self.by_benchmark[column.benchmark].items()
        return {model: result.values[column.metric] for model, result in results if column.metric in result.values}

    def values(self, column: Column) -> list[float | None]:
        """Return the numbers of a column, None for a model that has none."""
        found = self.metrics_in(column)
        return [found[m].value if m in found else None for m in range(len(self.models))]

    def lower_is_better(self, column: Column) -> bool:
        """Tell which end of a column is the good one."""
        return any(metric.lower_is_better for metric in self.metrics_in(column).values())

    def in_per_cent(self, column: Column) -> bool:
        """Tell whether a column's numbers are fractions, which people read as per cent."""
        return all(is_fraction(metric) for metric in self.metrics_in(column).values())

    def contestants(self, column: Column) -> dict[int, Metric]:
        """Return the models that the best of a column is sought among: published numbers stand beside, unless alone."""
        found = self.metrics_in(column)
        return {m: metric for m, metric in found.items() if self.models[m].origin != PUBLISHED} or found

    def leader(self, column: Column) -> int | None:
        """Return the first model with the best value of a column."""
        sign = -1 if self.lower_is_better(column) else 1
        found = self.contestants(column)
        return max(found, key=lambda model: sign * found[model].value, default=None)

    def known(self, column: Column, name: str) -> float | None:
        """Return ``chance`` or ``best`` of a column: of the first result that tells, as it belongs to the dataset."""
        levels = (getattr(metric, name) for metric in self.metrics_in(column).values())
        return next((level for level in levels if level is not None), None)


def make_table(found: Sequence[Found]) -> ResultTable:
    """Arrange results as models x benchmarks; of several results of the same run the newest stands."""
    columns = [benchmark_of(item.result) for item in found]
    named = name_rows(found, columns)
    cells: dict[tuple[ModelRow, BenchmarkColumn], Found] = {}
    replaced = []
    dates = [str(item.result.provenance.get("date", "")) for item in found]
    for i in sorted(range(len(found)), key=dates.__getitem__):
        item, place = found[i], (named.rows[i], columns[i])
        if place in cells:
            replaced.append(cells[place])
        cells[place] = item
    models = sorted({model for model, _ in cells}, key=lambda model: (model.origin != OURS, natural(model.label)))
    benchmarks = list(dict.fromkeys(benchmark for _, benchmark in cells))
    sizes = Counter(benchmark.measures for benchmark in benchmarks)
    benchmarks.sort(
        key=lambda b: (-sizes[b.measures], b.measures, natural(b.dataset), b.task, b.language != "en", b.language)
    )
    benchmarks = _told_apart(benchmarks, cells)
    rows, places = {m: i for i, m in enumerate(models)}, {b: i for i, b in enumerate(benchmarks)}
    placed = {(rows[model], places[benchmark]): item for (model, benchmark), item in cells.items()}
    return ResultTable(tuple(models), tuple(benchmarks), placed, tuple(replaced), tuple(named.notices))


def benchmark_of(result: Result) -> BenchmarkColumn:
    """Name a benchmark in one way, whatever the tool that ran it wrote: vtab_pets, wds/vtab/pets or pets, zh or cn."""
    language, prefixed = canonical(result.language), result.dataset.startswith("wds")
    read_by_catalogue = result.data.get("benchmark", None if prefixed else result.dataset)
    whole = result.job.get("limit") is None or not prefixed
    samples = result.counts.get("listed") if not read_by_catalogue and whole else None
    name = benchmark_name(result.dataset, split=str(result.data.get("split") or ""), samples=samples, language=language)
    return BenchmarkColumn(name, result.task, language, str(result.data.get("measures", "")))


def primary_metrics(results: Sequence[Result]) -> tuple[str, ...]:
    """Choose the metrics that stand for a benchmark: of those that its results name, the ones that most of them have.

    A result that names none is taken to mean its first one.
    """
    named = Counter(result.primary or tuple(result.values)[:1] for result in results)

    def fit(metrics: tuple[str, ...]) -> tuple[int, int, list[list[tuple[int, str]]]]:
        having = sum(all(name in result.values for name in metrics) for result in results)
        return -having, -named[metrics], [natural(name) for name in metrics]

    return min((metrics for metrics in named if metrics), key=fit, default=())


def best_of(values: Sequence[float | None], *, lower: bool = False) -> list[int]:
    """Return the positions of the best value; alone, nobody is best."""
    present = [value for value in values if value is not None]
    if len(present) < 2:
        return []
    top = min(present) if lower else max(present)
    return [i for i, value in enumerate(values) if value == top]


AS_WRONG = "counted as wrong"


def lost_samples(result: Result) -> list[str]:
    """Say how many samples were lost, and why; where they count as wrong, what they could make of the first number."""
    failed = max(result.counts.get("failed", 0), len(result.failures))
    others = {key.replace("_", " "): result.counts.get(key, 0) for key in ("left_out", "unreadable")}
    lost = [f"{count} {word}" for word, count in {"failed": failed, **others}.items() if count > 0]
    for name in (*result.primary, *result.values):
        metric = result.values[name]
        if metric.if_wrong is not None and metric.if_right is not None:
            wrong, right = level(metric, metric.if_wrong), level(metric, metric.if_right)
            return [*lost, f"{AS_WRONG}: {name} {wrong} if all are wrong, {right} if right"]
    return lost


def natural(text: str) -> list[tuple[int, str]]:
    """Sort key under which recall@5 comes before recall@10."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d{1,18})", text)]


def _told_apart(
    benchmarks: Sequence[BenchmarkColumn], cells: Mapping[tuple[ModelRow, BenchmarkColumn], Found]
) -> list[BenchmarkColumn]:
    """Add the task to the name of benchmarks of one dataset that have a metric of the same name."""
    metrics: dict[BenchmarkColumn, set[str]] = {}
    for (_, benchmark), item in cells.items():
        metrics.setdefault(benchmark, set()).update(item.result.values)
    columns = Counter((benchmark.label, name) for benchmark, names in metrics.items() for name in names)
    return [
        replace(b, suffix=f"[{b.task}]") if any(columns[b.label, name] > 1 for name in metrics[b]) else b
        for b in benchmarks
    ]
