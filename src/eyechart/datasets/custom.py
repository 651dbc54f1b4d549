"""The dataset called ``custom``: whatever lies in the folder that is given with it."""

from __future__ import annotations

from pathlib import Path

from eyechart.datasets import jsonl
from eyechart.datasets.folder import class_folders
from eyechart.errors import DataError

LABELS = ("image_labels.jsonl", "image_labels.csv", "image_labels.tsv")
"""Custom classification as a table: a column of images and one of labels."""
TABLES = frozenset({".csv", ".tsv", ".jsonl"})


def find_custom(root: Path) -> tuple[str, str]:
    """Return the reader and the place of custom data.

    A folder with ``image_queries.jsonl`` is for retrieval, as in EvalScope; one with ``image_labels.jsonl`` (or .csv,
    .tsv) or with a folder per class is for classification. A file is read as the table that it is.
    """
    if root.is_file():
        if root.name == jsonl.FILE or root.suffix not in TABLES:
            return "jsonl", str(root)
        return "table", str(root)
    if (root / jsonl.FILE).is_file():
        return "jsonl", str(root)
    table = next((root / name for name in LABELS if (root / name).is_file()), None)
    if table is not None:
        return "table", str(table)
    if root.is_dir() and any(root.glob("*/nshards.txt")):
        return "wds", str(root)
    if root.is_dir() and any(class_folders(folder) for folder in (root, *_folders(root))):
        return "folder", str(root)
    raise DataError(
        f"There is no {root / jsonl.FILE}.",
        advice=f"Custom data (data_dir) hold {jsonl.FILE} for retrieval; {LABELS[0]}, or one folder of images per "
        "class, for classification.",
    )


def _folders(root: Path) -> list[Path]:
    """Return the subfolders, one of which may be the split."""
    return [path for path in root.iterdir() if path.is_dir()]
