"""Per-sample records as columns: what the metrics are computed from, and what the page shows of them."""

from __future__ import annotations

import heapq
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from eyechart.errors import ResultError
from eyechart.io.untrusted import DAMAGED
from eyechart.results import Result
from eyechart.results.files import record_fields, records_file
from eyechart.results.line_fields import Block, field_of, objects_of
from eyechart.results.mistakes import BADNESS
from eyechart.types import MeanOf, RecordForm

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Truth = NDArray[np.bool_]

FORMS: tuple[RecordForm, ...] = get_args(RecordForm)
NO_VALUE = -1
_LIMITS = {"label": (0, 1_000_000), "prediction": (NO_VALUE, 1_000_000), "rank": (1, 2**53)}
"""Tables as long as the largest label are made of them."""
_PLAIN = frozenset({bool, int, float})
MAX_THUMBNAILS = 2_000
"""Thumbnails that are held of one result."""
_NUMBERS: Mapping[RecordForm, tuple[str, ...]] = {
    "label": ("label", "prediction", "rank"),
    "ranking": ("rank",),
    "question": ("correct",),
}
_NAMES: Mapping[RecordForm, tuple[str, ...]] = {"ranking": ("query", "image"), "question": ("category",)}
"""The fields that the page's view of a form reads."""
_FIELDS: Mapping[RecordForm, tuple[str, ...]] = {"labels": ("labels", "scores")}
_SHOWN = ("rank", "text", "thumbnail")
_NEEDED: Mapping[RecordForm, tuple[str, ...]] = {"label": ("label",), "ranking": ("query",)}
"""Those without which there is no view."""


@dataclass(frozen=True)
class RecordColumns:
    """The records of one result, in the order of the file."""

    form: RecordForm
    ids: tuple[str, ...]
    numbers: Mapping[str, Floats]
    """By field: NaN where a record does not have it, infinity where it is null."""
    names: Mapping[str, tuple[str | None, ...]]
    """By field, as text; None where a record does not have it."""
    present: Truth = field(default_factory=lambda: np.zeros((0, 0), bool))
    """Several labels: samples x classes."""
    scores: Floats = field(default_factory=lambda: np.zeros((0, 0)))
    worst: Mapping[int, str] = field(default_factory=dict)
    """Position -> record of the worst mistakes, as JSON: most are never looked into."""
    texts: Mapping[int, str] = field(default_factory=dict)
    """Position -> the text of the query."""
    thumbnails: Mapping[int, str] = field(default_factory=dict)

    def whole(self, name: str) -> Ints:
        """Return a column of whole numbers, `NO_VALUE` where there is none."""
        values = self.numbers[name]
        return np.where(np.isfinite(values), values, NO_VALUE).astype(np.int64)

    def worst_records(self) -> dict[int, Mapping[str, Any]]:
        """Return the worst mistakes by position."""
        return dict(zip(self.worst, json.loads(f"[{','.join(self.worst.values())}]"), strict=True))

    @property
    def from_text(self) -> Truth:
        """Ranking: tell whether the query is a text."""
        return np.array([query == "text" for query in self.names["query"]], bool)


def read_columns(result: Result, *, keep: int = 0) -> RecordColumns | None:
    """Read the records of a result as columns; None if it has no records file.

    With ``keep``, also what the page shows: texts, thumbnails, and the whole records of so many worst mistakes.

    Raises:
        ResultError: If the records are missing, damaged or not those that the result was made with.
    """
    path = records_file(result)
    if path is None:
        return None
    try:
        reader = _RecordsReader(result, keep)
        for block in record_fields(result, reader.fields):
            reader.add(block)
        return reader.columns()
    except DAMAGED as error:
        raise ResultError(f"{path}: a record is damaged: {error!r}.") from error


class _RecordsReader:
    """Collects columns while blocks of records stream by."""

    def __init__(self, result: Result, keep: int) -> None:
        means: Sequence[MeanOf] = [metric.mean_of for metric in result.values.values() if metric.mean_of]
        form = result.record_info.get("form")
        self.form: RecordForm = form if form in FORMS else ""
        self.keep = keep
        self.ids: list[str] = []
        self.numbers: dict[str, list[Floats]] = _lists(_NUMBERS.get(self.form, ()), (mean.field for mean in means))
        self.names: dict[str, list[str | None]] = _lists(
            _NAMES.get(self.form, ()),
            (name for mean in means for name in (*mean.where, mean.cluster, mean.balance) if name),
        )
        self.labels: list[Sequence[int]] = []
        self.scores: list[Floats] = []
        self.worst: list[tuple[float, int, str | Mapping[str, Any]]] = []
        self.texts: dict[int, str] = {}
        self.thumbnails: dict[int, str] = {}

    def add(self, block: Block) -> None:
        start = len(self.ids)
        self.ids += map(str, field_of(block, "id"))
        for name, numbers in self.numbers.items():
            numbers.append(_numbers(block, name))
        for name, texts in self.names.items():
            texts += [None if text is None else str(text) for text in field_of(block, name, None)]
        for name in _NEEDED.get(self.form, ()):
            lacking = next((i for i, value in enumerate(field_of(block, name, None)) if value is None), None)
            if lacking is not None:
                raise ValueError(f"{block[lacking]['id']!r:.80} has no {name}")
        if self.form == "labels":
            self.labels += field_of(block, "labels")
            self.scores.append(np.array(field_of(block, "scores"), np.float64))
        if self.keep:
            self._show(start, block)

    def _show(self, start: int, block: Block) -> None:
        """Keep what the page shows."""
        self.texts |= {i: str(text) for i, text in enumerate(field_of(block, "text", None), start) if text}
        for position, thumbnail in enumerate(field_of(block, "thumbnail", None), start):
            if thumbnail and len(self.thumbnails) < MAX_THUMBNAILS:
                self.thumbnails[position] = str(thumbnail)
        if badness_of := BADNESS.get(self.form):
            wrong: Sequence[int] = range(len(block))
            if "rank" in _NUMBERS.get(self.form, ()):  # most are right, and need not be looked at
                wrong = [i for i, rank in enumerate(field_of(block, "rank", None)) if rank != 1]
            found = ((badness_of(record), -(start + i), written) for i, record, written in objects_of(block, wrong))
            self.worst = heapq.nlargest(self.keep, chain(self.worst, (one for one in found if one[0] > 0)))

    @property
    def fields(self) -> set[str]:
        """Name what is read of every record."""
        return {"id", *self.numbers, *self.names, *_FIELDS.get(self.form, ()), *(_SHOWN if self.keep else ())}

    def columns(self) -> RecordColumns:
        scores = np.concatenate(self.scores) if self.scores else np.zeros((0, 0))
        present = np.zeros(scores.shape, bool)
        for row, labels in enumerate(self.labels):
            present[row, list(labels)] = True
        return RecordColumns(
            form=self.form,
            ids=tuple(self.ids),
            numbers={name: np.concatenate([np.empty(0), *parts]) for name, parts in self.numbers.items()},
            names={name: tuple(values) for name, values in self.names.items()},
            present=present,
            scores=scores,
            worst={-place: one if isinstance(one, str) else json.dumps(one) for _, place, one in self.worst},
            texts=self.texts,
            thumbnails=self.thumbnails,
        )


def numbered(names: Iterable[str]) -> Ints:
    """Number names in the order in which they are met."""
    number: dict[str, int] = {}
    return np.array([number.setdefault(name, len(number)) for name in names], np.int64)


def _lists(*names: Iterable[str]) -> dict[str, list[Any]]:
    return {name: [] for part in names for name in part}


def _numbers(block: Block, name: str) -> Floats:
    """Read a field of some records; what is no plain number, or near a limit, is looked at one by one."""
    low, high = _LIMITS.get(name, (-math.inf, math.inf))
    found = field_of(block, name, None)
    if _PLAIN.issuperset(map(type, found)):
        values = np.array(found, np.float64)
        if bool(((values >= low) & (values < high)).all()):
            return values
    return np.array([_number(record, name) for record in block], np.float64)


def _number(record: Mapping[str, Any], name: str) -> float:
    if name not in record:
        return math.nan
    value = record[name]
    if value is None:
        return math.inf
    low, high = _LIMITS.get(name, (-math.inf, math.inf))
    if not isinstance(value, int | float) or not low <= value <= high:
        raise ValueError(f"{name} is {value!r:.80}")
    return float(value)
