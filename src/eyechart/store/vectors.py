"""The embedding store: vectors by content digest, one folder per model fingerprint and role.

A table is a set of immutable safetensors parts, each holding a key matrix and a vector matrix. A part appears whole
or not at all (`eyechart.store.blobs`), so there are no locks, any number of writers may work at once, and a killed
writer leaves only a temporary file. Keys are read once and looked up in memory; vectors are read part by part.

Every part carries checksums of its keys and of its vectors, which are verified when they are first used. A part that
fails is set aside, and what it held is computed again.
"""

from __future__ import annotations

import hashlib
import logging
import os
import secrets
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eyechart.errors import ModelError
from eyechart.io.digests import DIGEST_SIZE, digest_bytes
from eyechart.io.files import cache_root
from eyechart.store.blobs import BlobError, open_blobs
from eyechart.store.key_index import KeyIndex

log = logging.getLogger("eyechart.store")

Digests = NDArray[np.uint8]
Vectors = NDArray[np.float32]


class DamagedPartError(BlobError):
    """A part is not what was written."""


class VectorTable:
    """The vectors of one model and role (images, or texts in a language)."""

    def __init__(self, place: str | Path, *parts: str) -> None:
        self._blobs = open_blobs(place, *parts)
        self._parts: list[str] = []
        self._index = KeyIndex()
        self._verified: set[str] = set()
        self.damaged: list[str] = []
        """The parts that were set aside, and why."""
        self.refresh()

    def missing(self, digests: Digests) -> NDArray[np.bool_]:
        """Tell which keys have no vector yet; one in a part that turns out to be damaged has none."""
        return self._find(digests)[0] < 0

    def _find(self, digests: Digests) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Return the part that holds each key, or -1, and its row there. Every part that is named is sound."""
        while True:
            parts, rows = self._index.find(digests)
            damaged = [n for n in np.unique(parts[parts >= 0]) if not self._is_sound(self._parts[n])]
            if not damaged:
                return parts, rows
            self._index.forget(damaged)  # another part may hold the same keys, and has to be looked at as well

    def add(self, digests: Digests, vectors: Vectors) -> None:
        """Store vectors under their keys, durably; returns when they are on disk.

        Raises:
            ModelError: If a vector holds NaN or infinity: such a row would poison every later score.
        """
        from safetensors.numpy import save

        if not len(digests):
            return
        if not np.isfinite(vectors).all():
            bad = int((~np.isfinite(vectors).all(axis=1)).sum())
            raise ModelError(
                f"The model gave {bad} of {len(vectors)} vectors with NaN or infinite values.",
                advice="Try --precision fp32, and check the weights.",
            )
        name = f"{time.time_ns():020d}-{secrets.token_hex(4)}.safetensors"
        tensors: dict[str, NDArray[Any]] = {
            "keys": np.ascontiguousarray(digests),
            "vectors": np.ascontiguousarray(vectors, np.float32),
        }
        self._blobs.write(name, save(tensors, {key: _checksum(tensor) for key, tensor in tensors.items()}))
        self._verified.add(name)
        self._extend([(name, digests)])

    def get(self, digests: Digests) -> Vectors:
        """Return the vectors for keys that are all present, in the order of the keys."""
        parts, rows = self._find(digests)
        if (parts < 0).any():
            raise KeyError(f"{int((parts < 0).sum())} keys are not in the store")
        out: Vectors | None = None
        order = np.argsort(parts, kind="stable")
        for chosen in np.split(order, np.flatnonzero(np.diff(parts[order])) + 1) if len(order) else ():
            vectors = _read(self._blobs.path(self._parts[parts[chosen[0]]]), "vectors", verify=False)
            if out is None:
                out = np.empty((len(digests), vectors.shape[1]), np.float32)
            elif out.shape[1] != vectors.shape[1]:
                raise ModelError(f"The model gave vectors of {out.shape[1]} and of {vectors.shape[1]} dimensions.")
            out[chosen] = vectors[rows[chosen]]
        return out if out is not None else np.empty((0, 0), np.float32)

    def refresh(self) -> None:
        """Learn of the parts that others have written since."""
        known = {*self._parts, *self.damaged}
        found = []
        for name in self._blobs.names():
            if name not in known:
                keys = self._sound_tensor(name, "keys")
                if keys is not None:
                    found.append((name, keys))
        self._extend(found)

    def _is_sound(self, name: str) -> bool:
        """Verify the vectors of a part, once in a process."""
        if name not in self._verified and self._sound_tensor(name, "vectors") is not None:
            self._verified.add(name)
        return name in self._verified

    def _sound_tensor(self, name: str, key: str) -> NDArray[Any] | None:
        """Read a tensor of a part; one that is not as it was written makes the part be set aside."""
        try:
            return _read(self._blobs.path(name), key)
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

    def table(self, fingerprint: str, role: str) -> VectorTable:
        """Return the table of a model (by fingerprint) for a role: ``image`` or ``text``."""
        key = (fingerprint, role)
        if key not in self._tables:
            self._tables[key] = VectorTable(self.root, fingerprint, role)
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


def damage_of_part(path: Path) -> str:
    """Say what is wrong with a part, keys and vectors; empty if it is as it was written."""
    try:
        for name in ("keys", "vectors"):
            _read(path, name)
    except BlobError as error:
        return error.message
    return ""


def _checksum(tensor: NDArray[Any]) -> str:
    return hashlib.blake2b(np.ascontiguousarray(tensor).view(np.uint8).data, digest_size=16).hexdigest()


def _read(path: Path, name: str, *, verify: bool = True) -> NDArray[Any]:
    """Read a tensor of a part, and compare it with its checksum unless that was done before.

    Raises:
        DamagedPartError: If the file is not what was written.
    """
    from safetensors import SafetensorError, safe_open

    damaged = DamagedPartError(f"A part of the embedding store is damaged and is computed again: {path}.")
    try:
        with safe_open(path, framework="np") as part:
            tensor: NDArray[Any] = part.get_tensor(name)
            checksum = (part.metadata() or {}).get(name)
    except SafetensorError as error:
        raise damaged from error
    except FileNotFoundError as error:  # another process has set it aside
        raise DamagedPartError(f"A part of the embedding store is gone: {path}.") from error
    except OSError as error:
        raise BlobError(f"Cannot read the embedding store at {path} ({error.strerror}).") from error
    if verify and checksum is None:
        raise DamagedPartError(f"A part of the embedding store is of an older version and is not used: {path}.")
    if verify and checksum != _checksum(tensor):
        raise damaged
    return tensor
