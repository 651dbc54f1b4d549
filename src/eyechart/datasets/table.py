"""A CSV, TSV or JSON-lines table with a column of image paths and one of labels or captions."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from eyechart.datasets.classes import ClassTexts, class_info, read_class_texts
from eyechart.datasets.layout import check_only_split, no_such_split, own_split
from eyechart.datasets.rows import Problems, RowDataset, find_image
from eyechart.errors import DataError
from eyechart.io.media import ImageRef
from eyechart.io.names import shown
from eyechart.io.untrusted import json_lines, text_lines
from eyechart.types import DatasetInfo, DatasetSpec, Sample

IMAGE_COLUMNS = ("image", "image_path", "path", "file", "file_name", "filename", "filepath")
LABEL_COLUMNS = ("label", "class", "target", "category")
CAPTION_COLUMNS = ("caption", "captions", "text", "query", "title")
SPLIT_COLUMN = "split"

Row = Mapping[str, Any]
Numbered = tuple[int, Row]
"""A row and the number of its line."""


def open_table(spec: DatasetSpec) -> RowDataset:
    """Read a table. Rows of the same image are put together where the column is a caption.

    If there is a column called split, the rows of one split are read; classes are those of all rows.
    """
    path = Path(spec.root)
    if not path.is_file():
        raise DataError(f"There is no table {path}.", advice="Check the path.")
    rows = list(_rows(path))
    if not rows:
        raise DataError(f"{path} has no rows.")
    columns = {key for _, row in rows for key in row}
    chosen = _of_split(spec, path, rows) if SPLIT_COLUMN in columns else _undivided(spec, rows)
    image = _column(path, columns, IMAGE_COLUMNS, "image paths")
    label = next((name for name in LABEL_COLUMNS if name in columns), None)
    if label:
        return _classification(spec, path, rows, chosen, image, label)
    caption = _column(path, columns, CAPTION_COLUMNS, "captions (or one of labels)")
    return _retrieval(spec, path, chosen, image, caption)


def _of_split(spec: DatasetSpec, path: Path, rows: list[Numbered]) -> list[Numbered]:
    problems = Problems(path)
    split_of = {line: str(row.get(SPLIT_COLUMN) or "").strip() for line, row in rows}
    for line, split in split_of.items():
        if not split:
            problems.add(line, f"no {SPLIT_COLUMN}")
    problems.raise_if_any()
    wanted = own_split(spec)
    if wanted not in split_of.values():
        raise no_such_split(spec.name, spec.split, sorted(set(split_of.values())))
    return [(line, row) for line, row in rows if split_of[line] == wanted]


def _undivided(spec: DatasetSpec, rows: list[Numbered]) -> list[Numbered]:
    check_only_split(spec, f"A table is divided by a column called {SPLIT_COLUMN!r}.")
    return rows


def _rows(path: Path) -> Iterator[tuple[int, Row]]:
    if path.suffix == ".jsonl":
        for number, row in json_lines(path):
            if not isinstance(row, dict):
                raise DataError(f"{path}, line {number}: not a JSON object.")
            yield number, row
        return
    reader = csv.DictReader((line for _, line in text_lines(path)), delimiter="\t" if path.suffix == ".tsv" else ",")
    try:
        for row in reader:
            if None in row:
                raise DataError(f"{path}, line {reader.line_num}: more cells than columns.")
            yield reader.line_num, row
    except csv.Error as error:
        raise DataError(f"{path}, after line {reader.line_num}: not a table ({error}).") from error


def _column(path: Path, columns: set[str], known: tuple[str, ...], what: str) -> str:
    found = next((name for name in known if name in columns), None)
    if found is None:
        raise DataError(
            f"{path} has no column of {what}; it has {', '.join(sorted(columns))}.", advice=f"Call it {known[0]!r}."
        )
    return found


def _image(row: Row, column: str, number: int, path: Path, problems: Problems) -> Path | None:
    value = row.get(column)
    found = find_image(value, path.parent) if isinstance(value, str) and value else None
    if found is None:
        problems.add(number, f"the image {value!r} does not exist")
    return found


def _classification(
    spec: DatasetSpec, path: Path, rows: list[Numbered], chosen: list[Numbered], image: str, label: str
) -> RowDataset:
    problems = Problems(path)
    names, numbers = _labels({line: row.get(label) for line, row in rows})
    texts = read_class_texts(path.parent, spec, names) if names else _numbered_classes(path, spec)
    samples = []
    for line, row in chosen:
        number = numbers[line]
        if number is None:
            problems.add(line, f"no {label}")
            continue
        ref = _image(row, image, line, path, problems)
        if ref:
            meta = {key: value for key, value in row.items() if key not in (image, label)}
            samples.append(Sample(str(line), ImageRef.from_path(ref), label=number, meta=meta))
    problems.raise_if_any()
    return RowDataset(class_info(spec, "classification", texts, path), tuple(samples))


def _labels(values: dict[int, Any]) -> tuple[tuple[str, ...], dict[int, int | None]]:
    """Read labels by line: as class numbers if all of them are numbers, else as names in sorted order."""
    texts = {line: "" if value is None else str(value).strip() for line, value in values.items()}
    given = {text for text in texts.values() if text}
    if given and all(text.isdecimal() and len(text) < 10 for text in given):
        return (), {line: int(text) if text else None for line, text in texts.items()}
    names = tuple(sorted(given))
    position = {name: i for i, name in enumerate(names)}
    return names, {line: position.get(text) for line, text in texts.items()}


def _numbered_classes(path: Path, spec: DatasetSpec) -> ClassTexts:
    texts = read_class_texts(path.parent, spec)
    if not texts.classnames:
        raise DataError(
            f"{path} has labels as numbers, but there are no class names.",
            advice="Put classnames.txt beside the table, or use --custom_classname_file.",
        )
    return texts


def _retrieval(spec: DatasetSpec, path: Path, rows: list[Numbered], image: str, caption: str) -> RowDataset:
    problems = Problems(path)
    captions: dict[Path, list[str]] = {}
    ids: dict[Path, str] = {}
    for line, row in rows:
        value = row.get(caption)
        texts = [str(text) for text in value] if isinstance(value, list) else [str(value or "")]
        if not any(text.strip() for text in texts):
            problems.add(line, f"no {caption}")
            continue
        ref = _image(row, image, line, path, problems)
        if ref:
            captions.setdefault(ref, []).extend(texts)
            ids.setdefault(ref, str(row[image]))
    problems.raise_if_any()
    samples = tuple(Sample(ids[p], ImageRef.from_path(p), texts=tuple(t)) for p, t in captions.items())
    return RowDataset(DatasetInfo(spec.name, "retrieval", spec.split, spec.language, source=shown(path)), samples)
