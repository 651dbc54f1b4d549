"""Reading the sets of published numbers that ship with the package.

A set of them is ``NAME.json`` or ``NAME.json.xz`` beside this file: ``title``, ``source``, ``date`` (of the copy),
``notes``; ``decimals`` if the numbers were rounded; ``models`` (name, weights, what is known of the size), ``columns``
(dataset, task, language, metric, whether it is the primary one), ``values`` (a row for each model) and ``tables`` (the
form in which they are shown). ``scripts/published_numbers.py`` makes the packed ones.
"""

from __future__ import annotations

import json
import lzma
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from eyechart.errors import unknown_name
from eyechart.report.load import PUBLISHED, Found
from eyechart.results import result_from_dict

PLAIN, PACKED = ".json", ".json.xz"


@dataclass(frozen=True)
class Publication:
    """A set of published results and where they come from."""

    name: str
    title: str
    source: str
    date: str
    notes: tuple[str, ...]
    half_unit: float
    """How far a number may be from what was measured, as it was rounded."""
    found: tuple[Found, ...]
    tables: tuple[dict[str, Any], ...]

    def holds(self, item: Found) -> bool:
        """Tell whether a result is one of these; a folder of one's own may have their name."""
        return item.origin == PUBLISHED and item.argument == self.name


def names() -> list[str]:
    """List the sets of published numbers that ship with the package."""
    files = (entry.name for entry in resources.files(__package__).iterdir())
    return sorted(name.partition(".")[0] for name in files if name.endswith((PLAIN, PACKED)))


def load_reference(name: str) -> tuple[Found, ...]:
    """Read a set of published results."""
    return load_publication(name).found


@cache
def load_publication(name: str) -> Publication:
    """Read a set of published results with what is known of it."""
    if name not in names():
        raise unknown_name("reference", name, names())
    folder = resources.files(__package__)
    packed = folder.joinpath(f"{name}{PACKED}")
    plain = folder.joinpath(f"{name}{PLAIN}")
    body = json.loads(lzma.decompress(packed.read_bytes()) if packed.is_file() else plain.read_bytes())
    decimals = body.get("decimals")
    found = [
        Found(result_from_dict(result, Path(f"{name}{PLAIN}")), PUBLISHED, name)
        for model, values in zip(body["models"], body["values"], strict=True)
        for result in _results(model, body["columns"], values)
    ]
    return Publication(
        name,
        body["title"],
        body["source"],
        body["date"],
        tuple(body["notes"]),
        0.0 if decimals is None else 0.5 * 10.0**-decimals,
        tuple(found),
        tuple(body["tables"]),
    )


def _results(
    model: tuple[str, str, dict[str, float]], columns: Sequence[dict[str, Any]], values: Sequence[float | None]
) -> list[dict[str, Any]]:
    """Make the results of one model: a body for each benchmark, of all samples of the test split."""
    name, pretrained, size = model
    bodies: dict[tuple[str, ...], dict[str, Any]] = {}
    for column, value in zip(columns, values, strict=True):
        if value is None:
            continue
        benchmark = {key: str(column[key]) for key in ("dataset", "task", "language")}
        body = bodies.setdefault(
            tuple(benchmark.values()),
            {**benchmark, "model": name, "pretrained": pretrained, "metrics": {}}
            | {"model_card": size, "data": {"split": "test"}, "job": {"limit": None}},
        )
        body["metrics"][column["metric"]] = value
        if column.get("primary"):
            body["data"]["main_metric"] = column["metric"]
    return list(bodies.values())
