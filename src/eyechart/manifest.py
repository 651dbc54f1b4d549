"""The first pass over a dataset: ids, digests, labels and captions, without decoding images or loading a model.

It validates the samples and computes the dataset's fingerprint. Out-of-range labels and truncated archives are found
before any image is read; images are then read once, and their bytes go straight to the encoder.
"""

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from eyechart.errors import DataError
from eyechart.io.digests import (
    DIGEST_SIZE,
    State,
    digest_bytes,
    file_state,
    is_settled,
    remember_digests,
    weak_filesystem,
)
from eyechart.io.files import check_name
from eyechart.io.progress import SILENT, Progress
from eyechart.io.safe_parse import MAX_TEXT
from eyechart.languages import canonical
from eyechart.messages import UserMessage
from eyechart.store.vector_store import Digests
from eyechart.types import Dataset, DatasetInfo, Notice, OnError, Sample, iter_without_images


@dataclass(frozen=True, slots=True)
class Entry:
    """A sample without its image."""

    id: str
    label: int | None
    labels: tuple[int, ...]
    texts: tuple[str, ...]
    meta: Mapping[str, Any]
    has_image: bool = False


@dataclass(frozen=True, slots=True)
class Failure:
    """A failed sample and the reason."""

    id: str
    reason: str


@dataclass(frozen=True)
class Manifest:
    """All samples of a dataset in order, without images, with their digests."""

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
        """Stream the samples with their images."""
        return iter_samples(self.dataset, self.limit)

    def image_digests(self) -> dict[str, str]:
        """Return the digest of each image in hexadecimal, by the id of its sample."""
        pairs = zip(self.entries, self.digests, strict=True)
        return {entry.id: bytes(digest).hex() for entry, digest in pairs if entry.has_image}

    def only(self, keep: np.ndarray) -> Self:
        """Return the manifest restricted to the positions ``keep``."""
        return replace(self, entries=self.take(keep), digests=self.digests[keep])

    def take(self, keep: np.ndarray) -> tuple[Entry, ...]:
        """Return the entries at the positions ``keep``."""
        return tuple(self.entries[i] for i in keep)


@dataclass(frozen=True, slots=True)
class EmbeddedSamples:
    """Unnormalised vectors of the encoded samples, and the samples that failed."""

    vectors: Any
    """One row per sample, or `MultiVectors` of a model with several vectors per input."""
    kept: NDArray[np.int64]
    """Positions in the manifest, ascending, one per vector."""
    failures: tuple[Failure, ...] = ()


@dataclass
class _Scan:
    """State of a pass over the samples."""

    entries: list[Entry] = field(default_factory=list)
    keys: list[bytes] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)


def iter_samples(dataset: Dataset, limit: int | None = None, *, outline: bool = False) -> Iterator[Sample]:
    """Stream the samples of a dataset in order, at most ``limit``; an outline skips image bytes where it can."""
    samples = (sample for shard in dataset.shards() for sample in (iter_without_images(shard) if outline else shard))
    try:
        yield from islice(samples, limit) if limit is not None else samples
    except OSError as error:
        text = "{name}: {path} cannot be read ({reason})."
        path = error.filename or dataset.info.source
        advice = "Check the disk or the mount and rerun: finished work is cached."
        raise DataError(text, advice=advice, name=dataset.info.name, path=path, reason=error.strerror) from error


class DatasetScan:
    """A validated dataset whose images have not been read yet; they are read once, on first use.

    Raises:
        DataError: If the dataset is empty, an id occurs twice, a label is out of range or a caption is missing.
    """

    def __init__(
        self, dataset: Dataset, *, limit: int | None = None, on_error: OnError = "fail", progress: Progress = SILENT
    ) -> None:
        self.dataset, self.info, self.limit = dataset, dataset.info, limit
        self._on_error, self._progress = on_error, progress
        self._files: dict[Path, int] = {}
        self._manifest: Manifest | None = None
        self.settled = True
        """Whether a later change of the files would be detected."""
        self._weak = ""
        with suppress(OSError, ValueError):  # an address, or only in memory
            self._weak = weak_filesystem(Path(self.info.source)) if self.info.source else ""
        found = _Scan()  # digests that would require reading an image stay empty
        with self._progress.step(UserMessage("reading {name}", name=self.info.name), None) as bar:
            for sample in iter_samples(dataset, limit, outline=True):
                bar.advance()
                self._take(found, sample, unread=True)
        self.outline = tuple(found.entries)
        """The samples without their images."""
        if all(found.keys):
            self._manifest, self._files = self._finish(found), {}
        else:
            self._check(found)

    def __len__(self) -> int:
        return len(self.outline)

    @property
    def done(self) -> bool:
        """Whether all digests are known, so that the manifest needs no further reading."""
        return self._manifest is not None

    def changed(self) -> bool:
        """Whether a file has changed since the scan; the recorded states are dropped."""
        files, self._files = self._files, {}
        return any(hash(tuple(_state_of(path))) != state for path, state in files.items())

    @property
    def manifest(self) -> Manifest:
        """The manifest; reads the images if their digests are not known yet."""
        if self._manifest is None:
            with self._progress.step(UserMessage("reading {name}", name=self.info.name), len(self)) as bar:
                for _ in self.samples():
                    bar.advance()
        assert self._manifest is not None  # noqa: S101 - the last sample was taken
        return self._manifest

    def samples(self) -> Iterator[tuple[bytes, Sample]]:
        """Read the dataset: every sample with its digest, and with the bytes of its image if the digest required them.

        The manifest is complete when the iterator is exhausted.
        """
        found = _Scan()
        try:
            for sample in iter_samples(self.dataset, self.limit):
                with_key = self._take(found, sample)
                if with_key:
                    yield with_key
        finally:
            remember_digests()  # also if interrupted, so that the next run need not reread the files
        self._manifest = self._finish(found)
        self.outline = self._manifest.entries

    def _take(self, found: _Scan, sample: Sample, *, unread: bool = False) -> tuple[bytes, Sample] | None:
        _check_sample(sample, self.info)
        image = sample.image
        try:
            if image is None:
                key: bytes | None = digest_bytes(repr((sample.id, sample.texts)).encode())
            else:
                file = image.file
                noted = not unread or file is None or file in self._files
                state = [] if file is None or (noted and image.part) else _state_of(file)
                if file is not None and not noted:
                    self._files[file] = hash(tuple(state))  # there may be millions of files
                    self._weak = self._weak or (weak_filesystem(file, state[4]) if state else "")
                    self.settled = self.settled and (not state or is_settled(state))
                key = image.digest_unread(state)
                if key is None and not unread:
                    image = image.load()
                    key, sample = image.digest(), replace(sample, image=image)
        except DataError as error:
            if self._on_error == "fail":
                raise
            found.failures.append(Failure(sample.id, error.message))
            return None
        found.keys.append(key or b"")
        entry = Entry(sample.id, sample.label, sample.labels, sample.texts, sample.meta, image is not None)
        found.entries.append(entry)
        return key or b"", sample

    def _check(self, found: _Scan) -> None:
        if not found.entries and self.info.kind != "external":
            text = "{name}: no samples in split {split!r} of {path}."
            advice = "Check the split's name and the folder."
            raise DataError(text, advice=advice, name=self.info.name, split=self.info.split, path=self.info.source)
        twice = [name for name, count in Counter(entry.id for entry in found.entries).items() if count > 1]
        if twice:
            text = "{name}: {n} sample ids occur more than once, for example {id!r}."
            advice = "Make ids unique: records and comparisons refer to them."
            raise DataError(text, advice=advice, name=self.info.name, n=len(twice), id=twice[0])

    def _finish(self, found: _Scan) -> Manifest:
        self._check(found)
        digests = np.frombuffer(b"".join(found.keys), np.uint8).reshape(-1, DIGEST_SIZE)
        return Manifest(
            dataset=self.dataset,
            info=self.info,
            entries=tuple(found.entries),
            digests=digests,
            failures=tuple(found.failures),
            notices=(*self.info.notes, *_notices(self.info, found, digests, self._weak)),
            fingerprint=_fingerprint(found, self.info),
            limit=self.limit,
        )


def read_manifest(
    dataset: Dataset, *, limit: int | None = None, on_error: OnError = "fail", progress: Progress = SILENT
) -> Manifest:
    """Read and validate a dataset: the manifest of a `DatasetScan`."""
    return DatasetScan(dataset, limit=limit, on_error=on_error, progress=progress).manifest


def _state_of(path: Path) -> State:
    """Return the state of a file; empty if it no longer exists."""
    try:
        return file_state(path)
    except OSError:
        return []


def _check_sample(sample: Sample, info: DatasetInfo) -> None:
    """Reject a sample with an invalid id, or a target that does not match the dataset's description."""
    check_name(sample.id, f"{info.name}: the sample")
    where = f"{info.name}: sample {sample.id}"
    longest = max(map(len, sample.texts), default=0)
    if longest > MAX_TEXT:
        text = "{where} has a text of {n} characters, more than the limit of {most}."
        raise DataError(text, advice="Shorten the text or remove the image.", where=where, n=longest, most=MAX_TEXT)
    if info.kind in ("classification", "multilabel"):
        present = sample.labels if info.kind == "multilabel" else (sample.label,)
        for label in present:
            if label is None:
                advice = "Add a label to every image (a .cls member, a column)."
                raise DataError("{where} has no label.", advice=advice, where=where)
            if label < 0 or (info.classnames and label >= len(info.classnames)):
                text = "{where} has label {label}, but there are {n} class names (0 to {last})."
                advice = "The class names do not match the labels: check classnames.txt."
                n = len(info.classnames)
                raise DataError(text, advice=advice, where=where, label=label, n=n, last=n - 1)
    elif info.kind == "retrieval" and not any(text.strip() for text in sample.texts):
        raise DataError("{where} has no caption.", advice="Add at least one caption or remove the image.", where=where)


def _notices(info: DatasetInfo, found: _Scan, digests: Digests, weak: str) -> Iterator[Notice]:
    if weak:
        text = UserMessage(
            "{source} is on a filesystem without reliable change times ({kind}): a changed file is recognised by its "
            "size, its times and sampled blocks. Use {--rehash} to read all files.",
            source=info.source,
            kind=weak,
        )
        yield Notice("weak_filesystem", 1, text)
    if info.kind in ("classification", "multilabel") and info.classnames:
        used = {label for entry in found.entries for label in (*entry.labels, entry.label) if label is not None}
        empty = [name for i, name in enumerate(info.classnames) if i not in used]
        if empty:
            shown = ", ".join(map(repr, empty[:5])) + (", ..." if len(empty) > 5 else "")
            text = UserMessage("{n} classes have no image: {names}.", n=len(empty), names=shown)
            yield Notice("class_without_images", len(empty), text)
    blank = sum(not text.strip() for entry in found.entries for text in entry.texts)
    if blank:
        yield Notice("blank_captions", blank, UserMessage("{n} captions are blank.", n=blank))
    copies = len(digests) - len(np.unique(digests.view("V16")))
    if copies and info.kind != "questions":  # several questions about one image are normal
        text = UserMessage("{n} images have the same bytes as another one.", n=copies)
        yield Notice("duplicate_images", copies, text)
    if found.failures:
        first = found.failures[0]
        text = UserMessage("for example {id}: {reason}", id=first.id, reason=first.reason)
        yield Notice("unreadable_images", len(found.failures), text)


def _fingerprint(found: _Scan, info: DatasetInfo) -> str:
    """Digest everything that defines the samples: ids, images, targets, captions."""
    state = hashlib.blake2b(f"{info.kind}\0{canonical(info.language)}".encode(), digest_size=16)
    if info.collection is not None:
        state.update(repr(info.collection).encode("utf-8", "surrogatepass"))
    for entry, key in zip(found.entries, found.keys, strict=True):
        state.update(key)
        target = (entry.id, entry.label, entry.labels, entry.texts)
        # Options and answers of questions are metadata columns.
        whole = (*target, sorted(entry.meta.items())) if info.kind == "questions" else target
        state.update(repr(whole).encode("utf-8", "surrogatepass"))
    return state.hexdigest()
