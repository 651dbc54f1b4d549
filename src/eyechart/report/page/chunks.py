"""What the page needs of one benchmark: its samples as columns, figures per class, curves, and where numbers came from.

Each benchmark becomes one chunk that the page unpacks when it is opened. Everything derived (per class, confusions,
curves) is made here from all samples; only the list of samples is cut when there are too many.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from eyechart.report.judges import judge_lines, judge_table
from eyechart.report.page.blind import blind_controls
from eyechart.report.page.limits import Limits, cut, rounded
from eyechart.report.page.samples import Samples, list_samples
from eyechart.report.records import NO_VALUE, Ints, RecordColumns
from eyechart.results import Result
from eyechart.types import RecordForm

CURVE = (1, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 50, 75, 100)
"""The k at which curves are drawn."""
MAX_CONFUSIONS = 20_000


def make_chunk(results: Mapping[int, Result], columns: Mapping[int, RecordColumns], limits: Limits) -> dict[str, Any]:
    """Make the chunk of one benchmark; ``columns`` are the records of the models that may be compared."""
    chunk: dict[str, Any] = {"results": {str(m): describe(result) for m, result in results.items()}}
    for key in ("prompt_sensitivity", "calibration"):
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
    """Return where a number came from, for people."""
    return {
        "provenance": dict(result.provenance),
        "model_card": dict(result.model_card),
        "data": dict(result.data),
        "counts": dict(result.counts),
        "job": dict(result.job),
        "judges": [cut(line) for line in judge_lines(result)],
        "audit": (table := judge_table(result)) and asdict(table),
        "notices": [{"count": n.get("count"), "message": cut(n.get("message", ""))} for n in result.notices],
        "failures": [{"id": cut(f.get("id", "")), "reason": cut(f.get("reason", ""))} for f in result.failures[:200]],
        "failed": len(result.failures),
        "file": result.path.name if result.path else "",
    }


# ------------------------------------------------------------------------------------------ derived figures


def _label_parts(samples: Samples) -> dict[str, Any]:
    columns = samples.columns
    classes = 1 + max(int(part.whole(name).max()) for part in columns.values() for name in ("label", "prediction"))
    parts: dict[str, Any] = {"per_class": {}, "class_counts": {}, "confusion": {}, "curves": {}}
    for model, part in columns.items():
        label, rank = part.whole("label"), part.whole("rank")
        counts = np.bincount(label, minlength=classes)
        right = np.bincount(label[rank == 1], minlength=classes)
        recall = np.divide(right, counts, out=np.full(classes, np.nan), where=counts > 0)
        parts["per_class"][str(model)] = rounded(recall)
        parts["class_counts"][str(model)] = counts.tolist()
        parts["confusion"][str(model)] = confusions(label, part.whole("prediction"), classes)
        parts["curves"][str(model)] = {"accuracy": curve(rank, min(classes, 20))}
    parts["k"] = list(CURVE)
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
    curves = {}
    for model, part in samples.columns.items():
        from_text, rank = part.from_text, part.whole("rank")
        images, texts = int((~from_text).sum()), int(from_text.sum())
        if not images:  # texts that look for documents
            curves[str(model)] = {"retrieval": curve(rank, CURVE[-1])}
            continue
        curves[str(model)] = {
            "image retrieval": curve(rank[from_text], images),
            "text retrieval": curve(rank[~from_text], texts),
        }
    gallery = "images" if any("image retrieval" in found for found in curves.values()) else "documents"
    return {"curves": curves, "k": list(CURVE), "gallery": gallery}


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


def confusions(label: Ints, prediction: Ints, classes: int) -> list[list[int]]:
    """Count (label, prediction) pairs off the diagonal, the most frequent `MAX_CONFUSIONS` of them.

    Packed as two lists: steps between the sorted cell numbers, label x classes + prediction, and counts.
    """
    wrong = (prediction != label) & (prediction != NO_VALUE)
    cells, counts = np.unique(label[wrong] * classes + prediction[wrong], return_counts=True)
    if cells.size > MAX_CONFUSIONS:
        most = np.sort(np.argsort(-counts, kind="stable")[:MAX_CONFUSIONS])
        cells, counts = cells[most], counts[most]
    return [np.diff(cells, prepend=0).tolist(), counts.tolist()]
