"""Question answering by a generator: multiple choice, yes/no, open questions, captions and dialogues."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from eyechart.datasets.questions.benchmarks import OWN_EVALUATE, QuestionBenchmark
from eyechart.datasets.questions.prediction_files import find_predictions
from eyechart.datasets.questions.question_dataset import QuestionInfo
from eyechart.datasets.questions.question_reader import ClassDataset, with_metric
from eyechart.errors import ModelError, UsageError
from eyechart.manifest import Manifest
from eyechart.metrics.cell_values import Row, as_text
from eyechart.scorers import scorer_of
from eyechart.scorers.judging import load_prompts
from eyechart.scorers.rule import FAILED, UNREADABLE
from eyechart.scorers.scoring import check_scoring
from eyechart.settings.tasks import QuestionTaskSettings
from eyechart.tasks.base import Prediction, Task, TaskContext, counted
from eyechart.tasks.question_judges import (
    JUDGE_ROLES,
    judge_arguments,
    judge_specs,
    open_judges,
    read_verdicts,
    score_runs,
)
from eyechart.tasks.question_metrics import CATEGORIES, QuestionScores, user_outcome
from eyechart.tasks.question_prompts import answers_of, questions_of
from eyechart.types import TRUNCATED, DatasetInfo, Metric, ModelSpec, Notice, Outcome, Role


@dataclass(frozen=True)
class QuestionPrediction(Prediction):
    """The answers to all questions, read and judged."""

    scores: QuestionScores | None = None
    """None if nothing is scored here."""
    answered: tuple[Mapping[str, Any], ...] = ()
    """The rows of the first repeat, if the dataset's own class scores them."""
    returned: tuple[Any, ...] = ()
    """The class's return value for each repeat."""

    def only(self, keep: NDArray[np.int64]) -> Self:
        """Return the prediction for some samples."""
        entries = tuple(self.entries[i] for i in keep)
        kept = {entry.id for entry in entries}
        scores = self.scores and replace(self.scores, runs=[run.only(kept) for run in self.scores.runs])
        return replace(self, entries=entries, failures=(), scores=scores)


class QuestionAnswering(Task):
    """Accuracy of a generator's answers, and the benchmark's own numbers.

    Answers are read by rule, and by a judge if no rule can read them. ``--metrics full`` adds the accuracy within each
    category.
    """

    name = "questions"
    kinds = frozenset({"questions"})
    needs = "generator"
    measures = "questions"
    records = "question"
    min_success = 0.95
    version = 3
    roles: ClassVar[Mapping[str, Role]] = dict.fromkeys(JUDGE_ROLES, "generator")
    asks_questions = True
    Settings = QuestionTaskSettings

    def recorded(self, settings: QuestionTaskSettings) -> dict[str, Any]:
        """Reject judge settings without a judge, and record the digest of the judge prompts."""
        prompts = load_prompts(settings.judge_prompts)
        for name in ("judge_prompts", "judge_repeats"):
            if not settings.judges and getattr(settings, name) != settings.fields()[name].default:
                raise UsageError("{--{name}} requires a judge.", advice="Name one: {--judge=MODEL}.", name=name)
        return {**super().recorded(settings), "judge_prompts_digest": prompts.digest if settings.judges else ""}

    def extra_models(self, settings: QuestionTaskSettings) -> Mapping[str, ModelSpec]:
        """Return the judges, if any, and if there is something to judge."""
        return {} if settings.mode == "infer" else judge_specs(settings)

    def check(self, info: DatasetInfo, settings: QuestionTaskSettings) -> None:
        """Reject what cannot be scored before anything is generated."""
        super().check(info, settings)
        benchmark = _benchmark(info, settings)
        own, silent = benchmark.rule == OWN_EVALUATE, settings.mode == "infer"
        if not own and not silent:
            check_scoring(scorer_of(benchmark, settings.extractor), judged=bool(settings.judges))
        whole = own or silent or not scorer_of(benchmark).hooks.per_answer
        if whole and settings.metrics == "full":
            raise UsageError(
                "{--metrics=full} adds nothing to {name}: its answers are not scored individually.",
                advice="Omit it.",
                name=info.name,
            )
        if own and settings.groups:
            raise UsageError(
                "{name} is scored as a whole by {dataset_class}.evaluate.",
                advice="Omit {--group_by}.",
                name=info.name,
                dataset_class=benchmark.dataset_class,
            )

    def reads(self, output: Path, settings: QuestionTaskSettings) -> tuple[Path, ...]:
        """Return the predictions files in mode eval, and the human verdicts."""
        people = (Path(settings.human_verdicts),) if settings.human_verdicts else ()
        if settings.uses_model:
            return people
        found = (find_predictions(output, repeat) for repeat in range(settings.repeats))
        return (*(path for paths in found for path in paths), *people)

    def predict(self, context: TaskContext, settings: QuestionTaskSettings) -> QuestionPrediction:
        """Generate the answers or read existing ones, then score them with the judges."""
        dataset, manifest = questions_of(context), context.manifest
        if settings.metrics == "full" and not any(entry.meta.get(c) for entry in manifest.entries for c in CATEGORIES):
            raise UsageError(
                "{--metrics=full} adds the accuracy within each category, but {name} has no categories.",
                advice="Omit it, or add a column category.",
                name=context.info.name,
            )
        found = answers_of(context, settings)
        failures = [failure for answers in found for failure in answers.failures]
        if failures and (context.on_error == "fail" or not any(answers.rows for answers in found)):
            raise ModelError(
                "{name}: {n} questions have no answer; the first: {id}: {reason}",
                advice="The others are cached: rerun the same command to retry only these, or use {--on_error=skip} "
                "to count them as wrong.",
                name=context.info.name,
                n=len(failures),
                id=failures[0].id,
                reason=failures[0].reason,
            )
        asked = {entry.id for entry in manifest.entries} | {failure.id for failure in manifest.failures}
        names = [name for row in dataset.table.rows if (name := as_text(row["index"])) in asked]
        runs = [answers.all_rows(dataset.table, names) for answers in found]
        about_answers = [notice for answers in found for notice in answers.notices]
        prediction = QuestionPrediction(
            info=context.info,
            entries=tuple(manifest.entries),
            failures=tuple({failure.id: failure for failure in failures}.values()),
            notices=(*dataset.table.notices, *about_answers, *_answer_notices(runs, settings.cut_answers)),
            counts={"unreadable": 0, "repeats": len(runs)},
        )
        if settings.mode == "infer":
            return prediction
        benchmark = _benchmark(context.info, settings)
        if isinstance(dataset, ClassDataset) and benchmark.rule == OWN_EVALUATE:
            returned = [dataset.evaluate(answers.file, judge_arguments(context)) for answers in found]
            return replace(prediction, answered=tuple(runs[0]), returned=tuple(returned))
        judges = open_judges(context)
        scored, notices = score_runs(runs, benchmark, judges, settings, context.on_error)
        # The usage of this run and of all answers; not of the model if its answers were read from a file.
        spent: dict[str, Any] = {} if settings.mode == "eval" else {"model": context.generator.spent()}
        if judges:
            spent["judges"] = {name: {**one.spent(), **one.origins.details()} for name, one in judges.items()}
        notices += tuple(notice for judge in judges.values() for notice in judge.notices())
        answers = {as_text(row["index"]): as_text(row.get("prediction")) for row in scored[0].rows}
        unread = sum(rule != FAILED for run in scored for rule in run.lost.values())
        scores = QuestionScores(
            scored,
            _clusters(manifest, runs[0]),
            notices=(*notices, *prediction.notices),
            people=read_verdicts(settings.human_verdicts, answers),
            spent=spent,
        )
        cut = 0 if settings.cut_answers == "wrong" else math.ceil(sum(len(run.cut) for run in scored) / len(runs))
        counts = {"unreadable": math.ceil(unread / len(runs)), "repeats": len(runs), **({"cut": cut} if cut else {})}
        return replace(prediction, scores=scores, counts=counts)

    def score(self, prediction: QuestionPrediction, settings: QuestionTaskSettings) -> Outcome:
        """Compute accuracy with its interval, the benchmark's own numbers, and a record per question."""
        if prediction.scores is not None:
            return replace(prediction.scores, by_category=settings.metrics == "full").outcome()
        if prediction.returned:
            decided_by = f"{_benchmark(prediction.info, settings).dataset_class}.evaluate"
            return user_outcome(prediction.returned, prediction.answered, decided_by, prediction.notices)
        asked = len(prediction.entries)  # mode infer
        answered = Metric(1 - len(prediction.failures) / asked, n=asked, primary=True)
        lost = {"lost": {FAILED: len(prediction.failures)}} if prediction.failures else {}
        return Outcome({"answered": answered}, [], prediction.notices, lost)

    def is_whole(self, facts: Mapping[str, Any], details: Mapping[str, Any]) -> bool:  # noqa: ARG002 - for captions
        """Whether every question has an answer and every verdict could be read."""
        lost = details.get("lost")
        return not (isinstance(lost, Mapping) and lost.keys() & {FAILED, UNREADABLE})


def _benchmark(info: DatasetInfo, settings: QuestionTaskSettings) -> QuestionBenchmark:
    """Return the benchmark's description, with the metric chosen by the user."""
    if not isinstance(info, QuestionInfo):
        raise TypeError(f"{info.name} is not a question benchmark")
    return with_metric(info.benchmark, settings.metric)


def _answer_notices(runs: Sequence[Sequence[Row]], cut_answers: str) -> tuple[Notice, ...]:
    """Count truncated and empty answers, and those with reasoning only."""
    rows = [row for run in runs for row in run if row.get("finish_reason") != FAILED]
    cut = sum(row.get("finish_reason") == TRUNCATED for row in rows)
    silent = [row for row in rows if not as_text(row.get("prediction")).strip()]
    reasons = Counter(as_text(row.get("finish_reason")) or "stop" for row in silent)
    why = ", ".join(f"{reason} {count}" for reason, count in sorted(reasons.items()))
    truncated = "{n} answers were truncated at the token limit ({--max_tokens}) and count as wrong."
    if cut_answers == "read":
        truncated = "{n} answers were truncated at the token limit ({--max_tokens}): what there is of them was read."
    empty = "{n} answers are empty (finish reasons: {why})."
    only_thinking = sum(bool(row.get("thinking")) for row in silent)
    return (
        *counted("cut_answers", cut, truncated),
        *counted("empty_answers", len(silent), empty, why=why),
        *counted("only_thinking", only_thinking, "{n} answers hold reasoning (<think>) but no answer after it."),
    )


def _clusters(manifest: Manifest, rows: Sequence[Row]) -> dict[str, str]:
    """Return, by index, what dependent questions share: their images, or the first of them."""
    first = {entry.id: key.tobytes().hex() for entry, key in zip(manifest.entries, manifest.digests, strict=True)}
    shown = {as_text(row["index"]): row.get("images") for row in rows}
    return {
        name: "|".join(map(str, images)) if isinstance(images, list) and images else first.get(name, name)
        for name, images in shown.items()
    }
