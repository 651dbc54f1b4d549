"""Reading the answers of all repeats, with the judge of a job where it has one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from eyechart.datasets.questions.benchmarks import QuestionBenchmark
from eyechart.errors import DataError, EyechartError, UsageError
from eyechart.metrics.cells import Row
from eyechart.scorers.judging import Judge
from eyechart.scorers.scoring import EXACT, Scored, score_rows
from eyechart.tasks.base import Material
from eyechart.types import ModelSpec, Notice


def score_runs(
    runs: Sequence[Sequence[Row]], benchmark: QuestionBenchmark, material: Material, settings: Mapping[str, Any]
) -> tuple[list[Scored], list[Notice]]:
    """Read the answers of all repeats; where the judge fails, by rule alone if the user allows it."""
    read = partial(score_rows, benchmark=benchmark, extractor=settings["extractor"])
    if "judge" not in material.others:
        return [read(rows) for rows in runs], []
    judge = Judge(
        settings["judge"].replace("/", "_"), material.open_other("judge").generate, on_error=material.on_error
    )
    try:
        return [read(rows, judges=[judge]) for rows in runs], []
    except EyechartError as error:
        if settings["judge_fallback"] != EXACT or isinstance(error, UsageError | DataError) or benchmark.needs_judge:
            raise
        note = Notice("judge_failed", 1, f"The judge {judge.name} failed ({error.message}): scored by {EXACT} instead.")
        return [read(rows) for rows in runs], [note]


def judge_arguments(material: Material) -> dict[str, Any]:
    """Return what a class's own ``evaluate`` is told of the judge, as VLMEvalKit does."""
    if "judge" not in material.others:
        return {}
    spec: ModelSpec = material.open_other("judge").model.spec
    return {"model": spec.name, "api_base": spec.options.get("api_base", "")}
