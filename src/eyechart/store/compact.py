"""Merging the small parts of a table into few large ones, while others may read and write it.

Nothing is locked. A merged part is written and read back, and only then are the parts removed that it stands for:
whoever is killed in between leaves a table that holds some keys twice, which is nothing new. Of several parts that hold
a key the first by name counts, for every reader; a merged part comes first of all and holds only what counted in its
sources, so every key keeps its vector, bit by bit. A reader that knew a part which is gone looks at the table anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from eyechart.store.blobs import BlobError, GoneBlobError, LocalBlobs
from eyechart.store.key_index import KeyIndex
from eyechart.store.parts import DamagedPartError, damage_of_part, merged_name, part_bytes, read_tensor

LARGE = 64 << 20
"""Bytes that make a part large. It is read and verified as a whole, even for one vector: larger ones would be slow."""


@dataclass(frozen=True)
class Compacted:
    """What was merged, or would be."""

    parts: int = 0
    """Parts that were there."""
    merged: int = 0
    """Those of them that were merged."""
    into: int = 0
    damaged: tuple[str, ...] = ()
    """What is wrong with parts that were left as they are."""

    def __add__(self, other: Compacted) -> Compacted:
        return Compacted(
            self.parts + other.parts,
            self.merged + other.merged,
            self.into + other.into,
            self.damaged + other.damaged,
        )


@dataclass(frozen=True)
class _Part:
    name: str
    keys: NDArray[np.uint8]
    form: tuple[str, int]
    """The type and length of its vectors."""
    size: int
    live: NDArray[np.bool_]
    """The rows that count: no part before it holds their keys."""

    @property
    def live_size(self) -> float:
        return self.size * float(self.live.mean()) if len(self.live) else 0.0


def compact_model(folder: Path, *, dry_run: bool = False) -> Compacted:
    """Merge the small parts in each table of a model."""
    tables = sorted(path for path in folder.iterdir() if path.is_dir() and not path.is_symlink())
    return sum((compact(LocalBlobs(table), dry_run=dry_run) for table in tables), Compacted())


def compact(blobs: LocalBlobs, *, dry_run: bool = False) -> Compacted:
    """Merge the small parts of a table; a table that has less than two of them is not read."""
    names = blobs.names()
    if sum(_size(blobs, name) < LARGE / 2 for name in names) < 2:
        return Compacted(len(names))
    parts, damaged = _sound_parts(blobs, names)
    merged = into = 0
    for batch in _batches(parts):
        if dry_run or _merge(blobs, batch):
            merged += len(batch)
            into += any(part.live.any() for part in batch)
    return Compacted(len(names), merged, into, tuple(damaged))


def _size(blobs: LocalBlobs, name: str) -> int:
    try:
        return blobs.path(name).stat().st_size
    except FileNotFoundError:  # somebody else has merged it
        return LARGE


def _sound_parts(blobs: LocalBlobs, names: Sequence[str]) -> tuple[list[_Part], list[str]]:
    """Verify all parts, also those that stay as they are: a copy of a vector is dropped only for one that is sound."""
    found: dict[str, tuple[NDArray[np.uint8], tuple[str, int]]] = {}
    damaged = []
    for name in names:
        try:
            keys, vectors = (read_tensor(blobs.path(name), tensor) for tensor in ("keys", "vectors"))
            found[name] = keys, (vectors.dtype.str, vectors.shape[1])
        except DamagedPartError as error:
            damaged.append(error.message)
        except GoneBlobError:
            continue
    live = _live_rows([keys for keys, _ in found.values()])
    return [
        _Part(name, keys, form, _size(blobs, name), rows)
        for (name, (keys, form)), rows in zip(found.items(), live, strict=True)
    ], damaged


def _live_rows(keys: Sequence[NDArray[np.uint8]]) -> list[NDArray[np.bool_]]:
    """Tell for each part which of its rows a reader finds."""
    if not keys:
        return []
    index = KeyIndex()
    index.add(keys, 0)
    lengths = [len(rows) for rows in keys]
    parts, rows = index.find(np.concatenate(keys))
    own_part = np.repeat(np.arange(len(keys)), lengths)
    own_row = np.concatenate([np.arange(length) for length in lengths])
    live: NDArray[np.bool_] = (parts == own_part) & (rows == own_row)
    return np.split(live, np.cumsum(lengths)[:-1])


def _batches(parts: Iterable[_Part]) -> Iterator[list[_Part]]:
    """Put parts together that make one large one: small ones, and those of which hardly anything counts."""
    batch: list[_Part] = []
    size = 0.0
    for part in sorted(parts, key=lambda part: part.form):  # else in the order that they have
        if part.live_size >= LARGE / 2:
            continue
        if batch and (size >= LARGE or part.form != batch[0].form):
            yield from _worth_it(batch)
            batch, size = [], 0.0
        batch.append(part)
        size += part.live_size
    yield from _worth_it(batch)


def _worth_it(batch: list[_Part]) -> Iterator[list[_Part]]:
    if len(batch) > 1 or any(part.live_size < part.size / 2 for part in batch):
        yield batch


def _merge(blobs: LocalBlobs, batch: Sequence[_Part]) -> bool:
    """Write what counts in some parts as one, and remove them; false if somebody else has got at one of them first."""
    try:
        vectors = [read_tensor(blobs.path(part.name), "vectors")[part.live] for part in batch]
    except (GoneBlobError, DamagedPartError):
        return False
    if any(map(len, vectors)):
        name = merged_name()
        blobs.write(name, part_bytes(np.concatenate([part.keys[part.live] for part in batch]), np.concatenate(vectors)))
        if damage_of_part(blobs.path(name)):
            blobs.set_aside(name)
            raise BlobError(
                f"What was written to the embedding store at {blobs.folder} cannot be read back.",
                advice="Check the disk. The parts that were to be merged are as they were.",
            )
    for part in batch:
        blobs.remove(part.name)
    return True
