"""From scores, one per repeat, to metrics with intervals, records and notices."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, pvariance
from typing import Any

from eyechart.metrics.cells import Row, as_text, options_of
from eyechart.stats import mean_interval
from eyechart.types import Metric, Notice
from eyechart.vlm.predict import Predictions
from eyechart.vlm.ratings import UNDECIDED
from eyechart.vlm.scoring import Scored


@dataclass(frozen=True)
class Outcome:
    """What the scoring of a benchmark gives to its result."""

    metrics: Mapping[str, Metric]
    records: Sequence[Mapping[str, Any]]
    notices: Sequence[Notice]
    details: Mapping[str, Any]
    unscored: int = 0


def make_outcome(scored: Sequence[Scored], runs: Sequence[Predictions], notices: Sequence[Notice]) -> Outcome:
    """Put the scores of all repeats together; records and table are those of the first, with every repeat's score."""
    first = scored[0]
    clusters = _clusters(runs[0].rows)
    units = [dict(one.rating.units(one.rows, one.readings)) for one in scored]
    details: dict[str, Any] = {
        "table": first.table,
        "decided_by": first.decided_by,
        "rules": first.rules,
        "rating": first.rating.benchmark.rating,
    }
    if first.rating.benchmark.metric:
        details["metric"] = first.rating.benchmark.metric
    if first.disagreement:
        details["extractors"] = dict(first.disagreement)
    if len(scored) > 1:
        details["repeats"] = [{"table": one.table, "rules": one.rules} for one in scored]
    headline = {name: Metric(float(value)) for name, value in first.rating.headline(first.table).items()}
    return Outcome(
        metrics=_accuracy(scored, units, clusters) | headline,
        records=list(_records(scored, runs, units[0])),
        notices=[*notices, *_notices(first)],
        details=details,
        unscored=first.unscored,
    )


def _clusters(rows: Sequence[Row]) -> dict[str, str]:
    """Return, by index, what rows share that are not independent: the same images."""
    return {as_text(row["index"]): "|".join(map(str, row.get("images") or [row["index"]])) for row in rows}  # type: ignore[call-overload]


def _accuracy(
    scored: Sequence[Scored], units: Sequence[Mapping[str, float]], clusters: Mapping[str, str]
) -> dict[str, Metric]:
    """Return the accuracy over questions (mean score where a question may be half right), and what repeats add."""
    everywhere = [name for name in units[0] if all(name in one for one in units)]
    if not everywhere:
        return {}
    means = {name: fmean(one[name] for one in units) for name in everywhere}
    low, high = mean_interval(list(means.values()), [clusters.get(name, name) for name in means]) or (None, None)
    rating = scored[0].rating
    chance = rating.chance(scored[0].rows)
    metrics = {"accuracy": Metric(fmean(means.values()), low, high, chance, len(means))}
    if len(units) > 1:
        runs = [fmean(one[name] for name in everywhere) for one in units]
        metrics["accuracy_variance"] = Metric(pvariance(runs) * len(runs) / (len(runs) - 1), n=len(runs))
        if rating.binary:
            metrics |= _pass_at(units, everywhere)
    return metrics


def _pass_at(units: Sequence[Mapping[str, float]], names: Sequence[str]) -> dict[str, Metric]:
    """Return pass@k for k = 1, 2, 4, ... and all repeats: the unbiased estimate 1 - C(n - c, k) / C(n, k)."""
    n = len(units)
    right = [round(sum(one[name] for one in units)) for name in names]
    ks = sorted({n, *(2**i for i in range(n.bit_length()) if 2**i <= n)})
    return {
        f"pass@{k}": Metric(fmean(1 - math.comb(n - c, k) / math.comb(n, k) for c in right), n=len(names)) for k in ks
    }


def _records(scored: Sequence[Scored], runs: Sequence[Predictions], verdicts: Mapping[str, float]) -> Any:
    """Yield a record per row; ``correct`` is the question's verdict, whose mean is the accuracy.

    A rotation of a question has none of its own there; ``hit`` is its own in a circular set.
    """
    first = scored[0]
    whole = all(value in (0, 1) for value in verdicts.values())
    thinking = {as_text(row["index"]): row.get("thinking") for row in runs[0].rows}
    others = [{as_text(r["index"]): x.correct for r, x in zip(s.rows, s.readings, strict=True)} for s in scored[1:]]
    for row, reading in zip(first.rows, first.readings, strict=True):
        index = as_text(row["index"])
        record = {
            "id": index,
            "question": as_text(row.get("question")),
            "options": options_of(row) or None,
            "answer": row.get("answer"),
            "prediction": as_text(row.get("prediction")),
            "extracted": reading.extracted,
            "rule": reading.rule,
            "correct": int(verdicts[index]) if whole and index in verdicts else verdicts.get(index),
            "thinking": thinking.get(index),
            "category": row.get("category"),
        }
        record |= {name: row[name] for name in ("l2-category", "split", "g_index") if row.get(name) is not None}
        if reading.correct is not None and reading.correct != verdicts.get(index):
            record["hit"] = reading.correct
        if others:
            record["repeats"] = [reading.correct, *(one.get(index) for one in others)]
        yield record


def _notices(scored: Scored) -> list[Notice]:
    notices = []
    if scored.unscored:
        count = scored.unscored
        text = f"{count} verdicts of the judge {scored.decided_by} could not be read: these answers are unscored."
        notices.append(Notice("unreadable_verdicts", count, text))
    undecided = scored.rules.get(UNDECIDED, 0)
    if undecided and scored.rating.form is not None:
        text = f"{undecided} answers could not be read by rule and count as wrong; a judge could read them."
        notices.append(Notice("undecided_answers", undecided, text))
    differ = scored.disagreement.get("differ", 0)
    if differ:
        text = (
            f"The extractor {scored.disagreement['other']!r} reads {differ} of {len(scored.rows)} answers differently."
        )
        notices.append(Notice("extractors_disagree", differ, text))
    return notices
