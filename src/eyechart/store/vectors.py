"""The embedding store: vectors by content digest, one folder per model fingerprint and role.

A table is a set of immutable safetensors parts, each holding a key matrix and a vector matrix. A part appears whole
or not at all (`eyechart.store.blobs`), so there are no locks, any number of writers may work at once, and a killed
writer leaves only a temporary file. Keys are read once and looked up in memory; vectors are read part by part.

Every part carries checksums of its keys and of its vectors, which are verified when they are first used. A part that
fails is set aside, and what it held is computed again. A part that is gone was most likely merged with others
(`eyechart.store.compact`): the table then looks at all parts anew.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eyechart.errors import ModelError
from eyechart.io.digests import DIGEST_SIZE, digest_bytes
from eyechart.io.files import cache_root
from eyechart.store.blobs import BlobError, GoneBlobError, open_blobs
from eyechart.store.half import rounded
from eyechart.store.key_index import KeyIndex
from eyechart.store.parts import DamagedPartError, new_name, part_bytes, read_tensor
from eyechart.types import HALF

log = logging.getLogger("eyechart.store")

Digests = NDArray[np.uint8]
Vectors = NDArray[np.float32]


class VectorTable:
    """The vectors of one model and role (images, or texts in a language)."""

    def __init__(self, place: str | Path, *parts: str, half: bool = False) -> None:
        self._blobs = open_blobs(place, *parts)
        self._half = half
        """Whether vectors are rounded to half precision when they are added; they come back as float32 all the same."""
        self._parts: list[str] = []
        self._index = KeyIndex()
        self._verified: set[str] = set()
        self.damaged: list[str] = []
        """The parts that were set aside, and why."""
        self.refresh()

    @property
    def rows(self) -> int:
        """Count the rows of all parts that were not found to be damaged."""
        return self._index.rows

    def missing(self, digests: Digests) -> NDArray[np.bool_]:
        """Tell which keys have no vector yet; one in a part that turns out to be damaged has none."""
        return self._find(digests)[0] < 0

    def _find(self, digests: Digests) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Return the part that holds each key, or -1, and its row there. Every part that is named is sound."""
        while True:
            parts, rows = self._index.find(digests)
            try:
                damaged = [n for n in np.unique(parts[parts >= 0]) if not self._is_sound(self._parts[n])]
            except GoneBlobError:
                self._reopen()
                continue
            if not damaged:
                return parts, rows
            self._index.forget(damaged)  # another part may hold the same keys, and has to be looked at as well

    def add(self, digests: Digests, vectors: Vectors) -> None:
        """Store vectors under their keys, durably; returns when they are on disk.

        Raises:
            ModelError: If a vector holds NaN or infinity: such a row would poison every later score. Or if half
                precision cannot keep it.
        """
        if not len(digests):
            return
        if not np.isfinite(vectors).all():
            bad = int((~np.isfinite(vectors).all(axis=1)).sum())
            raise ModelError(
                f"The model gave {bad} of {len(vectors)} vectors with NaN or infinite values.",
                advice="Try --precision fp32, and check the weights.",
            )
        name = new_name()
        full = np.asarray(vectors, np.float32)
        self._blobs.write(name, part_bytes(digests, rounded(full) if self._half else full))
        self._verified.add(name)
        self._extend([(name, digests)])

    def get(self, digests: Digests) -> Vectors:
        """Return the vectors for keys that are all present, in the order of the keys."""
        while True:
            parts, rows = self._find(digests)
            if (parts < 0).any():
                raise BlobError(
                    f"{int((parts < 0).sum())} of {len(digests)} vectors are not in the embedding store.",
                    advice="Run again: what was removed meanwhile is computed again.",
                )
            try:
                return self._gather(parts, rows)
            except GoneBlobError:
                self._reopen()

    def _gather(self, parts: NDArray[np.int32], rows: NDArray[np.int64]) -> Vectors:
        """Read rows of parts that were verified."""
        out: Vectors | None = None
        order = np.argsort(parts, kind="stable")
        for chosen in np.split(order, np.flatnonzero(np.diff(parts[order])) + 1) if len(order) else ():
            vectors = read_tensor(self._blobs.path(self._parts[parts[chosen[0]]]), "vectors", verify=False)
            if out is None:
                out = np.empty((len(parts), vectors.shape[1]), np.float32)
            elif out.shape[1] != vectors.shape[1]:
                raise ModelError(f"The model gave vectors of {out.shape[1]} and of {vectors.shape[1]} dimensions.")
            out[chosen] = vectors[rows[chosen]]
        return out if out is not None else np.empty((0, 0), np.float32)

    def refresh(self) -> None:
        """Learn of the parts that others have written since."""
        known, complete = {*self._parts, *self.damaged}, False
        while not complete:
            complete, found = True, []
            for name in self._blobs.names():
                if name in known:
                    continue
                known.add(name)
                try:
                    keys = self._sound_tensor(name, "keys")
                except GoneBlobError:
                    complete = False  # merged since it was listed: what took its place is in the next list
                    continue
                if keys is not None:
                    found.append((name, keys))
            self._extend(found)

    def _reopen(self) -> None:
        """Look at all parts anew: one is gone, and what it held may be in another."""
        self._parts, self._index = [], KeyIndex()
        self.refresh()

    def _is_sound(self, name: str) -> bool:
        """Verify the vectors of a part, once in a process."""
        if name not in self._verified and self._sound_tensor(name, "vectors") is not None:
            self._verified.add(name)
        return name in self._verified

    def _sound_tensor(self, name: str, key: str) -> NDArray[Any] | None:
        """Read a tensor of a part; one that is not as it was written makes the part be set aside."""
        try:
            return read_tensor(self._blobs.path(name), key)
        except DamagedPartError as error:
            self._blobs.set_aside(name)
            self.damaged.append(name)
            log.warning("%s", error.message)
            return None

    def _extend(self, parts: list[tuple[str, Digests]]) -> None:
        """Add whole parts to the index."""
        first = len(self._parts)
        self._parts += [name for name, _ in parts]
        self._index.add([keys for _, keys in parts], first)


class EmbeddingStore:
    """All tables below one folder or address."""

    def __init__(self, root: str | Path) -> None:
        self.root = root
        self._tables: dict[tuple[str, str], VectorTable] = {}

    def table(self, fingerprint: str, role: str, *, half: bool = False) -> VectorTable:
        """Return the table of a model (by fingerprint) and a role (``image``, ``text``); in half precision, another."""
        key = (fingerprint, f"{role}-{HALF}" if half else role)
        if key not in self._tables:
            self._tables[key] = VectorTable(self.root, *key, half=half)
        return self._tables[key]

    def refresh(self) -> None:
        """Learn of what other processes have written since the tables were opened."""
        for table in self._tables.values():
            table.refresh()


def store_place() -> str | Path:
    """Return where vectors are kept: ``$EYECHART_STORE``, a path or an address of fsspec, else a part of the cache."""
    return os.environ.get("EYECHART_STORE") or cache_root() / "embeddings"


def text_digests(texts: list[str], language: str) -> Digests:
    """Return the keys of texts; a model may treat the same words differently in another language."""
    keys = b"".join(digest_bytes(f"{language}\0{text}".encode("utf-8", "surrogatepass")) for text in texts)
    return np.frombuffer(keys, np.uint8).reshape(-1, DIGEST_SIZE)
