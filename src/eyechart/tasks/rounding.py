"""What storing vectors in half precision does to a result: the task's own metrics, once more from the full vectors."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from eyechart.inference.embeddings import StoredEmbeddings
from eyechart.io.progress import NoProgress
from eyechart.tasks.base import Material, Task
from eyechart.tasks.groups import score_with_groups
from eyechart.types import HALF, STORE_PRECISION, MeanOf, Metric, Notice, Outcome

SHOWN = 5e-5
"""Half of the last digit that tables show: what differs by less has not moved."""
NO_METRIC = Metric(math.nan)
LEAVES = frozenset({"save_clf"})
"""Settings by which a task writes files, which are those of the result."""


def compare_with_full(task: Task, material: Material, settings: Mapping[str, Any], outcome: Outcome) -> Outcome:
    """Add to an outcome how far its metrics are from those of the vectors as the model gave them.

    Those are known in the run that has computed all of the vectors; another adds nothing.
    """
    full = material.model.in_full() if isinstance(material.model, StoredEmbeddings) else None
    if full is None or material.info.kind == "external":  # these are computed by another library, for long
        return outcome
    silent = {name: value for name, value in settings.items() if name not in LEAVES}
    with tempfile.TemporaryDirectory(prefix="eyechart-full-") as folder:
        place = Path(folder) / material.output.name
        again = replace(material, model=full, output=place, progress=NoProgress())
        other = score_with_groups(task, task.predict(again, silent), silent)
    by = moves(outcome.metrics, other.metrics)
    changed = changed_records(outcome, other)
    notice = Notice(STORE_PRECISION, sum(move > SHOWN for move in by.values()), _message(outcome, other, by, changed))
    details = {
        "precision": HALF,
        "metrics_in_full": {name: metric.value for name, metric in other.metrics.items()},
        "changed_records": changed and changed[0],
    }
    return replace(outcome, notices=(*outcome.notices, notice), details={**outcome.details, STORE_PRECISION: details})


def _message(outcome: Outcome, other: Outcome, by: Mapping[str, float], changed: tuple[int, int] | None) -> str:
    worst = max(by, key=lambda name: by[name], default="")
    if not worst or by[worst] <= SHOWN:
        bound = f" by more than {SHOWN:g}" if worst and by[worst] else ""
        return f"Vectors are stored in {HALF}: no metric differs from that of the full vectors{bound}."
    moved = sum(move > SHOWN for move in by.values())
    found, full = (f"{one.metrics[worst].value:.6g}" if worst in one.metrics else "none" for one in (outcome, other))
    metric = outcome.metrics.get(worst, NO_METRIC)
    interval = "" if metric.low is None else f" (interval {metric.low:.4g} to {metric.high:.4g})"
    records = "" if changed is None else f" In the primary metric {changed[0]} of {changed[1]} records count otherwise."
    return (
        f"Vectors are stored in {HALF}: {moved} of {len(by)} metrics differ from those of the full ones, most of all "
        f"{worst}: {found} instead of {full}{interval}.{records}"
    )


def moves(rounded: Mapping[str, Metric], full: Mapping[str, Metric]) -> dict[str, float]:
    """Return by how much each metric differs, as a share of it where it is larger than one; of all that either has."""
    return {
        name: _move(rounded[name].value, full[name].value) if name in rounded and name in full else math.inf
        for name in (*rounded, *(name for name in full if name not in rounded))
    }


def _move(rounded: float, full: float) -> float:
    if rounded == full or (math.isnan(rounded) and math.isnan(full)):
        return 0.0
    by = abs(rounded - full) / max(1.0, abs(full))
    return math.inf if math.isnan(by) else by


def changed_records(outcome: Outcome, other: Outcome) -> tuple[int, int] | None:
    """Count the records that count otherwise in the primary metric, and all that count; None where it is no mean."""
    mean_of = next((metric.mean_of for metric in outcome.metrics.values() if metric.primary), None)
    if mean_of is None or len(outcome.records) != len(other.records):
        return None
    first, second = ([_number(record, mean_of) for record in one.records] for one in (outcome, other))
    changed = sum(a != b for a, b in zip(first, second, strict=True))
    return changed, sum(number is not None for number in first)


def _number(record: Mapping[str, Any], mean_of: MeanOf) -> float | None:
    """Return what a record counts in a mean; None if it does not count."""
    if mean_of.field not in record or any(record.get(name) != value for name, value in mean_of.where.items()):
        return None
    found: float | None = record[mean_of.field]
    return found if mean_of.at_most is None else float(found is not None and found <= mean_of.at_most)
