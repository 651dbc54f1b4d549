"""Per-sample records as columns, and what each metric is a mean of."""

from __future__ import annotations

import heapq
import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from eyechart.errors import ResultError
from eyechart.results import Result

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Form = Literal["label", "labels", "ranking", "question"]
"""One label and a rank, several labels and scores, queries with ranks, or questions with a verdict."""

NO_VALUE = -1
_LARGEST = {"label": 1_000_000, "prediction": 1_000_000, "rank": 2**62, "correct": 1}
"""Numbers of a record: tables as long as the largest label are made of them."""
MAX_THUMBNAILS = 2_000
"""Thumbnails that are held of one result."""


@dataclass(frozen=True)
class Columns:
    """The records of one result, in the order of the file."""

    form: Form
    ids: tuple[str, ...]
    label: Ints
    prediction: Ints
    rank: Ints
    """Rank of the right answer, 1 being best; `NO_VALUE` where there is none."""
    correct: Ints
    """1, 0, or `NO_VALUE` where the answer could not be judged."""
    cluster: tuple[str, ...] = ()
    """Ranking: the image each query belongs to."""
    from_text: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, bool))
    """Ranking: whether the query is a text (image retrieval)."""
    present: NDArray[np.bool_] = field(default_factory=lambda: np.zeros((0, 0), bool))
    """Several labels: samples x classes."""
    scores: Floats = field(default_factory=lambda: np.zeros((0, 0)))
    worst: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)
    """Position -> whole record of the worst mistakes."""
    texts: Mapping[int, str] = field(default_factory=dict)
    """Ranking: position -> the text of the query."""
    thumbnails: Mapping[int, str] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.ids)

    def take(self, rows: Ints) -> Columns:
        """Return the rows at the given positions, without what is only for showing."""
        return Columns(
            form=self.form,
            ids=tuple(self.ids[i] for i in rows),
            label=self.label[rows],
            prediction=self.prediction[rows],
            rank=self.rank[rows],
            correct=self.correct[rows],
            cluster=tuple(self.cluster[i] for i in rows) if self.cluster else (),
            from_text=self.from_text[rows] if self.from_text.size else self.from_text,
            present=self.present[rows] if self.present.size else self.present,
            scores=self.scores[rows] if self.scores.size else self.scores,
        )


@dataclass(frozen=True)
class MetricRows:
    """What a metric is the mean of: one value per row, and which rows belong together."""

    rows: Ints
    """Positions in the columns."""
    values: Floats
    binary: bool = True
    """Each value is right or wrong, so that exact tests of proportions apply."""
    clustered: bool = False


def read_columns(result: Result, *, keep: int = 0) -> Columns | None:
    """Read the records of a result as columns; None if there are none, or none of a form that is known here.

    With ``keep``, also what the page shows: texts, thumbnails, and the whole records of so many worst mistakes.

    Raises:
        ResultError: If the records are missing or damaged.
    """
    try:
        records = _Reader(keep)
        for record in result.iter_records():
            if records.is_known(record):
                records.add(record)
        return records.columns() if records.ids else None
    except OSError as error:
        raise ResultError(f"{result.path}: its records cannot be read ({error.strerror}).") from error
    except (AttributeError, IndexError, KeyError, TypeError, ValueError, OverflowError) as error:
        raise ResultError(f"{result.path}: a record is damaged: {error!r}.") from error


def reread(result: Result, wanted: Collection[str]) -> dict[str, Mapping[str, Any]]:
    """Read the records of some samples as they are."""
    return {str(record["id"]): record for record in result.iter_records() if str(record.get("id")) in wanted}


class _Reader:
    """Collects columns while records stream by."""

    def __init__(self, keep: int) -> None:
        self.keep = keep
        self.form: Form = "label"
        self.ids: list[str] = []
        self.numbers: dict[str, list[int]] = {name: [] for name in ("label", "prediction", "rank", "correct")}
        self.cluster: list[str] = []
        self.from_text: list[bool] = []
        self.labels: list[Sequence[int]] = []
        self.scores: list[Sequence[float]] = []
        self.worst: list[tuple[float, int, Mapping[str, Any]]] = []
        self.texts: dict[int, str] = {}
        self.thumbnails: dict[int, str] = {}

    def is_known(self, record: Mapping[str, Any]) -> bool:
        """Tell whether a record has the form of those before it; the first known one decides."""
        form = form_of(record)
        if not self.ids and form is not None:
            self.form = form
        return form is not None and form == self.form

    def add(self, record: Mapping[str, Any]) -> None:
        position = len(self.ids)
        self.ids.append(str(record["id"]))
        for name, values in self.numbers.items():
            values.append(_number(record.get(name), name))
        if self.form == "ranking":
            self.from_text.append(record["query"] == "text")
            self.cluster.append(str(record.get("image", record["id"])))
        elif self.form == "label" and self.numbers["label"][-1] == NO_VALUE:
            raise ValueError("no label")
        elif self.form == "labels":
            self.labels.append(record["labels"])
            self.scores.append(record["scores"])
        if not self.keep:
            return
        if record.get("text"):
            self.texts[position] = str(record["text"])
        if record.get("thumbnail") and len(self.thumbnails) < MAX_THUMBNAILS:
            self.thumbnails[position] = str(record["thumbnail"])
        badness = 0.0 if self.form == "question" else how_bad(record, self.form)
        if badness > 0:
            (heapq.heappush if len(self.worst) < self.keep else heapq.heappushpop)(
                self.worst, (badness, -position, record)
            )

    def columns(self) -> Columns:
        scores = np.array(self.scores, np.float64) if self.scores else np.zeros((0, 0))
        present = np.zeros(scores.shape, bool)
        for row, labels in enumerate(self.labels):
            present[row, list(labels)] = True
        return Columns(
            form=self.form,
            ids=tuple(self.ids),
            **{name: np.array(values, np.int64) for name, values in self.numbers.items()},
            cluster=tuple(self.cluster),
            from_text=np.array(self.from_text, bool),
            present=present,
            scores=scores,
            worst={-position: record for _, position, record in self.worst},
            texts=self.texts,
            thumbnails=self.thumbnails,
        )


def _number(value: Any, name: str) -> int:
    if not isinstance(value, int):
        return NO_VALUE
    if not NO_VALUE <= value <= _LARGEST[name]:
        raise ValueError(f"{name} is {value}")
    return int(value)


def form_of(record: Mapping[str, Any]) -> Form | None:
    """Recognise the form of a record by its keys; None for those of tasks that have no view of samples."""
    return next((form for key, form in _FORMS if key in record), None)


_FORMS: Sequence[tuple[str, Form]] = (
    ("query", "ranking"),
    ("labels", "labels"),
    ("question", "question"),
    ("rank", "label"),
    ("correct", "question"),
)


def how_bad(record: Mapping[str, Any], form: Form) -> float:
    """Order mistakes for showing, confident ones first; 0 for what is right. Questions are not ordered."""
    if form == "ranking":
        rank = record["rank"]
        return float(rank - 1) if rank is not None else math.inf
    if form == "labels":
        scores = record["scores"]
        right = [scores[i] for i in record["labels"]]
        return max(0.0, max(scores) - min(right)) if right else 0.0
    if record["rank"] == 1:
        return 0.0
    scores = record.get("scores") or [0.0]
    return 1e-9 + max(0.0, float(scores[0]) - float(record.get("label_score") or 0.0))


# ------------------------------------------------------------------------------------ metrics as means

_ACCURACY = re.compile(r"(?:lp_|knn_|cluster_)?acc(\d{0,9})|accuracy|Overall")
_RECALL = re.compile(r"(image|text)_retrieval_recall@(\d{1,9})")
_MEAN_RECALL = re.compile(r"(?:lp_|knn_)?mean_per_class_recall")


def metric_rows(columns: Columns, metric: str) -> MetricRows | None:
    """Say which rows a metric is the mean of, and each row's value; None if it is not a mean of rows.

    Mean per-class recall is one too: a right sample of class c counts n / (classes x n_c) instead of 1.
    """
    if found := _RECALL.fullmatch(metric):
        if columns.form != "ranking":
            return None
        rows = np.flatnonzero(columns.from_text == (found[1] == "image"))
        return MetricRows(rows, _hits(columns, rows, int(found[2])), clustered=found[1] == "image")
    everything = np.arange(len(columns))
    if _MEAN_RECALL.fullmatch(metric) and columns.form == "label":
        _, inverse, counts = np.unique(columns.label, return_inverse=True, return_counts=True)
        weights = len(columns) / (counts.size * counts[inverse])
        return MetricRows(everything, _hits(columns, everything, 1) * weights, binary=False)
    if (found := _ACCURACY.fullmatch(metric)) and columns.form in ("label", "question"):
        if columns.form == "label":
            return MetricRows(everything, _hits(columns, everything, int(found[1] or 1)))
        judged = np.flatnonzero(columns.correct != NO_VALUE)
        return MetricRows(judged, columns.correct[judged].astype(np.float64)) if found[1] in ("", None) else None
    return None


def unit_scores(columns: Columns, metrics: Iterable[str]) -> tuple[list[str], Floats] | None:
    """Give each independent unit (image) a value such that their mean is the mean of the metrics.

    A unit of a metric with several rows per image gets the sum over its rows, scaled by images / rows.
    """
    names = columns.cluster or columns.ids
    units = sorted(set(names))
    place = {name: i for i, name in enumerate(units)}
    index = np.array([place[name] for name in names])
    totals = []
    for metric in metrics:
        part = metric_rows(columns, metric)
        if part is None or part.rows.size == 0:
            return None
        sums = np.bincount(index[part.rows], weights=part.values, minlength=len(units))
        totals.append(sums * len(units) / part.rows.size)
    return (units, np.asarray(np.mean(totals, axis=0))) if totals else None


def _hits(columns: Columns, rows: Ints, k: int) -> Floats:
    rank = columns.rank[rows]
    return np.asarray((rank != NO_VALUE) & (rank <= k), np.float64)
