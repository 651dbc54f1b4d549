"""From rows with predictions to scores: each answer is read once and judged if necessary. Pure except for the judge."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from eyechart.datasets.questions.benchmark_files import answers_path
from eyechart.datasets.questions.benchmarks import QuestionBenchmark
from eyechart.errors import DataError, UsageError, unknown_name
from eyechart.messages import UserMessage
from eyechart.metrics.cell_values import Row, as_text
from eyechart.metrics.long_texts import ADVICE
from eyechart.scorers.judging import Judge, JudgeForm
from eyechart.scorers.judging.judges import majority
from eyechart.scorers.rule import CUT, FAILED, LOST, NOT_NEEDED, UNDECIDED, UNREADABLE, RuleResult
from eyechart.scorers.scorer import Scorer, scorer_of
from eyechart.types import TRUNCATED, Notice

EXACT = "exact_matching"
"""VLMEvalKit's name for scoring without a judge."""
ALWAYS = frozenset({"question", "answer", "prediction"})
"""Columns a judge prompt may use even if the table lacks them."""
OWNER = "dialogue"
"""The column of a turn with the index of its row in the benchmark."""


@dataclass(frozen=True)
class ScoredRows:
    """Predictions with their scores."""

    scorer: Scorer
    rows: Sequence[Row]
    """In scored form: open questions closed, dialogues split into turns."""
    scores: Sequence[RuleResult]
    decided_by: str
    disagreement: Mapping[str, Any] = field(default_factory=dict)
    """How often another extractor reads the answer differently."""
    judged: Mapping[str, Sequence[Sequence[RuleResult]]] = field(default_factory=dict)
    """The scores by each judge's own verdicts: by its name, for each of its repeats."""
    form: JudgeForm | None = None
    """The judge form."""
    prompt_source: str = ""
    """Its origin: built in, a file, another tool."""

    def only(self, indices: Collection[str]) -> ScoredRows:
        """Return the scores of some rows of the benchmark."""
        keep = [i for i, row in enumerate(self.rows) if owner_of(row) in indices]
        judged = {name: [[run[i] for i in keep] for run in runs] for name, runs in self.judged.items()}
        rows, scores = [self.rows[i] for i in keep], [self.scores[i] for i in keep]
        return replace(self, rows=rows, scores=scores, disagreement={}, judged=judged)

    @cached_property
    def table(self) -> Any:
        """The benchmark's own table, in which unreadable answers count as wrong; raise if a column is missing."""
        try:
            return self.scorer.table(self.rows, self.scores)
        except (ValueError, KeyError) as error:
            raise _unscorable(self.scorer.benchmark.name, error) from error

    @cached_property
    def units(self) -> dict[str, float]:
        """Return the score of each independent question."""
        return self.scorer.units(self.rows, self.scores)

    @property
    def cut(self) -> set[str]:
        """The benchmark's rows whose answer was truncated at the token limit."""
        return {owner_of(row) for row in self.rows if row.get("finish_reason") == TRUNCATED}

    def assuming(self, *, right: bool) -> ScoredRows:
        """The worst case of every unreadable or truncated answer, or the best case."""
        scores = [
            self.scorer.assume(row, score.rule, right=right)
            if score.rule in LOST or row.get("finish_reason") == TRUNCATED
            else score
            for row, score in zip(self.rows, self.scores, strict=True)
        ]
        return replace(self, scores=scores)

    def by_judge(self, name: str) -> ScoredRows:
        """Return the scores by a single judge's verdicts."""
        return replace(self, scores=majority(self.judged[name]), judged={}, decided_by=name)

    @property
    def rules(self) -> dict[str, int]:
        """Count the answers by the rule that decided them."""
        return dict(Counter(score.rule for score in self.scores).most_common())

    @property
    def left_out(self) -> list[Notice]:
        """Count the answers that lack a score, by the missing library."""
        named = Counter(score.facts["needs"] for score in self.scores if score.facts.get("needs"))
        text = "{count} answers need {name} to be compared: numbers that depend on it are left out ({advice})."
        return [
            Notice("left_out_answers", count, UserMessage(text, count=count, name=name, advice=ADVICE))
            for name, count in named.items()
        ]

    @property
    def lost(self) -> dict[str, str]:
        """The benchmark's rows that could not be read, with the first reason for each."""
        pairs = zip(self.rows, self.scores, strict=True)
        return {owner_of(row): score.rule for row, score in reversed(list(pairs)) if score.rule in LOST}


def owner_of(row: Row) -> str:
    """Return the index of the benchmark's row that a scored row belongs to."""
    return as_text(row.get(OWNER, row["index"]))


def score_rows(
    rows: Sequence[Row],
    benchmark: QuestionBenchmark,
    *,
    extractor: str = "vlmeval",
    judges: Sequence[Judge] = (),
    cut_answers: str = "read",
) -> ScoredRows:
    """Score rows with a ``prediction``.

    A row whose ``finish_reason`` marks a missing answer (``failed``) is wrong, whatever its prediction is. So is a
    truncated one (``length``) if ``cut_answers`` is ``wrong``; by default it is read like any other, as VLMEvalKit
    does. With several judges the majority decides.

    Raises:
        UsageError: If the benchmark cannot be scored this way: no judge, no answers, unknown extractor.
        DataError: If a row cannot be scored.
    """
    scorer = scorer_of(benchmark, extractor)
    _check_way(scorer, judged=bool(judges))
    if not rows:
        raise DataError("{name}: there is no prediction to score.", name=benchmark.name)
    unknown = sum(not as_text(row.get(scorer.reference)) for row in rows)
    if unknown == len(rows) and benchmark.url:
        raise _no_answers(benchmark)
    if unknown:
        raise DataError(
            "{name}: {unknown} of {n} rows have no answer.",
            advice="Answers are read from the column {reference!r}; without answers, use {--mode=infer}.",
            name=benchmark.name,
            unknown=unknown,
            n=len(rows),
            reference=scorer.reference,
        )
    try:
        prepared = [turn for row in rows for turn in scorer.prepare(row)]
        lost = {"failed": FAILED, **({TRUNCATED: CUT} if cut_answers == "wrong" else {})}
        reasons = [lost.get(as_text(row.get("finish_reason"))) for row in prepared]
        scores = [
            scorer.assume(row, reason) if reason else scorer.read(row, row.get("prediction"))
            for row, reason in zip(prepared, reasons, strict=True)
        ]
        disagreement = _disagreement(scorer, prepared, scores)
        scored = ScoredRows(scorer, prepared, scores, EXACT, disagreement)
        return _judged(scored, judges) if judges and scorer.form else scored
    except (ValueError, KeyError) as error:
        raise _unscorable(benchmark.name, error) from error


def _unscorable(name: str, error: Exception) -> DataError:
    why = UserMessage("there is no column {name}", name=error) if isinstance(error, KeyError) else str(error)
    return DataError("{name} cannot be scored: {why}.", name=name, why=why)


def check_scoring(scorer: Scorer, *, judged: bool) -> None:
    """Reject what cannot be scored before any request is made: the published file may have no answers."""
    if not scorer.benchmark.answers:
        raise _no_answers(scorer.benchmark)
    _check_way(scorer, judged=judged)


def _check_way(scorer: Scorer, *, judged: bool) -> None:
    benchmark = scorer.benchmark
    if scorer.hooks.extractors and scorer.extractor not in scorer.hooks.extractors:
        raise unknown_name("extractor", scorer.extractor, scorer.hooks.extractors)
    if benchmark.needs_judge and not judged:
        raise UsageError(
            "{name} can only be scored by a judge.",
            advice="Name one: {--judge=MODEL} {--judge_api_base=URL}; or {--mode=infer} for predictions only.",
            name=benchmark.name,
        )
    if benchmark.needs_options:
        raise UsageError(
            "{name}: all answers are letters, but no columns hold the options.",
            advice="Name the options' columns A, B, ...; if letters are the answers, select how they are compared: "
            "{--metric=normalized_exact}.",
            name=benchmark.name,
        )


def _no_answers(benchmark: QuestionBenchmark) -> UsageError:
    if benchmark.answer_file:
        return UsageError(
            "{name}: the table has no answers; they were released later.",
            advice="Download {url} and save it as {path}; or use {--mode=infer} for predictions only.",
            name=benchmark.name,
            url=benchmark.answer_file,
            path=answers_path(benchmark.name),
        )
    return UsageError(
        "{name} is published without answers: its authors score submitted predictions.",
        advice="Use {--mode=infer} and submit the xlsx file.",
        name=benchmark.name,
    )


def _judged(scored: ScoredRows, judges: Sequence[Judge]) -> ScoredRows:
    scorer, rows, scores = scored.scorer, scored.rows, scored.scores
    form = judges[0].prompts.form(scorer.form, scorer.benchmark.name)
    source = judges[0].prompts.source_of(form)
    unknown = [name for name in sorted(form.columns - ALWAYS) if not any(name in row for row in rows)]
    if unknown:
        raise UsageError(
            "The judge prompt {name!r} of {source} uses columns that {benchmark_name} does not have: {unknown}.",
            advice="A template may use the columns of the table, options, choice_line and answer_parts.",
            name=form.name,
            source=source,
            benchmark_name=scorer.benchmark.name,
            unknown=", ".join(unknown),
        )
    asked = {i: rows[i] for i in scorer.worth_judging(rows, scores)}
    decided = [
        replace(score, rule=NOT_NEEDED) if score.rule == UNDECIDED and i not in asked else score
        for i, score in enumerate(scores)
    ]
    judged: dict[str, list[list[RuleResult]]] = {}
    for judge in judges:
        for repeat in range(judge.repeats):
            exchanges = judge.judge(form, [(str(i), row) for i, row in asked.items()], repeat)
            run = list(decided)
            for i, row in asked.items():
                said = exchanges[str(i)]
                made = scorer.assume(row, UNREADABLE) if said.verdict is None else scorer.judged(row, said.verdict)
                run[i] = replace(made, exchange=said)
            judged.setdefault(judge.name, []).append(run)
    panel = majority([majority(runs) for runs in judged.values()])
    return replace(scored, scores=panel, decided_by=" + ".join(judged), judged=judged, form=form, prompt_source=source)


def _disagreement(scorer: Scorer, rows: Sequence[Row], scores: Sequence[RuleResult]) -> dict[str, Any]:
    """Count the answers that the next extractor reads differently, and those where it matters."""
    name = next((name for name in scorer.hooks.extractors if name != scorer.extractor), None)
    if name is None:
        return {}
    other = scorer_of(scorer.benchmark, name)
    pairs = [
        (mine, mine if mine.rule in (FAILED, CUT) else other.read(row, row.get("prediction")))
        for row, mine in zip(rows, scores, strict=True)
    ]
    differ = sum(mine.extracted != theirs.extracted for mine, theirs in pairs)
    return {
        "decided": scorer.extractor,
        "other": name,
        "differ": differ,
        "differ_in_score": sum(mine.score != theirs.score for mine, theirs in pairs),
        "n": len(rows),
        "rate": differ / len(rows),
    }
