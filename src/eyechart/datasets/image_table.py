"""A CSV, TSV, JSON-lines or Parquet table with a column of image paths and one of labels or captions."""

import csv
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eyechart.datasets.arrow_files import arrow_rows, arrow_schema
from eyechart.datasets.class_texts import check_order, class_info, read_class_texts
from eyechart.datasets.locations import COMMON_SPLITS, check_only_split, need_file, no_such_split, source_split
from eyechart.datasets.row_dataset import Problems, RowDataset, describe, find_image, in_memory, json_objects, read_csv
from eyechart.errors import DataError, UsageError, nearest
from eyechart.io.images import ImageRef
from eyechart.io.safe_parse import is_file, text_lines, text_of
from eyechart.messages import UserMessage
from eyechart.types import DatasetSpec, Sample

IMAGE_COLUMNS = ("image", "image_path", "path", "file", "file_name", "filename", "filepath")
LABEL_COLUMNS = ("label", "class", "target", "category")
CAPTION_COLUMNS = ("caption", "captions", "text", "query", "title")
SPLIT_COLUMN = "split"
OPTIONS = ("image_column", "label_column", "caption_column", "id_column", "split_column", "delimiter")
"""Dataset options that apply to tables only; each is a flag."""
DELIMITERS = (",", "\t", ";", "|")
"""Delimiters that are detected; any other character can be set."""
CLASSES, CAPTIONS = "classification", "retrieval"
READ_AS = "read_as"
"""The option that selects between labels and captions if a table has both."""

Rows = Mapping[int, Mapping[str, Any]]
"""Rows by line number."""


@dataclass(frozen=True)
class TableColumns:
    """The columns of a table by meaning; labels or captions, never both."""

    image: str
    label: str = ""
    captions: tuple[str, ...] = ()
    id: str = ""
    split: str = ""

    @property
    def used(self) -> frozenset[str]:
        """Columns that are not metadata; the split column is metadata."""
        return frozenset({self.image, self.label, self.id, *self.captions}) - {""}


def read_rows(path: Path, options: Mapping[str, Any]) -> Rows:
    """Read a table in the format of its suffix."""
    encoding = options.get("encoding", "")
    if path.suffix.lower() == ".parquet":
        return dict(enumerate(arrow_rows([path]), 1))
    if path.suffix.lower() == ".jsonl":
        return dict(json_objects(path, encoding=encoding))
    _, rows = read_csv(path, _delimiter(path, options), encoding)
    return {line: {str(name).strip(): cell for name, cell in row.items()} for line, row in rows}


def _delimiter(path: Path, options: Mapping[str, Any]) -> str:
    """Return the delimiter: as set, or one with which the header has an image column."""
    given = str(options.get("delimiter", "")).replace("\\t", "\t")
    if given:
        if len(given) != 1 or given in '"\r\n':
            raise UsageError(
                "{x!r} is not a valid delimiter.", advice="{--delimiter} takes one character, such as ';'.", x=given
            )
        return given
    usual = "\t" if path.suffix.lower() == ".tsv" else ","
    if not path.stat().st_size:
        raise DataError("{path} is empty.", advice="Its first line must name the columns.", path=path)
    first = next((line for _, line in text_lines(path, encoding=options.get("encoding", ""))), "")
    heads = {mark: _cells(first, mark) for mark in (usual, *DELIMITERS)}
    wanted = {options.get("image_column")} if options.get("image_column") else set(IMAGE_COLUMNS)
    naming = [mark for mark, cells in heads.items() if wanted & set(cells)]
    if not naming:
        columns = max(heads.values(), key=len)
        _specified(path, columns, options, "image_column")
        raise _no_images(path, columns)
    return naming[0]


def _cells(line: str, delimiter: str) -> list[str]:
    try:
        return [cell.strip() for cell in next(csv.reader([line.rstrip("\r\n")], delimiter=delimiter), [])]
    except csv.Error:  # not with this delimiter
        return []


def choose_columns(path: Path, columns: Collection[str], options: Mapping[str, Any]) -> TableColumns:
    """Determine the meaning of columns: as the user specifies, else by common names."""
    image, label, id_column, split = (
        next(iter(_specified(path, columns, options, option)), "")
        for option in ("image_column", "label_column", "id_column", "split_column")
    )
    captions = _specified(path, columns, options, "caption_column")
    image = image or _known(columns, IMAGE_COLUMNS)
    if not image:
        raise _no_images(path, columns)
    if not captions and not label:
        label, caption = _known(columns, LABEL_COLUMNS), _known(columns, CAPTION_COLUMNS)
        captions = (caption,) if caption else ()
    if not captions and not label:
        raise DataError(
            "{path} has no column with labels or captions; its columns are: {list}.",
            advice="Set it with {--label_column=NAME} or {--caption_column=NAME}, or name it {a!r} or {b!r}.",
            path=path,
            list=", ".join(sorted(columns)),
            a=LABEL_COLUMNS[0],
            b=CAPTION_COLUMNS[0],
        )
    if captions and label:
        read_as = options.get(READ_AS, "")
        if read_as not in (CLASSES, CAPTIONS):
            raise UsageError(
                "{path} has both labels ({label}) and captions ({captions}).",
                advice="To use labels: {--label_column={label}}, or {--task} zeroshot_classification. To use captions: "
                "{--caption_column={columns}}, or {--task} zeroshot_retrieval.",
                path=path,
                label=label,
                captions=", ".join(captions),
                columns=" ".join(captions),
            )
        label, captions = (label, ()) if read_as == CLASSES else ("", captions)
    return TableColumns(image, label, captions, id_column, split or _known(columns, [SPLIT_COLUMN]))


def _known(columns: Collection[str], names: Sequence[str]) -> str:
    return next((name for name in names if name in columns), "")


def _no_images(path: Path, columns: Collection[str]) -> DataError:
    return DataError(
        "{path} has no column with image paths; its columns are: {list}.",
        advice="Set it with {--image_column=NAME} (and {--delimiter} if it is unusual), or name it {first!r}.",
        path=path,
        list=", ".join(sorted(columns)),
        first=IMAGE_COLUMNS[0],
    )


def _specified(path: Path, columns: Collection[str], options: Mapping[str, Any], option: str) -> tuple[str, ...]:
    """Return the columns that the user specified with an option, after checking that they exist."""
    given = options.get(option) or ()
    names = (given,) if isinstance(given, str) else tuple(given)
    for name in names:
        if name not in columns:
            near = nearest(name, columns)
            hint = UserMessage("Did you mean {names!r}? ", names=near[0]) if near else ""
            raise UsageError(
                "{path} has no column {name!r} ({--{option}}).",
                advice="{hint}Its columns are: {columns}.",
                path=path,
                name=name,
                option=option,
                hint=hint,
                columns=", ".join(sorted(columns)),
            )
    return names


_NUMBER = re.compile(r"[+-]?\d+(\.\d*)?")
_LIST = re.compile(r"\s*\[\s*(['\"]).*\1\s*\]\s*", re.DOTALL)
"""A list literal in a cell."""


def open_table(spec: DatasetSpec) -> RowDataset[Sample]:
    """Read a table. Captions of the same image are merged into one sample.

    If there is a split column, only the rows of one split are read; classes are those of all rows.
    """
    path = need_file(Path(spec.root), UserMessage("Check the path."))
    return _open_rows(spec, path, read_rows(path, spec.options))


METADATA = ("metadata.csv", "metadata.jsonl", "metadata.parquet")
"""Tables of Hugging Face's ImageFolder, with paths of images relative to the table."""
FILE_NAME = "file_name"


def metadata_files(folder: Path) -> list[Path]:
    """Return the metadata tables of a folder: one in the root, or one in the folder of each split."""
    places = [folder, *(folder / name for name in COMMON_SPLITS)]
    found = [place / name for place in places for name in METADATA if is_file(place / name)]
    return [path for path in found if _names_files(path)]


def _names_files(path: Path) -> bool:
    if path.suffix == ".parquet":
        return FILE_NAME in arrow_schema(path).names
    return FILE_NAME in next((line for _, line in text_lines(path)), "")


def open_metadata(spec: DatasetSpec) -> RowDataset[Sample]:
    """Read a folder of images with metadata tables. The split of an image is the folder in which it is."""
    folder = Path(spec.root)
    return _open_rows(spec, folder / METADATA[1], read_metadata(folder, spec.options))


def read_metadata(folder: Path, options: Mapping[str, Any]) -> Rows:
    """Read the rows of all splits."""
    rows: dict[int, Mapping[str, Any]] = {}
    for path in metadata_files(folder):
        for row in read_rows(path, options).values():
            name = (path.parent.relative_to(folder) / str(row.get(FILE_NAME) or "")).as_posix()
            split = {SPLIT_COLUMN: name.partition("/")[0]} if name.partition("/")[0] in COMMON_SPLITS else {}
            rows[len(rows) + 1] = {**split, **row, FILE_NAME: name}
    return rows


def _open_rows(spec: DatasetSpec, path: Path, rows: Rows) -> RowDataset[Sample]:
    if not rows:
        raise DataError("{path} has no rows.", path=path)
    columns = choose_columns(path, {key for row in rows.values() for key in row}, spec.options)
    chosen = _of_split(spec, path, rows, columns.split)
    if columns.label:
        dataset = _classification(spec, path, rows, chosen, columns)
    else:
        dataset = _retrieval(spec, path, chosen, columns)
    counts = Counter(sample.id for sample in dataset.rows) if columns.id else {}
    twice = next((name for name, count in counts.items() if count > 1), None)
    if twice is not None:
        raise DataError(
            "{path}: {key} {id!r} occurs more than once.",
            advice="Ids must be unique.",
            path=path,
            key=columns.id,
            id=twice,
        )
    return dataset


def _id(row: Mapping[str, Any], column: str, default: str, line: int, problems: Problems) -> str:
    if not column:
        return default
    value = str(row.get(column) if row.get(column) is not None else "").strip()
    if not value:
        problems.add(line, f"no {column}")
    return value


def _of_split(spec: DatasetSpec, path: Path, rows: Rows, column: str) -> Rows:
    if not column:
        how = "The split of a row is in the column {split_column!r}, or the one set with {--split_column}."
        check_only_split(spec, UserMessage(how, split_column=SPLIT_COLUMN))
        return rows
    problems = Problems(path)
    split_of = {line: str(row.get(column) or "").strip() for line, row in rows.items()}
    for line, split in split_of.items():
        if not split:
            problems.add(line, f"no {column}")
    problems.raise_if_any()
    wanted = source_split(spec)
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
    label, problems = columns.label, Problems(path)
    given: dict[int, str] = {}
    for line, row in rows.items():
        try:
            given[line] = text_of("" if row.get(label) is None else row[label]).strip()
        except TypeError as error:
            problems.add(line, f"the {label} {error}")
    problems.raise_if_any()
    found = set(given.values()) - {""}
    names = () if all(text.isdecimal() and len(text) < 10 for text in found) else tuple(sorted(found))
    texts = read_class_texts(path.parent, spec, names)
    number_of = class_numbers(path, found, names, texts.classnames)
    samples = []
    for line, row in chosen.items():
        if not given[line]:
            problems.add(line, f"no {label}")
            continue
        ref = _image(row.get(columns.image), line, path, problems)
        if ref:
            meta = {key: value for key, value in row.items() if key not in columns.used}
            name = _id(row, columns.id, str(line), line, problems)
            samples.append(Sample(name, ImageRef.from_path(ref), label=number_of[given[line]], meta=meta))
    problems.raise_if_any()
    return in_memory(class_info(spec, "classification", texts, path), samples)


def class_numbers(
    path: Path, labels: Iterable[str], names: tuple[str, ...], classnames: tuple[str, ...]
) -> dict[str, int]:
    """Return the class index of each label.

    Names in the class list map to their positions in it; otherwise the list has one name per label, in sorted order (a
    translation, for example).
    """
    if not names and not classnames:
        raise DataError(
            "{path} has numeric labels, but there are no class names.",
            advice="Put classnames.txt next to the table, or use {--custom_classname_file}.",
            path=path,
        )
    if not names:
        return {label: int(label) for label in labels}
    if all(map(_NUMBER.fullmatch, names)):
        raise DataError(
            "{path} has labels that are not class indices, such as {label!r}.",
            advice="Use integers starting at 0.",
            path=path,
            label=min(names),
        )
    order = classnames if set(names) <= set(classnames) else names
    if order is names and classnames and len(classnames) != len(names):
        raise DataError(
            "{path}: {n} class names for {n_names} labels, and not every label is a class name.",
            path=path,
            n=len(classnames),
            n_names=len(names),
        )
    if order is names:
        check_order(f"{path}: the labels", names, classnames)
    return {name: order.index(name) for name in names}


def _retrieval(spec: DatasetSpec, path: Path, chosen: Rows, columns: TableColumns) -> RowDataset[Sample]:
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
    if path.suffix.lower() not in (".jsonl", ".parquet") and _LIST.fullmatch(texts[0]):
        problems.add(line, f"the {column} is a list: write a row for each, or JSON lines")
    return texts
