"""A CSV, TSV or JSON-lines table with a column of image paths and one of labels or captions."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from eyechart.datasets.classes import check_order, class_info, read_class_texts
from eyechart.datasets.layout import check_only_split, no_such_split, own_split
from eyechart.datasets.rows import Problems, RowDataset, describe, find_image, in_memory
from eyechart.datasets.table_columns import SPLIT_COLUMN, Rows, TableColumns, choose_columns, read_rows
from eyechart.errors import DataError
from eyechart.io.media import ImageRef
from eyechart.io.untrusted import text_of
from eyechart.types import DatasetSpec, Sample

_NUMBER = re.compile(r"[+-]?\d+(\.\d*)?")

_LIST = re.compile(r"\s*\[\s*(['\"]).*\1\s*\]\s*", re.DOTALL)
"""A list as programs write one into a cell."""


def open_table(spec: DatasetSpec) -> RowDataset[Sample]:
    """Read a table. Rows of the same image are put together where the column is a caption.

    If there is a column called split, the rows of one split are read; classes are those of all rows.
    """
    path = Path(spec.root)
    if not path.is_file():
        raise DataError(f"There is no table {path}.", advice="Check the path.")
    rows = read_rows(path, spec.options)
    if not rows:
        raise DataError(f"{path} has no rows.")
    columns = choose_columns(path, {key for row in rows.values() for key in row}, spec.options)
    if columns.split:
        chosen = _of_split(spec, path, rows, columns.split)
    else:
        check_only_split(spec, f"A table is divided by a column called {SPLIT_COLUMN!r}, or by --split-column.")
        chosen = rows
    read = _classification if columns.label else _retrieval
    dataset = read(spec, path, rows, chosen, columns)
    if columns.id:
        _check_ids(path, columns.id, [sample.id for sample in dataset.rows])
    return dataset


def _check_ids(path: Path, column: str, ids: Sequence[str]) -> None:
    twice = next((name for name, count in Counter(ids).items() if count > 1), None)
    if twice is not None:
        raise DataError(f"{path}: {column} {twice!r} occurs more than once.", advice="Ids tell samples apart.")


def _id(row: Mapping[str, Any], column: str, otherwise: str, line: int, problems: Problems) -> str:
    if not column:
        return otherwise
    value = str(row.get(column) if row.get(column) is not None else "").strip()
    if not value:
        problems.add(line, f"no {column}")
    return value


def _of_split(spec: DatasetSpec, path: Path, rows: Rows, column: str) -> Rows:
    problems = Problems(path)
    split_of = {line: str(row.get(column) or "").strip() for line, row in rows.items()}
    for line, split in split_of.items():
        if not split:
            problems.add(line, f"no {column}")
    problems.raise_if_any()
    wanted = own_split(spec)
    if wanted not in split_of.values():
        raise no_such_split(spec.name, spec.split, sorted(set(split_of.values())))
    return {line: row for line, row in rows.items() if split_of[line] == wanted}


def _image(value: Any, line: int, path: Path, problems: Problems) -> Path | None:
    found = find_image(value, path.parent) if isinstance(value, str) and value else None
    if found is None:
        problems.add(line, f"the image {value!r} does not exist")
    return found


def _classification(
    spec: DatasetSpec, path: Path, rows: Rows, chosen: Rows, columns: TableColumns
) -> RowDataset[Sample]:
    label = columns.label
    given = _labels(path, rows, label)
    names = () if all(map(_is_class_number, given.values())) else tuple(sorted(set(given.values())))
    texts = read_class_texts(path.parent, spec, names)
    number_of = _numbers(path, given.values(), names, texts.classnames)
    problems = Problems(path)
    samples = []
    for line, row in chosen.items():
        if line not in given:
            problems.add(line, f"no {label}")
            continue
        ref = _image(row.get(columns.image), line, path, problems)
        if ref:
            meta = {key: value for key, value in row.items() if key not in columns.used}
            name = _id(row, columns.id, str(line), line, problems)
            samples.append(Sample(name, ImageRef.from_path(ref), label=number_of[given[line]], meta=meta))
    problems.raise_if_any()
    return in_memory(class_info(spec, "classification", texts, path), samples)


def _labels(path: Path, rows: Rows, column: str) -> dict[int, str]:
    """Return the labels by line, as texts; rows without one are left out."""
    problems = Problems(path)
    found: dict[int, str] = {}
    for line, row in rows.items():
        try:
            value = text_of("" if row.get(column) is None else row[column]).strip()
        except TypeError as error:
            problems.add(line, f"the {column} {error}")
        else:
            found |= {line: value} if value else {}
    problems.raise_if_any()
    return found


def _is_class_number(text: str) -> bool:
    return text.isdecimal() and len(text) < 10


def _numbers(path: Path, labels: Iterable[str], names: tuple[str, ...], classnames: tuple[str, ...]) -> dict[str, int]:
    """Return the number of the class that each label means.

    Names that are in the class list mean their places in it; else the list has a name for each of them, in sorted
    order (a translation, say).
    """
    if not names and not classnames:
        raise DataError(
            f"{path} has labels as numbers, but there are no class names.",
            advice="Put classnames.txt beside the table, or use --custom_classname_file.",
        )
    if not names:
        return {label: int(label) for label in labels}
    if all(map(_NUMBER.fullmatch, names)):
        raise DataError(
            f"{path} has labels that are no class numbers, such as {min(names)!r}.",
            advice="Write whole numbers from 0 on.",
        )
    order = classnames if set(names) <= set(classnames) else names
    if order is names and classnames and len(classnames) != len(names):
        raise DataError(f"{path}: {len(classnames)} class names for {len(names)} labels, not all of which are in it.")
    if order is names:
        check_order(f"{path}: the labels", names, classnames)
    return {name: order.index(name) for name in names}


def _retrieval(
    spec: DatasetSpec,
    path: Path,
    rows: Rows,  # noqa: ARG001 - a caption means the same in every split
    chosen: Rows,
    columns: TableColumns,
) -> RowDataset[Sample]:
    problems = Problems(path)
    captions: dict[Path, list[str]] = {}
    ids: dict[Path, str] = {}
    for line, row in chosen.items():
        known = len(problems.found)
        texts = [text for column in columns.captions for text in _texts(path, row, column, line, problems)]
        if len(problems.found) == known and not any(text.strip() for text in texts):
            problems.add(line, f"no {' nor '.join(columns.captions)}")
        if len(problems.found) > known:
            continue
        ref = _image(row.get(columns.image), line, path, problems)
        if ref:
            captions.setdefault(ref, []).extend(texts)
            ids.setdefault(ref, _id(row, columns.id, str(row[columns.image]), line, problems))
    problems.raise_if_any()
    samples = [Sample(ids[p], ImageRef.from_path(p), texts=tuple(t)) for p, t in captions.items()]
    return in_memory(describe(spec, "retrieval", path), samples)


def _texts(path: Path, row: Mapping[str, Any], column: str, line: int, problems: Problems) -> list[str]:
    value = "" if row.get(column) is None else row[column]
    try:
        texts = [text_of(text) for text in (value if isinstance(value, list) else [value])]
    except TypeError as error:
        problems.add(line, f"the {column} {error}")
        return []
    if path.suffix.lower() != ".jsonl" and _LIST.fullmatch(texts[0]):
        problems.add(line, f"the {column} is a list: write a row for each, or JSON lines")
    return texts
