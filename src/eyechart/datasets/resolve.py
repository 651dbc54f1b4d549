"""From what the user calls a dataset to the reader and the place that it is read from."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from eyechart.datasets import jsonl
from eyechart.datasets.custom import find_custom
from eyechart.demo import data_folder
from eyechart.errors import DataError, UsageError, nearest
from eyechart.types import DatasetSpec

PREFIXES = {"wds": "wds", "folder": "folder", "jsonl": "jsonl", "csv": "table", "table": "table"}
"""``prefix/name`` with ``--dataset_root``: the reader by name, the name only for the result."""
DEMO = ("demo/garments", "demo/scenes")
CUSTOM = "custom"
TABLES = frozenset({".csv", ".tsv", ".jsonl"})


def resolve_dataset(
    name: str,
    root: str,
    *,
    split: str = "test",
    language: str = "en",
    limit: int | None = None,
    options: Mapping[str, Any] | None = None,
) -> DatasetSpec:
    """Find out what ``name`` is: a prefixed name, the demo data, custom data, or a path.

    Args:
        name: As the user wrote it.
        root: ``--dataset_root``, possibly with ``{dataset}`` and ``{dataset_cleaned}``.
        split: Which part of the data.
        language: Language of class names and captions.
        limit: Read only this many samples.
        options: For the reader.
    """
    reader, place = _find(name, fill_root(root, name))
    return DatasetSpec(name, reader, place, split, language, limit, dict(options or {}))


def known_names() -> list[str]:
    """List the names that need no path."""
    return [*DEMO, CUSTOM]


def plain_name(name: str) -> str:
    """Return the name as it stands in paths: without ``wds/``."""
    return name.removeprefix("wds/")


def fill_root(root: str, name: str) -> str:
    """Put the dataset's name into the template of ``--dataset_root``."""
    plain = plain_name(name)
    return root.replace("{dataset_cleaned}", plain.replace("/", "-")).replace("{dataset}", plain)


def _find(name: str, root: str) -> tuple[str, str]:
    if name in DEMO:
        return "wds", str(data_folder(name.removeprefix("demo/")))
    if name == CUSTOM:
        return find_custom(Path(root))
    prefix, slash, _ = name.partition("/")
    if slash and prefix in PREFIXES:
        return PREFIXES[prefix], root
    path = Path(name)
    if path.exists():
        return _detect(path), name
    near = nearest(name, known_names())
    hint = f"Did you mean {' or '.join(near)}? " if near else ""
    raise UsageError(
        f"Unknown dataset: {name!r}.",
        advice=f"{hint}Give a known name, wds/NAME with --dataset_root, or the path of a folder or table.",
    )


def _detect(path: Path) -> str:
    """Recognise the form of data at a path."""
    if path.is_file():
        if path.name == jsonl.FILE:
            return "jsonl"
        if path.suffix in TABLES:
            return "table"
        raise DataError(f"{path} is not a dataset.", advice=f"A table ends in {', '.join(sorted(TABLES))}.")
    if (path / jsonl.FILE).is_file():
        return "jsonl"
    return "wds" if any(path.glob("*/nshards.txt")) else "folder"
