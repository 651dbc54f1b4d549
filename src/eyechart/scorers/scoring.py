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
from eyechart.metrics.texts.page_words import ADVICE
from eyechart.scorers import scorer_of
from eyechart.scorers.judging import Judge, JudgeForm
from eyechart.scorers.judging.panel import majority
from eyechart.scorers.scorer import CUT, FAILED, LOST, NOT_NEEDED, UNDECIDED, UNREADABLE, Score, Scorer
from eyechart.types import Notice

EXACT = "exact_matching"
"""The name of scoring without a judge, as VLMEvalKit calls it."""
NO_ANSWERS = {"length": CUT, "failed": FAILED}
"""The ``finish_reason`` of a row that has no answer, and the rule that it is wrong by."""
ALWAYS = frozenset({"question", "answer", "prediction"})
"""Columns that a judge prompt may name whether the table has them or not."""
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
    judged: Mapping[str, Sequence[Sequence[Score]]] = field(default_factory=dict)
    """The scores by each judge's own verdicts: by its name, for each of its repeats."""
    form: JudgeForm | None = None
    """What the judges were asked."""
    prompt_source: str = ""
    """Where that is from: ours, a file, another tool."""

    def only(self, indices: Collection[str]) -> Scored:
        """Return the scores of some rows of the benchmark."""
        keep = [i for i, row in enumerate(self.rows) if owner_of(row) in indices]
        judged = {name: [[run[i] for i in keep] for run in runs] for name, runs in self.judged.items()}
        rows, scores = [self.rows[i] for i in keep], [self.scores[i] for i in keep]
        return replace(self, rows=rows, scores=scores, disagreement={}, judged=judged)

    @cached_property
    def table(self) -> Any:
        """Make the benchmark's own table; an answer that nobody could read is wrong there, too.

        Raises:
            DataError: If a column that the table needs is missing.
        """
        pairs = zip(self.rows, self.scores, strict=True)
        try:
            return self.scorer.arrange([{**row, **self.scorer.columns(score)} for row, score in pairs])
        except (ValueError, KeyError) as error:
            raise _unscorable(self.scorer.benchmark.name, error) from error

    @cached_property
    def units(self) -> dict[str, float]:
        """Return how right each independent question is."""
        return self.scorer.units(self.rows, self.scores)

    def assuming(self, *, right: bool) -> Scored:
        """Return the same if every answer that nobody could read were wrong in every number, or right."""
        pairs = zip(self.rows, self.scores, strict=True)
        scores = [
            self.scorer.assume(row, score.rule, right=right) if score.rule in LOST else score for row, score in pairs
        ]
        return replace(self, scores=scores)

    def by_judge(self, name: str) -> Scored:
        """Return the scores as one judge alone would have them."""
        return replace(self, scores=majority(self.judged[name]), judged={}, decided_by=name)

    @property
    def rules(self) -> dict[str, int]:
        """Count the answers by the rule that decided them."""
        return dict(Counter(score.rule for score in self.scores).most_common())

    @property
    def left_out(self) -> list[Notice]:
        """Say how many answers cannot be compared in every respect, and which library is missing for it."""
        named = Counter(score.grades["needs"] for score in self.scores if score.grades and score.grades.get("needs"))
        text = "{} answers need {} to be compared: numbers that depend on it are left out ({})."
        return [Notice("left_out_answers", count, text.format(count, name, ADVICE)) for name, count in named.items()]

    @property
    def lost(self) -> dict[str, str]:
        """Return the rows of the benchmark that nobody could read, with the first reason for each."""
        pairs = zip(self.rows, self.scores, strict=True)
        return {owner_of(row): score.rule for row, score in reversed(list(pairs)) if score.rule in LOST}


def owner_of(row: Row) -> str:
    """Return the index of the benchmark's row that a scored row was made of."""
    return as_text(row.get(OWNER, row["index"]))


def score_rows(
    rows: Sequence[Row], benchmark: QuestionBenchmark, *, extractor: str = "vlmeval", judges: Sequence[Judge] = ()
) -> Scored:
    """Score rows that hold a ``prediction``.

    A row whose ``finish_reason`` says that there is no answer (``failed``) or only a part of one (``length``) is wrong,
    whatever its prediction says. Of several judges the majority decides.

    Raises:
        UsageError: If the benchmark cannot be scored this way: no judge, no answers, unknown extractor.
        DataError: If a row cannot be scored.
    """
    scorer = scorer_of(benchmark, extractor)
    _check_way(scorer, judged=bool(judges))
    _check_rows(scorer, rows)
    try:
        prepared = [turn for row in rows for turn in scorer.prepare(row)]
        scores = [_by_rule(scorer, row) for row in prepared]
        disagreement = _disagreement(scorer, prepared, scores)
        if not judges or not scorer.form:
            return Scored(scorer, prepared, scores, EXACT, disagreement)
        return _judged(Scored(scorer, prepared, scores, EXACT, disagreement), judges)
    except (ValueError, KeyError) as error:
        raise _unscorable(benchmark.name, error) from error


def _unscorable(name: str, error: Exception) -> DataError:
    """Say what is wrong with a table: a value, or a column that is not there."""
    why = f"there is no column {error}" if isinstance(error, KeyError) else str(error)
    return DataError(f"{name} cannot be scored: {why}.")


def _by_rule(scorer: Scorer, row: Row) -> Score:
    lost = NO_ANSWERS.get(as_text(row.get("finish_reason")))
    return scorer.assume(row, lost) if lost else scorer.score(row, row.get("prediction"))


def check_scoring(scorer: Scorer, *, judged: bool) -> None:
    """Refuse what cannot be scored this way, before anything is asked: the published file may have no answers."""
    if not scorer.benchmark.answers:
        raise _no_answers(scorer.benchmark.name)
    _check_way(scorer, judged=judged)


def _check_way(scorer: Scorer, *, judged: bool) -> None:
    benchmark = scorer.benchmark
    if scorer.extractors and scorer.extractor not in scorer.extractors:
        raise unknown_name("extractor", scorer.extractor, scorer.extractors)
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


def _judged(scored: Scored, judges: Sequence[Judge]) -> Scored:
    """Let the judges decide what no rule could."""
    scorer, rows, scores = scored.scorer, scored.rows, scored.scores
    wanted = scorer.worth_judging(rows, scores)
    form = judges[0].prompts.form(scorer.form, scorer.benchmark.name)
    source = judges[0].prompts.source_of(form)
    unknown = [name for name in sorted(form.columns - ALWAYS) if not any(name in row for row in rows)]
    if unknown:
        raise UsageError(
            f"The judge prompt {form.name!r} of {source} names columns that {scorer.benchmark.name} has not: "
            f"{', '.join(unknown)}.",
            advice="A template may name the columns of the table, options, choice_line and answer_parts.",
        )
    asked, named = [(str(i), rows[i]) for i in wanted], set(wanted)
    decided = [
        replace(score, rule=NOT_NEEDED) if score.rule == UNDECIDED and i not in named else score
        for i, score in enumerate(scores)
    ]
    judged: dict[str, list[list[Score]]] = {}
    for judge in judges:
        for repeat in range(judge.repeats):
            verdicts = judge.verdicts(form, asked, repeat)
            run = list(decided)
            for i in wanted:
                verdict = verdicts[str(i)]
                run[i] = scorer.assume(rows[i], UNREADABLE) if verdict is None else scorer.judged(rows[i], verdict)
            judged.setdefault(judge.name, []).append(run)
    panel = majority([majority(runs) for runs in judged.values()])
    name = " + ".join(judged)
    return replace(scored, scores=panel, decided_by=name, judged=judged, form=form, prompt_source=source)


def _disagreement(scorer: Scorer, rows: Sequence[Row], scores: Sequence[Score]) -> dict[str, Any]:
    """Count the answers that the next extractor reads otherwise, and those where it matters."""
    name = next((name for name in scorer.extractors if name != scorer.extractor), None)
    if name is None:
        return {}
    other = scorer_of(scorer.benchmark, name)
    pairs = [(mine, _by_rule(other, row)) for row, mine in zip(rows, scores, strict=True)]
    differ = sum(mine.extracted != theirs.extracted for mine, theirs in pairs)
    return {
        "decided": scorer.extractor,
        "other": name,
        "differ": differ,
        "differ_in_score": sum(mine.correct != theirs.correct for mine, theirs in pairs),
        "n": len(rows),
        "rate": differ / len(rows),
    }
