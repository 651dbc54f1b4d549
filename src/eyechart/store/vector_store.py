"""The vector store: one table per model fingerprint and role, made of immutable safetensors parts."""

from __future__ import annotations

import hashlib
import logging
import os
import secrets
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eyechart.errors import ModelError
from eyechart.io.digests import DIGEST_SIZE, digest_bytes
from eyechart.io.files import cache_root
from eyechart.metrics.vectors import AnyVectors, MultiVectors
from eyechart.store.blobs import BlobError, GoneBlobError, open_blobs
from eyechart.types import HALF

Digests = NDArray[np.uint8]
Found = tuple[NDArray[np.int32], NDArray[np.int64]]
"""The part of each key, -1 if missing, and its row in that part."""


@dataclass(frozen=True)
class _Run:
    """Keys sorted by their heads (first 8 bytes), with their tails and the locations of their vectors."""

    head: NDArray[np.uint64]
    tail: NDArray[np.uint64]
    part: NDArray[np.int32]
    row: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.head)

    def take(self, chosen: NDArray[np.int64] | NDArray[np.bool_]) -> _Run:
        return _Run(self.head[chosen], self.tail[chosen], self.part[chosen], self.row[chosen])


@dataclass
class KeyIndex:
    """Maps keys to parts and rows; the first part added with a key wins."""

    _runs: list[_Run] = field(default_factory=list)

    @property
    def rows(self) -> int:
        """Number of indexed rows."""
        return sum(map(len, self._runs))

    def add(self, parts: Sequence[Digests], first: int) -> None:
        """Add whole parts, numbered from ``first``."""
        runs = []
        for number, keys in enumerate(parts, first):
            half = np.ascontiguousarray(keys).view(np.uint64)
            if len(keys):
                runs.append(_Run(half[:, 0], half[:, 1], np.full(len(half), number, np.int32), np.arange(len(half))))
        if not runs:
            return
        length = sum(map(len, runs))
        while self._runs and len(self._runs[-1]) < 2 * length:
            runs.insert(0, self._runs.pop())
            length += len(runs[0])
        columns = (np.concatenate([getattr(run, name) for run in runs]) for name in ("head", "tail", "part", "row"))
        whole = _Run(*columns)
        self._runs.append(whole.take(np.argsort(whole.head, kind="stable")))

    def find(self, digests: Digests) -> Found:
        """Look up keys.

        Two keys that share their first eight bytes but differ in the rest may be reported as missing. That costs one
        recomputation, with probability 2**-64, and is never wrong.
        """
        halves = np.ascontiguousarray(digests).view(np.uint64)
        parts, rows = np.full(len(digests), -1, np.int32), np.zeros(len(digests), np.int64)
        left = np.arange(len(digests))
        for run in self._runs:
            if not len(left):
                break
            head, tail = halves[left, 0], halves[left, 1]
            at = np.minimum(np.searchsorted(run.head, head), len(run) - 1)
            hit = (run.head[at] == head) & (run.tail[at] == tail)
            parts[left[hit]], rows[left[hit]] = run.part[at[hit]], run.row[at[hit]]
            left = left[~hit]
        return parts, rows

    def forget(self, parts: Collection[int]) -> None:
        """Drop all keys of some parts."""
        kept = (run.take(~np.isin(run.part, list(parts))) for run in self._runs)
        self._runs = [run for run in kept if len(run)]


# A part of a table: an immutable safetensors file with a key matrix, a vector matrix and a checksum of each. With
# several vectors per key, it also has the first row of each key's vectors and the number of rows (`STARTS`).


STARTS = "starts"


class DamagedPartError(BlobError):
    """The content of a part does not match its checksum."""


def merged_name() -> str:
    """Name a merged part so that it sorts before all existing parts, merged ones included."""
    return f"{0:020d}-{10**19 - time.time_ns():019d}-{secrets.token_hex(4)}.safetensors"


def table_name(place: str | Path, *parts: str) -> str:
    """Return the name of the table in a folder or at a URL: the fingerprint of its model and the role."""
    return "/".join(Path(place, *parts).absolute().parts[-2:])


def part_bytes(table: str, keys: NDArray[np.uint8], vectors: NDArray[Any] | MultiVectors) -> bytes:
    """Serialise a part of a table, which its checksums cover: no other table accepts the part."""
    from safetensors.numpy import save

    tensors: dict[str, NDArray[Any]] = {"keys": np.ascontiguousarray(keys)}
    if isinstance(vectors, MultiVectors):
        tensors[STARTS], vectors = vectors.starts, vectors.rows
    tensors["vectors"] = np.ascontiguousarray(vectors)
    sums = {"table": table}
    for name, tensor in tensors.items():
        sums[name] = checksum(tensor, *_bound(name, sums))
    data: bytes = save(tensors, sums)
    return data


def _bound(name: str, sums: Mapping[str, str]) -> tuple[str, ...]:
    """Return what the checksum of a tensor also covers: the table, and the checksums of the tensors before it."""
    before = {"keys": (), STARTS: ("keys",), "vectors": ("keys", *([STARTS] if STARTS in sums else []))}
    return sums["table"], *(sums[other] for other in before[name])


def read_tensor(path: Path, table: str, name: str, *, verify: bool = True) -> Any:
    """Read the keys or the vectors (several per key are `MultiVectors`) of a part.

    Unless it was verified before, a part with a wrong checksum or of another table raises DamagedPartError; one that no
    longer exists, GoneBlobError.
    """
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="np") as part:
            sums = {"table": table, "keys": "", **(part.metadata() or {})}
            names = [STARTS, name] if name == "vectors" and STARTS in sums else [name]
            tensors: list[NDArray[Any]] = [part.get_tensor(one) for one in names]
        if verify and sums["table"] != table:
            raise DamagedPartError(
                "{path} belongs to another model or role ({table}) and is not used.", path=path, table=sums["table"]
            )
        for one, tensor in zip(names, tensors, strict=True) if verify else ():
            if sums.get(one) != checksum(tensor, *_bound(one, sums)):
                raise SafetensorError("wrong checksum")
    except SafetensorError as error:
        raise DamagedPartError(
            "Damaged part of the embedding store, its vectors are recomputed: {path}.", path=path
        ) from error
    except FileNotFoundError as error:
        raise GoneBlobError("Missing part of the embedding store: {path}.", path=path) from error
    except OSError as error:
        raise BlobError(
            "Cannot read the embedding store at {path} ({reason}).", path=path, reason=error.strerror
        ) from error
    return MultiVectors(tensors[1], tensors[0]) if len(tensors) == 2 else tensors[0]


def damage_of_part(path: Path) -> str:
    """Return the error of a damaged part; empty if keys and vectors are sound or the file no longer exists."""
    try:
        for name in ("keys", "vectors"):
            read_tensor(path, table_name(path.parent), name)
    except GoneBlobError:
        return ""
    except BlobError as error:
        return error.message
    return ""


def checksum(tensor: NDArray[Any], *bound: str) -> str:
    """Return the digest of a tensor and of the texts that it is bound to: its table, the checksum of its keys."""
    state = hashlib.blake2b(repr((*bound, tensor.dtype.str, tensor.shape)).encode(), digest_size=16)
    state.update(np.ascontiguousarray(tensor).view(np.uint8).data)
    return state.hexdigest()


# The embedding store: vectors by content digest, one folder per model fingerprint and role.
#
# A table is a set of immutable safetensors parts, each holding keys and their vectors, one or several per key. Parts
# are written atomically (`eyechart.store.blobs`), so there are no locks, any number of processes may write at once, and
# a killed writer leaves only a temporary file. Keys are read once and looked up in memory; vectors are read part by
# part.
#
# Every part carries checksums of its table (fingerprint and role), keys and vectors, verified on first use. A damaged
# part, or one copied from another model, is renamed and its vectors are recomputed. A missing part was most likely
# merged with others (`eyechart.store.maintenance`): the table then reloads all parts.


log = logging.getLogger("eyechart.store")
Vectors = NDArray[np.float32]
FARTHEST = 2.0**-10
"""Largest relative rounding error of a vector in half precision: twice that of numbers within its range."""


class VectorTable:
    """The vectors of one model and role (images, or texts in a language)."""

    def __init__(self, place: str | Path, *parts: str, half: bool = False) -> None:
        self._blobs = open_blobs(place, *parts)
        self._table = table_name(place, *parts)
        self._half = half
        """Round vectors to half precision on `add`; `get` returns float32, except for several vectors per key."""
        self._parts: list[str] = []
        self._index = KeyIndex()
        self._verified: set[str] = set()
        self.damaged: list[str] = []
        """Names of parts set aside as damaged."""
        self.refresh()

    @property
    def rows(self) -> int:
        """Number of rows in all parts, except those found to be damaged."""
        return self._index.rows

    def missing(self, digests: Digests) -> NDArray[np.bool_]:
        """Return a mask of the keys without a vector; keys in damaged parts are missing."""
        return self._find(digests)[0] < 0

    def _find(self, digests: Digests) -> Found:
        """Return the part of each key, or -1, and its row there. Every returned part has been verified."""
        while True:
            parts, rows = self._index.find(digests)
            damaged = []
            try:
                for number in np.unique(parts[parts >= 0]):
                    name = self._parts[number]
                    if name not in self._verified:  # once per process
                        if self._sound_tensor(name, "vectors") is None:
                            damaged.append(number)
                        else:
                            self._verified.add(name)
            except GoneBlobError:
                self._reopen()
                continue
            if not damaged:
                return parts, rows
            self._index.forget(damaged)  # another part may hold the same keys; it is verified in the next round

    def add(self, digests: Digests, vectors: AnyVectors) -> None:
        """Store vectors, which must be finite, under their keys; returns once they are on disk."""
        if not len(digests):
            return
        full = np.asarray(vectors.rows if isinstance(vectors, MultiVectors) else vectors, np.float32)
        if not np.isfinite(full).all():
            bad = int((~np.isfinite(full).all(axis=1)).sum())
            raise ModelError(
                "{n} of {all} vectors of the model contain NaN or infinite values.",
                advice="Try {--precision=fp32} and check the weights.",
                n=bad,
                all=len(full),
            )
        name = f"{time.time_ns():020d}-{secrets.token_hex(4)}.safetensors"  # names sort by age
        kept = rounded(full) if self._half else full
        whole = MultiVectors(kept, vectors.starts) if isinstance(vectors, MultiVectors) else kept
        self._blobs.write(name, part_bytes(self._table, digests, whole))
        self._verified.add(name)
        self._extend([(name, digests)])

    def get(self, digests: Digests) -> Any:
        """Return the vectors of keys that are all present, in the order of the keys.

        Several vectors per key are `MultiVectors` in the precision of the table: they may fill the memory.
        """
        while True:
            parts, rows = self._find(digests)
            if (parts < 0).any():
                raise BlobError(
                    "{sum} of {n} vectors are not in the embedding store.",
                    advice="Run again to recompute them.",
                    sum=int((parts < 0).sum()),
                    n=len(digests),
                )
            out: Any = None
            order = np.argsort(parts, kind="stable")  # each part is read once
            groups = np.split(order, np.flatnonzero(np.diff(parts[order])) + 1) if len(order) else []
            try:
                for chosen in groups:
                    vectors = self._read(parts[chosen[0]], "vectors")
                    if out is None and isinstance(vectors, MultiVectors):
                        sizes = np.empty(len(parts), np.int64)
                        for some in groups:
                            sizes[some] = np.diff(self._read(parts[some[0]], STARTS))[rows[some]]
                        out = MultiVectors.empty(sizes, vectors.shape[1], vectors.dtype)
                    elif out is None:
                        out = np.empty((len(parts), vectors.shape[1]), np.float32)
                    elif out.shape[1] != vectors.shape[1]:
                        raise ModelError(
                            "The model returned vectors of {a} and {b} dimensions.", a=out.shape[1], b=vectors.shape[1]
                        )
                    out[chosen] = vectors[rows[chosen]]
            except GoneBlobError:
                self._reopen()
                continue
            return out if out is not None else np.empty((0, 0), np.float32)

    def _read(self, part: int, name: str) -> Any:
        return read_tensor(self._blobs.path(self._parts[part]), self._table, name, verify=False)

    def refresh(self) -> None:
        """Index parts that other processes have added."""
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
                    complete = False  # merged since it was listed: the next listing has the merged part
                    continue
                if keys is not None:
                    found.append((name, keys))
            self._extend(found)

    def _reopen(self) -> None:
        """Reload all parts: one is missing, and its rows may be in another."""
        self._parts, self._index = [], KeyIndex()
        self.refresh()

    def _sound_tensor(self, name: str, key: str) -> Any:
        """Read and verify a tensor of a part; a damaged part is set aside."""
        try:
            return read_tensor(self._blobs.path(name), self._table, key)
        except DamagedPartError as error:
            self._blobs.set_aside(name)
            self.damaged.append(name)
            log.warning("%s", error.message)
            return None

    def _extend(self, parts: list[tuple[str, Digests]]) -> None:
        first = len(self._parts)
        self._parts += [name for name, _ in parts]
        self._index.add([keys for _, keys in parts], first)


@dataclass
class EmbeddingStore:
    """All tables under one folder or URL."""

    root: str | Path
    _tables: dict[tuple[str, str], VectorTable] = field(default_factory=dict)

    def table(self, fingerprint: str, role: str, *, half: bool = False) -> VectorTable:
        """Return the table of a model (by fingerprint) and a role (``image``, ``text``) in one precision."""
        key = (fingerprint, f"{role}-{HALF}" if half else role)
        if key not in self._tables:
            self._tables[key] = VectorTable(self.root, *key, half=half)
        return self._tables[key]

    def refresh(self) -> None:
        """Index parts that other processes have added since the tables were opened."""
        for table in self._tables.values():
            table.refresh()


def store_place() -> str | Path:
    """Return the location of the embedding store: ``$EYECHART_STORE`` (a path or fsspec URL), else in the cache."""
    return os.environ.get("EYECHART_STORE") or cache_root() / "embeddings"


def text_digests(texts: list[str], language: str) -> Digests:
    """Compute the keys of texts; the language is part of the key, as a model may encode the same words differently."""
    keys = b"".join(digest_bytes(f"{language}\0{text}".encode("utf-8", "surrogatepass")) for text in texts)
    return np.frombuffer(keys, np.uint8).reshape(-1, DIGEST_SIZE)


def rounded(vectors: NDArray[Any]) -> NDArray[np.float16]:
    """Round vectors to half precision; values too large or too small for it raise ModelError."""
    with np.errstate(over="ignore"):
        half = vectors.astype(np.float16)
    lost = vectors - half
    bad = ~(_squares(lost) <= FARTHEST**2 * _squares(vectors))
    if bad.any():
        raise ModelError(
            "{sum} of {n} vectors contain values outside the range of half precision.",
            advice="Omit {--store_precision=fp16} for this model. None of these vectors was stored.",
            sum=int(bad.sum()),
            n=len(vectors),
        )
    return half


def _squares(rows: NDArray[Any]) -> NDArray[np.float64]:
    """Sum squares in float64, which neither overflows nor underflows for any float32."""
    sums: NDArray[np.float64] = np.einsum("ij,ij->i", rows, rows, dtype=np.float64)
    return sums
