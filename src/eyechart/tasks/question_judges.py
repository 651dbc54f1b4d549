"""Judges of a job: judge models and their answers, verdicts of people, and the audit of their agreement."""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import combinations
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eyechart.datasets.questions.benchmarks import QuestionBenchmark
from eyechart.datasets.questions.prediction_files import load_table
from eyechart.errors import DataError, EyechartError, UsageError
from eyechart.inference.answers import CachedGenerator
from eyechart.metrics.cell_values import Row, as_score, as_text
from eyechart.metrics.vectors import Floats
from eyechart.models.access import Access, access_of, priced
from eyechart.scorers.judging import JUDGE_SETTINGS, Judge, load_prompts
from eyechart.scorers.rule import JUDGE, UNREADABLE, RuleResult
from eyechart.scorers.scoring import EXACT, ScoredRows, score_rows
from eyechart.settings.tasks import QuestionTaskSettings
from eyechart.stats import Agreement, cohen_kappa, krippendorff_alpha
from eyechart.tasks.base import TaskContext, counted
from eyechart.types import ModelSpec, Notice

MOST_JUDGES = 9
JUDGE_ROLES = ("judge", *(f"judge_{number}" for number in range(2, MOST_JUDGES + 1)))
"""Roles of the judges of a job, in order."""
_WORDS = {
    **dict.fromkeys(("right", "correct", "true", "yes"), 1.0),
    **dict.fromkeys(("wrong", "incorrect", "false", "no"), 0.0),
}


def judge_specs(settings: QuestionTaskSettings) -> dict[str, ModelSpec]:
    """Return the judges by role."""
    names = settings.judges
    if EXACT in names:
        raise UsageError("{exact} cannot be combined with judges.", advice="Remove it from {--judge}.", exact=EXACT)
    if len(names) > MOST_JUDGES:
        raise UsageError(
            "{--judge}: {n} judges, but at most {most_judges} are supported.", n=len(names), most_judges=MOST_JUDGES
        )
    families = _one_each("judge_type", settings.judge_type, len(names))
    bases = _one_each("judge_api_base", settings.judge_api_base, len(names))
    seen = Counter(zip(names, bases, strict=True))
    if seen and max(seen.values()) > 1:
        raise UsageError(
            "{--judge}: the same judge is given twice.", advice="For repeated verdicts use {--judge_repeats}."
        )
    generation = JUDGE_SETTINGS | {"temperature": settings.judge_temperature}
    found = {}
    for part, name, family, base in zip(JUDGE_ROLES, names, families, bases, strict=False):
        address = {"api_base": base or settings.api_base} if family == "api" else {}
        # Each judge has its own budget, which counts its usage.
        access = Access(
            key_variable=settings.judge_key_variable,
            concurrency=settings.concurrency,
            timeout=settings.timeout,
            tries=settings.tries,
            since=settings.since,
        )
        options = {"settings": generation, **address}
        found[part] = ModelSpec(family, name, options=options, access=priced(access, settings.prices, name))
    return found


def _one_each(name: str, values: list[str], count: int) -> list[str]:
    if len(values) not in (1, count):
        raise UsageError(
            "{--{name}}: {n} values for {count} judges.",
            advice="Give one, or one per judge.",
            name=name,
            n=len(values),
            count=count,
        )
    return values * count if len(values) == 1 else values


def open_judges(context: TaskContext) -> dict[str, CachedGenerator]:
    """Return the judges of a job by name; judges of the same name on several servers are numbered."""
    opened = [context.open_extra_model(part) for part in JUDGE_ROLES if part in context.extra_models]
    names = [answers.model.spec.name.replace("/", "_") for answers in opened]
    return {
        f"{name} {number}" if names.count(name) > 1 else name: answers
        for number, (name, answers) in enumerate(zip(names, opened, strict=True), 1)
    }


def score_runs(
    runs: Sequence[Sequence[Row]],
    benchmark: QuestionBenchmark,
    judges: Mapping[str, CachedGenerator],
    settings: QuestionTaskSettings,
    on_error: str,
) -> tuple[list[ScoredRows], tuple[Notice, ...]]:
    """Score the answers of all repeats; if a judge fails and the user allows it, by rule alone."""
    read = partial(score_rows, benchmark=benchmark, extractor=settings.extractor, cut_answers=settings.cut_answers)
    if not judges:
        return [read(rows) for rows in runs], ()
    prompts = load_prompts(settings.judge_prompts)
    asked = [Judge(name, one.generate, prompts, settings.judge_repeats, on_error) for name, one in judges.items()]
    try:
        return [read(rows, judges=asked) for rows in runs], ()
    except EyechartError as error:
        if settings.judge_fallback != EXACT or isinstance(error, UsageError | DataError) or benchmark.needs_judge:
            raise
        names = ", ".join(judges)
        failed = "The judge {names} failed ({reason}): scored by {exact} instead."
        notices = counted("judge_failed", 1, failed, names=names, reason=error.message, exact=EXACT)
        return [read(rows) for rows in runs], notices


def judge_arguments(context: TaskContext) -> dict[str, Any]:
    """Return the judge arguments of a dataset class's own ``evaluate``, as VLMEvalKit's run.py passes them."""
    judged = JUDGE_ROLES[0] in context.extra_models
    spec: ModelSpec = (context.open_extra_model(JUDGE_ROLES[0]) if judged else context.generator).model.spec
    access = access_of(spec)
    known = {"model": spec.name, "api_base": spec.options.get("api_base", "")} if judged else {"model": EXACT}
    return {**known, "nproc": access.concurrency, "retry": access.tries, "timeout": access.timeout, "verbose": False}


def read_verdicts(path: str, answers: Mapping[str, str]) -> dict[str, float]:
    """Read human verdicts by index: 1 right, 0 wrong, or a grade in between.

    They are a table (CSV, TSV, JSON lines or a spreadsheet) with the columns ``index`` and ``correct``, and optionally
    ``prediction``, the answer that was judged.
    """
    if not path:
        return {}
    if not Path(path).is_file():
        raise UsageError("{--human_verdicts}: {path} does not exist.", path=path)
    table = load_table(Path(path))
    for column in ("index", "correct"):
        if column not in table:
            raise DataError(
                "{path} has no column {name!r}.", advice="Required columns: index and correct.", path=path, name=column
            )
    if not table.rows:
        raise DataError("{path} has no verdicts.", advice="Write one row per judged answer.", path=path)
    found: dict[str, float] = {}
    for row in table.rows:
        index = as_text(row["index"])
        index = index if index in answers else index.removesuffix(".0")
        where = {"path": path, "index": index}
        if index not in answers:
            raise DataError("{path}: the run has no question with index {index!r}.", **where)
        if index in found:
            raise DataError(
                "{path}: index {index!r} has two verdicts.", advice="Write one verdict per answer.", **where
            )
        judged = row.get("prediction")
        if judged is not None and as_text(judged).strip() != answers[index].strip():
            raise DataError(
                "{path}: the verdict on index {index!r} is about a different answer than this run's.", **where
            )
        found[index] = _grade(row["correct"], where)
    return found


def _grade(cell: object, where: Mapping[str, str]) -> float:
    word = as_text(cell).strip().lower()
    try:
        grade = _WORDS[word] if word in _WORDS else as_score(cell)
    except ValueError:
        grade = math.nan
    if not 0 <= grade <= 1:
        advice = "Write 1, 0, or a grade in between."
        raise DataError("{path}: index {index!r}: {grade} is not a verdict.", advice=advice, grade=word, **where)
    return grade


def audit(
    runs: Sequence[ScoredRows],
    unit: Callable[[str], str],
    numbers: Callable[[Sequence[ScoredRows]], Mapping[str, float]],
) -> dict[str, Any]:
    """Return the number of verdicts per judge, each judge's own numbers, and the agreement between judges.

    ``runs`` are all repeats; ``unit`` returns the independent unit of a row by its index.
    """
    first = runs[0]
    graded = not first.scorer.hooks.binary
    units = [unit(as_text(row["index"])) for run in runs for row in run.rows]
    each = {name: _verdicts(runs, name) for name in first.judged}
    asked = np.any([~np.isnan(table).all(axis=0) | unread.any(axis=0) for table, unread in each.values()], axis=0)
    units = [name for name, wanted in zip(units, asked, strict=True) if wanted]
    judges = {}
    for name, (table, unread) in each.items():
        own = {"numbers": dict(numbers([run.by_judge(name) for run in runs])), "unreadable": int(unread.sum())}
        if len(table) > 1:
            own["self_consistency"] = _written(krippendorff_alpha(table[:, asked], units, graded=graded))
        judges[name] = own
    repeats = max(len(rounds) for rounds in first.judged.values())
    found: dict[str, Any] = {"judged": int(asked.sum()), "repeats": repeats, "judges": judges}
    if first.form is not None:
        found["prompt"] = {"form": first.form.name, "source": first.prompt_source, "digest": first.form.digest}
    if len(each) > 1:
        means = {}
        for name, (table, _) in each.items():  # a judge's lower median of the readable verdicts; NaN is sorted last
            middle = np.maximum(0, ((~np.isnan(table)).sum(axis=0) - 1) // 2)
            means[name] = np.take_along_axis(np.sort(table, axis=0), middle[None], axis=0)[0, asked]
        found["alpha"] = _written(krippendorff_alpha(np.stack(list(means.values())), units, graded=graded))
        found["kappa"] = [
            {"judges": [a, b], **_written(cohen_kappa(means[a], means[b], units, graded=graded))}
            for a, b in combinations(means, 2)
        ]
    return found


def agreement_with_people(scored: ScoredRows, people: Mapping[str, float]) -> dict[str, Any]:
    """Return the agreement with human verdicts on the same answers: of the final scores and of each judge."""
    places = [i for i, row in enumerate(scored.rows) if as_text(row["index"]) in people]
    said = [people[as_text(scored.rows[i]["index"])] for i in places]
    graded = not scored.scorer.hooks.binary
    found: dict[str, Any] = {"n": len(places), "number_of_people": fmean(said) if said else None}
    for name, scores in {"final": scored.scores, **{one: scored.by_judge(one).scores for one in scored.judged}}.items():
        ours = [_number(scores[i]) for i in places]
        found[name] = {
            "number": fmean(ours) if ours else None,
            "same": fmean(a == b for a, b in zip(ours, said, strict=True)) if ours else None,
            "kappa": _written(cohen_kappa(ours, said, graded=graded)),
        }
    return found


def _verdicts(runs: Sequence[ScoredRows], name: str) -> tuple[Floats, NDArray[np.bool_]]:
    """Return a judge's verdicts (its repeats x the rows of all runs), NaN for none, and which were unreadable."""
    rounds = [[score for run in runs for score in run.judged[name][i]] for i in range(len(runs[0].judged[name]))]
    table = np.array([[_number(score) if score.rule == JUDGE else np.nan for score in scores] for scores in rounds])
    return table, np.array([[score.rule == UNREADABLE for score in scores] for scores in rounds])


def _number(score: RuleResult) -> float:
    return 0.0 if score.score is None else score.score


def _written(agreement: Agreement) -> dict[str, Any]:
    low, high = agreement.interval or (None, None)
    return {"value": agreement.value, "low": low, "high": high, "n": agreement.n}
