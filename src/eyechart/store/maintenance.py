"""Maintenance of the cache: list, verify, compact and remove what it holds."""

from __future__ import annotations

import os
import re
import secrets
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass
from operator import add
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from eyechart.io.files import NOTES, cache_root
from eyechart.messages import UserMessage
from eyechart.metrics.vectors import concatenate
from eyechart.store.answer_store import Responses
from eyechart.store.blobs import DAMAGED, PATTERN, BlobError, GoneBlobError, LocalBlobs, open_blobs
from eyechart.store.vector_store import (
    DamagedPartError,
    KeyIndex,
    damage_of_part,
    merged_name,
    part_bytes,
    read_tensor,
    store_place,
    table_name,
)

LARGE_PART = 64 << 20
"""Size in bytes of a large part. A part is read and verified as a whole even for one vector, so larger ones would be
slow."""


@dataclass(frozen=True)
class CompactionSummary:
    """Counts of merged parts, or of those a dry run would merge."""

    parts: int = 0
    merged: int = 0
    into: int = 0
    damaged: tuple[str, ...] = ()
    """Errors of damaged parts, which are left untouched."""

    def __add__(self, other: CompactionSummary) -> CompactionSummary:
        return CompactionSummary(*map(add, astuple(self), astuple(other)))


@dataclass(frozen=True)
class _Part:
    name: str
    keys: NDArray[np.uint8]
    form: tuple[str, str, int]
    """Kind, dtype and length of its vectors."""
    size: int
    live: NDArray[np.bool_]
    """Rows that readers use: no earlier part holds their keys."""

    @property
    def live_size(self) -> float:
        return self.size * float(self.live.mean()) if len(self.live) else 0.0


def compact_model(folder: Path, *, dry_run: bool = False) -> CompactionSummary:
    """Merge the small parts in every table of a model."""
    tables = sorted(path for path in folder.iterdir() if path.is_dir() and not path.is_symlink())
    return sum((compact(LocalBlobs(table), dry_run=dry_run) for table in tables), CompactionSummary())


def compact(blobs: LocalBlobs, *, dry_run: bool = False) -> CompactionSummary:
    """Merge the small parts of a table; a table with fewer than two is not read."""
    names = blobs.names()
    if sum(_size(blobs, name) < LARGE_PART / 2 for name in names) < 2:
        return CompactionSummary(len(names))
    parts, damaged = _sound_parts(blobs, names)
    merged = into = 0
    for batch in _batches(parts):
        if dry_run or _merge(blobs, batch):
            merged += len(batch)
            into += any(part.live.any() for part in batch)
    return CompactionSummary(len(names), merged, into, tuple(damaged))


def _size(blobs: LocalBlobs, name: str) -> int:
    try:
        return blobs.path(name).stat().st_size
    except FileNotFoundError:  # merged by another process
        return LARGE_PART


def _sound_parts(blobs: LocalBlobs, names: Sequence[str]) -> tuple[list[_Part], list[str]]:
    """Verify all parts, including those that are kept: a duplicate may only be dropped in favour of a sound copy."""
    index, table = KeyIndex(), table_name(blobs.folder)
    sound: list[_Part] = []
    damaged: list[str] = []
    for name in names:
        try:
            keys, vectors = (read_tensor(blobs.path(name), table, tensor) for tensor in ("keys", "vectors"))
        except DamagedPartError as error:
            damaged.append(error.message)
            continue
        except GoneBlobError:
            continue
        index.add([keys], len(sound))
        parts, rows = index.find(keys)
        live: NDArray[np.bool_] = (parts == len(sound)) & (rows == np.arange(len(keys)))
        form = (type(vectors).__name__, vectors.dtype.str, vectors.shape[1])
        sound.append(_Part(name, keys, form, _size(blobs, name), live))
    return sound, damaged


def _batches(parts: Iterable[_Part]) -> list[list[_Part]]:
    """Group parts into merges of about `LARGE_PART` bytes: small parts, and parts with few live rows."""
    batches: list[list[_Part]] = []
    size = 0.0
    for part in sorted(parts, key=lambda part: part.form):  # a stable sort: by name within a form
        if part.live_size >= LARGE_PART / 2:
            continue
        if not batches or size >= LARGE_PART or part.form != batches[-1][0].form:
            batches.append([])
            size = 0.0
        batches[-1].append(part)
        size += part.live_size
    return [batch for batch in batches if len(batch) > 1 or batch[0].live_size < batch[0].size / 2]


def _merge(blobs: LocalBlobs, batch: Sequence[_Part]) -> bool:
    """Merge the live rows of a batch and remove its parts; False if another process changed one of them first."""
    table = table_name(blobs.folder)
    try:
        vectors = [read_tensor(blobs.path(part.name), table, "vectors")[part.live] for part in batch]
    except (GoneBlobError, DamagedPartError):
        return False
    if any(map(len, vectors)):
        name = merged_name()
        keys = np.concatenate([part.keys[part.live] for part in batch])
        blobs.write(name, part_bytes(table, keys, concatenate(vectors)))
        if damage_of_part(blobs.path(name)):
            blobs.set_aside(name)
            raise BlobError(
                "Read-back of a merged part of the embedding store failed: {folder}.",
                advice="Check the disk. The original parts are unchanged.",
                folder=blobs.folder,
            )
    for part in batch:
        blobs.remove(part.name)
    return True


# The contents of the cache by kind and by model or dataset, to list, verify and remove.


EMBEDDINGS, RESPONSES = "embeddings", "responses"
KINDS = {
    EMBEDDINGS: "vectors of images and texts, by model",
    RESPONSES: "answers of generators and judges, by model",
    "datasets": "datasets that were downloaded",
    "unpacked": "archives of datasets, unpacked",
    "mteb": "datasets of the library mteb",
    "prompts": "class names and templates of CLIP_benchmark",
    "images": "images written for models that take files",
    "copies": "copies of vectors of a store elsewhere",
    "cards": "descriptions of models",
    "digests": "digests of files",
    "shards": "contents of tar files",
    "columns": "records, made ready for reports",
    "verified": "results whose metrics agree with their records",
    "calibration": "what autotune and paired checks measured",
    "open_clip": "names that open_clip knows",
}
"""The folders of the cache. Removed entries are recomputed or downloaded when needed."""
LARGE_KINDS = frozenset({EMBEDDINGS, RESPONSES, "datasets", "unpacked", "mteb"})
"""Kinds whose subfolders are separate items; every other kind is a single item."""


_OURS = re.compile(
    r"[0-9a-f]{32}|[0-9a-f]{32,64}\.(json|png|bin)|tags-.+\.json|clip_benchmark-.+\.whl|\.(tmp|removed)-.+"
)
"""Names that Eyechart creates. Cache and store may be any folders: other files in them are left alone."""


@dataclass(frozen=True)
class CacheItem:
    """A part of the cache that can be removed separately."""

    kind: str
    name: str
    """A model or dataset; empty if the kind is a single item."""
    path: Path
    size: int
    files: int


def remote_store() -> str:
    """Return the URL of the embedding store if it is remote, else an empty string."""
    place = store_place()
    return "" if isinstance(open_blobs(place), LocalBlobs) else str(place)


def list_cache(models: Mapping[str, str]) -> list[CacheItem]:
    """List the items of the cache by kind, the largest first; ``models`` has the names of models by fingerprint."""
    items: list[CacheItem] = []
    store = open_blobs(store_place())
    for kind in KINDS:
        root: Path | None = cache_root() / kind
        if kind == EMBEDDINGS:
            root = store.folder if isinstance(store, LocalBlobs) else None
        found = _entries(kind, root) if root and root.is_dir() else []
        if kind in LARGE_KINDS:
            named = ((path, models.get(path.name, path.name)) for path in found)
            items += [CacheItem(kind, name, path, *_size_of_files([path])) for path, name in named]
        elif root and found:
            items.append(CacheItem(kind, "", root, *_size_of_files(found)))
    order = list(KINDS)
    return sorted(items, key=lambda item: (order.index(item.kind), -item.size, item.name))


def _entries(kind: str, root: Path) -> list[Path]:
    """List the entries in the folder of a kind that Eyechart created."""
    if kind == "datasets":
        found = (path.parent for path in sorted(root.glob(f"*/*/{NOTES}")))
    else:
        found = (path for path in sorted(root.iterdir()) if _OURS.fullmatch(path.name))
    return [path for path in found if not path.is_symlink() and (path.is_dir() or kind not in LARGE_KINDS)]


def _size_of_files(paths: Sequence[Path]) -> tuple[int, int]:
    """Return the total bytes and number of files."""
    files = [path for path in paths if not path.is_dir()]
    files += [Path(where) / name for path in paths for where, _, names in os.walk(path) for name in names]
    return sum(file.lstat().st_size for file in files), len(files)


def remove(item: CacheItem) -> None:
    """Remove an item; the rename makes it disappear at once for other processes."""
    for path in [item.path] if item.kind in LARGE_KINDS else _entries(item.kind, item.path):
        aside = path.with_name(f".removed-{secrets.token_hex(4)}")
        path.rename(aside)
        if aside.is_dir():
            shutil.rmtree(aside)
        else:
            aside.unlink()


def verify(item: CacheItem) -> tuple[int, list[str]]:
    """Verify the checksums of stored vectors or answers; return the number of entries and the errors found."""
    if item.kind == RESPONSES:
        found = Responses(item.path)
        text: str = UserMessage("{path}: {n} damaged lines", path=item.path, n=found.damaged)
        return len(found) + found.damaged, [text] if found.damaged else []
    parts = [path for path in sorted(item.path.rglob(PATTERN)) if not path.name.startswith(DAMAGED)]
    return len(parts), [damage for path in parts if (damage := damage_of_part(path))]
