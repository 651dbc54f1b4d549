"""The columns of a table: how its lines are divided, and which column holds what. Nothing is guessed."""

from __future__ import annotations

import csv
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eyechart.datasets.rows import json_objects, read_csv
from eyechart.errors import DataError, UsageError, nearest
from eyechart.io.untrusted import text_lines

IMAGE_COLUMNS = ("image", "image_path", "path", "file", "file_name", "filename", "filepath")
LABEL_COLUMNS = ("label", "class", "target", "category")
CAPTION_COLUMNS = ("caption", "captions", "text", "query", "title")
SPLIT_COLUMN = "split"
OPTIONS = ("image_column", "label_column", "caption_column", "id_column", "split_column", "delimiter")
"""Options of a dataset that only a table has; each is a flag."""
DELIMITERS = (",", "\t", ";", "|")
"""What is recognised; any other character can be given."""
CLASSES, CAPTIONS = "classification", "retrieval"
READ_AS = "read_as"
"""The option that says which of the two a table with labels and captions is."""

Rows = Mapping[int, Mapping[str, Any]]
"""Rows by the number of their line."""


@dataclass(frozen=True)
class TableColumns:
    """Which column of a table holds what; labels or captions, never both."""

    image: str
    label: str = ""
    captions: tuple[str, ...] = ()
    id: str = ""
    split: str = ""

    @property
    def used(self) -> frozenset[str]:
        """Return the columns that are not metadata; the split is, as ever."""
        return frozenset({self.image, self.label, self.id, *self.captions}) - {""}


def read_rows(path: Path, options: Mapping[str, Any]) -> Rows:
    """Read a table of any kind, by its suffix."""
    encoding = options.get("encoding", "")
    if path.suffix.lower() == ".jsonl":
        return dict(json_objects(path, encoding=encoding))
    _, rows = read_csv(path, _delimiter(path, options), encoding)
    return {line: {str(name).strip(): cell for name, cell in row.items()} for line, row in rows}


def _delimiter(path: Path, options: Mapping[str, Any]) -> str:
    """Return what divides the cells: as given, or under which the heads name a column of images."""
    given = str(options.get("delimiter", "")).replace("\\t", "\t")
    if given:
        if len(given) != 1 or given in '"\r\n':
            raise UsageError(f"{given!r} cannot divide cells.", advice="--delimiter takes one character, such as ';'.")
        return given
    usual = "\t" if path.suffix.lower() == ".tsv" else ","
    if not path.stat().st_size:
        raise DataError(f"{path} is empty.", advice="Its first line names the columns.")
    first = next((line for _, line in text_lines(path, encoding=options.get("encoding", ""))), "")
    heads = {mark: _cells(first, mark) for mark in (usual, *DELIMITERS)}
    wanted = {options.get("image_column")} if options.get("image_column") else set(IMAGE_COLUMNS)
    naming = [mark for mark, cells in heads.items() if wanted & set(cells)]
    if not naming:
        columns = max(heads.values(), key=len)
        _Named(path, columns, options).one("image_column")
        raise _no_images(path, columns)
    return naming[0]


def _cells(line: str, delimiter: str) -> list[str]:
    try:
        return [cell.strip() for cell in next(csv.reader([line.rstrip("\r\n")], delimiter=delimiter), [])]
    except csv.Error:  # not under this one
        return []


def choose_columns(path: Path, columns: Collection[str], options: Mapping[str, Any]) -> TableColumns:
    """Find out which column holds what: as the user says, else by the names that are known.

    Raises:
        DataError: If there is no column of images, or none of labels or captions.
        UsageError: If a column that the user names is missing, or if it is not said whether labels or captions count.
    """
    named = _Named(path, columns, options)
    image = named.one("image_column") or _known(columns, IMAGE_COLUMNS)
    if not image:
        raise _no_images(path, columns)
    captions: Sequence[str] = named.several("caption_column")
    label = named.one("label_column")
    if not captions and not label:
        label, caption = _by_name(path, columns, options.get(READ_AS, ""))
        captions = (caption,) if caption else ()
    elif captions and label:
        label, captions = _wanted(path, label, captions, options.get(READ_AS, ""))
    split = named.one("split_column") or (SPLIT_COLUMN if SPLIT_COLUMN in columns else "")
    return TableColumns(image, label, tuple(captions), named.one("id_column"), split)


def _by_name(path: Path, columns: Collection[str], read_as: str) -> tuple[str, str]:
    label, caption = _known(columns, LABEL_COLUMNS), _known(columns, CAPTION_COLUMNS)
    if label and caption:
        kept, texts = _wanted(path, label, (caption,), read_as)
        return kept, texts[0] if texts else ""
    if not label and not caption:
        raise DataError(
            f"{path} has no column of captions, nor one of labels; it has {_listed(columns)}.",
            advice="Say which it is: --label-column NAME or --caption-column NAME. "
            f"Or call it {LABEL_COLUMNS[0]!r} or {CAPTION_COLUMNS[0]!r}.",
        )
    return label, caption


def _wanted(path: Path, label: str, captions: Sequence[str], read_as: str) -> tuple[str, tuple[str, ...]]:
    if read_as == CLASSES:
        return label, ()
    if read_as == CAPTIONS:
        return "", tuple(captions)
    raise UsageError(
        f"{path} has labels ({label}) and captions ({', '.join(captions)}): which of them count?",
        advice=f"For classes: --label-column {label}, or --task zeroshot_classification. "
        f"For captions: --caption-column {' '.join(captions)}, or --task zeroshot_retrieval.",
    )


def _known(columns: Collection[str], names: Sequence[str]) -> str:
    return next((name for name in names if name in columns), "")


def _no_images(path: Path, columns: Collection[str]) -> DataError:
    return DataError(
        f"{path} has no column of image paths; it has {_listed(columns)}.",
        advice=f"Say which it is: --image-column NAME (and --delimiter, if it is unusual). "
        f"Or call it {IMAGE_COLUMNS[0]!r}.",
    )


def _listed(columns: Collection[str]) -> str:
    return ", ".join(sorted(columns))


class _Named:
    """The columns that the user named, each looked for in the table."""

    def __init__(self, path: Path, columns: Collection[str], options: Mapping[str, Any]) -> None:
        self.path, self.columns, self.options = path, columns, options

    def one(self, option: str) -> str:
        found = self.several(option)
        return found[0] if found else ""

    def several(self, option: str) -> tuple[str, ...]:
        given = self.options.get(option) or ()
        names = (given,) if isinstance(given, str) else tuple(given)
        for name in names:
            if name not in self.columns:
                near = nearest(name, self.columns)
                hint = f"Did you mean {near[0]!r}? " if near else ""
                raise UsageError(
                    f"{self.path} has no column {name!r} (--{option.replace('_', '-')}).",
                    advice=f"{hint}It has {_listed(self.columns)}.",
                )
        return names
