"""Does a benchmark need its images? A model that sees them, paired with the same model that does not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from eyechart.report.means import AlignedRows, align, rows_of
from eyechart.report.page.limits import cut, short
from eyechart.report.records import Ints, RecordColumns, numbered
from eyechart.results import Result
from eyechart.stats import paired_test

SETTING = "blind"


def blind_controls(results: Mapping[int, Result], columns: Mapping[int, RecordColumns]) -> list[dict[str, Any]]:
    """Compare each control of a benchmark with the run that it belongs to, over all questions and by category.

    ``gain`` is what the images add to the accuracy, with the interval and the p-value of the paired test; ``right``
    counts the questions that both got right, only the seeing model, only the blind one, and neither.
    """
    found = []
    for seeing, blind in _pairs(results, columns):
        metric = results[seeing].values.get("accuracy")
        if metric is None or metric.mean_of is None:
            continue
        aligned = align([rows_of(columns[model], metric.mean_of) for model in (seeing, blind)])
        if aligned is None:
            continue
        found.append(
            {
                "seeing": seeing,
                "blind": blind,
                "how": _how(results[blind]),
                "chance": metric.chance,
                **_gain(aligned, np.arange(len(aligned.ids))),
                "categories": list(_by_category(aligned, columns[seeing])),
            }
        )
    return found


def _pairs(results: Mapping[int, Result], columns: Mapping[int, RecordColumns]) -> Iterator[tuple[int, int]]:
    """Yield each run that sees the images with each control of the same model and settings."""
    for blind in columns:
        if not _how(results[blind]):
            continue
        for seeing in columns:
            if _how(results[seeing]) == "" and _identity(results[seeing]) == _identity(results[blind]):
                yield seeing, blind


def _how(result: Result) -> str | None:
    settings = result.job.get("settings")
    return str(settings[SETTING]) if isinstance(settings, Mapping) and SETTING in settings else None


def _identity(result: Result) -> list[Any]:
    settings = {name: value for name, value in result.job["settings"].items() if name != SETTING}
    return [result.model_card.get("fingerprint"), settings]


def _by_category(aligned: AlignedRows, columns: RecordColumns) -> Iterator[dict[str, Any]]:
    own = dict(zip(columns.ids, columns.names["category"], strict=True))
    names = [own[name] or "" for name in aligned.ids]
    places = numbered(names)
    for name, place in sorted(dict(zip(names, places.tolist(), strict=True)).items()):
        if name:
            yield {"name": cut(name), **_gain(aligned, np.flatnonzero(places == place))}


def _gain(aligned: AlignedRows, part: Ints) -> dict[str, Any]:
    seeing, blind = aligned.values[:, part]
    test = paired_test(seeing, blind, None if aligned.units is None else [aligned.units[i] for i in part])
    low, high = test.interval or (None, None)
    can, could = seeing >= 1, blind >= 1
    return {
        "seeing_value": short(float(seeing.mean())),
        "blind_value": short(float(blind.mean())),
        "gain": short(test.difference),
        "low": short(low),
        "high": short(high),
        "p": float(f"{test.p_value:.3g}"),
        "n": len(part),
        "right": [int(both.sum()) for both in (can & could, can & ~could, ~can & could, ~can & ~could)],
    }
