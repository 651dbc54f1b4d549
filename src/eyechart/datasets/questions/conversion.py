"""`eyechart vlm convert` and `circular`: tables of questions made from rows of other files, and circular sets."""

import base64
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal

from eyechart.datasets.locations import need_file
from eyechart.datasets.questions.benchmark_files import inside
from eyechart.datasets.questions.question_reader import class_of
from eyechart.datasets.questions.row_table import RowTable, StoredCell, option_columns
from eyechart.datasets.questions.table_files import Row, RowSource, open_source, read_tsv, write_tsv
from eyechart.datasets.row_dataset import Problems
from eyechart.errors import DataError, UsageError, unknown_name
from eyechart.io.files import write_atomic
from eyechart.io.images import decode_image
from eyechart.io.safe_parse import is_file
from eyechart.metrics.cell_values import LETTERS, is_missing, literal_list
from eyechart.metrics.repeated_questions import can_rotate, circular_rows

COMMON_NAMES: Mapping[str, tuple[str, ...]] = {
    "index": ("index", "id", "idx", "question_id", "qid", "sample_id", "uid"),
    "image": ("image", "images", "image_path", "image_paths", "img", "img_path", "image_file", "file_name", "filename"),
    "question": ("question", "query", "prompt", "instruction", "problem", "text"),
    "options": ("options", "choices", "candidates"),
    "answer": ("answer", "answers", "label", "target", "gt_answer", "ground_truth", "gt", "correct_answer", "caption"),
    "hint": ("hint", "context", "lecture"),
    "category": ("category", "subject", "topic", "task", "question_type"),
    "l2-category": ("l2-category", "l2_category", "supercategory", "subcategory"),
    "split": ("split",),
}
"""Benchmark columns and their common names, most likely first."""
_IMAGE = re.compile(r"image[ _-]?(\d{1,2})")


def match_columns(columns: Sequence[str], given: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the source columns of each benchmark column (images: several); an empty name in ``given`` omits it."""
    ours = [*COMMON_NAMES, *LETTERS]
    for name, theirs in given.items():
        if name not in ours:
            raise unknown_name("column of a benchmark", name, ours)
        if theirs and theirs not in columns:
            raise unknown_name("column", theirs, columns)
    found = {name: [theirs] for name, theirs in given.items() if theirs}
    free = [name for name in columns if name not in given.values()]
    lower = {name.lower(): name for name in reversed(free)}
    for name, usual in COMMON_NAMES.items():
        likeliest = next((lower[word] for word in usual if word in lower), "")
        if name not in given and likeliest:
            found[name] = [likeliest]
    for letter, names in option_columns(free).items():
        if letter not in given:
            found.setdefault(letter, names[:1])
    images = sorted((int(match[1]), name) for name in free if (match := _IMAGE.fullmatch(name.lower())))
    if images and "image" not in found and "image" not in given:
        found["image"] = [name for _, name in images]
    if not {"question", "answer"} & found.keys():
        raise UsageError(
            "No column with questions found; the columns are: {columns}.",
            advice="Name the column: --column question=NAME",
            columns=", ".join(columns),
        )
    return found


Options = Mapping[str, str]
_LETTER = re.compile(r"\(?([A-Za-z])[).:]?")
ANSWER_FORMS = ("letter", "text", "0", "1")
"""Supported answer forms: the option's letter, its text, or its position counted from 0 or from 1."""


def _chosen_letter(answer: str, options: Options, form: str) -> str | None:
    """Return the option that an answer of a form names; None if it names none or several."""
    answer = answer.strip()
    if form == "text":
        same = [letter for letter, text in options.items() if text.strip() == answer]
        return same[0] if len(same) == 1 else None
    if form == "letter":
        letter = match[1].upper() if (match := _LETTER.fullmatch(answer)) else ""
    else:
        place = int(answer) - int(form) if re.fullmatch(r"\d{1,2}", answer) else -1
        letter = LETTERS[place] if 0 <= place < len(LETTERS) else ""
    return letter if letter in options else None


def answer_letters(rows: Sequence[tuple[int, str, Options]], form: str = "") -> list[str]:
    """Return the letters of the correct options, from number, answer and options of each row.

    ``form`` is one of `ANSWER_FORMS`; empty to detect the one that fits all rows. Forms that select different options
    are an error.
    """
    if form and form not in ANSWER_FORMS:
        raise unknown_name("answer form", form, ANSWER_FORMS)
    names = [form] if form else ANSWER_FORMS
    tried = {name: [_chosen_letter(answer, options, name) for _, answer, options in rows] for name in names}
    fitting = {name: [letter for letter in letters if letter] for name, letters in tried.items() if all(letters)}
    if not fitting:
        best = max(tried.values(), key=lambda letters: sum(letter is not None for letter in letters))
        number, answer, options = rows[best.index(None)]
        raise DataError(
            "Row {number}: the answer {answer!r} matches none of the options {options} by letter, text or "
            "position (all rows must use the same form).",
            advice="Correct it, or ignore the options: --column options=",
            number=number,
            answer=answer,
            options=", ".join(options),
        )
    if len({tuple(letters) for letters in fitting.values()}) > 1:
        raise UsageError(
            "The answers are ambiguous: read as {fitting}, they select different options.",
            advice="Specify the form: --answers {fitting2} (0 and 1: positions counted from there)",
            fitting=" or as ".join(fitting),
            fitting2=" or --answers ".join(fitting),
        )
    return next(iter(fitting.values()))


PLAIN = ("question", "hint", "category", "l2-category", "split", "answer")
"""Columns that are copied unchanged."""


@dataclass(frozen=True)
class Conversion:
    """Input, output and options of a conversion."""

    source: Path
    output: Path
    images: Path | None = None
    """The root of relative image paths; None for the folder of the source."""
    split: str = ""
    columns: Mapping[str, str] = field(default_factory=dict)
    """Source columns by benchmark column, where detection by name fails."""
    answers: str = ""
    """How multiple-choice answers are given, one of `ANSWER_FORMS`; empty to detect it."""
    keep_images: Literal["base64", "paths"] = "base64"


@dataclass(frozen=True)
class ConversionSummary:
    """What a conversion wrote."""

    rows: int
    dataset_class: str
    taken: Mapping[str, Sequence[str]]
    """The source columns of each benchmark column."""


def convert(job: Conversion) -> ConversionSummary:
    """Write the table; images are read one at a time, and every bad row is listed in one error."""
    if job.output.suffix != ".tsv":
        raise UsageError("The output must be a .tsv file, not {output}.", output=job.output)
    source = open_source(job.source, job.split)
    taken = match_columns(source.columns, job.columns)
    converter, problems = _RowConverter(job, source, taken), Problems(source.path)
    rows = [converter.cells(place, problems) for place in range(len(source.rows))]
    problems.raise_if_any()
    if "options" in taken or {"A", "B"} <= taken.keys():
        chosen = [(number, row) for number, row in enumerate(rows, 1) if {"answer", "A"} <= row.keys()]
        answers = [(n, str(row["answer"]), {name: row[name] for name in LETTERS if name in row}) for n, row in chosen]
        for (_, row), letter in zip(chosen, answer_letters(answers, job.answers), strict=True):
            row["answer"] = letter
    ours = ["index", converter.image_column, "question", "hint", *LETTERS, "answer", "category", "l2-category", "split"]
    columns = [name for name in dict.fromkeys([*ours, *converter.others]) if any(name in row for row in rows)]
    kind = class_of(columns, job.output)
    job.output.parent.mkdir(parents=True, exist_ok=True)
    write_tsv(job.output, RowTable(rows, columns))
    return ConversionSummary(len(rows), kind, taken)


class _RowConverter:
    def __init__(self, job: Conversion, source: RowSource, taken: Mapping[str, Sequence[str]]) -> None:
        self.job, self.source, self.taken = job, source, taken
        folder = source.path if source.path.is_dir() else source.path.parent
        self.folder = (job.images or folder).absolute()
        used = {name for names in taken.values() for name in names}
        omitted = {name for name, theirs in job.columns.items() if not theirs}
        self.others = [name for name in source.columns if name not in used | omitted]
        self.image_column = "image" if job.keep_images == "base64" else "image_path"
        self.indices: set[str] = set()

    def cells(self, place: int, problems: Problems) -> dict[str, Any]:
        """Convert a row; its images are read when the table is written. Problems are collected."""
        number, row = place + 1, self.source.rows[place]
        index = str(place) if "index" not in self.taken else _cell(row.get(self.taken["index"][0])) or ""
        if not index or index in self.indices:
            what = f"the {self.taken['index'][0]} {index!r} occurs twice" if index else f"no {self.taken['index'][0]}"
            problems.add(number, f"{what} (--column index= numbers the rows)")
        self.indices.add(index)
        cells: dict[str, Any] = {"index": index}
        try:
            for name in self.others:
                value = row.get(name)
                if isinstance(value, str | int | float) and not is_missing(value):
                    cells[name] = _cell(value)
            cells |= {name: _cell(row.get(self.taken[name][0])) or None for name in PLAIN if name in self.taken}
            cells |= self._options(row)
            if "image" in self.taken and self._images(row):
                cells[self.image_column] = StoredCell(partial(self._image_cell, place, index))
        except DataError as error:
            problems.add(number, error.message.removesuffix("."))
        else:
            if "question" in self.taken and cells["question"] is None:
                problems.add(number, f"no {self.taken['question'][0]}")
        return {name: cell for name, cell in cells.items() if cell is not None}

    def _options(self, row: Row) -> dict[str, str]:
        if "options" not in self.taken:
            found = {name: _cell(row.get(self.taken[name][0])) for name in LETTERS if name in self.taken}
            return {name: text for name, text in found.items() if text}
        given = row.get(self.taken["options"][0])
        if isinstance(given, str) and given.strip():
            given = literal_list(given)
        if isinstance(given, Mapping):
            upper = ((str(name).upper(), text) for name, text in given.items())
            return {name: _cell(text) or "" for name, text in upper if name in LETTERS}
        if is_missing(given) or given in ("", []):
            return {}
        if not isinstance(given, list) or len(given) > len(LETTERS):
            raise DataError(
                "{first} is not a list of at most {n} options", first=self.taken["options"][0], n=len(LETTERS)
            )
        return {letter: _cell(text) or "" for letter, text in zip(LETTERS, given, strict=False)}

    def _images(self, row: Row) -> list[bytes | Path]:
        """Return the images of a row: encoded, or their files."""
        found: list[Any] = []
        for name in self.taken["image"]:
            given = row.get(name)
            listed = literal_list(given) if isinstance(given, str) and given.startswith("[") else given
            found += listed if isinstance(listed, list) else [given]
        return [self._image(one) for one in found if not is_missing(one) and one not in ("", {})]

    def _image(self, given: Any) -> bytes | Path:
        if isinstance(given, Mapping):  # the image format of Hugging Face datasets
            data = given.get("bytes")
            given = data if isinstance(data, bytes) else given.get("path")
        if isinstance(given, bytes):
            return given
        path = inside(self.folder, str(given), "the image")
        if not is_file(path):
            raise DataError("no image {given} in {folder}", given=str(given)[:200], folder=self.folder)
        return path

    def _image_cell(self, place: int, index: str) -> str:
        """Return the image cell of a row, after decoding each image to verify it."""
        cells = []
        for number, found in enumerate(self._images(self.source.rows[place])):
            data = found.read_bytes() if isinstance(found, Path) else found
            image = decode_image(data, f"row {place + 1}")
            if self.image_column == "image":
                cells.append(base64.b64encode(data).decode("ascii"))
            elif isinstance(found, Path):
                name = os.path.relpath(found.resolve(), self.job.output.parent.resolve())
                if name.startswith(".."):
                    raise UsageError(
                        "The image {path} is outside the folder of {output}.",
                        advice="Write the table to the folder of the images, or embed them: --keep_images base64",
                        path=found,
                        output=self.job.output,
                    )
                cells.append(name)
            else:
                folder = f"{self.job.output.stem}_images"
                name = f"{index}_{number}.{(image.format or 'PNG').lower()}"
                path = inside(self.job.output.parent.absolute() / folder, name, "the index")
                path.parent.mkdir(parents=True, exist_ok=True)
                write_atomic(path, data)
                cells.append(f"{folder}/{path.name}")
        return cells[0] if len(cells) == 1 else repr(cells)


def _cell(value: Any) -> str | None:
    """Return a value as cell text; several answers as a list."""
    if is_missing(value):
        return None
    if isinstance(value, list):
        texts = [str(item.get("answer", "")) if isinstance(item, Mapping) else str(item) for item in value]
        return texts[0] if len(texts) == 1 else repr(texts) if texts else None
    if isinstance(value, Mapping | bytes):
        raise DataError("a {type} is not text", type=type(value).__name__)
    return str(value).strip()


@dataclass(frozen=True)
class CircularCounts:
    """Counts of a circular set."""

    questions: int
    rows: int
    kept: int
    """Questions whose meaning depends on the order of options, kept unrotated."""


def make_circular(source: Path, target: Path) -> CircularCounts:
    """Write the circular set of a table; rotations share one copy of each image."""
    table = read_tsv(need_file(source))
    for column in ("index", "answer", "A", "B"):
        if column not in table:
            raise DataError(
                "{path} has no column {name!r}.",
                advice="Circular evaluation needs multiple-choice questions.",
                path=source,
                name=column,
            )
    try:
        # Images stay unread: a rotation refers to the row that holds its image.
        rows = circular_rows([row.without("image") | {"image": row.cell("image")} for row in table.rows])
    except ValueError as error:
        raise DataError("{source}: {reason}.", source=source, reason=error) from error
    write_tsv(target, RowTable(rows, dict.fromkeys([*table.columns, "g_index"])))
    kept = sum(not can_rotate(row.without("image")) for row in table.rows)
    return CircularCounts(len(table), len(rows), kept)
