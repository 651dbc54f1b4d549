"""What is in the cache, by kind and by model or dataset: to be listed, verified, and removed."""

from __future__ import annotations

import os
import re
import secrets
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from eyechart.io.files import NOTES, cache_root
from eyechart.store.answers import Responses
from eyechart.store.blobs import DAMAGED, PATTERN, LocalBlobs, open_blobs
from eyechart.store.parts import damage_of_part
from eyechart.store.vectors import store_place

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
    "calibration": "what autotune and paired checks measured",
    "open_clip": "names that open_clip knows",
}
"""The folders of the cache. Whatever is removed is computed or fetched again when it is needed."""
LARGE = frozenset({EMBEDDINGS, RESPONSES, "datasets", "unpacked", "mteb"})
"""Kinds of which each folder is an item of its own; all others are one item."""


_OURS = re.compile(
    r"[0-9a-f]{32}|[0-9a-f]{32,64}\.(json|png|bin)|tags-.+\.json|clip_benchmark-.+\.whl|\.(tmp|removed)-.+"
)
"""What we call things. The cache and the store may be any folders: whatever else is in them is not ours."""


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
    found = _found(kind, root)
    if kind not in LARGE:
        if found:
            yield CacheItem(kind, "", root, *_size(found))
        return
    for path in found:
        yield CacheItem(kind, models.get(path.name, path.name), path, *_size([path]))


def _found(kind: str, root: Path) -> list[Path]:
    """List what is ours in the folder of a kind."""
    if kind == "datasets":
        found = (path.parent for path in sorted(root.glob(f"*/*/{NOTES}")))
    else:
        found = (path for path in sorted(root.iterdir()) if _OURS.fullmatch(path.name))
    return [path for path in found if not path.is_symlink() and (path.is_dir() or kind not in LARGE)]


def _folder(kind: str) -> Path | None:
    """Return where things of a kind are on this machine."""
    if kind != EMBEDDINGS:
        return cache_root() / kind
    found = open_blobs(store_place())
    return found.folder if isinstance(found, LocalBlobs) else None


def _size(paths: Iterable[Path]) -> tuple[int, int]:
    """Return bytes and number of all files."""
    sizes = [file.lstat().st_size for path in paths for file in _files(path)]
    return sum(sizes), len(sizes)


def _files(path: Path) -> Iterator[Path]:
    if not path.is_dir():
        yield path
    for where, _, names in os.walk(path):
        yield from (Path(where) / name for name in names)


def remove(item: CacheItem) -> None:
    """Remove an item. Other processes see it whole or not at all."""
    for path in [item.path] if item.kind in LARGE else _found(item.kind, item.path):
        aside = path.with_name(f".removed-{secrets.token_hex(4)}")
        path.rename(aside)
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
