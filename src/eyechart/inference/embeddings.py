"""A model behind the store, on this machine: what is known is read, what is missing is computed and kept."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from dataclasses import dataclass
from itertools import chain
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from eyechart.errors import DataError, ModelError
from eyechart.inference.as_read import Listed, missing_as_read
from eyechart.inference.pipeline import FLUSH_ROWS, Pipeline, Sink
from eyechart.io.progress import NoProgress, Progress
from eyechart.io.stopwatch import Stopwatch
from eyechart.manifest import DatasetReading, Embedded, Failure, Manifest
from eyechart.metrics.vectors import Vectors
from eyechart.models.lazy import LazyModel
from eyechart.models.towers.paired import paired_notices
from eyechart.store.vectors import Digests, EmbeddingStore, VectorTable, text_digests
from eyechart.types import ModelCard, Notice, OnError, Sample

Wanted = TypeVar("Wanted", bound=Sized)


ROUNDED = ("image", "text")
"""The tables that may be in half precision; which texts were cut stands in one that has no precision."""
MOST_IN_FULL = 200_000
"""Vectors of a table that are kept in full beside rounded ones: 400 MB of 512 numbers each."""


@dataclass(frozen=True)
class _InFullToo:
    """A table of rounded vectors, and one that gets the same vectors as the model gave them."""

    table: VectorTable
    full: VectorTable

    def add(self, digests: Digests, vectors: Vectors) -> None:
        self.table.add(digests, vectors)
        if self.full.rows + len(digests) <= MOST_IN_FULL:
            self.full.add(digests, vectors)


class StoredEmbeddings:
    """Embeds images and texts with one model in this process."""

    def __init__(
        self,
        model: LazyModel,
        store: EmbeddingStore,
        *,
        batch_size: int = 64,
        grow: bool = False,
        workers: int = 4,
        decode_processes: int | None = None,
        on_error: OnError = "fail",
        progress: Progress | None = None,
        watch: Stopwatch | None = None,
        half: bool = False,
        full: EmbeddingStore | None = None,
    ) -> None:
        self.model = model
        self.store = store
        self.half = half
        """Whether vectors are stored, and so also handed out, in half precision."""
        self.full = full
        """Where those that are computed are kept as the model gave them, to be compared with the rounded ones."""
        self.progress = progress or NoProgress()
        self.watch = watch or Stopwatch()
        self.pipeline = Pipeline(model, batch_size, workers, decode_processes, on_error, self.watch, grow=grow)
        self._truncated = 0
        self.encoded = 0
        """Images that were not in the store and had to be encoded."""
        self._given: str | None = None
        """Whose vectors were handed out: those of two models are not compared with each other."""
        self._size: int | None = None
        """How long those vectors are."""
        self._known_in_full = full is not None
        """Whether all that were handed out are there in full as well."""

    def in_full(self) -> StoredEmbeddings | None:
        """Return the same model with the vectors as it gave them, if all that were handed out are known so."""
        if not self._known_in_full or self.full is None or self._given is None:
            return None
        how = self.pipeline
        return StoredEmbeddings(
            self.model, self.full, batch_size=how.batch_size, workers=how.workers, on_error=how.on_error
        )

    @property
    def card(self) -> ModelCard:
        """Describe the model, without loading it if it is known from an earlier run."""
        return self.model.card

    def missing_samples(self, manifest: Manifest) -> list[Listed]:
        """List the images that have no vector yet, each once, in order, for another process to embed.

        Those whose bytes are only in this process come without an image: the other one finds them by their ids.
        """
        absent = np.flatnonzero(self._absent("image", manifest.digests))
        wanted = {manifest.digests[i].tobytes() for i in absent}
        return [
            (key, Sample(sample.id, sample.need_image().elsewhere()))
            for key, sample in (_missing_samples(manifest, wanted) if wanted else ())
        ]

    def count_missing(self, manifest: Manifest) -> int:
        """Count the images that have no vector yet; copies count each."""
        return int(self._table().missing(manifest.digests).sum())

    def embed_samples(self, samples: Sequence[Listed], read: Callable[[], Manifest]) -> None:
        """Embed what `missing_samples` listed; the dataset is read only for images that came without one."""
        here = {key: sample for key, sample in samples if sample.image and sample.image.within_reach()}
        if len(here) < len(samples):
            self._embed(read(), {key for key, _ in samples})
            return
        wanted = self._settled(lambda: self._missing(here))
        if wanted:
            found = ((key, sample) for key, sample in here.items() if key in wanted)
            with self.progress.step("images", len(wanted)) as bar:
                self.pipeline.embed_images(found, self._sink(), bar)

    def _missing(self, keys: Iterable[bytes]) -> set[bytes]:
        listed = list(keys)
        digests = np.frombuffer(b"".join(listed), np.uint8).reshape(len(listed), -1)
        return {listed[i] for i in np.flatnonzero(self._absent("image", digests))}

    def _absent(self, role: str, keys: Digests) -> NDArray[np.bool_]:
        """Tell which vectors have to be computed; what is stored in full needs only be rounded."""
        absent = self._table(role).missing(keys)
        if self.half and absent.any():
            full = self.store.table(self.card.fingerprint, role)
            known = np.flatnonzero(absent & ~full.missing(keys))
            for start in range(0, len(known), FLUSH_ROWS):
                rows = keys[known[start : start + FLUSH_ROWS]]
                self._sink(role).add(rows, full.get(rows))
            absent[known] = False
        return absent

    def images(self, listed: Manifest | DatasetReading) -> Embedded:
        """Embed images; each distinct image is encoded once per model, ever.

        Those of a dataset that nobody has read yet are embedded as they are read.
        """
        if isinstance(listed, DatasetReading) and not listed.done:
            self._embed_as_read(listed)
        manifest = listed.manifest if isinstance(listed, DatasetReading) else listed
        failures = self._embed(manifest, {key.tobytes() for key in manifest.digests})
        table = self._table()
        kept = np.flatnonzero(~table.missing(manifest.digests))
        if len(kept) + len(failures) < len(manifest):
            failures = _with_copies(manifest, kept, failures)
        self._given = self.card.fingerprint
        with self.watch.phase("store"):
            vectors = self._handed_out("image", manifest.digests[kept])
        return Embedded(vectors, kept, tuple(failures))

    def _handed_out(self, role: str, keys: Digests) -> Vectors:
        """Read vectors; refuse those that cannot be compared with those that were handed out before."""
        vectors = self._table(role).get(keys)
        if self.full is not None and self._known_in_full:
            self._known_in_full = not self.full.table(self.card.fingerprint, role).missing(keys).any()
        if len(vectors):
            size, self._size = self._size, vectors.shape[1]
            if size not in (None, self._size):
                raise ModelError(
                    f"{self.model.spec.label} gave vectors of {size} and of {self._size} dimensions.",
                    advice="Images and texts need vectors of the same size to be compared.",
                )
        return vectors

    def _table(self, role: str = "image") -> VectorTable:
        return self.store.table(self.card.fingerprint, role, half=self.half and role in ROUNDED)

    def _sink(self, role: str = "image") -> Sink:
        """Return where new vectors go."""
        table = self._table(role)
        return table if self.full is None else _InFullToo(table, self.full.table(self.card.fingerprint, role))

    def _settled(self, missing: Callable[[], Wanted]) -> Wanted:
        """Find what is missing. If anything is, load the model first, and look again in the table of its own card.

        The card of an earlier run may be out of date: no vector of the model of today goes under it, or beside those
        that were handed out under it.
        """
        found = missing()
        if not found:
            return found
        self.model.load(self._given)
        return missing()

    def _embed(self, manifest: Manifest, keys: set[bytes]) -> list[Failure]:
        """Encode those of the images that are not in the store."""
        wanted = self._settled(lambda: self._missing(keys))
        self.encoded += len(wanted)
        if not wanted:
            return []
        with self.progress.step(f"images of {manifest.info.name}", len(wanted)) as bar:
            return self.pipeline.embed_images(_missing_samples(manifest, wanted), self._sink(), bar)

    def _embed_as_read(self, reading: DatasetReading) -> None:
        """Read a dataset and encode what is not in the store from the bytes that its digest is made of.

        What cannot be decoded is left to who asks for it next: it has no vector then.
        """
        with self.progress.step(f"images of {reading.info.name}", len(reading)) as bar:
            missing = missing_as_read(reading.samples(), self._missing, bar)
            with self.watch.phase("read"):
                first = next(missing, None)
            if first is None:
                return
            self.model.load(self._given)  # the others are looked for in the table of its own card, and so is this one
            again = [first] if self._missing([first[0]]) else []
            self.pipeline.embed_images(self._counted(chain(again, missing)), self._sink(), bar)

    def _counted(self, samples: Iterable[Listed]) -> Iterator[Listed]:
        for listed in samples:
            self.encoded += 1
            yield listed

    def texts(self, texts: Sequence[str], *, language: str = "en") -> Vectors:
        """Embed texts, each distinct one once, in the order given."""
        distinct = list(dict.fromkeys(texts))
        keys = text_digests(distinct, language)
        missing = self._settled(
            lambda: list(np.flatnonzero(self._absent("text", keys) | self._table("text-cut").missing(keys)))
        )
        if missing:
            with self.progress.step("texts", len(missing)) as bar:
                texts_left = [distinct[i] for i in missing]
                sinks = self._sink("text"), self._table("text-cut")
                self.pipeline.embed_texts(texts_left, keys[missing], sinks, language, bar)
        self._given = self.card.fingerprint
        position = {text: i for i, text in enumerate(distinct)}
        with self.watch.phase("store"):
            cuts = self._table("text-cut").get(keys)
            self._truncated += int(cuts.sum())
            if self.full is not None:
                known = self.full.table(self.card.fingerprint, "text-cut")
                new = known.missing(keys)
                known.add(keys[new], cuts[new])
            return self._handed_out("text", keys)[[position[text] for text in texts]]

    def notices(self) -> Sequence[Notice]:
        """Return what the model had to say and how many texts it could not read to the end."""
        found = [Notice("model_note", 1, note) for note in self.card.notes] + paired_notices(self.card)
        if self._truncated:
            length = self.card.context_length
            message = f"{self._truncated} texts are longer than the {length} tokens that the model reads."
            found.append(Notice("truncated_texts", self._truncated, message))
        parts = [part for role in ("image", "text", "text-cut") for part in self._table(role).damaged]
        if parts:
            message = f"{len(parts)} parts of the embedding store were damaged; what they held was computed again."
            found.append(Notice("damaged_store", len(parts), message))
        return found + self.pipeline.backoff.notices()


def _missing_samples(manifest: Manifest, wanted: set[bytes]) -> Iterator[tuple[bytes, Sample]]:
    """Stream the dataset a second time, yielding the first sample of each wanted image."""
    key_of = {entry.id: manifest.digests[i].tobytes() for i, entry in enumerate(manifest.entries)}
    left = set(wanted)
    for sample in manifest.samples():
        key = key_of.get(sample.id)
        if key in left:
            left.discard(key)
            yield key, sample
        if not left:
            return


def _with_copies(manifest: Manifest, kept: np.ndarray, failures: list[Failure]) -> list[Failure]:
    """Give every sample that has no vector a failure: a broken image may occur several times."""
    reasons = {failure.id: failure.reason for failure in failures}
    by_key = {
        manifest.digests[i].tobytes(): reasons[entry.id]
        for i, entry in enumerate(manifest.entries)
        if entry.id in reasons
    }
    lost = {manifest.entries[i].id: manifest.digests[i].tobytes() for i in np.setdiff1d(np.arange(len(manifest)), kept)}
    gone = [name for name, key in lost.items() if key not in by_key]
    if gone:
        raise DataError(f"{gone[0]} was gone when the dataset was read a second time.", advice="Run again.")
    return [Failure(name, by_key[key]) for name, key in lost.items()]
