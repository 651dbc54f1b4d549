"""Per-sample records as columns: what the metrics are computed from, and what the page shows of them."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from eyechart.errors import ResultError
from eyechart.io.untrusted import DAMAGED
from eyechart.results import Result
from eyechart.results.files import records_file
from eyechart.results.mistakes import BADNESS
from eyechart.types import MeanOf, RecordForm

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Truth = NDArray[np.bool_]

FORMS: tuple[RecordForm, ...] = get_args(RecordForm)
NO_VALUE = -1
_LIMITS = {"label": (0, 1_000_000), "prediction": (NO_VALUE, 1_000_000), "rank": (1, 2**53)}
"""Tables as long as the largest label are made of them."""
MAX_THUMBNAILS = 2_000
"""Thumbnails that are held of one result."""
_NUMBERS: Mapping[RecordForm, tuple[str, ...]] = {
    "label": ("label", "prediction", "rank"),
    "ranking": ("rank",),
    "question": ("correct",),
}
_NAMES: Mapping[RecordForm, tuple[str, ...]] = {"ranking": ("query", "image"), "question": ("category",)}
"""The fields that the page's view of a form reads."""
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
    worst: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)
    """Position -> whole record of the worst mistakes."""
    texts: Mapping[int, str] = field(default_factory=dict)
    """Position -> the text of the query."""
    thumbnails: Mapping[int, str] = field(default_factory=dict)

    def whole(self, name: str) -> Ints:
        """Return a column of whole numbers, `NO_VALUE` where there is none."""
        values = self.numbers[name]
        return np.where(np.isfinite(values), values, NO_VALUE).astype(np.int64)

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
        for record in result.iter_records():
            reader.add(record)
        return reader.columns()
    except DAMAGED as error:
        raise ResultError(f"{path}: a record is damaged: {error!r}.") from error


class _RecordsReader:
    """Collects columns while records stream by."""

    def __init__(self, result: Result, keep: int) -> None:
        means: Sequence[MeanOf] = [metric.mean_of for metric in result.values.values() if metric.mean_of]
        form = result.records.get("form")
        self.form: RecordForm = form if form in FORMS else ""
        self.keep = keep
        self.ids: list[str] = []
        self.numbers = _lists(_NUMBERS.get(self.form, ()), (mean.field for mean in means))
        self.names = _lists(
            _NAMES.get(self.form, ()),
            (name for mean in means for name in (*mean.where, mean.cluster, mean.balance) if name),
        )
        self.labels: list[Sequence[int]] = []
        self.scores: list[Sequence[float]] = []
        self.worst: list[tuple[float, int, Mapping[str, Any]]] = []
        self.texts: dict[int, str] = {}
        self.thumbnails: dict[int, str] = {}

    def add(self, record: Mapping[str, Any]) -> None:
        position = len(self.ids)
        self.ids.append(str(record["id"]))
        for name, numbers in self.numbers.items():
            numbers.append(_number(record, name))
        for name, texts in self.names.items():
            texts.append(str(record[name]) if record.get(name) is not None else None)
        for name in _NEEDED.get(self.form, ()):
            if record.get(name) is None:
                raise ValueError(f"{record['id']!r:.80} has no {name}")
        if self.form == "labels":
            self.labels.append(record["labels"])
            self.scores.append(record["scores"])
        if self.keep:
            self._show(position, record)

    def _show(self, position: int, record: Mapping[str, Any]) -> None:
        """Keep what the page shows."""
        if record.get("text"):
            self.texts[position] = str(record["text"])
        if record.get("thumbnail") and len(self.thumbnails) < MAX_THUMBNAILS:
            self.thumbnails[position] = str(record["thumbnail"])
        badness = BADNESS[self.form](record) if self.form in BADNESS else 0.0
        if badness > 0:
            push = heapq.heappush if len(self.worst) < self.keep else heapq.heappushpop
            push(self.worst, (badness, -position, record))

    def columns(self) -> RecordColumns:
        scores = np.array(self.scores, np.float64) if self.scores else np.zeros((0, 0))
        present = np.zeros(scores.shape, bool)
        for row, labels in enumerate(self.labels):
            present[row, list(labels)] = True
        return RecordColumns(
            form=self.form,
            ids=tuple(self.ids),
            numbers={name: np.array(values, np.float64) for name, values in self.numbers.items()},
            names={name: tuple(values) for name, values in self.names.items()},
            present=present,
            scores=scores,
            worst={-position: record for _, position, record in self.worst},
            texts=self.texts,
            thumbnails=self.thumbnails,
        )


def numbered(names: Iterable[str]) -> Ints:
    """Number names in the order in which they are met."""
    number: dict[str, int] = {}
    return np.array([number.setdefault(name, len(number)) for name in names], np.int64)


def _lists(*names: Iterable[str]) -> dict[str, list[Any]]:
    return {name: [] for part in names for name in part}


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
