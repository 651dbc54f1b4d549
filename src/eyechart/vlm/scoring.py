"""From rows with predictions to what a result holds: readings, table, counts. Pure but for the judge."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from eyechart.errors import DataError, UsageError, unknown_name
from eyechart.metrics.cells import Row, as_text
from eyechart.vlm.benchmarks import Benchmark
from eyechart.vlm.judges import Judge
from eyechart.vlm.ratings import UNREADABLE, Rating, Reading, rating_of

EXACT = "exact_matching"
"""The name of scoring without a judge, as VLMEvalKit calls it."""


@dataclass(frozen=True)
class Scored:
    """The score of one set of predictions."""

    rating: Rating
    rows: Sequence[Row]
    """As scored: open questions closed, dialogues cut into turns."""
    readings: Sequence[Reading]
    table: Any
    decided_by: str
    extractor: str
    disagreement: Mapping[str, Any] = field(default_factory=dict)
    """How often another extractor reads another answer."""

    @property
    def rules(self) -> dict[str, int]:
        """Count the answers by the rule that decided them."""
        return dict(Counter(reading.rule for reading in self.readings).most_common())

    @property
    def unscored(self) -> int:
        """Count the answers whose verdict could not be read."""
        return sum(reading.rule == UNREADABLE for reading in self.readings)

    def columns(self) -> list[dict[str, object]]:
        """Return each row's readings under the names of the benchmark's table."""
        pairs = zip(self.rows, self.readings, strict=True)
        return [self.rating.columns(row, reading) | {"rule": reading.rule} for row, reading in pairs]


def score(
    rows: Sequence[Row], benchmark: Benchmark, *, extractor: str = "vlmeval", judge: Judge | None = None
) -> Scored:
    """Score rows that hold a ``prediction``.

    Raises:
        UsageError: If the benchmark cannot be scored this way: no judge, no answers, unknown extractor.
        DataError: If a column that the benchmark's table needs is missing.
    """
    rating = rating_of(benchmark)
    _check(rating, rows, extractor, judge)
    try:
        prepared = rating.prepare_all(rows)
        readings = [rating.read(row, extractor) for row in prepared]
        if judge is not None and rating.form is not None:
            readings = _ask(rating, prepared, readings, judge)
        kept = [
            {**row, **rating.columns(row, reading)}
            for row, reading in zip(prepared, readings, strict=True)
            if reading.rule != UNREADABLE
        ]
        table = rating.table(kept) if kept else {}
    except ValueError as error:
        raise DataError(f"{benchmark.name} cannot be scored: {error}.") from error
    return Scored(
        rating=rating,
        rows=prepared,
        readings=readings,
        table=table,
        decided_by=judge.name if judge is not None and rating.form is not None else EXACT,
        extractor=extractor if rating.extractors else "",
        disagreement=_disagreement(rating, prepared, extractor),
    )


def _check(rating: Rating, rows: Sequence[Row], extractor: str, judge: Judge | None) -> None:
    name = rating.benchmark.name
    if rating.extractors and extractor not in rating.extractors:
        raise unknown_name("extractor", extractor, rating.extractors)
    if rating.benchmark.needs_judge and judge is None:
        raise UsageError(
            f"{name} can only be scored by a judge.",
            advice="Name one: --judge MODEL --judge_api_base URL; or --mode infer for predictions only.",
        )
    if not rows:
        raise DataError(f"{name}: there is no prediction to score.")
    unknown = sum(not as_text(row.get("answer")) for row in rows)
    if unknown == len(rows):
        raise UsageError(
            f"{name} has no answers in its file: its owner scores predictions.",
            advice="Use --mode infer and submit the xlsx file.",
        )
    if unknown:
        raise DataError(f"{name}: {unknown} of {len(rows)} rows have no answer.")


def _ask(rating: Rating, rows: Sequence[Row], readings: list[Reading], judge: Judge) -> list[Reading]:
    """Replace what no rule could read by the judge's verdicts."""
    form = rating.form
    if form is None:
        return readings
    wanted = rating.worth_judging(rows, readings)
    verdicts = judge.verdicts(form, [(str(i), rows[i]) for i in wanted])
    read = list(readings)
    for i in wanted:
        verdict = verdicts[str(i)]
        read[i] = Reading(None, UNREADABLE, None) if verdict is None else rating.judged(rows[i], verdict)
    return read


def _disagreement(rating: Rating, rows: Sequence[Row], extractor: str) -> dict[str, Any]:
    other = next((name for name in rating.extractors if name != extractor), None)
    if other is None:
        return {}
    pairs = [(rating.read(row, extractor), rating.read(row, other)) for row in rows]
    differ = sum(mine.extracted != theirs.extracted for mine, theirs in pairs)
    matter = sum(mine.correct != theirs.correct for mine, theirs in pairs)
    return {
        "decided": extractor,
        "other": other,
        "differ": differ,
        "differ_in_score": matter,
        "n": len(rows),
        "rate": differ / len(rows),
    }
