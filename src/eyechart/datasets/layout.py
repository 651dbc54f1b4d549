"""Small questions about where data lies."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from eyechart.errors import DataError, UsageError
from eyechart.types import DatasetSpec

ONLY_SPLIT = "test"
"""What data that are not divided are called. Under any other name they would be, say, their own training split."""
COMMON_SPLITS = ("test", "train", "val", "valid", "validation", "trainval")
"""Splits that are looked for where nobody says which there are."""


def is_url(root: str) -> bool:
    """Tell an address from a path."""
    return root.startswith(("http://", "https://"))


def is_webdataset(folder: Path) -> bool:
    """Tell whether a folder has the layout of a webdataset."""
    return any(folder.glob("*/nshards.txt"))


def is_present(folder: Path, patterns: tuple[str, ...]) -> bool:
    """Tell whether any of the paths or patterns exists in a folder."""
    return folder.is_dir() and any(any(folder.glob(pattern)) for pattern in patterns)


def source_of(spec: DatasetSpec) -> Mapping[str, Any]:
    """Return what the catalogue says of the source for its reader."""
    settings: Mapping[str, Any] = spec.options.get("source", {})
    return settings


def own_split(spec: DatasetSpec) -> str:
    """Return the source's own name for a split.

    Raises:
        UsageError: If the dataset has no such split; those that it has are listed.
    """
    source_splits = source_of(spec).get("splits") or {}
    known = list(source_splits) or spec.options.get("splits")
    if known is not None and spec.split not in known:
        raise no_such_split(spec.name, spec.split, list(known))
    return str(source_splits.get(spec.split, spec.split))


def check_only_split(spec: DatasetSpec, how: str) -> None:
    """Refuse any split but `ONLY_SPLIT` of data that are not divided.

    Raises:
        UsageError: It says ``how`` such data are divided.
    """
    if spec.split != ONLY_SPLIT:
        raise no_such_split(spec.name, spec.split, [ONLY_SPLIT], how)


def no_such_split(name: str, split: str, known: list[str], how: str = "") -> UsageError:
    """Make the error for a split that a dataset does not have."""
    return UsageError(f"{name} has no split {split!r}.", advice=f"It has {', '.join(known)}. {how}".strip())


def first_existing(root: Path, candidates: list[str], **values: str) -> Path | None:
    """Return the first of several paths under ``root`` that exists, with ``{placeholders}`` filled in."""
    for candidate in candidates:
        path = root / fill(candidate, values)
        if path.exists():
            return path
    return None


def existing(spec: DatasetSpec, candidates: list[str], advice: str = "") -> Path:
    """Return the first of several paths under the root of a named dataset that exists.

    Raises:
        DataError: If there is none.
    """
    found = first_existing(Path(spec.root), candidates)
    if found is None:
        entry = spec.options.get("entry", spec.name)
        raise DataError(f"{spec.root} has no {candidates[0]}.", advice=advice or f"See `eyechart info {entry}`.")
    return found


def fill(text: str, values: Mapping[str, str]) -> str:
    """Fill in ``{placeholders}``; other braces stay as they are."""
    for key, value in values.items():
        text = text.replace(f"{{{key}}}", value)
    return text
