"""Per-sample records as columns, and the cache of columns that were read before."""

import heapq
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import cache
from itertools import chain
from operator import itemgetter
from pathlib import Path
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from eyechart.errors import ResultError
from eyechart.io.digests import DIGEST_SIZE, digest_bytes, file_state, is_settled
from eyechart.io.files import cache_root, write_atomic
from eyechart.io.safe_parse import DAMAGED, Objects
from eyechart.results import Result
from eyechart.results.files import record_blocks, records_file
from eyechart.results.job_results import badness
from eyechart.types import MeanOf, Metric, Outcome, RecordForm

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Truth = NDArray[np.bool_]

FORMS: tuple[RecordForm, ...] = get_args(RecordForm)
NO_VALUE = -1
_LIMITS = {"label": (0, 1_000_000), "prediction": (NO_VALUE, 1_000_000), "rank": (1, 2**53)}
"""Bounds of fields: arrays are allocated up to the largest label."""
_PLAIN = frozenset({bool, int, float})
_IMAGES = ("thumbnail", "preview")
MAX_THUMBNAILS = 2_000
"""Thumbnails kept per result."""
_NUMBERS: Mapping[RecordForm, tuple[str, ...]] = {
    "label": ("label", "prediction", "rank"),
    "ranking": ("rank", "similarity"),
    "question": ("correct",),
}
_NAMES: Mapping[RecordForm, tuple[str, ...]] = {"ranking": ("query", "image"), "question": ("category",)}
"""Fields read for the page's view of each form."""
_NEEDED: Mapping[RecordForm, tuple[str, ...]] = {"label": ("label",), "ranking": ("query",)}
"""Fields required by the view."""


@dataclass(frozen=True)
class RecordColumns:
    """The records of one result, in the order of the file."""

    form: RecordForm
    ids: tuple[str, ...]
    numbers: Mapping[str, Floats]
    """By field: NaN if a record lacks it, infinity if it is null."""
    names: Mapping[str, tuple[str | None, ...]]
    """By field, as text; None if a record lacks it."""
    present: Truth = field(default_factory=lambda: np.zeros((0, 0), bool))
    """Multi-label truth: samples x classes."""
    scores: Floats = field(default_factory=lambda: np.zeros((0, 0)))
    worst: Mapping[int, str] = field(default_factory=dict)
    """Position -> record of the worst mistakes, as JSON, parsed on demand."""
    texts: Mapping[int, str] = field(default_factory=dict)
    """Position -> the text of the query."""
    images: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)
    """Position -> ``thumbnail`` and ``preview`` of the sample."""

    def whole(self, name: str) -> Ints:
        """Return a column of integers, with `NO_VALUE` for missing ones."""
        values = self.numbers[name]
        return np.where(np.isfinite(values), values, NO_VALUE).astype(np.int64)

    def worst_records(self) -> dict[int, Mapping[str, Any]]:
        """Return the worst mistakes by position."""
        return dict(zip(self.worst, json.loads(f"[{','.join(self.worst.values())}]"), strict=True))

    @property
    def from_text(self) -> Truth:
        """Whether the query of each ranking record is a text."""
        return np.array([query == "text" for query in self.names["query"]], bool)


def read_columns(result: Result, *, keep: int = 0) -> RecordColumns | None:
    """Read the records of a result as columns; None if it has no records file.

    With ``keep``, also the page's data: texts, thumbnails, and the full records of that many worst mistakes.

    Raises:
        ResultError: If the records are missing, damaged or modified.
    """
    path = records_file(result)
    if path is None:
        return None
    try:
        reader = _RecordsReader(result.values, result.record_info.get("form"), keep)
        for block in record_blocks(result):
            reader.add(block)
        return reader.columns()
    except DAMAGED as error:
        raise ResultError("{path}: a record is damaged: {reason!r}.", path=path, reason=error) from error


def as_columns(outcome: Outcome, form: RecordForm) -> RecordColumns:
    """Return the records of an outcome that has not been written."""
    reader = _RecordsReader(outcome.metrics, form, keep=0)
    reader.add(list(map(dict, outcome.records)))
    return reader.columns()


class _RecordsReader:
    """Collects columns from blocks of records."""

    def __init__(self, metrics: Mapping[str, Metric], form: object, keep: int) -> None:
        means: Sequence[MeanOf] = [metric.mean_of for metric in metrics.values() if metric.mean_of]
        self.form: RecordForm = form if form in FORMS else ""
        self.keep = keep
        self.ids: list[str] = []
        fields = *_NUMBERS.get(self.form, ()), *(name for mean in means for name in (mean.field, *mean.draws))
        self.numbers: dict[str, list[Floats]] = {name: [] for name in fields}
        texts = *_NAMES.get(self.form, ()), *(n for mean in means for n in (*mean.where, mean.cluster, mean.balance))
        self.names: dict[str, list[str | None]] = {name: [] for name in texts if name}
        self.labels: list[Sequence[int]] = []
        self.scores: list[Floats] = []
        self.worst: list[tuple[float, int, dict[str, Any]]] = []
        self.texts: dict[int, str] = {}
        self.images: dict[int, dict[str, Any]] = {}

    def add(self, block: Objects) -> None:
        start = len(self.ids)
        self.ids += map(str, _column(block, "id"))
        for name, numbers in self.numbers.items():
            numbers.append(_numbers(block, name))
        for name, texts in self.names.items():
            texts += [None if text is None else str(text) for text in _column(block, name, None)]
        for name in _NEEDED.get(self.form, ()):
            lacking = next((i for i, value in enumerate(_column(block, name, None)) if value is None), None)
            if lacking is not None:
                raise ValueError(f"{block[lacking]['id']!r:.80} has no {name}")
        if self.form == "labels":
            self.labels += _column(block, "labels")
            self.scores.append(np.array(_column(block, "scores"), np.float64))
        if self.keep:
            self._keep_shown(start, block)

    def _keep_shown(self, start: int, block: Objects) -> None:
        self.texts |= {i: str(text) for i, text in enumerate(_column(block, "text", None), start) if text}
        for position, thumbnail in enumerate(_column(block, "thumbnail", None), start):
            if thumbnail and len(self.images) < MAX_THUMBNAILS:
                self.images[position] = {name: block[position - start].get(name) for name in _IMAGES}
        if self.form not in ("", "question"):  # questions are not ordered
            wrong: Sequence[int] = range(len(block))
            if self.form != "labels":  # most are right, and need not be looked at
                wrong = [i for i, rank in enumerate(_column(block, "rank", None)) if rank != 1]
            found = ((badness(block[i]), -(start + i), block[i]) for i in wrong)
            self.worst = heapq.nlargest(self.keep, chain(self.worst, (one for one in found if one[0] > 0)))

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
            worst={-place: json.dumps(record | dict.fromkeys(_IMAGES)) for _, place, record in self.worst},
            texts=self.texts,
            images=self.images,
        )


def numbered(names: Iterable[str]) -> Ints:
    """Number names in order of first occurrence."""
    number: dict[str, int] = {}
    return np.array([number.setdefault(name, len(number)) for name in names], np.int64)


def _column(block: Objects, name: str, *default: Any) -> list[Any]:
    """Return a field of some records; without a default, all of them must have it."""
    try:
        return list(map(itemgetter(name), block))
    except KeyError:
        if not default:
            raise
        return [record.get(name, *default) for record in block]


def _numbers(block: Objects, name: str) -> Floats:
    """Read a field of some records; anything but plain numbers within bounds is checked one by one."""
    low, high = _LIMITS.get(name, (-math.inf, math.inf))
    found = _column(block, name, None)
    if _PLAIN.issuperset(map(type, found)):
        values = np.array(found, np.float64)
        if bool(((values >= low) & (values < high)).all()):
            return values
    for value in found:
        if value is not None and (not isinstance(value, int | float) or not low <= value <= high):
            raise ValueError(f"{name} is {value!r:.80}")
    missing = [math.inf if name in record else math.nan for record in block]
    return np.array(
        [default if value is None else value for value, default in zip(found, missing, strict=True)], np.float64
    )


# On-disk cache of record columns, so that an unchanged records file is not read again.
#
# Unchanged means the same size, modification time, status change time, inode and device (see `eyechart.io.digests`),
# and the digest in the result. If the cache cannot be written, records are read again.


def cached_columns(result: Result, *, keep: int = 0) -> RecordColumns | None:
    """Return the columns of `read_columns`, from the cache if the records file is unchanged."""
    path, digest = records_file(result), result.record_info.get("sha256")
    if path is None or not digest:
        return read_columns(result, keep=keep)
    means = [asdict(metric.mean_of) for metric in result.values.values() if metric.mean_of]
    what = [str(path.absolute()), result.record_info.get("form"), means, keep, _code()]
    place = cache_root() / "columns" / f"{digest_bytes(json.dumps(what).encode()).hex()}.bin"
    state = _state(path, digest)
    known = _load(place, state)
    if known is not None:
        return known
    columns = read_columns(result, keep=keep)
    if columns is not None and state is not None and is_settled(state[0]) and _state(path, digest) == state:
        _save(place, state, columns)
    return columns


def _state(path: Path, digest: object) -> list[Any] | None:
    """Return the state that identifies the records; None if they are missing."""
    try:
        return [file_state(path), digest]
    except OSError:
        return None


@cache
def _code() -> list[str]:
    """Digest the code of this package, so that a change invalidates the cache."""
    return [digest_bytes(file.read_bytes()).hex() for file in sorted(Path(__file__).parent.glob("*.py"))]


_BY_POSITION = ("worst", "texts", "images")
"""Fields of the columns that map positions to values; keys of JSON objects would become texts, too."""


def _save(place: Path, state: list[Any], columns: RecordColumns) -> None:
    """Write a digest, a line of JSON, and the arrays that it describes."""
    arrays: dict[str, NDArray[Any]] = {f"numbers {name}": values for name, values in columns.numbers.items()}
    arrays |= {"present": columns.present, "scores": columns.scores}
    head = {
        "state": state,
        "arrays": [[name, array.dtype.str, array.shape] for name, array in arrays.items()],
        "form": columns.form,
        "ids": columns.ids,
        "names": columns.names,
        **{part: list(getattr(columns, part).items()) for part in _BY_POSITION},
    }
    body = json.dumps(head).encode() + b"\n" + b"".join(array.tobytes() for array in arrays.values())
    with suppress(OSError):  # an unwritable cache must not prevent a report
        write_atomic(place, digest_bytes(body) + body, durable=False)


def _load(place: Path, state: list[Any] | None) -> RecordColumns | None:
    """Read the cached columns of a file in this state; None if there are none, or they are damaged."""
    try:
        data = place.read_bytes()
    except OSError:
        return None
    digest, body = data[:DIGEST_SIZE], data[DIGEST_SIZE:]
    end = body.find(b"\n")
    if digest_bytes(body) != digest or (head := json.loads(body[:end]))["state"] != state:
        return None
    arrays: dict[str, NDArray[Any]] = {}
    offset = end + 1
    for name, kind, shape in head["arrays"]:
        arrays[name] = np.frombuffer(body, kind, int(np.prod(shape)), offset).reshape(shape)
        offset += arrays[name].nbytes
    return RecordColumns(
        form=head["form"],
        ids=tuple(head["ids"]),
        numbers={name.removeprefix("numbers "): array for name, array in arrays.items() if name.startswith("numbers ")},
        names={name: tuple(values) for name, values in head["names"].items()},
        present=arrays["present"],
        scores=arrays["scores"],
        **{part: dict(head[part]) for part in _BY_POSITION},
    )
