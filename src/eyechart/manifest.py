"""The first pass over a dataset: what is in it, without decoding an image or loading a model.

It yields ids, content digests, labels and captions, checks everything that can be checked, and makes the
dataset's fingerprint. A label out of range or a truncated archive is found before an image is read, and so before the
expensive work; then images are read once, and whoever embeds them takes the bytes as they come.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from eyechart.errors import DataError
from eyechart.io.digests import DIGEST_SIZE, State, digest_bytes, file_state, is_settled, remember_digests
from eyechart.io.names import check_name
from eyechart.io.progress import NoProgress, Progress
from eyechart.io.untrusted import MAX_TEXT
from eyechart.languages import canonical
from eyechart.store.vectors import Digests
from eyechart.types import Dataset, DatasetInfo, Notice, OnError, Sample, outline_of


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
class _Found:
    """What a pass has seen so far."""

    entries: list[Entry] = field(default_factory=list)
    keys: list[bytes] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)


def iter_samples(dataset: Dataset, limit: int | None = None, *, outline: bool = False) -> Iterator[Sample]:
    """Stream all samples of a dataset in order, exactly ``limit`` of them if there are as many.

    Args:
        dataset: What to read.
        limit: Read exactly this many samples.
        outline: Read no image that need not be read to know its target.

    Raises:
        DataError: If files vanish or a disk fails while they are read, whatever the reader.
    """
    samples = (sample for shard in dataset.shards() for sample in (outline_of(shard) if outline else shard))
    try:
        yield from islice(samples, limit) if limit is not None else samples
    except OSError as error:
        raise DataError(
            f"{dataset.info.name}: {error.filename or dataset.info.source} cannot be read ({error.strerror}).",
            advice="It was there before: check the disk or the mount. What was computed is kept, run again to go on.",
        ) from error


class DatasetReading:
    """A dataset that was looked through, without reading an image; its images are read once, by who needs them first.

    Args:
        dataset: What to read.
        limit: Read exactly this many samples.
        on_error: What to do with an image that cannot be read: stop, or list it as failed.
        progress: Where to report.

    Raises:
        DataError: If the dataset is empty, an id occurs twice, a label is out of range or a caption is missing.
    """

    def __init__(
        self,
        dataset: Dataset,
        *,
        limit: int | None = None,
        on_error: OnError = "fail",
        progress: Progress | None = None,
    ) -> None:
        self.dataset, self.info, self.limit = dataset, dataset.info, limit
        self._on_error: OnError = on_error
        self._progress = progress or NoProgress()
        self._files: dict[Path, bytes] = {}
        self._manifest: Manifest | None = None
        self.settled = True
        """Whether a change of the files since they were looked through would be seen."""
        found = self._look_through()
        if all(found.keys):
            self._manifest, self._files = self._finish(found), {}
        else:
            self._check(found)
            self._outline = tuple(found.entries)

    def __len__(self) -> int:
        return len(self.outline)

    @property
    def outline(self) -> tuple[Entry, ...]:
        """Return the samples, so far as they are known without their images."""
        return self._outline if self._manifest is None else self._manifest.entries

    @property
    def done(self) -> bool:
        """Tell whether all digests are known: nothing has to be read for the manifest."""
        return self._manifest is not None

    def changed(self) -> bool:
        """Tell whether a file is not as it was when the dataset was looked through; this can be asked once."""
        files, self._files = self._files, {}
        return any(_brief(_state_of(path)) != state for path, state in files.items())

    @property
    def manifest(self) -> Manifest:
        """Return the manifest; what is not known yet is read for it."""
        if self._manifest is None:
            with self._progress.step(f"reading {self.info.name}", len(self)) as bar:
                for _ in self.samples():
                    bar.advance()
        assert self._manifest is not None  # noqa: S101 - the last sample was taken
        return self._manifest

    def samples(self) -> Iterator[tuple[bytes, Sample]]:
        """Read the dataset: every sample with its digest, and with the bytes of its image if they were read for it.

        The manifest is there when all samples have been taken.
        """
        found = _Found()
        try:
            for sample in iter_samples(self.dataset, self.limit):
                with_key = self._take(found, sample)
                if with_key:
                    yield with_key
        finally:
            remember_digests()  # also if it ends early: another process, or the next run, need not read them again
        self._manifest, self._outline = self._finish(found), ()

    def _look_through(self) -> _Found:
        """List the samples with the digests that are known without reading an image; the others are empty."""
        found = _Found()
        with self._progress.step(f"reading {self.info.name}", None) as bar:
            for sample in iter_samples(self.dataset, self.limit, outline=True):
                bar.advance()
                self._take(found, sample, unread=True)
        return found

    def _take(self, found: _Found, sample: Sample, *, unread: bool = False) -> tuple[bytes, Sample] | None:
        _check_sample(sample, self.info)
        try:
            key = self._known_key(sample, unread=unread)
            if key is None and not unread:
                sample = replace(sample, image=sample.need_image().load())
                key = sample.need_image().digest()
        except DataError as error:
            if self._on_error == "fail":
                raise
            found.failures.append(Failure(sample.id, error.message))
            return None
        found.keys.append(key or b"")
        found.entries.append(Entry(sample.id, sample.label, sample.labels, sample.texts, sample.meta))
        return key or b"", sample

    def _known_key(self, sample: Sample, *, unread: bool) -> bytes | None:
        image = sample.image
        if image is None:
            return digest_bytes(repr((sample.id, sample.texts)).encode())
        file = image.file
        noted = not unread or file is None or file in self._files
        state = [] if file is None or (noted and image.part) else _state_of(file)
        if file is not None and not noted:
            self._files[file] = _brief(state)
            self.settled = self.settled and (not state or is_settled(state))
        return image.digest_unread(state)

    def _check(self, found: _Found) -> None:
        if not found.entries and self.info.kind != "external":
            raise DataError(
                f"{self.info.name}: no samples in split {self.info.split!r} of {self.info.source}.",
                advice="Check the split's name and the folder.",
            )
        _check_ids(self.info, found.entries)

    def _finish(self, found: _Found) -> Manifest:
        self._check(found)
        digests = np.frombuffer(b"".join(found.keys), np.uint8).reshape(-1, DIGEST_SIZE)
        return Manifest(
            dataset=self.dataset,
            info=self.info,
            entries=tuple(found.entries),
            digests=digests,
            failures=tuple(found.failures),
            notices=(*self.info.notes, *_notices(self.info, found, digests)),
            fingerprint=_fingerprint(found, self.info),
            limit=self.limit,
        )


def read_manifest(
    dataset: Dataset,
    *,
    limit: int | None = None,
    on_error: OnError = "fail",
    progress: Progress | None = None,
) -> Manifest:
    """Read a dataset once and check it: the manifest of a `DatasetReading`."""
    return DatasetReading(dataset, limit=limit, on_error=on_error, progress=progress).manifest


def _state_of(path: Path) -> State:
    """Return the state of a file; one that is gone has none."""
    try:
        return file_state(path)
    except OSError:
        return []


def _brief(state: State) -> bytes:
    """Keep a state in a few bytes: there may be a million files."""
    return digest_bytes(repr(state).encode())


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


def _notices(info: DatasetInfo, found: _Found, digests: Digests) -> Iterator[Notice]:
    if info.kind in ("classification", "multilabel") and info.classnames:
        used = {label for entry in found.entries for label in (*entry.labels, entry.label) if label is not None}
        empty = [info.classnames[i] for i in range(len(info.classnames)) if i not in used]
        if empty:
            shown = ", ".join(repr(name) for name in empty[:5]) + (", ..." if len(empty) > 5 else "")
            yield Notice("class_without_images", len(empty), f"{len(empty)} classes have no image: {shown}.")
    blank = sum(not text.strip() for entry in found.entries for text in entry.texts)
    if blank:
        yield Notice("blank_captions", blank, f"{blank} captions are blank.")
    copies = len(digests) - len(np.unique(digests.view("V16")))
    if copies and info.kind != "questions":  # several questions about one image are no accident
        yield Notice("duplicate_images", copies, f"{copies} images are byte-for-byte copies of another one.")
    if found.failures:
        first = found.failures[0]
        yield Notice("unreadable_images", len(found.failures), f"for example {first.id}: {first.reason}")


def _fingerprint(found: _Found, info: DatasetInfo) -> str:
    """Digest all that defines the samples: ids, images, targets, captions."""
    state = hashlib.blake2b(f"{info.kind}\0{canonical(info.language)}".encode(), digest_size=16)
    if info.collection is not None:
        state.update(repr(info.collection).encode("utf-8", "surrogatepass"))
    for entry, key in zip(found.entries, found.keys, strict=True):
        state.update(key)
        target = (entry.id, entry.label, entry.labels, entry.texts)
        # The options and answers of a question are columns like any other.
        whole = (*target, sorted(entry.meta.items())) if info.kind == "questions" else target
        state.update(repr(whole).encode("utf-8", "surrogatepass"))
    return state.hexdigest()
