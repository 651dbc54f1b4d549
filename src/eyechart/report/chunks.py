"""What the page needs of one benchmark: its samples as columns, figures per class, curves, and where numbers came from.

Each benchmark becomes one chunk that the page unpacks when it is opened. Everything derived (per class, confusions,
curves) is made here from all samples; only the list of samples is cut when there are too many.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from eyechart.report.records import NO_VALUE, Columns, Form, Ints
from eyechart.report.samples import Limits, Samples, cut, list_samples, rounded
from eyechart.results import Result

CURVE = (1, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 50, 75, 100)
"""The k at which curves are drawn."""
MAX_CONFUSIONS = 20_000


def make_chunk(results: Mapping[int, Result], columns: Mapping[int, Columns], limits: Limits) -> dict[str, Any]:
    """Make the chunk of one benchmark; ``columns`` are the records of the models that may be compared."""
    chunk: dict[str, Any] = {"results": {str(m): describe(result) for m, result in results.items()}}
    for key in ("prompt_sensitivity", "calibration"):
        found = {str(m): result.details[key] for m, result in results.items() if result.details.get(key)}
        if found:
            chunk[key] = found
    names = next((r.details["classnames"] for r in results.values() if r.details.get("classnames")), None)
    if names:
        chunk["classnames"] = [cut(name) for name in names]
    if columns:
        samples = Samples.align(columns)
        chunk["form"] = samples.form
        chunk |= _DERIVED[samples.form](samples, results)
        chunk["samples"] = list_samples(samples, results, limits)
    return chunk


def describe(result: Result) -> dict[str, Any]:
    """Return where a number came from, for people."""
    return {
        "provenance": dict(result.provenance),
        "model_card": dict(result.model_card),
        "data": dict(result.data),
        "counts": dict(result.counts),
        "job": dict(result.job),
        "notices": [{"count": n.get("count"), "message": cut(n.get("message", ""))} for n in result.notices],
        "failures": [{"id": cut(f.get("id", "")), "reason": cut(f.get("reason", ""))} for f in result.failures[:200]],
        "failed": len(result.failures),
        "file": result.path.name if result.path else "",
    }


# ------------------------------------------------------------------------------------------ derived figures


def _label_parts(samples: Samples, results: Mapping[int, Result]) -> dict[str, Any]:  # noqa: ARG001 - one signature
    columns = samples.columns
    classes = 1 + max(int(max(part.label.max(), part.prediction.max())) for part in columns.values())
    parts: dict[str, Any] = {"per_class": {}, "confusion": {}, "curves": {}}
    for model, part in columns.items():
        counts = np.bincount(part.label, minlength=classes)
        right = np.bincount(part.label[part.rank == 1], minlength=classes)
        recall = np.divide(right, counts, out=np.full(classes, np.nan), where=counts > 0)
        parts["per_class"][str(model)] = rounded(recall)
        parts["class_counts"] = counts.tolist()
        parts["confusion"][str(model)] = confusions(part, classes)
        parts["curves"][str(model)] = {"accuracy": curve(part.rank, min(classes, 20))}
    parts["k"] = list(CURVE)
    return parts


def _labels_parts(samples: Samples, results: Mapping[int, Result]) -> dict[str, Any]:
    first = next(iter(samples.columns.values()))
    classes = first.present.shape[1]
    parts: dict[str, Any] = {"per_class": {}, "class_counts": first.present.sum(axis=0).tolist()}
    for model in samples.columns:
        precision = results[model].details.get("per_class_ap") or {}
        parts["per_class"][str(model)] = [precision.get(str(c)) for c in range(classes)]
    return parts


def _ranking_parts(samples: Samples, results: Mapping[int, Result]) -> dict[str, Any]:  # noqa: ARG001 - one signature
    curves = {}
    for model, part in samples.columns.items():
        images, texts = int((~part.from_text).sum()), int(part.from_text.sum())
        if not images:  # texts that look for documents
            curves[str(model)] = {"retrieval": curve(part.rank, CURVE[-1])}
            continue
        curves[str(model)] = {
            "image retrieval": curve(part.rank[part.from_text], images),
            "text retrieval": curve(part.rank[~part.from_text], texts),
        }
    gallery = "images" if any("image retrieval" in found for found in curves.values()) else "documents"
    return {"curves": curves, "k": list(CURVE), "gallery": gallery}


def _no_parts(samples: Samples, results: Mapping[int, Result]) -> dict[str, Any]:  # noqa: ARG001 - one signature
    return {}


_DERIVED: Mapping[Form, Callable[[Samples, Mapping[int, Result]], dict[str, Any]]] = {
    "label": _label_parts,
    "labels": _labels_parts,
    "ranking": _ranking_parts,
    "question": _no_parts,
}


def curve(ranks: Ints, most: int) -> list[float]:
    """Return the share of ranks up to each k, as far as there is anything to find."""
    if ranks.size == 0:
        return []
    return [round(float(((ranks != NO_VALUE) & (ranks <= k)).mean()), 5) for k in CURVE if k <= most]


def confusions(part: Columns, classes: int) -> list[list[int]]:
    """Count (label, prediction) pairs off the diagonal, the most frequent `MAX_CONFUSIONS` of them.

    Packed as two lists: steps between the sorted cell numbers, label x classes + prediction, and counts.
    """
    wrong = (part.prediction != part.label) & (part.prediction != NO_VALUE)
    cells, counts = np.unique(part.label[wrong] * classes + part.prediction[wrong], return_counts=True)
    if cells.size > MAX_CONFUSIONS:
        most = np.sort(np.argsort(-counts, kind="stable")[:MAX_CONFUSIONS])
        cells, counts = cells[most], counts[most]
    return [np.diff(cells, prepend=0).tolist(), counts.tolist()]
