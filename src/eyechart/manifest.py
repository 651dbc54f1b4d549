"""The first pass over a dataset: what is in it, without decoding an image or loading a model.

It yields ids, content digests, labels and captions, checks everything that can be checked, and makes the
dataset's fingerprint. A label out of range or a truncated archive is found here, before the expensive work.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from eyechart.errors import DataError
from eyechart.io.digests import DIGEST_SIZE, digest_bytes
from eyechart.io.names import check_name
from eyechart.io.progress import NoProgress, Progress
from eyechart.io.untrusted import MAX_TEXT
from eyechart.languages import canonical
from eyechart.store.vectors import Digests
from eyechart.types import Dataset, DatasetInfo, Notice, OnError, Sample


@dataclass(frozen=True, slots=True)
class Entry:
    """A sample without its image."""

    id: str
    label: int | None
    labels: tuple[int, ...]
    texts: tuple[str, ...]
    meta: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Failure:
    """A sample that could not be used, and why."""

    id: str
    reason: str


@dataclass(frozen=True)
class Manifest:
    """All samples of a dataset, in order, by id and digest."""

    dataset: Dataset
    info: DatasetInfo
    entries: tuple[Entry, ...]
    digests: Digests
    failures: tuple[Failure, ...]
    notices: tuple[Notice, ...]
    fingerprint: str
    limit: int | None = None

    def __len__(self) -> int:
        return len(self.entries)

    def samples(self) -> Iterator[Sample]:
        """Stream the samples again, images included."""
        return iter_samples(self.dataset, self.limit)

    def only(self, keep: np.ndarray) -> Self:
        """Return the manifest of the samples at the positions ``keep``: what is not listed is not embedded."""
        return replace(self, entries=self.take(keep), digests=self.digests[keep])

    def take(self, keep: np.ndarray) -> tuple[Entry, ...]:
        """Return the entries at the positions ``keep``."""
        return tuple(self.entries[i] for i in keep)


@dataclass(frozen=True, slots=True)
class Embedded:
    """Vectors of the samples that could be encoded, as the model gave them, and those that could not."""

    vectors: NDArray[np.float32]
    kept: NDArray[np.int64]
    """Positions in the manifest, ascending, one per vector."""
    failures: tuple[Failure, ...] = ()


@dataclass
class _Reading:
    """What the first pass has seen so far."""

    entries: list[Entry] = field(default_factory=list)
    keys: list[bytes] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)


def iter_samples(dataset: Dataset, limit: int | None = None) -> Iterator[Sample]:
    """Stream all samples of a dataset in order, exactly ``limit`` of them if there are as many.

    Raises:
        DataError: If files vanish or a disk fails while they are read, whatever the reader.
    """
    samples = (sample for shard in dataset.shards() for sample in shard)
    try:
        yield from islice(samples, limit) if limit is not None else samples
    except OSError as error:
        raise DataError(
            f"{dataset.info.name}: {error.filename or dataset.info.source} cannot be read ({error.strerror}).",
            advice="It was there before: check the disk or the mount. What was computed is kept, run again to go on.",
        ) from error


def read_manifest(
    dataset: Dataset,
    *,
    limit: int | None = None,
    on_error: OnError = "fail",
    progress: Progress | None = None,
) -> Manifest:
    """Read a dataset once and check it.

    Args:
        dataset: What to read.
        limit: Read exactly this many samples.
        on_error: What to do with an image that cannot be read: stop, or list it as failed.
        progress: Where to report.

    Raises:
        DataError: If the dataset is empty, an id occurs twice, a label is out of range or a caption is missing.
    """
    info = dataset.info
    reading = _Reading()
    with (progress or NoProgress()).step(f"reading {info.name}", None) as bar:
        for sample in iter_samples(dataset, limit):
            bar.advance()
            _take(reading, sample, info, on_error)
    if not reading.entries and info.kind != "external":
        raise DataError(
            f"{info.name}: no samples in split {info.split!r} of {info.source}.",
            advice="Check the split's name and the folder.",
        )
    _check_ids(info, reading.entries)
    digests = np.frombuffer(b"".join(reading.keys), np.uint8).reshape(-1, DIGEST_SIZE)
    return Manifest(
        dataset=dataset,
        info=info,
        entries=tuple(reading.entries),
        digests=digests,
        failures=tuple(reading.failures),
        notices=(*info.notes, *_notices(info, reading, digests)),
        fingerprint=_fingerprint(reading, info),
        limit=limit,
    )


def _take(reading: _Reading, sample: Sample, info: DatasetInfo, on_error: OnError) -> None:
    _check_sample(sample, info)
    try:
        key = sample.image.digest() if sample.image else digest_bytes(repr((sample.id, sample.texts)).encode())
    except DataError as error:
        if on_error == "fail":
            raise
        reading.failures.append(Failure(sample.id, error.message))
        return
    reading.keys.append(key)
    reading.entries.append(Entry(sample.id, sample.label, sample.labels, sample.texts, sample.meta))


def _check_sample(sample: Sample, info: DatasetInfo) -> None:
    """Refuse a sample that cannot be shown, or whose target does not fit the description of its dataset."""
    check_name(sample.id, f"{info.name}: the sample")
    where = f"{info.name}: sample {sample.id}"
    longest = max(map(len, sample.texts), default=0)
    if longest > MAX_TEXT:
        raise DataError(
            f"{where} has a text of {longest} characters, more than the limit of {MAX_TEXT}.",
            advice="No model reads that much: shorten it, or leave the image out.",
        )
    if info.kind in ("classification", "multilabel"):
        present = sample.labels if info.kind == "multilabel" else (sample.label,)
        for label in present:
            if label is None:
                raise DataError(f"{where} has no label.", advice="Each image needs one (a .cls member, a column).")
            if label < 0 or (info.classnames and label >= len(info.classnames)):
                raise DataError(
                    f"{where} has label {label}, but there are {len(info.classnames)} class names "
                    f"(0 to {len(info.classnames) - 1}).",
                    advice="The class list does not fit the labels: check classnames.txt.",
                )
    elif info.kind == "retrieval" and not any(text.strip() for text in sample.texts):
        raise DataError(f"{where} has no caption.", advice="Give it at least one, or leave the image out.")


def _check_ids(info: DatasetInfo, entries: list[Entry]) -> None:
    twice = [name for name, count in Counter(entry.id for entry in entries).items() if count > 1]
    if twice:
        raise DataError(
            f"{info.name}: {len(twice)} sample ids occur more than once, for example {twice[0]!r}.",
            advice="Ids name samples in records and comparisons: make them unique.",
        )


def _notices(info: DatasetInfo, reading: _Reading, digests: Digests) -> Iterator[Notice]:
    if info.kind in ("classification", "multilabel") and info.classnames:
        used = {label for entry in reading.entries for label in (*entry.labels, entry.label) if label is not None}
        empty = [info.classnames[i] for i in range(len(info.classnames)) if i not in used]
        if empty:
            shown = ", ".join(repr(name) for name in empty[:5]) + (", ..." if len(empty) > 5 else "")
            yield Notice("class_without_images", len(empty), f"{len(empty)} classes have no image: {shown}.")
    blank = sum(not text.strip() for entry in reading.entries for text in entry.texts)
    if blank:
        yield Notice("blank_captions", blank, f"{blank} captions are blank.")
    copies = len(digests) - len(np.unique(digests.view("V16")))
    if copies and info.kind != "questions":  # several questions about one image are no accident
        yield Notice("duplicate_images", copies, f"{copies} images are byte-for-byte copies of another one.")
    if reading.failures:
        first = reading.failures[0]
        yield Notice("unreadable_images", len(reading.failures), f"for example {first.id}: {first.reason}")


def _fingerprint(reading: _Reading, info: DatasetInfo) -> str:
    """Digest all that defines the samples: ids, images, targets, captions."""
    state = hashlib.blake2b(f"{info.kind}\0{canonical(info.language)}".encode(), digest_size=16)
    if info.collection is not None:
        state.update(repr(info.collection).encode("utf-8", "surrogatepass"))
    for entry, key in zip(reading.entries, reading.keys, strict=True):
        state.update(key)
        target = (entry.id, entry.label, entry.labels, entry.texts)
        # The options and answers of a question are columns like any other.
        whole = (*target, sorted(entry.meta.items())) if info.kind == "questions" else target
        state.update(repr(whole).encode("utf-8", "surrogatepass"))
    return state.hexdigest()
