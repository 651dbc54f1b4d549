"""Whether enough of a result's samples could be measured: a run that lost too many ends with an error."""

from __future__ import annotations

from eyechart.errors import IncompleteError
from eyechart.results.result import Result


def check_complete(result: Result, min_success: float) -> IncompleteError | None:
    """Return the error of a result in which too few samples count as measured, once it has been saved.

    Args:
        result: What was measured. ``counts`` say how many samples were listed, how many failed and how many answers
            or verdicts were ``unreadable``; the last two kinds are lost. Samples that were ``skipped`` as the user
            wished are none of them, though they are counted as failed.
        min_success: The smallest share of the other samples that must not be lost.
    """
    names = ("listed", "failed", "unreadable", "skipped")
    listed, failed, unreadable, skipped = (result.counts.get(name, 0) for name in names)
    listed, failed = listed - skipped, failed - skipped
    lost = failed + unreadable
    share = (listed - lost) / listed if listed else 1.0  # not 1 - lost / listed: 9 of 20 are 0.45, not a bit less
    if share >= min_success:
        return None
    parts = [f"{count} {word}" for count, word in ((failed, "failed"), (unreadable, "unreadable")) if count]
    first = "".join(f" The first that failed: {one['id']}: {one['reason']}" for one in result.failures[:1])
    return IncompleteError(
        f"{result.dataset}: {lost} of {listed} samples are lost ({', '.join(parts)}): the share of the others is "
        f"{share:.4f}, below {min_success:g}.{first}",
        advice=f"What there is was saved in {result.path}: run the same again to try only what is missing, or accept "
        "a smaller share (--min-success).",
    )
