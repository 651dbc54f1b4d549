"""Models x benchmarks: the one source of every table, in `build` and on the page, with named rows."""

import re
from collections import Counter
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from itertools import chain
from typing import Any

from eyechart.benchmarks import benchmark_name
from eyechart.languages import canonical
from eyechart.messages import UserMessage
from eyechart.report.loader import OURS, PUBLISHED, LoadedResult
from eyechart.results import Result
from eyechart.results.views import is_fraction, level
from eyechart.types import Metric, digest_json


@dataclass(frozen=True)
class ModelRow:
    """A row: a model in one configuration, run by one tool."""

    name: str
    pretrained: str
    origin: str = OURS
    suffix: str = ""
    """Distinguishes it from other rows of the same model."""

    @property
    def label(self) -> str:
        """The row's name on one line."""
        pretrained = "" if self.pretrained == self.name else self.pretrained
        return " ".join(part for part in (self.name, pretrained, self.suffix) if part)


def name_rows(found: Sequence[LoadedResult], benchmarks: Sequence[Hashable]) -> tuple[list[ModelRow], list[str]]:
    """Assign each result to a row; also return notices about models with several names.

    A model that was loaded under several names is one row. Runs of one model on the same benchmark are distinguished by
    the folders given as arguments, else by the settings in which they differ from the usual ones, else by the files
    given as arguments.
    """
    names, notices = _one_name_each(found)
    models = [(item.origin, *names[item.result.model, item.result.pretrained]) for item in found]
    given = ["" if item.argument == str(item.result.path) else item.argument for item in found]
    folders = _where_they_meet(models, benchmarks, given)
    runs: list[tuple[str, ...]] = [(*model, *folder) for model, folder in zip(models, folders, strict=True)]
    settings = _what_differs(runs, found, benchmarks)
    runs = [(*run, *differs) for run, differs in zip(runs, settings, strict=True)]
    files = _where_they_meet(runs, benchmarks, [item.argument for item in found])
    rows = []
    for (origin, name, pretrained), *parts in zip(models, folders, settings, files, strict=True):
        words = [*([] if origin == OURS else [origin]), *chain.from_iterable(parts)]
        rows.append(ModelRow(name, pretrained, origin, f"[{', '.join(words)}]" if words else ""))
    return rows, notices


def _where_they_meet(
    runs: Sequence[tuple[str, ...]], benchmarks: Sequence[Hashable], sources: Sequence[str]
) -> list[tuple[str, ...]]:
    """Return the source of each result whose run has results of several sources in any benchmark."""
    given: dict[tuple[tuple[str, ...], Hashable], set[str]] = {}
    for run, benchmark, source in zip(runs, benchmarks, sources, strict=True):
        given.setdefault((run, benchmark), set()).add(source)
    clashing = {run for (run, _), several in given.items() if len(several) > 1}
    return [(source,) if source and run in clashing else () for run, source in zip(runs, sources, strict=True)]


Name = tuple[str, str]
"""A model and its weights."""


def _one_name_each(found: Sequence[LoadedResult]) -> tuple[dict[Name, Name], list[str]]:
    """Return the shortest name of the same model for each name, and a notice for each model with several.

    Models are the same if they have one fingerprint and were run alone: with further models or a control, or if a
    result does not record the name under which the model was loaded, its name may refer to a combination of models.
    """
    groups: dict[Name, set[Name]] = {}
    by_fingerprint: dict[str, Name] = {}
    for item in found:
        result, job = item.result, item.result.job
        name = (result.model, result.pretrained)
        group = groups.setdefault(name, {name})
        fingerprint = str(result.model_card.get("fingerprint") or "")
        if fingerprint and item.origin == OURS and job.get("model") == result.model and not job.get("others"):
            other = groups[by_fingerprint.setdefault(fingerprint, name)]
            if other is not group:
                other |= group
                groups.update(dict.fromkeys(group, other))
    shortest = {name: min(group, key=lambda n: (len(ModelRow(*n).label), n)) for name, group in groups.items()}
    notices: list[str] = [
        UserMessage(
            "{several} are the same model (weights, transform and precision): one row, {label}.",
            several=" and ".join(sorted(ModelRow(*n).label for n in groups[name])),
            label=ModelRow(*name).label,
        )
        for name in dict.fromkeys(shortest.values())
        if len(groups[name]) > 1
    ]
    return shortest, notices


ADDITIONS = frozenset({"metrics", "prompt_sensitivity", "save_clf"})
"""Settings that add to the report without changing any number."""
FOLLOWS: Mapping[str, tuple[str, ...]] = {
    "data": ("split", "limit", "reader"),
    "weights": ("model type", "precision"),
    "transform": ("model type", "precision", "weights"),
    "prompts": ("templates",),
}
"""Aspects that necessarily differ if one of the others does, and are then omitted."""
_DIGEST = re.compile(r"[0-9a-f]{32,64}")
_LONGEST = 40


def _what_differs(
    rows: Sequence[Hashable], found: Sequence[LoadedResult], benchmarks: Sequence[Hashable]
) -> list[tuple[str, ...]]:
    """Describe for each result how its settings differ from the usual run of its model on its benchmark.

    The usual run has the settings of most runs of the model, else all samples, the fewest flags or the earliest date.
    """
    cells: dict[Hashable, list[int]] = {}
    models: dict[Hashable, list[int]] = {}
    for i, (row, benchmark) in enumerate(zip(rows, benchmarks, strict=True)):
        cells.setdefault((row, benchmark), []).append(i)
        models.setdefault(row, []).append(i)

    @cache
    def usual(row: Hashable) -> Counter[tuple[str, str]]:
        return Counter(pair for i in models[row] for pair in settings_of(found[i].result).items())

    def unusual(i: int) -> tuple[int, bool, int, int, str]:
        result, own = found[i].result, settings_of(found[i].result)
        known = {word.rstrip("s") for name in own for word in name.split()}  # a device, say, changes no number
        flags = [flag.split("-") for flag in re.findall(r" --([\w-]+)", str(result.provenance.get("command", "")))]
        named = sum(any(word.rstrip("s") in known for word in flag) for flag in flags)
        return -sum(usual(rows[i])[pair] for pair in own.items()), bool(own["limit"]), named, len(flags), _date(result)

    said: list[tuple[str, ...]] = [()] * len(found)
    for members in cells.values():
        runs = {i: settings_of(found[i].result) for i in members if found[i].result.job} if len(members) > 1 else {}
        base = runs[min(runs, key=unusual)] if runs else {}
        for i, settings in runs.items():
            told = _differences(base, settings)
            alike = [other for other in runs.values() if _differences(base, other) == told]
            said[i] = told if all(other == settings for other in alike) else _differences(base, settings, {})
    return said


def settings_of(result: Result) -> dict[str, str]:
    """Return the settings behind a number, as short texts: everything that may differ between two runs."""
    job, card, data = result.job, result.model_card, result.data
    settings, others = (part if isinstance(part := job.get(key), Mapping) else {} for key in ("settings", "others"))
    known: dict[str, Any] = {
        "model type": job.get("model_type"),
        "precision": card.get("precision"),
        "weights": card.get("weights_digest"),
        "transform": card.get("transform"),
        "split": data.get("split"),
        "limit": job.get("limit"),
        "reader": job.get("reader"),
        "data": data.get("fingerprint"),
        "caption cleaning": job.get("caption_cleaning"),
        "templates": result.details.get("templates"),
        **{str(name).replace("_", " "): value for name, value in settings.items() if name not in ADDITIONS},
        **{str(part): what for part, what in others.items()},
    }
    return {name: _short(value) for name, value in known.items()}


def _differences(
    base: Mapping[str, str], own: Mapping[str, str], follows: Mapping[str, tuple[str, ...]] = FOLLOWS
) -> tuple[str, ...]:
    differ = [name for name in dict.fromkeys((*base, *own)) if base.get(name, "") != own.get(name, "")]
    told = [name for name in differ if not any(cause in differ for cause in follows.get(name, ()))]
    return tuple(f"{name} {own[name]}" if own.get(name) else f"no {name}" for name in told)


def _short(value: Any) -> str:
    """Format a setting for a label; long values are replaced by their digest."""
    if value is None or value is False:
        return ""
    if value is True:
        return "on"
    several = list(map(str, value)) if isinstance(value, list | tuple) else []
    text = " ".join(" ".join(several or [str(value)]).split()) if not isinstance(value, Mapping) else ""
    if _DIGEST.fullmatch(text):
        return text[:8]
    if text and len(text) <= _LONGEST:
        return text
    first = f"{several[0]} and {len(several) - 1} more, " if several and len(several[0]) <= _LONGEST else ""
    return first + digest_json(value)[:8]


def _date(result: Result) -> str:
    return str(result.provenance.get("date", ""))


@dataclass(frozen=True)
class BenchmarkColumn:
    """A dataset evaluated by a task in one language."""

    dataset: str
    task: str
    language: str = "en"
    measures: str = field(default="", compare=False)
    """What the task measures, in a word: tables group and average by it."""
    suffix: str = field(default="", compare=False)
    """Distinguishes benchmarks whose columns would have the same name."""

    @property
    def label(self) -> str:
        """The benchmark's name on one line; English is implied."""
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
    cells: Mapping[tuple[int, int], LoadedResult]
    """(model, benchmark) -> its result."""
    replaced: tuple[LoadedResult, ...] = ()
    """Older results of the same run, which are not shown."""
    names: tuple[str, ...] = ()
    """Notices about models with several names."""

    @property
    def notices(self) -> list[str]:
        """Notices about hidden results and about results that may not belong together."""
        found = list(self.names)
        for one in (item.result for item in self.replaced):
            message = UserMessage(
                "{label} on {dataset} ({language}) occurs more than once: the newest result is shown, not {path}."
                if one.provenance.get("date")
                else "{label} on {dataset} ({language}) occurs more than once: the last result is shown, not {path}, "
                "which has no date.",
                label=ModelRow(one.model, one.pretrained).label,
                dataset=one.dataset,
                language=one.language,
                path=one.path,
            )
            found.append(message)
        forms: dict[int, dict[str, Result]] = {}  # by model, one result for each of its weights and precisions
        for (model, _), item in sorted(self.cells.items(), key=lambda cell: cell[0]):
            card = item.result.model_card
            if card.get("weights_digest"):
                form = str((card["weights_digest"], card.get("precision")))
                forms.setdefault(model, {}).setdefault(form, item.result)
        several = "{label} is not the same model in all of its results (weights or precision): {values}."
        for model, results in forms.items():
            if len(results) > 1:
                paths = ", ".join(str(result.path) for result in results.values())
                found.append(UserMessage(several, label=self.models[model].label, values=paths))
        for b, benchmark in enumerate(self.benchmarks):
            mixed = []  # metrics that some results give as a fraction and others apparently as per cent
            for name in self.metrics[b]:
                values = self.metrics_in(Column(b, name)).values()
                fractions = not any(metric.points or metric.lower_is_better for metric in values)
                if fractions and len({metric.value > 1 for metric in values}) > 1:
                    mixed.append(name)
            if mixed:
                text = "{label}: {names}: some values are fractions, others are larger than 1. Divide per cent by 100."
                found.append(UserMessage(text, label=benchmark.label, names=", ".join(mixed)))
        return found

    @cached_property
    def by_benchmark(self) -> dict[int, dict[int, Result]]:
        """Results of each benchmark by model."""
        groups: dict[int, dict[int, Result]] = {}
        for (model, benchmark), found in sorted(self.cells.items(), key=lambda item: item[0]):
            groups.setdefault(benchmark, {})[model] = found.result
        return groups

    def spellings(self, benchmark: int) -> list[str]:
        """List the names that results use for a benchmark's dataset, if they differ from the one shown."""
        written = {result.dataset for result in self.by_benchmark[benchmark].values()}
        return sorted(written) if written != {self.benchmarks[benchmark].dataset} else []

    @cached_property
    def primary(self) -> dict[int, tuple[str, ...]]:
        """Primary metrics of each benchmark."""
        return {b: primary_metrics(list(results.values())) for b, results in self.by_benchmark.items()}

    @cached_property
    def metrics(self) -> dict[int, list[str]]:
        """Metrics that any result of each benchmark has, in natural order."""
        names = {b: {name for r in results.values() for name in r.values} for b, results in self.by_benchmark.items()}
        return {b: sorted(found, key=natural) for b, found in names.items()}

    def columns(self, metric: str | None = None) -> list[Column]:
        """List the columns of the primary metrics, or of one metric wherever it exists."""
        if metric is None:
            return [Column(b, name) for b in range(len(self.benchmarks)) for name in self.primary[b]]
        return [Column(b, metric) for b in range(len(self.benchmarks)) if metric in self.metrics[b]]

    def metrics_in(self, column: Column) -> dict[int, Metric]:
        """Return the metric of a column for each model that has it."""
        results = self.by_benchmark[column.benchmark].items()
        return {model: result.values[column.metric] for model, result in results if column.metric in result.values}

    def values(self, column: Column) -> list[float | None]:
        """Return the numbers of a column; None for a model without one."""
        found = self.metrics_in(column)
        return [found[m].value if m in found else None for m in range(len(self.models))]

    def lower_is_better(self, column: Column) -> bool:
        """Whether lower values of a column are better."""
        return any(metric.lower_is_better for metric in self.metrics_in(column).values())

    def in_per_cent(self, column: Column) -> bool:
        """Whether a column's numbers are fractions, displayed as per cent."""
        return all(is_fraction(metric) for metric in self.metrics_in(column).values())

    def contestants(self, column: Column) -> dict[int, Metric]:
        """Return the candidates for the best of a column: published models only if there are no others."""
        found = self.metrics_in(column)
        return {m: metric for m, metric in found.items() if self.models[m].origin != PUBLISHED} or found

    def leader(self, column: Column) -> int | None:
        """Return the first model with the best value of a column."""
        sign = -1 if self.lower_is_better(column) else 1
        found = self.contestants(column)
        return max(found, key=lambda model: sign * found[model].value, default=None)

    def best(self, column: Column, without: Collection[int] = ()) -> list[int]:
        """Return the models with the best value of a column; none for a single value."""
        found = {m: metric.value for m, metric in self.contestants(column).items() if m not in without}
        top = (min if self.lower_is_better(column) else max)(found.values(), default=None)
        return [m for m, value in found.items() if value == top] if len(found) > 1 else []

    def known(self, column: Column, name: str) -> float | None:
        """Return ``chance`` or ``best`` of a column from the first result that has it, as it belongs to the dataset."""
        levels = (getattr(metric, name) for metric in self.metrics_in(column).values())
        return next((level for level in levels if level is not None), None)


def make_table(found: Sequence[LoadedResult]) -> ResultTable:
    """Arrange results as models x benchmarks; of several results of the same run the newest counts."""
    columns = [benchmark_of(item.result) for item in found]
    named, notices = name_rows(found, columns)
    cells: dict[tuple[ModelRow, BenchmarkColumn], LoadedResult] = {}
    replaced = []
    dated = sorted(zip(found, named, columns, strict=True), key=lambda one: _date(one[0].result))
    for item, row, column in dated:
        if (row, column) in cells:
            replaced.append(cells[row, column])
        cells[row, column] = item
    models = sorted({model for model, _ in cells}, key=lambda model: (model.origin != OURS, natural(model.label)))
    benchmarks = list(dict.fromkeys(benchmark for _, benchmark in cells))
    sizes = Counter(benchmark.measures for benchmark in benchmarks)
    benchmarks.sort(
        key=lambda b: (-sizes[b.measures], b.measures, natural(b.dataset), b.task, b.language != "en", b.language)
    )
    # Benchmarks of one dataset that share a metric are told apart by their tasks.
    metrics: dict[BenchmarkColumn, set[str]] = {}
    for (_, benchmark), item in cells.items():
        metrics.setdefault(benchmark, set()).update(item.result.values)
    shared = Counter((benchmark.label, name) for benchmark, names in metrics.items() for name in names)
    benchmarks = [
        replace(b, suffix=f"[{b.task}]") if any(shared[b.label, name] > 1 for name in metrics[b]) else b
        for b in benchmarks
    ]
    rows, places = {m: i for i, m in enumerate(models)}, {b: i for i, b in enumerate(benchmarks)}
    placed = {(rows[model], places[benchmark]): item for (model, benchmark), item in cells.items()}
    return ResultTable(tuple(models), tuple(benchmarks), placed, tuple(replaced), tuple(notices))


def benchmark_of(result: Result) -> BenchmarkColumn:
    """Return the canonical benchmark, whatever the tool's spelling: vtab_pets, wds/vtab/pets or pets, zh or cn."""
    language, prefixed = canonical(result.language), result.dataset.startswith("wds")
    read_by_catalogue = result.data.get("benchmark", None if prefixed else result.dataset)
    whole = result.job.get("limit") is None or not prefixed
    samples = result.counts.get("listed") if not read_by_catalogue and whole else None
    name = benchmark_name(result.dataset, split=str(result.data.get("split") or ""), samples=samples, language=language)
    return BenchmarkColumn(name, result.task, language, str(result.data.get("measures", "")))


def primary_metrics(results: Sequence[Result]) -> tuple[str, ...]:
    """Choose a benchmark's primary metrics: of those that its results name, the ones that most of them have.

    A result without primary metrics counts for its first one.
    """
    named = Counter(result.primary or tuple(result.values)[:1] for result in results)

    def fit(metrics: tuple[str, ...]) -> tuple[int, int, list[list[tuple[int, str]]]]:
        having = sum(all(name in result.values for name in metrics) for result in results)
        return -having, -named[metrics], [natural(name) for name in metrics]

    return min((metrics for metrics in named if metrics), key=fit, default=())


AS_WRONG = ("counted as wrong", "scored as far as they go")
LOST = {"failed": "{n} failed", "left_out": "{n} left out", "unreadable": "{n} unreadable", "cut": "{n} truncated"}
"""Reasons for lost samples, by their key in ``counts``; answers that were ``cut`` at the token limit are scored."""


def lost_samples(result: Result) -> list[str]:
    """Describe the lost samples; if they count as wrong, with the worst and best case of the first metric."""
    failed = max(result.counts.get("failed", 0), len(result.failures))
    counts = {**result.counts, "failed": failed}
    lost: list[str] = [UserMessage(words, n=counts[key]) for key, words in LOST.items() if counts.get(key, 0) > 0]
    for name in (*result.primary, *result.values):
        metric = result.values[name]
        if metric.worst_case is not None and metric.best_case is not None:
            wrong, right = level(metric, metric.worst_case), level(metric, metric.best_case)
            text = "counted as wrong: {metric} {low} if all are wrong, {high} if right"
            if len(lost) == 1 and counts.get("cut"):
                text = "scored as far as they go: {metric} {low} if all are wrong, {high} if right"
            return [*lost, UserMessage(text, metric=name, low=wrong, high=right)]
    return lost


def natural(text: str) -> list[tuple[int, str]]:
    """Sort key under which recall@5 comes before recall@10."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d{1,18})", text)]


def metric_label(table: ResultTable, column: Column) -> str:
    """Abbreviate a metric as in papers: T→I is image retrieval (text query), I→T text retrieval, ↓ lower is better."""
    label = _SHORT.get(column.metric, column.metric)
    for long, short in _SHORTER.items():
        label = label.replace(long, short)
    return f"{label} ↓" if table.lower_is_better(column) else label


_SHORT = {"mean_average_precision": "mAP", "mean_per_class_recall": "mean recall"}
_SHORTER = {"image_retrieval_recall@": "T→I R@", "text_retrieval_recall@": "I→T R@"}
