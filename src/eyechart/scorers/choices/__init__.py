"""The tables of multiple-choice benchmarks, by the name that the catalogue gives."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from eyechart.scorers.choices import accuracy, boxes, counted, spatial_tables, wemath
from eyechart.scorers.scorer import NOTHING, Numbers, pick


@dataclass(frozen=True, slots=True)
class TableForm:
    """How the table of a benchmark is made, and which of its numbers become metrics."""

    arrange: Callable[..., Any]
    numbers: Callable[[Any], Numbers] = NOTHING
    points: bool = False
    """Whether those numbers are per cent; else fractions."""


def _settings(table: list[dict[str, Any]]) -> Numbers:
    return {str(line["setting"]): float(line["Overall"]) for line in table}


def _average(table: list[dict[str, Any]]) -> Numbers:
    return {"Average|all": next(float(line["accuracy"]) for line in table if line["cycle"] == "Average")}


TABLES: Mapping[str, TableForm] = {
    "accuracy": TableForm(accuracy.report_acc),
    "mmvp": TableForm(accuracy.mmvp, pick("Overall")),
    "mmt": TableForm(accuracy.mmt),
    "mmsci": TableForm(accuracy.mmsci),
    "hrbench": TableForm(accuracy.hrbench, _average),
    "sources": TableForm(accuracy.sources),
    "flips": TableForm(accuracy.flips, _settings),
    "partial_matches": TableForm(accuracy.partial_matches),
    "tasks": TableForm(spatial_tables.tasks),
    "chance_adjusted": TableForm(spatial_tables.chance_adjusted, pick("overall_caa"), points=True),
    "stare": TableForm(spatial_tables.stare, pick("macro"), points=True),
    "by_question_type": TableForm(spatial_tables.by_question_type, pick("overall"), points=True),
    "counted": TableForm(counted.counted),
    "visual_puzzles": TableForm(counted.visual_puzzles),
    "holding": TableForm(counted.holding),
    "rounded": TableForm(counted.rounded),
    "fractions": TableForm(counted.fractions),
    "degraded": TableForm(counted.degraded),
    "medical": TableForm(counted.medical),
    "percent": TableForm(counted.percent),
    "paths": TableForm(counted.paths, pick("Overall macro")),
    "vmcbench": TableForm(counted.vmcbench),
    "realworld": TableForm(counted.realworld),
    "treebench": TableForm(boxes.treebench, pick("mIoU")),
    "wemath": TableForm(wemath.wemath, wemath.scores),
}
