"""Questions to a generator: multiple choice, yes/no, open questions, captions and dialogues."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from eyechart.datasets.questions.benchmarks import OWN_EVALUATE, QuestionBenchmark
from eyechart.datasets.questions.dataset import QuestionInfo
from eyechart.datasets.questions.own_classes import ClassDataset
from eyechart.datasets.questions.own_tables import with_metric
from eyechart.datasets.questions.predictions import find_predictions
from eyechart.errors import ModelError, UsageError
from eyechart.metrics.cells import Row, as_text
from eyechart.scorers import scorer_of
from eyechart.scorers.judging import load_prompts
from eyechart.scorers.scorer import FAILED
from eyechart.scorers.scoring import EXACT, Scored, check_scoring
from eyechart.tasks.base import Material, Prediction, Task
from eyechart.tasks.labelled import wants_full
from eyechart.tasks.questions.answers import CUT, AnsweredRows, answers_of, questions_of
from eyechart.tasks.questions.blind import controls_of
from eyechart.tasks.questions.human import read_verdicts
from eyechart.tasks.questions.judging import (
    PARTS,
    JudgeAtWork,
    judge_arguments,
    judge_names,
    judge_specs,
    open_judges,
    score_runs,
)
from eyechart.tasks.questions.outcome import CATEGORIES, QuestionScores
from eyechart.tasks.questions.own_evaluation import own_outcome
from eyechart.types import DatasetInfo, Metric, ModelSpec, Notice, Outcome, Role

SETTINGS: Mapping[str, Any] = {
    "mode": "all",
    "extractor": "vlmeval",
    "metric": "",
    "repeats": 1,
    "blind": "",
    "system_prompt": "",
    "judge_fallback": "",
    "judge_prompts": "",
    "judge_repeats": 1,
    "human_verdicts": "",
    "xlsx": True,
}
"""The settings of this task and their defaults."""


@dataclass(frozen=True)
class QuestionPrediction(Prediction):
    """The answers to all questions, read and judged."""

    runs: tuple[Scored, ...] = ()
    """One set of scores for each repeat; none if nothing is scored here."""
    clusters: Mapping[str, str] | None = None
    """What questions share that are not independent, their images, by the sample's id."""
    notices: tuple[Notice, ...] = ()
    repeats: int = 1
    answered: tuple[Mapping[str, Any], ...] = ()
    """The rows of the first repeat, where the dataset's own class scores them."""
    returned: tuple[Any, ...] = ()
    """What that class returned, for each repeat."""
    people: Mapping[str, float] = field(default_factory=dict)
    """What people say of answers of the first repeat, by index."""
    spent: Mapping[str, Any] = field(default_factory=dict)
    """What the model and the judges have taken."""

    @property
    def counts(self) -> Mapping[str, int]:
        """Count the answers that nobody could read; of several repeats, as many as in one on average."""
        unread = sum(rule != FAILED for run in self.runs for rule in run.lost.values())
        return {"unreadable": math.ceil(unread / max(1, len(self.runs))), "repeats": self.repeats}

    def only(self, keep: NDArray[np.int64]) -> Self:
        """Return the prediction for some samples."""
        entries = tuple(self.entries[i] for i in keep)
        kept = {entry.id for entry in entries}
        return replace(self, entries=entries, failures=(), runs=tuple(run.only(kept) for run in self.runs))


class QuestionAnswering(Task):
    """Accuracy of a generator's answers, and the benchmark's own numbers.

    Answers are read by rule, and by a judge where no rule can read them. ``--metrics full`` adds the accuracy within
    each category.
    """

    name = "questions"
    kinds = frozenset({"questions"})
    needs = "generator"
    measures = "questions"
    records = "question"
    min_success = 0.95
    version = 2
    roles: ClassVar[Mapping[str, Role]] = dict.fromkeys(PARTS, "generator")

    def settings(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Pick how answers are asked for and read."""
        given = options.get("questions", {})
        chosen = {key: given.get(key, default) for key, default in SETTINGS.items()}
        judges = judge_names(given)
        prompts = load_prompts(chosen["judge_prompts"])
        for name in ("judge_prompts", "judge_repeats"):
            if not judges and chosen[name] != SETTINGS[name]:
                raise UsageError(f"--{name} is for a judge, and there is none.", advice="Name one: --judge MODEL.")
        return {
            **chosen,
            "blind": "",  # a control of its own
            "judge": judges if len(judges) > 1 else (judges or [EXACT])[0],
            "judge_prompts_digest": prompts.digest if judges else "",
            "metrics": options.get("metrics", "default"),
        }

    def controls(self, options: Mapping[str, Any], settings: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
        """Ask the same questions without the images, or with others, if that is wanted."""
        return controls_of(settings, options.get("questions", {}).get("blind", ""))

    def others(self, options: Mapping[str, Any]) -> Mapping[str, ModelSpec]:
        """Name the judges, if there are some and something to judge."""
        given = options.get("questions", {})
        return {} if given.get("mode") == "infer" else judge_specs(given)

    def check(self, info: DatasetInfo, settings: Mapping[str, Any]) -> None:
        """Refuse what cannot be scored, before anything is asked."""
        super().check(info, settings)
        benchmark = _benchmark(info, settings)
        own, silent = benchmark.scorer == OWN_EVALUATE, settings["mode"] == "infer"
        if not own and not silent:
            check_scoring(scorer_of(benchmark, settings["extractor"]), judged=settings["judge"] != EXACT)
        whole = own or silent or not scorer_of(benchmark).per_answer
        if whole and wants_full(settings):
            raise UsageError(
                f"--metrics full adds nothing to {info.name}: its answers have no score of their own.",
                advice="Leave it out.",
            )
        if own and settings.get("groups"):
            raise UsageError(
                f"{info.name} is scored by {benchmark.dataset_class}.evaluate, as a whole.",
                advice="Leave --group_by out.",
            )

    def uses_model(self, settings: Mapping[str, Any]) -> bool:
        """Predictions that are there are scored without the model."""
        return bool(settings["mode"] != "eval")

    def check_family(self, family: Any) -> None:
        """Refuse generators that describe images and read no question."""
        if getattr(family, "only_describes", False):
            raise UsageError("CoCa describes images but reads no question.", advice="Use another --model_type.")

    def reads(self, output: Path, settings: Mapping[str, Any]) -> tuple[Path, ...]:
        """Name the predictions that are there, where only they are scored, and the verdicts of people."""
        people = (Path(settings["human_verdicts"]),) if settings["human_verdicts"] else ()
        if self.uses_model(settings):
            return people
        found = (find_predictions(output, repeat) for repeat in range(settings["repeats"]))
        return (*(path for paths in found for path in paths), *people)

    def predict(self, material: Material, settings: Mapping[str, Any]) -> QuestionPrediction:
        """Ask, or read what was answered before; then read the answers, with the judge's help."""
        dataset = questions_of(material)
        _check_categories(material, settings)
        found = answers_of(material, settings)
        _check_failures(material, found)
        lost = {failure.id: failure for answers in found for failure in answers.failures}
        asked = {entry.id for entry in material.manifest.entries} | {f.id for f in material.manifest.failures}
        names = [name for row in dataset.table.rows if (name := as_text(row["index"])) in asked]
        runs = [answers.all_rows(dataset.table, names) for answers in found]
        prediction = QuestionPrediction(
            info=material.info,
            entries=tuple(material.manifest.entries),
            failures=tuple(lost.values()),
            clusters=_clusters(material, runs[0]),
            notices=(*dataset.table.notices, *(n for answers in found for n in answers.notices), *_poor_answers(runs)),
            repeats=len(runs),
        )
        if settings["mode"] == "infer":
            return prediction
        benchmark = _benchmark(material.info, settings)
        if isinstance(dataset, ClassDataset) and benchmark.scorer == OWN_EVALUATE:
            returned = [dataset.evaluate(answers.file, judge_arguments(material)) for answers in found]
            return replace(prediction, answered=tuple(runs[0]), returned=tuple(returned))
        judges = open_judges(material)
        scored, notices = score_runs(runs, benchmark, judges, settings, material.on_error)
        answers = {as_text(row["index"]): as_text(row.get("prediction")) for row in scored[0].rows}
        return replace(
            prediction,
            runs=tuple(scored),
            notices=(*notices, *prediction.notices),
            people=read_verdicts(settings["human_verdicts"], answers),
            spent=_spent(material, settings, runs, judges),
        )

    def score(self, prediction: QuestionPrediction, settings: Mapping[str, Any]) -> Outcome:
        """Compute accuracy with its interval, the benchmark's own numbers, and a record per question."""
        if settings["mode"] == "infer":
            asked = len(prediction.entries)
            answered = Metric(1 - len(prediction.failures) / asked, n=asked, primary=True)
            return Outcome({"answered": answered}, [], prediction.notices)
        if prediction.returned:
            decided_by = f"{_benchmark(prediction.info, settings).dataset_class}.evaluate"
            return own_outcome(prediction.returned, prediction.answered, decided_by, prediction.notices)
        return QuestionScores(
            prediction.runs,
            prediction.clusters or {},
            wants_full(settings),
            prediction.notices,
            prediction.people,
            prediction.spent,
        ).outcome()


def _benchmark(info: DatasetInfo, settings: Mapping[str, Any]) -> QuestionBenchmark:
    """Return how a benchmark is scored, by the metric that the user chose if there is one."""
    if not isinstance(info, QuestionInfo):
        raise TypeError(f"{info.name} is no benchmark of questions")
    return with_metric(info.benchmark, settings["metric"])


def _check_categories(material: Material, settings: Mapping[str, Any]) -> None:
    """Refuse to add the accuracy within categories where there are none."""
    if wants_full(settings) and not any(entry.meta.get(c) for entry in material.manifest.entries for c in CATEGORIES):
        raise UsageError(
            f"--metrics full adds the accuracy within each category, but {material.info.name} has no categories.",
            advice="Leave it out, or add a column category.",
        )


def _check_failures(material: Material, found: Sequence[AnsweredRows]) -> None:
    failures = [failure for answers in found for failure in answers.failures]
    if failures and (material.on_error == "fail" or not any(answers.rows for answers in found)):
        first = failures[0]
        raise ModelError(
            f"{material.info.name}: {len(failures)} questions have no answer; the first: {first.id}: {first.reason}",
            advice="The others are kept: run the same command to ask only these again, "
            "or use --on-error skip to count them as wrong.",
        )


def _poor_answers(runs: Sequence[Sequence[Row]]) -> list[Notice]:
    """Count the answers that were cut, and those of which there is nothing."""
    rows = [row for run in runs for row in run if row.get("finish_reason") != FAILED]
    cut = sum(row.get("finish_reason") == CUT for row in rows)
    message = f"{cut} answers were cut at the longest answer (--max_tokens): they are no answers and count as wrong."
    silent = [row for row in rows if not as_text(row.get("prediction")).strip()]
    reasons = Counter(as_text(row.get("finish_reason")) or "stop" for row in silent)
    why = ", ".join(f"{reason} {count}" for reason, count in sorted(reasons.items()))
    empty = Notice("empty_answers", reasons.total(), f"{reasons.total()} answers are empty (finish reasons: {why}).")
    return [*([Notice("cut_answers", cut, message)] if cut else []), *([empty] if reasons else [])]


def _spent(
    material: Material, settings: Mapping[str, Any], runs: Sequence[Sequence[Row]], judges: Sequence[JudgeAtWork]
) -> dict[str, Any]:
    """Return what this run has asked and taken, and the tokens of all answers, those from the store among them."""
    tokens: Counter[str] = Counter()
    for row in (row for run in runs for row in run):
        usage = row.get("usage")
        tokens.update(usage if isinstance(usage, dict) else {})
    asked = {} if settings["mode"] == "eval" else material.generator.spent()
    found: dict[str, Any] = {"model": {**asked, "tokens_of_answers": dict(tokens)}}
    return found | ({"judges": {judge.name: judge.spent() for judge in judges}} if judges else {})


def _clusters(material: Material, rows: Sequence[Row]) -> dict[str, str]:
    """Return, by index, what questions share that are not independent: their images, or the first of them."""
    manifest = material.manifest
    first = {entry.id: key.tobytes().hex() for entry, key in zip(manifest.entries, manifest.digests, strict=True)}
    shown = {as_text(row["index"]): row.get("images") for row in rows}
    return {
        name: "|".join(map(str, images)) if isinstance(images, list) and images else first.get(name, name)
        for name, images in shown.items()
    }
