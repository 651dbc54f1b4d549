"""Models x benchmarks: the one source of every table, in ``build`` and on the page."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from eyechart.languages import canonical
from eyechart.report.load import OURS, Found
from eyechart.results import Result

KINDS: Mapping[str, str] = {
    "zeroshot_classification": "classification",
    "zeroshot_retrieval": "retrieval",
    "linear_probe": "probe",
    "logistic_probe": "probe",
    "knn": "probe",
    "clustering": "clustering",
    "visual_sts": "similarity",
    "image_caption_selection": "selection",
    "captioning": "captioning",
    "image_caption": "captioning",
    "vlmevalkit": "questions",
}
"""What a task measures, for grouping and for averages by kind."""

MAIN_METRICS = (
    ("lp_acc1",),
    ("knn_acc1",),
    ("acc1",),
    ("mean_average_precision",),
    ("image_retrieval_recall@{k}", "text_retrieval_recall@{k}"),
    ("acc",),
    ("accuracy",),
    ("Overall",),
    ("main_score",),
    ("ndcg_at_10",),
    ("nmi",),
    ("spearman",),
    ("CIDEr",),
    ("score",),
)
"""The metric that stands for a benchmark unless its results name another: the first of these that it has."""


@dataclass(frozen=True)
class Model:
    """A row: a model in one form, from one tool."""

    name: str
    pretrained: str
    origin: str = OURS
    suffix: str = ""
    """Tells rows apart that would have the same name."""

    @property
    def label(self) -> str:
        """Name the row in one line."""
        pretrained = "" if self.pretrained == self.name else self.pretrained
        return " ".join(part for part in (self.name, pretrained, self.suffix) if part)


@dataclass(frozen=True)
class Benchmark:
    """A dataset read by a task in one language."""

    dataset: str
    task: str
    language: str = "en"

    @property
    def kind(self) -> str:
        """Say what it measures."""
        return KINDS.get(self.task, self.task.replace("_", " "))

    @property
    def label(self) -> str:
        """Name it in one line; English goes without saying."""
        return self.dataset if self.language == "en" else f"{self.dataset} ({self.language})"


@dataclass(frozen=True)
class Column:
    """One metric of one benchmark."""

    benchmark: int
    metric: str


@dataclass(frozen=True)
class Table:
    """Results by row and benchmark."""

    models: tuple[Model, ...]
    benchmarks: tuple[Benchmark, ...]
    cells: Mapping[tuple[int, int], Found]
    """(model, benchmark) -> its result."""
    replaced: tuple[Found, ...] = ()
    """Older results of the same model and benchmark, which are not shown."""
    main: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    """The metrics that stand for each benchmark."""

    def value(self, model: int, column: Column) -> float | None:
        """Return one number, or None if there is none."""
        found = self.cells.get((model, column.benchmark))
        return None if found is None else found.result.metrics.get(column.metric)

    def interval(self, model: int, column: Column) -> tuple[float, float] | None:
        """Return the interval that the result gives for one number."""
        found = self.cells.get((model, column.benchmark))
        return None if found is None else found.result.intervals.get(column.metric)

    def results_of(self, benchmark: int) -> dict[int, Result]:
        """Return a benchmark's results by model."""
        return self._by_benchmark.get(benchmark, {})

    @cached_property
    def _by_benchmark(self) -> dict[int, dict[int, Result]]:
        groups: dict[int, dict[int, Result]] = {}
        for (model, benchmark), found in sorted(self.cells.items(), key=lambda item: item[0]):
            groups.setdefault(benchmark, {})[model] = found.result
        return groups

    def metrics_of(self, benchmark: int) -> list[str]:
        """List the metrics that any result of a benchmark has, sorted as people count."""
        return sorted({name for result in self.results_of(benchmark).values() for name in result.metrics}, key=natural)

    def columns(self, metric: str | None = None) -> list[Column]:
        """List the columns of the main metrics, or of one metric wherever it exists."""
        if metric is None:
            return [Column(b, name) for b in range(len(self.benchmarks)) for name in self.main[b]]
        return [Column(b, metric) for b in range(len(self.benchmarks)) if metric in self.metrics_of(b)]


def make_table(found: Sequence[Found]) -> Table:
    """Arrange results as models x benchmarks; of several results for one cell the newest stands."""
    groups = _suffixes(found)
    cells: dict[tuple[Model, Benchmark], Found] = {}
    replaced = []
    for item in sorted(found, key=lambda item: str(item.result.provenance.get("date", ""))):
        result = item.result
        model = Model(result.model, result.pretrained, item.origin, groups(item))
        place = (model, canonical_benchmark(result.dataset, result.task, result.language))
        if place in cells:
            replaced.append(cells[place])
        cells[place] = item
    models = sorted({model for model, _ in cells}, key=lambda model: (model.origin != OURS, natural(model.label)))
    order = {kind: number for number, kind in enumerate(KINDS.values())}
    benchmarks = sorted(
        {benchmark for _, benchmark in cells},
        key=lambda b: (order.get(b.kind, 99), natural(b.dataset), b.language != "en", b.language),
    )
    rows, places = {m: i for i, m in enumerate(models)}, {b: i for i, b in enumerate(benchmarks)}
    placed = {(rows[model], places[benchmark]): item for (model, benchmark), item in cells.items()}
    main = {
        i: main_metrics([item.result for (_, b), item in sorted(placed.items(), key=lambda x: x[0]) if b == i])
        for i in range(len(benchmarks))
    }
    return Table(tuple(models), tuple(benchmarks), placed, tuple(replaced), main)


def canonical_benchmark(dataset: str, task: str, language: str) -> Benchmark:
    """Name a benchmark in one way, whatever the tool that ran it wrote: vtab_pets, wds/vtab/pets, zh or cn."""
    name = dataset.removeprefix("wds/").removeprefix("wds_")
    if name.startswith("vtab_"):
        name = "vtab/" + name.removeprefix("vtab_")
    return Benchmark(name, task, canonical(language))


def main_metrics(results: Sequence[Result]) -> tuple[str, ...]:
    """Choose the metrics that stand for a benchmark: those its results name, else those that most of them have."""
    named = [result.data["main_metric"] for result in results if result.data.get("main_metric")]
    if named:
        first = named[0]
        return (first,) if isinstance(first, str) else tuple(first)
    counts = Counter(name for result in results for name in result.metrics)
    for patterns in MAIN_METRICS:
        present = _fill_k(patterns, counts)
        if present:
            return present
    return tuple(sorted(counts, key=lambda name: (-counts[name], natural(name)))[:1])


def natural(text: str) -> list[tuple[int, str]]:
    """Sort key under which recall@5 comes before recall@10."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d{1,18})", text)]


def is_fraction(values: Iterable[float | None]) -> bool:
    """Tell whether numbers are fractions, which people read as per cent."""
    return all(0 <= value <= 1 for value in values if value is not None)


def _fill_k(patterns: Sequence[str], counts: Mapping[str, int]) -> tuple[str, ...]:
    """Return the patterns' metrics; where they have a k, with the k that most results have, the smallest of those."""
    if "{k}" not in patterns[0]:
        return tuple(patterns) if patterns[0] in counts else ()
    prefix = patterns[0].partition("{k}")[0]
    ks = {
        int(name[len(prefix) :]): n for name, n in counts.items() if re.fullmatch(re.escape(prefix) + r"\d{1,9}", name)
    }
    if not ks:
        return ()
    k = min(ks, key=lambda k: (-ks[k], k))
    return tuple(name for name in (pattern.format(k=k) for pattern in patterns) if name in counts)


def _suffixes(found: Sequence[Found]) -> Callable[[Found], str]:
    """Tell rows apart: by tool if it is not ours, by argument where two hold a result of the same model."""
    identities: dict[tuple[str, ...], set[str]] = {}
    for item in found:
        identities.setdefault((item.origin, *item.result.identity), set()).add(item.argument)
    clashing = {
        (item.origin, item.result.model, item.result.pretrained)
        for item in found
        if len(identities[item.origin, *item.result.identity]) > 1
    }

    def suffix(item: Found) -> str:
        parts = [] if item.origin == OURS else [item.origin]
        if (item.origin, item.result.model, item.result.pretrained) in clashing:
            parts.append(item.argument)
        return f"[{', '.join(parts)}]" if parts else ""

    return suffix
