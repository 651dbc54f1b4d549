"""Records of models side by side: which results may be compared, aligned means, and paired tests."""

import math
import os
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from eyechart import stats
from eyechart.errors import ResultError, UsageError, unknown_name
from eyechart.io import digests
from eyechart.io.digests import digest_bytes
from eyechart.io.files import append_cached, cache_root
from eyechart.report.record_columns import Floats, Ints, RecordColumns, Truth, cached_columns, numbered, read_columns
from eyechart.report.result_table import Column, ResultTable
from eyechart.results import Result
from eyechart.results.files import records_file
from eyechart.types import MeanOf, Metric


def _settings(*names: str) -> tuple[tuple[str, ...], ...]:
    return tuple(("job", "settings", name) for name in names)


ASPECTS: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "dataset": (("data", "fingerprint"),),
    "split": (("data", "split"),),
    "samples": (("job", "limit"),),
    "prompts": (
        ("data", "prompts_digest"),
        ("data", "templates_digest"),
        ("data", "classnames_digest"),
        *_settings("prompt", "system_prompt", "load_clfs"),
    ),
    "training": (
        ("data", "other_splits"),
        *_settings("train_split", "val_split", "val_proportion", "folds", "fewshot_k", "seed", "knn_k", "normalize"),
        *_settings("fewshot_epochs", "fewshot_lr", "fewshot_draw", "batch_size"),
    ),
    "metric": _settings("metric"),
    "stored vectors": _settings("store_precision"),
    "task version": _settings("task_version"),
    "judge": (
        ("job", "others", "judge"),
        *(("job", "others", f"judge_{number}") for number in range(2, 10)),
        *_settings("judge", "judge_fallback", "judge_repeats"),
    ),
    "judge prompt": (("details", "judge", "prompt", "digest"),),
    "extractor": _settings("extractor"),
}
"""Aspects that must agree, and where a result holds them."""
_PARENTS = {place[:-1] for places in ASPECTS.values() for place in places}
"""Parents of these fields: if a whole part is equal, its fields need no comparison."""
UNPAIRABLE = frozenset({"dataset", "split"})
"""Aspects that cannot differ on purpose: there would be no common samples."""
_NONE_IS_A_VALUE = {
    ("job", "limit"),
    ("job", "others", "judge"),
    *_settings("folds", "val_split", "val_proportion", "load_clfs", "store_precision"),
}
"""Fields for which None is a value: no limit means all samples, and no judge is a way of judging, too."""


def check_aspects(allowed: Iterable[str]) -> None:
    """Reject aspects that are unknown, or that must not differ."""
    for aspect in allowed:
        if aspect not in ASPECTS:
            raise unknown_name("aspect", aspect, ASPECTS)
        if aspect in UNPAIRABLE:
            raise UsageError(
                "Results that differ in {aspect} have no samples in common and cannot be paired.", aspect=aspect
            )


def differences(first: Result, second: Result) -> list[str]:
    """Name the aspects in which two results of one benchmark differ; empty if they are comparable.

    Aspects that a result does not record cannot be checked; other tools' results record none, but have no records
    either.
    """
    unlike = {parent for parent in _PARENTS if _look_up(first, parent) != _look_up(second, parent)}
    return [
        aspect
        for aspect, places in ASPECTS.items()
        if any(place[:-1] in unlike and _differ(first, second, place) for place in places)
    ]


def differing(table: ResultTable, model: int, benchmark: int) -> list[str]:
    """Name the aspects in which a result differs from its benchmark's best; empty if the two are comparable."""
    results = table.by_benchmark[benchmark]
    leader = next((table.leader(Column(benchmark, metric)) for metric in table.primary[benchmark]), None)
    return [] if leader is None else differences(results[leader], results[model])


def _differ(first: Result, second: Result, place: tuple[str, ...]) -> bool:
    a, b = _look_up(first, place), _look_up(second, place)
    if place in _NONE_IS_A_VALUE:
        return a != b and all(r.job and isinstance(_look_up(r, place[:-1]), Mapping) for r in (first, second))
    return a is not None and b is not None and a != b


def _look_up(result: Result, place: Sequence[str]) -> Any:
    value: Any = getattr(result, place[0])
    for key in place[1:]:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


class RecordsCache:
    """Reads the records of each cell of a table once."""

    def __init__(self, table: ResultTable, *, keep: int = 0, strict: bool = True, allow: Collection[str] = ()) -> None:
        self.table = table
        self.allow = frozenset(allow)
        """Aspects that may differ between comparable results."""
        self.keep = keep
        self.strict = strict
        self.problems: list[str] = []
        """Read errors, if they are not raised: the page omits such records and reports it."""
        self._columns: dict[tuple[int, int], RecordColumns | None] = {}
        self._ids: dict[int, tuple[str, ...]] = {}
        self._alike: dict[tuple[int, int], list[int]] = {}

    def columns(self, model: int, benchmark: int) -> RecordColumns | None:
        """Return the records of one cell as columns; None if it has none."""
        place = (model, benchmark)
        if place not in self._columns:
            found, columns = self.table.cells.get(place), None
            try:
                columns = read_checked(found.result, keep=self.keep) if found else None
            except ResultError as error:
                if self.strict:
                    raise
                self.problems.append(error.message)
            if columns is not None:
                # Equal ids are shared: they take most of the memory, and identical objects need no comparison.
                known = self._ids.setdefault(benchmark, columns.ids)
                columns = replace(columns, ids=known) if columns.ids == known else columns
            self._columns[place] = columns
        return self._columns[place]

    def comparable(self, column: Column) -> dict[int, RecordColumns]:
        """Return the records of a column's best model, and of those comparable with it."""
        results = self.table.by_benchmark[column.benchmark]
        read = {model: self.columns(model, column.benchmark) for model in results}
        leader = self.table.leader(column)
        if leader is None or read[leader] is None:
            return {}
        alike = self._alike.setdefault((column.benchmark, leader), [])
        if not alike:
            alike += [m for m in results if self.allow.issuperset(differences(results[leader], results[m]))]
        return {model: columns for model in alike if (columns := read[model]) is not None}

    def forget(self, benchmark: int) -> None:
        """Drop the records of one benchmark."""
        self._columns = {place: columns for place, columns in self._columns.items() if place[1] != benchmark}
        self._ids.pop(benchmark, None)


LEVEL = 0.95
POWER = 0.8


@dataclass(frozen=True)
class PairedOutcome:
    """Difference of the second model from the first on the same samples."""

    difference: float
    low: float | None
    high: float | None
    """None if there are too few independent units for an interval."""
    p_value: float | None
    """None if there are too few training draws."""
    test: str
    n: int
    units: int
    """Independent units: images."""
    only_first: int | None = None
    only_second: int | None = None
    """Samples that only one of the two gets right, for binary scores."""
    detectable: float | None = None
    """The smallest true difference that this many samples detect four times out of five."""
    draws: int | None = None
    """Training draws of few-shot results: the difference is that of the means over them."""


def paired_test(first: Floats, second: Floats, units: Sequence[str] | None) -> PairedOutcome:
    """Compare two models' values for the same samples, or of few-shot results, training draws x samples."""
    scale = max(1.0, float(np.abs([first, second]).max()))  # the tests expect fractions
    if first.ndim == 2:
        test, (draws, n) = stats.paired_test_over_draws(second / scale, first / scale, level=LEVEL), first.shape
        if test is None:
            return PairedOutcome(float((second - first).mean()), None, None, None, "", n, n, draws=draws)
        return replace(_outcome(test, scale), draws=draws)
    clusters = None if units is None else numbered(units)
    found = _outcome(stats.paired_test(second / scale, first / scale, clusters, level=LEVEL), scale)
    if not all(bool(((values == 0) | (values == 1)).all()) for values in (first, second)):
        return found
    only = stats.discordant(first > 0, second > 0)
    detectable = found.detectable
    if units is None and found.low is not None:  # without an interval no difference is detectable
        detectable = stats.smallest_detectable_difference(first.size, sum(only) / first.size, 1 - LEVEL, POWER)
    return replace(found, only_first=only[0], only_second=only[1], detectable=detectable)


def _outcome(found: stats.PairedTest, scale: float = 1.0) -> PairedOutcome:
    low = high = detectable = None
    if found.interval is not None:
        low, high = (scale * end for end in found.interval)
        z_level, z_power = stats.normal_quantile(0.5 + LEVEL / 2), stats.normal_quantile(POWER)
        detectable = (high - low) / 2 * (z_level + z_power) / z_level
    return PairedOutcome(
        scale * found.difference, low, high, found.p_value, found.test, found.n, found.n_clusters, detectable=detectable
    )


@dataclass(frozen=True)
class AveragePrecision:
    """Mean average precision, a function of class scores and truth that is not a mean over images."""

    of_all_classes: bool
    """Whether a class without positives counts 0; otherwise it does not count."""

    def scale(self, present: Truth) -> float:
        """Return the factor to the mean over classes with positives."""
        return float(np.asarray(present).any(axis=0).mean()) if self.of_all_classes else 1.0

    def value(self, scores: Floats, present: Truth) -> float:
        """Return the metric."""
        return self.scale(present) * stats.mean_average_precision(scores, present)


FUNCTIONS: Mapping[str, AveragePrecision] = {
    "mean_average_precision": AveragePrecision(of_all_classes=False),
    "mean_average_precision_of_all_classes": AveragePrecision(of_all_classes=True),
}
"""Keyed by the name in results."""


TOLERANCE = 1e-6
"""Maximal difference between a metric and the mean of its records, which hold rounded numbers."""
TIES = 1e-3
"""Maximal difference for metrics that depend on order, as rounded scores may tie."""


@dataclass(frozen=True)
class MeanRows:
    """The records whose mean is a metric."""

    ids: tuple[str, ...]
    values: Floats
    units: tuple[str, ...] | None
    """Unit (image) of each record, if records are not independent."""
    groups: tuple[str, ...] | None
    """Groups that count equally, regardless of size."""
    draws: Floats | None = None
    """Values by training draw and record, for few-shot results."""

    def mean(self) -> float:
        """Return the metric."""
        return float((self.values * _weights(self.groups, len(self.ids))).mean())


@dataclass(frozen=True)
class AlignedRows:
    """The records common to several models, in one order."""

    ids: tuple[str, ...]
    values: Floats
    """Models x records; the mean of a row is the model's metric."""
    units: tuple[str, ...] | None
    left_out: int
    """Records for which only some of the models have a value."""
    draws: Floats | None = None
    """Models x training draws x records, if a model is a few-shot result: the draws that all of these have."""


def rows_of(columns: RecordColumns, mean_of: MeanOf) -> MeanRows:
    """Select the records that count for a metric, and their values."""
    numbers = columns.numbers[mean_of.field]
    counts = np.isfinite(numbers) if mean_of.at_most is None else ~np.isnan(numbers)
    for name, wanted in mean_of.where.items():
        counts &= np.array([value == wanted for value in columns.names[name]], bool)
    kept = np.flatnonzero(counts)

    def valued(name: str) -> Floats:
        found = columns.numbers[name][kept]
        return found if mean_of.at_most is None else (found <= mean_of.at_most).astype(np.float64)

    ids = columns.ids if kept.size == len(columns.ids) else tuple(columns.ids[i] for i in kept.tolist())

    def named(field: str) -> tuple[str, ...] | None:
        return tuple(columns.names[field][i] or columns.ids[i] for i in kept) if field else None

    draws = np.stack([valued(name) for name in mean_of.draws]) if mean_of.draws else None
    return MeanRows(ids, valued(mean_of.field), named(mean_of.cluster), named(mean_of.balance), draws)


def align(parts: Sequence[MeanRows]) -> AlignedRows | None:
    """Align the records of several models by id; None if they have none in common."""
    first = parts[0]
    ids, places, left_out = in_common([part.ids for part in parts])
    if not ids:
        return None

    def own(names: tuple[str, ...] | None) -> tuple[str, ...] | None:
        return None if names is None else tuple(names[i] for i in places[0])

    weights = _weights(own(first.groups), len(ids))
    values = np.stack([part.values[place] for part, place in zip(parts, places, strict=True)]) * weights
    drawn = [len(part.draws) for part in parts if part.draws is not None]
    if not drawn:
        return AlignedRows(ids, values, own(first.units), left_out)
    by_draw = [
        np.broadcast_to(part.values if part.draws is None else part.draws[: min(drawn)], (min(drawn), len(part.ids)))
        for part in parts  # the classifier of a model without draws is the same in each
    ]
    draws = np.stack([part[:, place] for part, place in zip(by_draw, places, strict=True)]) * weights
    return AlignedRows(ids, values, own(first.units), left_out, draws)


def in_common(lists: Sequence[tuple[str, ...]]) -> tuple[tuple[str, ...], list[Ints], int]:
    """Return the ids common to all lists, in the order of the first, their positions in each, and how many are not."""
    if all(own is lists[0] or own == lists[0] for own in lists):
        return lists[0], [np.arange(len(lists[0]))] * len(lists), 0
    common = set(lists[0]).intersection(*lists[1:])
    ids = tuple(name for name in lists[0] if name in common)
    lookups = [{name: i for i, name in enumerate(own)} for own in lists]
    places = [np.array([place[name] for name in ids], np.int64) for place in lookups]
    return ids, places, len(set().union(*lists)) - len(ids)


def compare_records(
    one: tuple[Metric, RecordColumns], other: tuple[Metric, RecordColumns]
) -> tuple[tuple[float, float], PairedOutcome, int] | None:
    """Test a metric of two sets of records; None if they have no common samples or do not determine the metric.

    Returns both values on the common samples, the test, and how many samples only one of them has.
    """
    (metric, a), (own, b) = one, other
    function = FUNCTIONS.get(metric.function)
    if metric.mean_of and own.mean_of:
        aligned = align([rows_of(a, metric.mean_of), rows_of(b, own.mean_of)])
        if aligned is None:
            return None
        first, second = aligned.values if aligned.draws is None else aligned.draws
        values = float(first.mean()), float(second.mean())
        return values, paired_test(first, second, aligned.units), aligned.left_out
    ids, (of_a, of_b), left_out = in_common([a.ids, b.ids])
    if not function or own.function != metric.function or not ids:
        return None
    first, second, present = a.scores[of_a], b.scores[of_b], a.present[of_a]
    values = function.value(first, present), function.value(second, present)
    test = stats.paired_average_precision(second, first, present, level=LEVEL)
    return values, _outcome(test, function.scale(present)), left_out


def read_checked(result: Result, *, keep: int = 0) -> RecordColumns | None:
    """Read the records of a result and verify its metrics against them; None without records.

    Raises:
        ResultError: If the file, its records, or a metric that is a mean of them, were modified after the run.
    """
    if result.altered:
        raise ResultError("{path} was modified after it was written.", advice="Rerun the job.", path=result.path)
    columns = cached_columns(result, keep=keep)
    if columns is not None:
        _check_metrics(result, columns)
    return columns


def check_records(result: Result) -> None:
    """Verify the metrics of a result against its records as `read_checked` does, once for each state of them."""
    path = records_file(result)
    found = path.stat() if path is not None and path.is_file() else None  # records are not written through mappings
    times = (found.st_mtime_ns, found.st_ctime_ns) if found else (0, 0)
    state = [found.st_size, *times, found.st_ino, found.st_dev] if found else [0] * 5
    folder, name = os.path.split(os.path.abspath(path or ""))  # noqa: PTH100 - without file system access
    book = cache_root() / "verified" / f"{digest_bytes(os.fsencode(folder)).hex()}.bin"
    mark = digest_bytes(os.fsencode(f"{name}\0{state}\0{result.checksum}")).hex()
    if mark in _verified(book):
        return
    columns = read_columns(result)
    if columns is not None:
        _check_metrics(result, columns)
        if time.time_ns() - max(times) > digests.SETTLED:
            _verified(book).add(mark)
            append_cached(book, mark)


@cache
def _verified(book: Path) -> set[str]:
    """Read the marks of verified results in a folder of results."""
    try:
        return set(book.read_text("ascii").split())
    except (OSError, ValueError):
        return set()


def _check_metrics(result: Result, columns: RecordColumns) -> None:
    """Recompute the metrics that are derived from records."""
    for name, metric in result.values.items():
        try:
            known = None
            if metric.mean_of:
                rows = rows_of(columns, metric.mean_of)
                known = rows.mean() if rows.ids else None
            elif columns.ids and (function := FUNCTIONS.get(metric.function)):
                known = function.value(columns.scores, columns.present)
        except (TypeError, ValueError) as error:
            raise ResultError(
                "{path} is damaged: {name}: {reason}.", path=result.path, name=name, reason=error
            ) from error
        tolerance = TOLERANCE if metric.mean_of else TIES
        if known is not None and not math.isclose(known, metric.value, rel_tol=tolerance, abs_tol=tolerance):
            raise ResultError(
                "{path}: {name} is {value:.6g}, but its records give {known:.6g}.",
                advice="The file was modified after the run: rerun the job, or leave the result out.",
                path=result.path,
                name=name,
                value=metric.value,
                known=known,
            )


def _weights(groups: Sequence[str] | None, count: int) -> Floats:
    """Weight records such that their mean is the mean over groups of each group's mean."""
    if groups is None:
        return np.ones(count)
    places = numbered(groups)
    sizes = np.bincount(places)
    return np.asarray(count / (sizes.size * sizes[places]), np.float64)
