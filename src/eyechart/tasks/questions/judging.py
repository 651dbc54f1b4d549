"""The judges of a job: which models they are, what they are asked, and the answers of all repeats read with them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from eyechart.datasets.questions.benchmarks import QuestionBenchmark
from eyechart.errors import DataError, EyechartError, UsageError
from eyechart.inference.answers import StoredAnswers
from eyechart.metrics.cells import Row
from eyechart.models.access import Access, priced
from eyechart.scorers.judging import JUDGE_SETTINGS, Judge, load_prompts
from eyechart.scorers.scoring import EXACT, Scored, score_rows
from eyechart.tasks.base import Material
from eyechart.types import Answer, ModelSpec, Notice, Prompt

MOST_JUDGES = 9
PARTS = ("judge", *(f"judge_{number}" for number in range(2, MOST_JUDGES + 1)))
"""The parts that the judges of a job play, in their order."""


def judge_names(given: Mapping[str, Any]) -> list[str]:
    """Return the judges that were asked for; none for exact matching."""
    chosen = given.get("judge", EXACT)
    names = [chosen] if isinstance(chosen, str) else list(chosen)
    return [] if names == [EXACT] else names


def judge_specs(given: Mapping[str, Any]) -> dict[str, ModelSpec]:
    """Return the judges by their part in the job.

    Raises:
        UsageError: If there are too many, one of them twice, or their addresses do not fit their number.
    """
    names = judge_names(given)
    if EXACT in names:
        raise UsageError(f"{EXACT} is no judge beside others.", advice="Leave it out of --judge.")
    if len(names) > MOST_JUDGES:
        raise UsageError(f"--judge: {len(names)} judges, at most {MOST_JUDGES} can vote.")
    families, bases = (_one_each(given, key, len(names), default) for key, default in _PER_JUDGE.items())
    seen = Counter(zip(names, bases, strict=True))
    if seen and max(seen.values()) > 1:
        raise UsageError("--judge: one judge twice is no second opinion.", advice="Use --judge_repeats.")
    limits = {key: given[key] for key in ("concurrency", "timeout", "tries") if key in given}
    settings = JUDGE_SETTINGS | {"temperature": given.get("judge_temperature", 0)}
    found = {}
    for part, name, family, base in zip(PARTS, names, families, bases, strict=False):
        address = {"api_base": base or given.get("api_base")} if family == "api" else {}
        # Each judge has a budget of its own, which counts what it takes.
        access = priced(Access(key_variable=given.get("judge_key_variable"), **limits), given.get("prices", ""), name)
        found[part] = ModelSpec(family, name, options={"settings": settings, **address}, access=access)
    return found


_PER_JUDGE = {"judge_type": "api", "judge_api_base": ""}


def _one_each(given: Mapping[str, Any], key: str, count: int, default: str) -> list[str]:
    chosen = given.get(key) or default
    values = [chosen] if isinstance(chosen, str) else list(chosen)
    if len(values) not in (1, count):
        raise UsageError(f"--{key}: {len(values)} values for {count} judges.", advice="Give one, or one each.")
    return values * count if len(values) == 1 else values


@dataclass
class JudgeAtWork:
    """A judge behind its store, and what its replies took."""

    name: str
    answers: StoredAnswers
    tokens: Counter[str] = field(default_factory=Counter)
    """Of all replies that were used, stored ones among them."""

    def ask(self, prompts: Iterable[Prompt], number: int) -> Iterator[tuple[str, Answer]]:
        """Answer prompts and count."""
        for name, answer in self.answers.generate(prompts, number):
            self.tokens.update(answer.usage)
            yield name, answer

    def spent(self) -> dict[str, Any]:
        """Return what this run has spent, and the tokens of all replies."""
        return {**self.answers.spent(), "tokens_of_answers": dict(self.tokens)}


def open_judges(material: Material) -> list[JudgeAtWork]:
    """Return the judges of a job; two of one name, on several servers, are numbered."""
    opened = [material.open_other(part) for part in PARTS if part in material.others]
    names = [answers.model.spec.name.replace("/", "_") for answers in opened]
    return [
        JudgeAtWork(f"{name} {number}" if names.count(name) > 1 else name, answers)
        for number, (name, answers) in enumerate(zip(names, opened, strict=True), 1)
    ]


def score_runs(
    runs: Sequence[Sequence[Row]],
    benchmark: QuestionBenchmark,
    judges: Sequence[JudgeAtWork],
    settings: Mapping[str, Any],
    on_error: str,
) -> tuple[list[Scored], list[Notice]]:
    """Read the answers of all repeats; where the judge fails, by rule alone if the user allows it."""
    read = partial(score_rows, benchmark=benchmark, extractor=settings["extractor"])
    if not judges:
        return [read(rows) for rows in runs], []
    prompts = load_prompts(settings["judge_prompts"])
    asked = [Judge(judge.name, judge.ask, prompts, settings["judge_repeats"], on_error) for judge in judges]
    try:
        return [read(rows, judges=asked) for rows in runs], []
    except EyechartError as error:
        if settings["judge_fallback"] != EXACT or isinstance(error, UsageError | DataError) or benchmark.needs_judge:
            raise
        names = ", ".join(judge.name for judge in judges)
        note = Notice("judge_failed", 1, f"The judge {names} failed ({error.message}): scored by {EXACT} instead.")
        return [read(rows) for rows in runs], [note]


def judge_arguments(material: Material) -> dict[str, Any]:
    """Return what a class's own ``evaluate`` is told of the judge, as VLMEvalKit does."""
    if PARTS[0] not in material.others:
        return {}
    spec: ModelSpec = material.open_other(PARTS[0]).model.spec
    return {"model": spec.name, "api_base": spec.options.get("api_base", "")}
