"""Files of predictions beside a result: JSON lines that lose nothing, and a spreadsheet as VLMEvalKit writes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from eyechart.datasets.questions.question_table import QuestionTable
from eyechart.datasets.questions.tables import dump, load_table
from eyechart.datasets.questions.xlsx import write_xlsx
from eyechart.errors import DataError, MissingExtraError
from eyechart.metrics.cells import as_text
from eyechart.types import Notice

SUFFIXES = (".jsonl", ".xlsx", ".tsv")
"""Where predictions are looked for, the best first: ours, then a spreadsheet, ours or VLMEvalKit's."""
_LAST = ("prediction", "thinking")
_NOT_EXPORTED = frozenset({"prompt", "images", "finish_reason", "usage"})


def prediction_file(output: Path, repeat: int, suffix: str) -> Path:
    """Return where predictions go: beside the result, under its name; repeats are numbered."""
    return output.with_name(f"{output.stem}{f'_repeat{repeat}' if repeat else ''}{suffix}")


def find_predictions(output: Path, repeat: int) -> Path | None:
    """Return the file with the predictions of an earlier run."""
    files = [prediction_file(output, repeat, suffix) for suffix in SUFFIXES]
    return next((path for path in files if path.is_file()), None)


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


def read_predictions(table: QuestionTable, file: Path) -> list[dict[str, Any]]:
    """Read predictions and put the benchmark's own columns beside them: a spreadsheet may have cut or lost some.

    Raises:
        DataError: If a prediction belongs to no row of the benchmark, or there are two for one.
    """
    found = load_table(file)
    for column in ("index", "prediction"):
        if column not in found:
            raise DataError(f"{file} has no column {column!r}.")
    known = {as_text(row["index"]): row for row in table.rows}
    rows: dict[str, dict[str, Any]] = {}
    for row in found.rows:
        index = as_text(row["index"]).removesuffix(".0")
        if index not in known or index in rows:
            why = "two predictions" if index in rows else "a prediction but no row of the dataset"
            raise DataError(f"{file}: the index {index!r} has {why}.", advice="Is it the file of this dataset?")
        rows[index] = {**row.without("image"), **known[index].without("image")}
    return list(rows.values())
