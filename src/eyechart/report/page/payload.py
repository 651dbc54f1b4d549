"""Everything the page shows, as plain values: an overview, one chunk per benchmark, comparisons and blind controls."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from itertools import combinations, product
from typing import Any

import numpy as np

from eyechart.errors import ResultError
from eyechart.io.safe_parse import DAMAGED
from eyechart.io.terminal import chinese
from eyechart.report.collection_means import AVERAGES, average, means_json
from eyechart.report.comparison import Difference, compare_column, correct_for_many
from eyechart.report.judge_summary import judge_lines, judge_table
from eyechart.report.loader import LoadedResult, SkippedFile
from eyechart.report.page.overview import (
    Limits,
    cut,
    describe_benchmark,
    describe_model,
    describe_published,
    describe_result,
    pack,
    rounded,
    short,
)
from eyechart.report.page.sample_lists import Samples, list_samples
from eyechart.report.paired_records import AlignedRows, RecordsCache, align, rows_of
from eyechart.report.record_columns import NO_VALUE, Floats, Ints, RecordColumns, Truth
from eyechart.report.reference import load_publication
from eyechart.report.result_table import Column, ResultTable, benchmark_of, make_table
from eyechart.report.verdict import VerdictBuilder, VerdictCell, separable
from eyechart.results import Result
from eyechart.stats import paired_test
from eyechart.types import RecordForm

SETTING = "blind"


def blind_controls(results: Mapping[int, Result], columns: Mapping[int, RecordColumns]) -> list[dict[str, Any]]:
    """Compare each control of a benchmark with the run of the same model and settings, in total and by category.

    ``gain`` is the accuracy added by the images, with the interval and the p-value of the paired test; ``right`` counts
    the questions answered correctly by both, only with images, only without, and by neither.
    """
    controls: dict[int, str] = {}  # by model, how images are withheld; empty for a run with images
    identities = {}
    for model in columns:
        settings = results[model].job.get("settings")
        if isinstance(settings, Mapping) and SETTING in settings:
            controls[model] = str(settings[SETTING])
            other = {name: value for name, value in settings.items() if name != SETTING}
            identities[model] = [results[model].model_card.get("fingerprint"), other]
    found = []
    for blind, seeing in product(controls, controls):
        metric = results[seeing].values.get("accuracy")
        if not controls[blind] or controls[seeing] or identities[seeing] != identities[blind]:
            continue
        if metric is None or metric.mean_of is None:
            continue
        aligned = align([rows_of(columns[model], metric.mean_of) for model in (seeing, blind)])
        if aligned is None:
            continue
        category = dict(zip(columns[seeing].ids, columns[seeing].names["category"], strict=True))
        names = np.array([category[name] or "" for name in aligned.ids], object)
        found.append(
            {
                "seeing": seeing,
                "blind": blind,
                "how": controls[blind],
                "chance": metric.chance,
                **_gain(aligned, np.arange(len(aligned.ids))),
                "categories": [
                    {"name": cut(name), **_gain(aligned, np.flatnonzero(names == name))}
                    for name in sorted(set(names) - {""})
                ],
            }
        )
    return found


def _gain(aligned: AlignedRows, part: Ints) -> dict[str, Any]:
    seeing, blind = aligned.values[:, part]
    test = paired_test(seeing, blind, None if aligned.units is None else [aligned.units[i] for i in part])
    low, high = test.interval or (None, None)
    can, could = seeing >= 1, blind >= 1
    return {
        "seeing_value": short(float(seeing.mean())),
        "blind_value": short(float(blind.mean())),
        "gain": short(test.difference),
        "low": short(low),
        "high": short(high),
        "p": float(f"{test.p_value:.3g}"),
        "n": len(part),
        "right": [int(both.sum()) for both in (can & could, can & ~could, ~can & could, ~can & ~could)],
    }


CURVE = (1, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 50, 75, 100)
"""The k at which curves are drawn."""
THRESHOLDS = 101
"""Largest number of similarities at which a threshold curve is given."""
MAX_CONFUSIONS = 20_000


def make_chunk(results: Mapping[int, Result], columns: Mapping[int, RecordColumns], limits: Limits) -> dict[str, Any]:
    """Build the chunk of one benchmark, which the page unpacks when it is opened.

    ``columns`` holds the records of the comparable models. Derived figures (per class, confusions, curves) are computed
    from all samples; only the list of samples is truncated.
    """
    chunk: dict[str, Any] = {"results": {str(m): describe(result) for m, result in results.items()}}
    for key in ("prompt_sensitivity", "calibration", "compression"):
        found = {str(m): result.details[key] for m, result in results.items() if result.details.get(key)}
        if found:
            chunk[key] = found
    names = next((r.details["classnames"] for r in results.values() if r.details.get("classnames")), None)
    if names:
        chunk["classnames"] = [cut(name) for name in names]
    form: RecordForm = next((part.form for part in columns.values() if part.ids and part.form), "")
    shown = {m: part for m, part in columns.items() if part.ids and part.form == form}
    if form:
        samples = Samples.align(shown, results)
        chunk["form"] = form
        chunk |= _DERIVED[form](samples) if form in _DERIVED else {}
        chunk["samples"] = list_samples(samples, limits)
    if form == "question":
        chunk["blind"] = blind_controls(results, shown)
    return chunk


def describe(result: Result) -> dict[str, Any]:
    """Return the provenance of a result for display."""
    return {
        "provenance": dict(result.provenance),
        "model_card": dict(result.model_card),
        "data": dict(result.data),
        "counts": dict(result.counts),
        "job": dict(result.job),
        "judges": [cut(line) for line in judge_lines(result)],
        "covers": {name: list(metric.covers) for name, metric in result.values.items() if metric.covers},
        "audit": judge_table(result),
        "notices": [{"count": n.get("count"), "message": cut(n.get("message", ""))} for n in result.notices],
        "failures": [{"id": cut(f.get("id", "")), "reason": cut(f.get("reason", ""))} for f in result.failures[:200]],
        "failed": len(result.failures),
        "file": result.path.name if result.path else "",
    }


def _label_parts(samples: Samples) -> dict[str, Any]:
    columns = samples.columns
    classes = 1 + max(int(part.whole(name).max()) for part in columns.values() for name in ("label", "prediction"))
    parts: dict[str, Any] = {"per_class": {}, "class_counts": {}, "confusion": {}, "curves": {}, "k": list(CURVE)}
    for model, part in columns.items():
        label, rank = part.whole("label"), part.whole("rank")
        counts = np.bincount(label, minlength=classes)
        right = np.bincount(label[rank == 1], minlength=classes)
        recall = np.divide(right, counts, out=np.full(classes, np.nan), where=counts > 0)
        parts["per_class"][str(model)] = rounded(recall)
        parts["class_counts"][str(model)] = counts.tolist()
        parts["confusion"][str(model)] = confusions(label, part.whole("prediction"), classes)
        parts["curves"][str(model)] = {"accuracy": curve(rank, min(classes, 20))}
    return parts


def _labels_parts(samples: Samples) -> dict[str, Any]:
    parts: dict[str, Any] = {"per_class": {}, "class_counts": {}}
    for model, part in samples.columns.items():
        precision = samples.results[model].details.get("per_class_ap") or {}
        counts = part.present.sum(axis=0).tolist()
        parts["per_class"][str(model)] = [precision.get(str(c)) for c in range(len(counts))]
        parts["class_counts"][str(model)] = counts
    return parts


def _ranking_parts(samples: Samples) -> dict[str, Any]:
    curves, thresholds = {}, {}
    for model, part in samples.columns.items():
        from_text, rank, similarity = part.from_text, part.whole("rank"), part.numbers["similarity"]
        images, texts = int((~from_text).sum()), int(from_text.sum())
        ways = {"image retrieval": (from_text, images), "text retrieval": (~from_text, texts)}
        if not images:  # document retrieval
            ways = {"retrieval": (from_text, CURVE[-1])}
        curves[str(model)] = {name: curve(rank[rows], most) for name, (rows, most) in ways.items()}
        answered = {name: threshold_curve(similarity[rows], rank[rows] == 1) for name, (rows, _) in ways.items()}
        thresholds[str(model)] = {name: found for name, found in answered.items() if found}
    gallery = "images" if any("image retrieval" in found for found in curves.values()) else "documents"
    return {"curves": curves, "thresholds": thresholds, "k": list(CURVE), "gallery": gallery}


_DERIVED: Mapping[RecordForm, Callable[[Samples], dict[str, Any]]] = {
    "label": _label_parts,
    "labels": _labels_parts,
    "ranking": _ranking_parts,
}


def curve(ranks: Ints, most: int) -> list[float]:
    """Return the share of ranks up to each k, as far as there is anything to find."""
    if ranks.size == 0:
        return []
    return [round(float(((ranks != NO_VALUE) & (ranks <= k)).mean()), 5) for k in CURVE if k <= most]


def threshold_curve(similarity: Floats, right: Truth) -> dict[str, Any]:
    """Count the queries that are answered, and those answered correctly, if results below a similarity are not shown.

    A query is answered if the similarity of its top result is at least s, and correctly if that result is relevant.
    The s are at most `THRESHOLDS` of the similarities that occur, at evenly spaced positions in their order. Empty if
    the records hold none.
    """
    known = np.sort(similarity[np.isfinite(similarity)])
    if not len(known):
        return {}
    levels = np.unique(known[np.linspace(0, len(known) - 1, THRESHOLDS).round().astype(np.int64)])
    correct = np.sort(similarity[right & np.isfinite(similarity)])
    counts = {
        name: (len(values) - np.searchsorted(values, levels)).tolist()
        for name, values in (("answered", known), ("correct", correct))
    }
    return {"s": levels.tolist(), "queries": len(similarity), **counts}


def confusions(label: Ints, prediction: Ints, classes: int) -> list[list[int]]:
    """Count (label, prediction) pairs off the diagonal, limited to the `MAX_CONFUSIONS` most frequent.

    Packed as two lists: differences between the sorted cell numbers, label x classes + prediction, and counts.
    """
    wrong = (prediction != label) & (prediction != NO_VALUE)
    cells, counts = np.unique(label[wrong] * classes + prediction[wrong], return_counts=True)
    if cells.size > MAX_CONFUSIONS:
        most = np.sort(np.argsort(-counts, kind="stable")[:MAX_CONFUSIONS])
        cells, counts = cells[most], counts[most]
    return [np.diff(cells, prepend=0).tolist(), counts.tolist()]


ALL_PAIRS = 12
"""Up to this many models all pairs are compared; of more, the best by average with each other and with all."""
WORST = 200
"""Mistakes of each result that are shown in detail."""


@dataclass(frozen=True)
class Payload:
    """The parts of the page's data; chunks are packed as soon as they are built, to a fiftieth of their memory."""

    overview: dict[str, Any]
    chunks: list[str]
    pairs: list[dict[str, Any]]
    published: dict[str, Any] = field(default_factory=dict)


def make_payload(
    found: Sequence[LoadedResult],
    *,
    skipped: Sequence[SkippedFile] = (),
    references: Sequence[str] = (),
    title: str = "Eyechart report",
    limits: Limits | None = None,
    version: str = "",
) -> Payload:
    """Turn results, and published ones on request, into the data of the page.

    The records of one benchmark after the other are read once, and everything is derived from them.
    """
    limits = limits or Limits()
    table = make_table([*found, *_matching_published(found, references)])
    limits.results = sum(item.result.record_info.get("form") == "question" for item in table.cells.values())
    cache = RecordsCache(table, keep=WORST, strict=False)
    builder, pairs = VerdictBuilder(cache), PairedLines(cache)
    benchmarks, chunks, judged = [], [], dict[Column, dict[int, VerdictCell]]()
    for b in range(len(table.benchmarks)):
        results = table.by_benchmark[b]
        try:
            primary = [Column(b, metric) for metric in table.primary[b]]
            others = [Column(b, metric) for metric in table.metrics[b] if metric not in table.primary[b]]
            judged |= {column: builder.judge_alone(column) for column in others}
            builder.add(b)
            pairs.add(primary)
            chunk = make_chunk(results, cache.comparable(primary[0]) if primary else {}, limits)
        except DAMAGED as error:
            raise ResultError(
                "The details or records of one of {files} are damaged: {type}: {reason}.",
                advice="Regenerate it, or leave it out.",
                files=", ".join(sorted({str(result.path) for result in results.values()})),
                type=type(error).__name__,
                reason=error,
            ) from error
        images = len(chunk.get("samples", {}).get("thumbnails", ()))
        benchmarks.append(describe_benchmark(table, b) | {"form": chunk.get("form", ""), "images": images})
        chunks.append(pack(chunk))
        cache.forget(b)
    verdict = builder.verdict()
    for (m, index), cell in verdict.cells.items():
        judged.setdefault(verdict.columns[index], {})[m] = cell
    for b, benchmark in enumerate(benchmarks):
        columns = [Column(b, metric) for metric in table.metrics[b]]
        benchmark["marks"] = [_marks(table, c, judged[c], paired=c in builder.tests) for c in columns]
    warnings: dict[tuple[str, str], int] = {}
    overview = {
        "title": cut(title, 200),
        "made": datetime.now(UTC).isoformat(timespec="minutes"),
        "version": version,
        "averages": [{"key": key, "heading": heading, "how": how} for key, (heading, how) in AVERAGES.items()],
        "models": [describe_model(table, m) for m in range(len(table.models))],
        "benchmarks": benchmarks,
        "results": [describe_result(table, m, b, warnings) for m, b in sorted(table.cells)],
        "warnings": list(warnings),
        "verdict": {
            "sentences": [{"en": cut(text, 1000), "zh": cut(chinese(text), 1000)} for text in verdict.sentences],
            "averages": {m: asdict(own) for m, own in verdict.averages.items()},
        },
        "ranking": verdict.ranking and asdict(verdict.ranking),
        "collections": means_json(table),
        "published": list(references),
        "notices": [
            *_first([str(cut(item.reason, 300)) for item in skipped]),
            *_first(table.notices),
            *_first(cache.problems),
        ],
        "pairs": len(pairs.lines),
    }
    return Payload(overview, chunks, pairs.described(), describe_published(found, references))


MANY_PUBLISHED = 12
"""Up to this many published models alone are shown as a matrix; more only in their own view."""


def _matching_published(found: Sequence[LoadedResult], references: Sequence[str]) -> list[LoadedResult]:
    """Return the published results of the benchmarks found; a few models also without any."""
    wanted = {benchmark_of(item.result) for item in found}
    published = [item for name in dict.fromkeys(references) for item in load_publication(name).found]
    if wanted:
        return [item for item in published if benchmark_of(item.result) in wanted]
    few = len({(item.argument, item.result.model, item.result.pretrained) for item in published}) <= MANY_PUBLISHED
    return published if few else []


class PairedLines:
    """Collects, benchmark by benchmark, the differences between pairs of rows."""

    def __init__(self, cache: RecordsCache) -> None:
        self.cache, table = cache, cache.table
        self.lines: dict[tuple[int, int], list[Difference]] = {}
        models = sorted({m for (m, _), found in table.cells.items() if found.result.record_info})
        self.pairs = list(combinations(models, 2))
        if len(models) > ALL_PAIRS:
            mean = average(table, table.columns())
            sign = -1 if mean.lower_is_better else 1
            order = sorted(models, key=lambda m: sign * (mean.values[m] or 0.0), reverse=True)
            top = set(order[:ALL_PAIRS])
            self.pairs = [pair for pair in self.pairs if top.issuperset(pair) or order[0] in pair]

    def add(self, columns: Sequence[Column]) -> None:
        """Add one benchmark by its metrics, for the models comparable with its best."""
        comparable = self.cache.comparable(columns[0]) if columns else {}
        for column, pair in product(columns, self.pairs):
            if comparable.keys() >= set(pair) and (line := compare_column(self.cache, column, pair)):
                self.lines.setdefault(pair, []).append(line)

    def described(self) -> list[dict[str, Any]]:
        """Return the differences as plain values."""
        place = {benchmark: i for i, benchmark in enumerate(self.cache.table.benchmarks)}
        return [
            {"a": a, "b": b, "lines": [_difference(line, place[line.benchmark]) for line in correct_for_many(lines)]}
            for (a, b), lines in self.lines.items()
        ]


def _marks(table: ResultTable, column: Column, cells: Mapping[int, VerdictCell], *, paired: bool) -> dict[str, Any]:
    """Return the best models of a column, those not separable from the best, those at chance, and the test, if any."""
    marks = {mark: [m for m, cell in cells.items() if cell.mark == mark] for mark in ("best", "tied")}
    chance = [m for m, cell in cells.items() if cell.above_chance is False]
    if any(marks.values()):
        how = "paired" if paired else "overlap"
        return {**marks, "chance": chance, "how": how, "ahead": separable(cells.values())}
    return {"best": table.best(column, without=chance), "tied": [], "chance": chance, "how": "", "ahead": False}


def _difference(line: Difference, benchmark: int) -> dict[str, Any]:
    numbers = {"first": line.first, "second": line.second, **asdict(line.paired), "p": None}
    if line.p_holm is not None:
        numbers["p"] = float(f"{line.p_holm:.3g}")
    known = {"b": benchmark, "metric": line.metric, "verdict": line.verdict, "left_out": line.left_out}
    return known | {key: short(value) if isinstance(value, float) else value for key, value in numbers.items()}


def _first(lines: Sequence[str], most: int = 20) -> list[str]:
    more = len(lines) - most
    return [*lines[:most], *([f"... and {more} more."] if more > 0 else [])]
