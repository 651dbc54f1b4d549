"""What is in the cache, by kind and by model or dataset: to be listed, verified, and removed."""

from __future__ import annotations

import os
import re
import secrets
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from eyechart.io.files import cache_root
from eyechart.store.answers import Responses
from eyechart.store.blobs import DAMAGED, PATTERN, LocalBlobs, open_blobs
from eyechart.store.vectors import damage_of_part, store_place

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
    "calibration": "what CPU autotune measured",
    "open_clip": "names that open_clip knows",
}
"""The folders of the cache. Whatever is removed is computed or fetched again when it is needed."""
LARGE = frozenset({EMBEDDINGS, RESPONSES, "datasets", "unpacked", "mteb"})
"""Kinds of which each folder is an item of its own; all others are one item."""


_FINGERPRINT = re.compile("[0-9a-f]{32}")
"""What tables are called. The store may be any folder: whatever else is in it is not ours."""


@dataclass(frozen=True)
class CacheItem:
    """A part of the cache that can be removed alone."""

    kind: str
    name: str
    """A model or a dataset; else empty."""
    path: Path
    size: int
    files: int


def remote_store() -> str:
    """Return the address of the store of vectors, if that is not a folder of this machine."""
    place = store_place()
    return "" if isinstance(open_blobs(place), LocalBlobs) else str(place)


def list_cache(models: Mapping[str, str]) -> list[CacheItem]:
    """List what is in the cache, the largest of each kind first.

    Args:
        models: Names of models by their fingerprint.
    """
    items = (item for kind in KINDS for item in _items(kind, models))
    order = list(KINDS)
    return sorted(items, key=lambda item: (order.index(item.kind), -item.size, item.name))


def _items(kind: str, models: Mapping[str, str]) -> Iterator[CacheItem]:
    root = _folder(kind)
    if root is None or not root.is_dir():
        return
    if kind not in LARGE:
        size, files = _size(root)
        if files:
            yield CacheItem(kind, "", root, size, files)
        return
    for path in sorted(root.iterdir()):
        ours = kind not in (EMBEDDINGS, RESPONSES) or (_FINGERPRINT.fullmatch(path.name) and path.is_dir())
        if ours and not path.is_symlink():
            size, files = _size(path) if path.is_dir() else (path.stat().st_size, 1)
            yield CacheItem(kind, models.get(path.name, path.name), path, size, files)


def _folder(kind: str) -> Path | None:
    """Return where things of a kind are on this machine."""
    if kind != EMBEDDINGS:
        return cache_root() / kind
    found = open_blobs(store_place())
    return found.folder if isinstance(found, LocalBlobs) else None


def _size(folder: Path) -> tuple[int, int]:
    size = files = 0
    for where, _, names in os.walk(folder):
        for name in names:
            files += 1
            size += (Path(where) / name).lstat().st_size
    return size, files


def remove(item: CacheItem) -> None:
    """Remove an item. Other processes see it whole or not at all."""
    aside = item.path.with_name(f".removed-{secrets.token_hex(4)}")
    item.path.rename(aside)
    if aside.is_dir():
        shutil.rmtree(aside)
    else:
        aside.unlink()


def verify(item: CacheItem) -> tuple[int, list[str]]:
    """Compare stored vectors or answers with their checksums; return how many pieces there are, and what is damaged."""
    if item.kind == RESPONSES:
        found = Responses(item.path)
        lost = [f"{item.path}: {found.damaged} lines are no answers"] if found.damaged else []
        return len(found) + found.damaged, lost
    parts = [path for path in sorted(item.path.rglob(PATTERN)) if not path.name.startswith(DAMAGED)]
    return len(parts), [damage for path in parts if (damage := damage_of_part(path))]
