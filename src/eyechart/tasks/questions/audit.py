"""The judge audit: how far judges agree with themselves, with each other and with people, and each one's own number."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from statistics import fmean
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eyechart.metrics.cells import as_text
from eyechart.scorers.scorer import JUDGE, UNREADABLE, Score
from eyechart.scorers.scoring import Scored
from eyechart.stats import Agreement, cohen_kappa, krippendorff_alpha

Verdicts = NDArray[np.float64]


def audit(
    runs: Sequence[Scored], unit: Callable[[str], str], numbers: Callable[[Sequence[Scored]], Mapping[str, float]]
) -> dict[str, Any]:
    """Return who judged how much, what each judge's own numbers are, and how far the judges agree.

    Args:
        runs: The scores of all repeats.
        unit: Returns the independent unit that a row belongs to.
        numbers: Returns the numbers of some scores.
    """
    first = runs[0]
    graded = not first.scorer.binary
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
        means = {name: _middle(table)[asked] for name, (table, _) in each.items()}
        found["alpha"] = _written(krippendorff_alpha(np.stack(list(means.values())), units, graded=graded))
        found["kappa"] = [
            {"judges": [a, b], **_written(cohen_kappa(means[a], means[b], units, graded=graded))}
            for a, b in combinations(means, 2)
        ]
    return found


def agreement_with_people(scored: Scored, people: Mapping[str, float]) -> dict[str, Any]:
    """Return how far the scores agree with what people say of the same answers: the final ones, and each judge's."""
    places = [i for i, row in enumerate(scored.rows) if as_text(row["index"]) in people]
    said = [people[as_text(scored.rows[i]["index"])] for i in places]
    sides = {"final": scored.scores, **{name: scored.by_judge(name).scores for name in scored.judged}}
    return {
        "n": len(places),
        "number_of_people": fmean(said) if said else None,
        **{name: _beside(scores, places, said, graded=not scored.scorer.binary) for name, scores in sides.items()},
    }


def _beside(scores: Sequence[Score], places: Sequence[int], said: Sequence[float], *, graded: bool) -> dict[str, Any]:
    ours = [_number(scores[i]) for i in places]
    return {
        "number": fmean(ours) if ours else None,
        "same": fmean(a == b for a, b in zip(ours, said, strict=True)) if ours else None,
        "kappa": _written(cohen_kappa(ours, said, graded=graded)),
    }


def _verdicts(runs: Sequence[Scored], name: str) -> tuple[Verdicts, NDArray[np.bool_]]:
    """Return a judge's verdicts (its repeats x the rows of all runs), NaN for none, and which were unreadable."""
    rounds = [[score for run in runs for score in run.judged[name][i]] for i in range(len(runs[0].judged[name]))]
    table = np.array([[_number(score) if score.rule == JUDGE else np.nan for score in scores] for scores in rounds])
    return table, np.array([[score.rule == UNREADABLE for score in scores] for scores in rounds])


def _number(score: Score) -> float:
    return 0.0 if score.correct is None else score.correct


def _middle(table: Verdicts) -> Verdicts:
    """Return a judge's verdict over its repeats: the lower median of those that could be read."""
    ordered = np.sort(table, axis=0)  # NaN comes last
    known = (~np.isnan(table)).sum(axis=0)
    picked: Verdicts = np.take_along_axis(ordered, np.maximum(0, (known - 1) // 2)[None], axis=0)[0]
    return picked


def _written(agreement: Agreement) -> dict[str, Any]:
    low, high = agreement.interval or (None, None)
    return {"value": agreement.value, "low": low, "high": high, "n": agreement.n}
