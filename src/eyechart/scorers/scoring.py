"""From rows with predictions to scores: each answer is read once, judged if need be. Pure but for the judge."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from eyechart.datasets.questions.benchmarks import QuestionBenchmark
from eyechart.errors import DataError, UsageError, unknown_name
from eyechart.metrics.cells import Row, as_text
from eyechart.scorers import scorer_of
from eyechart.scorers.judges import Judge, JudgeForm
from eyechart.scorers.scorer import UNREADABLE, Score, Scorer

EXACT = "exact_matching"
"""The name of scoring without a judge, as VLMEvalKit calls it."""
OWNER = "dialogue"
"""The column of a turn that names the row of the benchmark that it belongs to."""


@dataclass(frozen=True)
class Scored:
    """Predictions with their scores."""

    scorer: Scorer
    rows: Sequence[Row]
    """As scored: open questions closed, dialogues cut into turns."""
    scores: Sequence[Score]
    decided_by: str
    disagreement: Mapping[str, Any] = field(default_factory=dict)
    """How often another extractor reads another answer."""

    def only(self, indices: Collection[str]) -> Scored:
        """Return the scores of some rows of the benchmark."""
        pairs = zip(self.rows, self.scores, strict=True)
        kept = [(row, score) for row, score in pairs if owner_of(row) in indices]
        return Scored(self.scorer, [row for row, _ in kept], [score for _, score in kept], self.decided_by)

    @cached_property
    def table(self) -> Any:
        """Make the benchmark's own table; answers whose verdict could not be read are in no number of it.

        Raises:
            DataError: If a column that the table needs is missing.
        """
        kept = [
            {**row, **self.scorer.columns(score)}
            for row, score in zip(self.rows, self.scores, strict=True)
            if self.scorer.keeps_unscored or score.rule != UNREADABLE
        ]
        try:
            return self.scorer.arrange(kept) if any(score.rule != UNREADABLE for score in self.scores) else {}
        except ValueError as error:
            raise DataError(f"{self.scorer.benchmark.name} cannot be scored: {error}.") from error

    @cached_property
    def units(self) -> dict[str, float]:
        """Return how right each independent question is."""
        return self.scorer.units(self.rows, self.scores)

    def if_unscored(self, value: float) -> dict[str, float]:
        """Return the same if every answer without a readable verdict were worth ``value``."""
        scores = [replace(score, correct=value) if score.rule == UNREADABLE else score for score in self.scores]
        return self.scorer.units(self.rows, scores)

    @property
    def rules(self) -> dict[str, int]:
        """Count the answers by the rule that decided them."""
        return dict(Counter(score.rule for score in self.scores).most_common())

    @property
    def unscored(self) -> list[str]:
        """Name the rows of the benchmark with a verdict that could not be read."""
        pairs = zip(self.rows, self.scores, strict=True)
        return list(dict.fromkeys(owner_of(row) for row, score in pairs if score.rule == UNREADABLE))


def owner_of(row: Row) -> str:
    """Return the index of the benchmark's row that a scored row was made of."""
    return as_text(row.get(OWNER, row["index"]))


def score_rows(
    rows: Sequence[Row], benchmark: QuestionBenchmark, *, extractor: str = "vlmeval", judge: Judge | None = None
) -> Scored:
    """Score rows that hold a ``prediction``.

    Raises:
        UsageError: If the benchmark cannot be scored this way: no judge, no answers, unknown extractor.
        DataError: If a row cannot be scored.
    """
    scorer = scorer_of(benchmark, extractor)
    check_scoring(scorer, judged=judge is not None)
    _check_rows(scorer, rows)
    decided_by = EXACT
    try:
        prepared = [turn for row in rows for turn in scorer.prepare(row)]
        scores = [scorer.score(row, row.get("prediction")) for row in prepared]
        disagreement = _disagreement(scorer, prepared, scores)
        if judge is not None and scorer.form is not None:
            decided_by = judge.name
            _judge(scorer, scorer.form, judge, prepared, scores)
    except ValueError as error:
        raise DataError(f"{benchmark.name} cannot be scored: {error}.") from error
    return Scored(scorer, prepared, scores, decided_by, disagreement)


def check_scoring(scorer: Scorer, *, judged: bool) -> None:
    """Refuse what cannot be scored this way, before anything is asked."""
    benchmark = scorer.benchmark
    if scorer.extractors and scorer.extractor not in scorer.extractors:
        raise unknown_name("extractor", scorer.extractor, scorer.extractors)
    if not benchmark.answers:
        raise _no_answers(benchmark.name)
    if benchmark.needs_judge and not judged:
        raise UsageError(
            f"{benchmark.name} can only be scored by a judge.",
            advice="Name one: --judge MODEL --judge_api_base URL; or --mode infer for predictions only.",
        )


def _no_answers(name: str) -> UsageError:
    return UsageError(
        f"{name} has no answers in its file: its owner scores predictions.",
        advice="Use --mode infer and submit the xlsx file.",
    )


def _check_rows(scorer: Scorer, rows: Sequence[Row]) -> None:
    name = scorer.benchmark.name
    if not rows:
        raise DataError(f"{name}: there is no prediction to score.")
    unknown = sum(not as_text(row.get(scorer.reference)) for row in rows)
    if unknown == len(rows) and scorer.benchmark.url:
        raise _no_answers(name)
    if unknown:
        raise DataError(
            f"{name}: {unknown} of {len(rows)} rows have no answer.",
            advice=f"Answers stand in the column {scorer.reference!r}; without any, use --mode infer.",
        )


def _judge(scorer: Scorer, form: JudgeForm, judge: Judge, rows: Sequence[Row], scores: list[Score]) -> None:
    """Replace what no rule could read by the judge's verdicts."""
    wanted = scorer.worth_judging(rows, scores)
    verdicts = judge.verdicts(form, [(str(i), rows[i]) for i in wanted])
    for i in wanted:
        verdict = verdicts[str(i)]
        scores[i] = Score(None, UNREADABLE, None) if verdict is None else scorer.judged(rows[i], verdict)


def _disagreement(scorer: Scorer, rows: Sequence[Row], scores: Sequence[Score]) -> dict[str, Any]:
    """Count the answers that the next extractor reads otherwise, and those where it matters."""
    name = next((name for name in scorer.extractors if name != scorer.extractor), None)
    if name is None:
        return {}
    other = scorer_of(scorer.benchmark, name)
    pairs = [(mine, other.score(row, row.get("prediction"))) for row, mine in zip(rows, scores, strict=True)]
    differ = sum(mine.extracted != theirs.extracted for mine, theirs in pairs)
    return {
        "decided": scorer.extractor,
        "other": name,
        "differ": differ,
        "differ_in_score": sum(mine.correct != theirs.correct for mine, theirs in pairs),
        "n": len(rows),
        "rate": differ / len(rows),
    }
