"""What people say of some answers: a small table of verdicts."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from eyechart.datasets.questions.tables import load_table
from eyechart.errors import DataError, UsageError
from eyechart.metrics.cells import as_score, as_text

_WORDS = {
    "right": 1.0,
    "correct": 1.0,
    "true": 1.0,
    "yes": 1.0,
    "wrong": 0.0,
    "incorrect": 0.0,
    "false": 0.0,
    "no": 0.0,
}


def read_verdicts(path: str, answers: Mapping[str, str]) -> dict[str, float]:
    """Read the verdicts of people by index: 1 right, 0 wrong, or a grade between.

    Args:
        path: A table (CSV, TSV, JSON lines or a spreadsheet) with the columns ``index`` and ``correct``, and if it
            likes ``prediction``, the answer that was judged.
        answers: The answers of the run, by index.

    Raises:
        UsageError: If there is no such file.
        DataError: If a verdict is none, is of no question of the run, or of another answer than the run has.
    """
    if not path:
        return {}
    if not Path(path).is_file():
        raise UsageError(f"--human_verdicts: {path} does not exist.")
    table = load_table(Path(path))
    for column in ("index", "correct"):
        if column not in table:
            raise DataError(f"{path} has no column {column!r}.", advice="It needs index and correct.")
    if not table.rows:
        raise DataError(f"{path} holds no verdict.", advice="A row for each answer that somebody judged.")
    found: dict[str, float] = {}
    for row in table.rows:
        index = as_text(row["index"])
        index = index if index in answers else index.removesuffix(".0")
        if index not in answers:
            raise DataError(f"{path}: the run has no question with the index {index!r}.")
        if index in found:
            raise DataError(f"{path}: the index {index!r} has two verdicts.", advice="One verdict for each answer.")
        judged = row.get("prediction")
        if judged is not None and as_text(judged).strip() != answers[index].strip():
            raise DataError(f"{path}: the verdict on {index!r} is of another answer than this run has.")
        found[index] = _grade(path, index, row["correct"])
    return found


def _grade(path: str, index: str, cell: object) -> float:
    word = as_text(cell).strip().lower()
    try:
        grade = _WORDS[word] if word in _WORDS else as_score(cell)
    except ValueError as error:
        raise DataError(f"{path}: index {index!r}: {error}.", advice="Write 1, 0, or a grade between.") from error
    if not 0 <= grade <= 1:
        raise DataError(f"{path}: index {index!r}: {grade:g} is no verdict.", advice="Write 1, 0, or a grade between.")
    return grade
