"""Files of predictions beside a result: JSON lines that lose nothing, and a spreadsheet as VLMEvalKit writes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from eyechart.datasets.questions.question_table import QuestionTable
from eyechart.datasets.questions.tables import dump, load_table
from eyechart.datasets.questions.tsv import read_header
from eyechart.datasets.questions.xlsx import LIMIT, write_xlsx
from eyechart.errors import DataError, MissingExtraError
from eyechart.metrics.cells import LETTERS, as_text
from eyechart.types import Notice

SUFFIXES = (".jsonl", ".xlsx", ".tsv")
"""Where predictions are looked for, the best first: ours, then a spreadsheet, ours or VLMEvalKit's."""
PREDICTION = "prediction"
_LAST = (PREDICTION, "thinking")
_ASKED = ("question", *LETTERS)
"""The columns that say what a prediction answers."""
_NOT_EXPORTED = frozenset({"prompt", "images", "finish_reason", "finish_reasons", "usage"})


def prediction_file(output: Path, repeat: int, suffix: str) -> Path:
    """Return where predictions go: beside the result, under its name; repeats are numbered."""
    return output.with_name(f"{output.stem}{f'_repeat{repeat}' if repeat else ''}{suffix}")


def find_predictions(output: Path, repeat: int) -> list[Path]:
    """Return the files with the predictions of an earlier run, the best first; the benchmark's own table is none."""
    files = [prediction_file(output, repeat, suffix) for suffix in SUFFIXES]
    return [path for path in files if path.is_file() and (path.suffix != ".tsv" or PREDICTION in read_header(path))]


def write_predictions(
    rows: Sequence[Mapping[str, Any]], output: Path, repeat: int, *, xlsx: bool
) -> tuple[Path, list[Notice]]:
    """Write the JSON-lines file, and the spreadsheet if asked for.

    Return the file that a class of VLMEvalKit's form would read, and what the spreadsheet could not hold.
    """
    lines = prediction_file(output, repeat, ".jsonl")
    dump(rows, lines)
    if not xlsx:
        return lines, []
    columns = [key for key in dict.fromkeys(key for row in rows for key in row) if key not in _NOT_EXPORTED]
    columns = [*(c for c in columns if c not in _LAST), *(c for c in _LAST if c in columns)]
    path = prediction_file(output, repeat, ".xlsx")
    try:
        cut = write_xlsx(path, columns, ([row.get(name) for name in columns] for row in rows))
    except MissingExtraError as error:
        return lines, [Notice("no_spreadsheet", 1, f"{path.name} was not written. {error.advice}")]
    if not cut:
        return path, []
    message = f"{len(cut)} texts were cut in {path.name}, for example {cut[0]}; the .jsonl file beside it holds all."
    return path, [Notice("xlsx_cut", len(cut), message)]


def read_agreeing(table: QuestionTable, files: Sequence[Path]) -> list[dict[str, Any]]:
    """Read the first of several files of predictions.

    Raises:
        DataError: If another one says something else: nobody can know which of them is meant.
    """
    first, *others = [(file, read_predictions(table, file)) for file in files]
    for file, rows in others:
        said = {as_text(row["index"]): as_text(row[PREDICTION]) for row in rows}
        mine = {as_text(row["index"]): as_text(row[PREDICTION]) for row in first[1]}
        differ = [name for name in {**mine, **said} if not _is_same(mine.get(name), said.get(name))]
        if differ:
            raise DataError(
                f"{first[0]} and {file.name} hold other predictions for {len(differ)} questions, the first is index "
                f"{differ[0]!r}.",
                advice="Keep the file that is meant and move the other away.",
            )
    return first[1]


def read_predictions(table: QuestionTable, file: Path) -> list[dict[str, Any]]:
    """Read predictions and put the benchmark's own columns beside them: a spreadsheet may have cut or lost some.

    Raises:
        DataError: If a prediction belongs to no row of the benchmark or answers another question than is there now, or
            there are two for one.
    """
    found = load_table(file)
    for column in ("index", PREDICTION):
        if column not in found:
            raise DataError(f"{file} has no column {column!r}.")
    known = {as_text(row["index"]): row for row in table.rows}
    rows: dict[str, dict[str, Any]] = {}
    for row in found.rows:
        index = as_text(row["index"])
        index = index if index in known else index.removesuffix(".0")
        if index not in known or index in rows:
            why = "two predictions" if index in rows else "a prediction but no row of the dataset"
            raise DataError(f"{file}: the index {index!r} has {why}.", advice="Is it the file of this dataset?")
        given = (column for column in _ASKED if isinstance(row.get(column), str | int | float))
        other = next((column for column in given if not _is_same(row[column], known[index].get(column))), None)
        if other is not None:
            raise DataError(
                f"{file}: the prediction for the index {index!r} answers another question than the dataset has now: "
                f"its {other!r} differs.",
                advice="Is it the file of this dataset? Generate the answers anew if its rows were changed.",
            )
        rows[index] = {**row.without("image"), **known[index].without("image")}
    return list(rows.values())


def _is_same(one: object, other: object) -> bool:
    """Compare two cells; capitals, spaces and numbers may be written otherwise, and a spreadsheet cuts long texts."""
    left, right = (" ".join(as_text(cell).lower().split()) for cell in (one, other))
    short, long = sorted((left, right), key=len)
    if left == right or (len(short) > LIMIT // 8 and long.startswith(short)):
        return True
    try:
        return float(left) == float(right)
    except ValueError:
        return False
