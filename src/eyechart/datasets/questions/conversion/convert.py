"""``eyechart vlm convert``: rows of others to a TSV file with index, image, question, A, B, ..., answer."""

from __future__ import annotations

import base64
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from eyechart.datasets.questions.conversion.answers import answer_letters
from eyechart.datasets.questions.conversion.columns import match_columns
from eyechart.datasets.questions.conversion.sources import Row, RowSource, numbered, open_source
from eyechart.datasets.questions.folders import inside
from eyechart.datasets.questions.own_tables import class_of
from eyechart.datasets.questions.rows import STORED, Record, RowTable
from eyechart.datasets.questions.tsv import write_tsv
from eyechart.datasets.rows import Problems
from eyechart.errors import DataError, UsageError
from eyechart.io.files import write_atomic
from eyechart.io.media import decode_image
from eyechart.io.untrusted import is_file
from eyechart.metrics.cells import LETTERS, is_missing, literal_list

PLAIN = ("question", "hint", "category", "l2-category", "split", "answer")
"""Columns that are taken as they are."""


@dataclass(frozen=True)
class Conversion:
    """What is converted, and how."""

    source: Path
    output: Path
    images: Path | None = None
    """The folder that images are named from; None for that of the source."""
    split: str = ""
    columns: Mapping[str, str] = field(default_factory=dict)
    """Our columns to theirs, where the usual names do not say it."""
    answers: str = ""
    """How answers to multiple choice are meant (see `answers.READINGS`)."""
    keep_images: Literal["base64", "paths"] = "base64"


@dataclass(frozen=True)
class Converted:
    """What was written."""

    rows: int
    dataset_class: str
    taken: Mapping[str, Sequence[str]]
    """Which of their columns became which of ours."""


def convert(asked: Conversion) -> Converted:
    """Write the table; images are read one at a time.

    Raises:
        DataError: If rows cannot be converted; all that are bad are named.
        UsageError: If it is not clear what a column or an answer means.
    """
    if asked.output.suffix != ".tsv":
        raise UsageError(f"The table is a TSV file, not {asked.output}.", advice="Let its name end in .tsv")
    source = open_source(asked.source, asked.split)
    taken = match_columns(source.columns, asked.columns)
    writer = _TableMaker(asked, source, taken)
    problems = Problems(source.path)
    rows = [writer.texts(number, row, problems) for number, row in numbered(source.rows)]
    problems.raise_if_any()
    writer.read_answers(rows)
    columns = [name for name in writer.columns() if any(name in row for row in rows)]
    made = RowTable((writer.record(i, row) for i, row in enumerate(rows)), columns)
    kind = class_of(columns, asked.output)
    asked.output.parent.mkdir(parents=True, exist_ok=True)
    write_tsv(asked.output, made)
    return Converted(len(rows), kind, taken)


class _TableMaker:
    """Makes our rows of theirs."""

    def __init__(self, asked: Conversion, source: RowSource, taken: Mapping[str, Sequence[str]]) -> None:
        self.asked, self.source, self.taken = asked, source, taken
        self.folder = (asked.images or source.folder).absolute()
        used = {name for names in taken.values() for name in names}
        self.others = [name for name in source.columns if name not in used]
        self.image_column = "image" if asked.keep_images == "base64" else "image_path"
        self.indices: set[str] = set()
        self.is_choice = "options" in taken or {"A", "B"} <= taken.keys()

    def columns(self) -> list[str]:
        """Return the columns in their order."""
        first = ["index", self.image_column, "question", "hint", *LETTERS, "answer", "category", "l2-category", "split"]
        return [*first, *(name for name in self.others if name not in first)]

    def texts(self, number: int, row: Row, problems: Problems) -> dict[str, Any]:
        """Return all cells but the image, whose place is marked; note what is wrong."""
        cells: dict[str, Any] = {"index": self._index(number, row, problems)}
        try:
            cells |= {name: _cell(row.get(name)) for name in self.others if _is_text(row.get(name))}
            cells |= {name: _cell(row.get(self.taken[name][0])) or None for name in PLAIN if name in self.taken}
            cells |= self._options(row)
            if "image" in self.taken and self._images(row):
                cells[self.image_column] = STORED
        except DataError as error:
            problems.add(number, error.message.removesuffix("."))
        else:
            if "question" in self.taken and cells["question"] is None:
                problems.add(number, f"no {self.taken['question'][0]}")
        return {name: cell for name, cell in cells.items() if cell is not None}

    def read_answers(self, rows: Sequence[dict[str, Any]]) -> None:
        """Turn answers to multiple choice into letters."""
        if not self.is_choice:
            return
        chosen = [(number, row) for number, row in enumerate(rows, 1) if {"answer", "A"} <= row.keys()]
        asked = [(n, str(row["answer"]), {name: row[name] for name in LETTERS if name in row}) for n, row in chosen]
        letters = answer_letters(asked, self.asked.answers) if asked else []
        for (_, row), letter in zip(chosen, letters, strict=True):
            row["answer"] = letter

    def record(self, place: int, cells: Mapping[str, Any]) -> Record:
        """Return a row of the table, whose image is read when it is written."""
        return Record(cells, lambda _column: self._written(place, str(cells["index"])))

    def _index(self, number: int, row: Row, problems: Problems) -> str:
        index = str(number - 1) if "index" not in self.taken else _cell(row.get(self.taken["index"][0])) or ""
        if not index or index in self.indices:
            what = f"the {self.taken['index'][0]} {index!r} occurs twice" if index else f"no {self.taken['index'][0]}"
            problems.add(number, f"{what} (--column index= numbers the rows)")
        self.indices.add(index)
        return index

    def _options(self, row: Row) -> dict[str, str]:
        if "options" not in self.taken:
            found = {name: _cell(row.get(self.taken[name][0])) for name in LETTERS if name in self.taken}
            return {name: text for name, text in found.items() if text}
        given = row.get(self.taken["options"][0])
        if isinstance(given, str) and given.strip():
            given = literal_list(given)
        if isinstance(given, Mapping):
            return {
                str(name).upper(): _cell(text) or "" for name, text in given.items() if str(name).upper() in LETTERS
            }
        if is_missing(given) or given in ("", []):
            return {}
        if not isinstance(given, list) or len(given) > len(LETTERS):
            raise DataError(f"{self.taken['options'][0]} is no list of at most {len(LETTERS)} options")
        return {letter: _cell(text) or "" for letter, text in zip(LETTERS, given, strict=False)}

    def _images(self, row: Row) -> list[Callable[[], tuple[bytes, Path | None]]]:
        """Return how to read each image of a row: its bytes, and the file if it is one."""
        found: list[Any] = []
        for name in self.taken["image"]:
            given = row.get(name)
            listed = literal_list(given) if isinstance(given, str) and given.startswith("[") else given
            found += listed if isinstance(listed, list) else [given]
        kept = [one for one in found if not is_missing(one) and one not in ("", {})]
        return [self._image(one) for one in kept]

    def _image(self, given: Any) -> Callable[[], tuple[bytes, Path | None]]:
        if isinstance(given, Mapping):  # as Hugging Face's datasets keep images
            data, name = given.get("bytes"), given.get("path")
            if isinstance(data, bytes):
                return lambda: (data, None)
            given = name
        if isinstance(given, bytes):
            held = given
            return lambda: (held, None)
        path = inside(self.folder, str(given), "the image")
        if not is_file(path):
            raise DataError(f"there is no image {str(given)[:200]} below {self.folder}")
        return lambda: (path.read_bytes(), path)

    def _written(self, place: int, index: str) -> str:
        """Return the cell of a row's images; each must be one."""
        cells = []
        for number, read in enumerate(self._images(self.source.rows[place])):
            data, path = read()
            decode_image(data, f"row {place + 1}")
            if self.image_column == "image":
                cells.append(base64.b64encode(data).decode("ascii"))
            else:
                cells.append(self._beside(path) if path else self._saved(data, f"{index}_{number}"))
        return cells[0] if len(cells) == 1 else repr(cells)

    def _beside(self, path: Path) -> str:
        name = os.path.relpath(path.resolve(), self.asked.output.parent.resolve())
        if name.startswith(".."):
            raise UsageError(
                f"The image {path} does not lie below the folder of {self.asked.output}.",
                advice="Write the table into the folder of the images, or keep them inside it: --keep_images base64",
            )
        return name

    def _saved(self, data: bytes, name: str) -> str:
        folder = f"{self.asked.output.stem}_images"
        image = decode_image(data, name)
        path = inside(
            self.asked.output.parent.absolute() / folder, f"{name}.{(image.format or 'PNG').lower()}", "the index"
        )
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, data)
        return f"{folder}/{path.name}"


def _is_text(value: Any) -> bool:
    return isinstance(value, str | int | float) and not is_missing(value)


def _cell(value: Any) -> str | None:
    """Return a value as the text of a cell; several answers as a list."""
    if is_missing(value):
        return None
    if isinstance(value, list):
        texts = [str(item.get("answer", "")) if isinstance(item, Mapping) else str(item) for item in value]
        return texts[0] if len(texts) == 1 else repr(texts) if texts else None
    if isinstance(value, Mapping | bytes):
        raise DataError(f"a {type(value).__name__} is no text")
    return str(value).strip()
