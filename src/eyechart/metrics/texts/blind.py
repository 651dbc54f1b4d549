"""VLMs are blind: answers in braces, or somewhere in the text, by the task of the row."""

import re
from collections.abc import Callable, Mapping

from eyechart.metrics.cells import Row, as_text

_BRACES = re.compile(r"\{([^{}\n]{0,999})\}")
_ROWS, _COLUMNS = (re.compile(rf"{word}s?[^{{}}]{{0,999}}\{{(\d{{1,9}})\}}") for word in ("[Rr]ow", "[Cc]olumn"))
_PAIR = re.compile(r"\((\d{1,9}),\s{0,9}(\d{1,9})\)")


def in_braces(text: str, answer: str) -> str | None:  # noqa: ARG001 - as all tasks
    """Return what the first braces hold."""
    found = _BRACES.search(text)
    return found[1] if found else None


def of_grid(text: str, answer: str) -> str | None:
    """Return "4,5" of "rows {4} columns {5}" or "(4, 5)", spelled as the answer if it is the same."""
    rows, columns, pair = _ROWS.search(text), _COLUMNS.search(text), _PAIR.search(text)
    said = [rows[1], columns[1]] if rows and columns else list(pair.groups()) if pair else []
    wanted = [part.strip() for part in answer.split(",")]
    same = all(map(str.isdecimal, wanted)) and list(map(int, wanted)) == list(map(int, said))
    return answer if same else ",".join(said) or None


def anywhere(text: str, answer: str) -> str:
    """Return the answer if it is in the text."""
    return answer if answer in text else text


def in_any_case(text: str, answer: str) -> str:
    """Return the answer if it is in the text, capitals aside."""
    return answer if answer.lower() in text.lower() else text


TASKS: Mapping[str, Callable[[str, str], str | None]] = {
    "Subway Connections": in_braces,
    "Nested Squares": in_braces,
    "Line Plot Intersections": in_braces,
    "Circled Letter": in_braces,
    "Touching Circles": in_any_case,
    "Counting Grid - Word Grids": of_grid,
    "Counting Grid - Blank Grids": of_grid,
    "Olympic Counting - Pentagons": anywhere,
    "Olympic Counting - Circles": anywhere,
}


def vlmblind(text: str, options: Mapping[str, str], row: Row) -> str | None:  # noqa: ARG001 - as all readers
    """Return what the text answers in the form that the row's task asks for; an unknown task has none."""
    answer, read = as_text(row.get("answer")), TASKS.get(as_text(row.get("task")))
    return read(text, answer) or None if read and answer else None
