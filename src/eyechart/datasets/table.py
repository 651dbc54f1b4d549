"""A CSV, TSV or JSON-lines table with a column of image paths and one of labels or captions."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from eyechart.datasets.classes import ClassTexts, read_class_texts
from eyechart.datasets.rows import Problems, RowDataset, find_image
from eyechart.errors import DataError
from eyechart.io.media import ImageRef
from eyechart.io.untrusted import json_lines, text_lines
from eyechart.types import DatasetInfo, DatasetSpec, Sample

IMAGE_COLUMNS = ("image", "image_path", "path", "file", "file_name", "filename", "filepath")
LABEL_COLUMNS = ("label", "class", "target", "category")
CAPTION_COLUMNS = ("caption", "captions", "text", "query", "title")

Row = Mapping[str, Any]


def open_table(spec: DatasetSpec) -> RowDataset:
    """Read a table. Rows of the same image are put together where the column is a caption."""
    path = Path(spec.root)
    if not path.is_file():
        raise DataError(f"There is no table {path}.", advice="Check the path.")
    rows = list(_rows(path))
    if not rows:
        raise DataError(f"{path} has no rows.")
    columns = {key for _, row in rows for key in row}
    image = _column(path, columns, IMAGE_COLUMNS, "image paths")
    label = next((name for name in LABEL_COLUMNS if name in columns), None)
    if label:
        return _classification(spec, path, rows, image, label)
    caption = _column(path, columns, CAPTION_COLUMNS, "captions (or one of labels)")
    return _retrieval(spec, path, rows, image, caption)


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


def _classification(spec: DatasetSpec, path: Path, rows: list[tuple[int, Row]], image: str, label: str) -> RowDataset:
    problems = Problems(path)
    values = [row.get(label) for _, row in rows]
    names, numbers = _labels(values)
    texts = read_class_texts(path.parent, spec, names) if names else _numbered_classes(path, spec)
    samples = []
    for (line, row), number in zip(rows, numbers, strict=True):
        if number is None:
            problems.add(line, f"no {label}")
            continue
        ref = _image(row, image, line, path, problems)
        if ref:
            meta = {key: value for key, value in row.items() if key not in (image, label)}
            samples.append(Sample(str(line), ImageRef.from_path(ref), label=number, meta=meta))
    problems.raise_if_any()
    info = DatasetInfo(
        spec.name,
        "classification",
        spec.split,
        spec.language,
        texts.classnames,
        texts.templates,
        texts.class_prompts,
        str(path),
        texts.notes,
    )
    return RowDataset(info, tuple(samples))


def _labels(values: list[Any]) -> tuple[tuple[str, ...], list[int | None]]:
    """Read labels as class numbers if all of them are numbers, else as names in sorted order."""
    texts = [None if value is None or str(value).strip() == "" else str(value).strip() for value in values]
    given = [text for text in texts if text is not None]
    if given and all(text.isdecimal() and len(text) < 10 for text in given):
        return (), [None if text is None else int(text) for text in texts]
    names = tuple(sorted(set(given)))
    position = {name: i for i, name in enumerate(names)}
    return names, [None if text is None else position[text] for text in texts]


def _numbered_classes(path: Path, spec: DatasetSpec) -> ClassTexts:
    texts = read_class_texts(path.parent, spec)
    if not texts.classnames:
        raise DataError(
            f"{path} has labels as numbers, but there are no class names.",
            advice="Put classnames.txt beside the table, or use --custom_classname_file.",
        )
    return texts


def _retrieval(spec: DatasetSpec, path: Path, rows: list[tuple[int, Row]], image: str, caption: str) -> RowDataset:
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
    return RowDataset(DatasetInfo(spec.name, "retrieval", spec.split, spec.language, source=str(path)), samples)
