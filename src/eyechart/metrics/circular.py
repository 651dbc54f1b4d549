"""Circular evaluation: asking a multiple-choice question once per rotation of its options."""

import re
from collections.abc import Iterable

from eyechart.metrics.cells import LETTERS, Row, as_text, is_missing, options_of

GROUP_SIZE = 1_000_000
"""Distance between the indices of two rotations of a question, in tables without the column `g_index`."""


def circular_rows(rows: Iterable[Row]) -> list[dict[str, object]]:
    """Return the rows and, after them, every further rotation of their options, as `vlmutil circular` makes them.

    Rotation i of a question has the index `index + i * offset` (a million, or the power of ten above the
    largest index), `g_index` names the question, `image` refers to its row, and `answer` follows its
    option. A question is kept as it is where rotation would change its meaning: an option that is or
    mentions option letters, fewer than two options, a gap between them, or an answer that is not one of
    them.
    """
    originals = [dict(row) for row in rows]
    indices = [row_index(row) for row in originals]
    if len(set(indices)) < len(indices):
        raise ValueError("two rows have the same index: circular evaluation groups rows by it")
    if any(index < 0 for index in indices):
        raise ValueError("an index is negative: circular evaluation counts upwards from it")
    offset = GROUP_SIZE
    while max(indices, default=0) >= offset:
        offset *= 10
    known = {str(index) for index in indices}
    kept = [row | {"index": index, "g_index": index} for row, index in zip(originals, indices, strict=True)]
    rotated = [
        _rotation(row, times, offset, known)
        for times in range(1, len(LETTERS))
        for row in kept
        if times < len(options_of(row)) and can_rotate(row)
    ]
    return kept + rotated


def can_rotate(row: Row) -> bool:
    """Tell whether a question means the same after its options change places."""
    options = options_of(row)
    labels = LETTERS[: len(options)]
    answer = as_text(row.get("answer"))
    if len(options) < 2 or "".join(options) != labels or len(answer) != 1 or answer not in labels:
        return False
    return not any(_speaks_of_labels(text, labels) for text in options.values())


def _speaks_of_labels(text: str, labels: str) -> bool:
    words = re.findall("[A-Za-z]+", text)
    mentioned = {word for word in words if len(word) == 1 and word in labels}
    return len(mentioned) > 1 or (len(text.strip()) == 1 and text.strip() in LETTERS)


def _rotation(row: dict[str, object], times: int, offset: int, known: set[str]) -> dict[str, object]:
    labels = LETTERS[: len(options_of(row))]
    moved = {old: labels[(i - times) % len(labels)] for i, old in enumerate(labels)}
    group = row_index(row)
    changed: dict[str, object] = {new: row[old] for old, new in moved.items()}
    changed |= {"index": group + offset * times, "answer": moved[as_text(row["answer"])]}
    # A row that already borrows another row's image keeps doing so: a reference is followed only once.
    if not is_missing(row.get("image")) and as_text(row["image"]) not in known:
        changed["image"] = str(group)
    return row | changed


def row_index(row: Row) -> int:
    """Return a row's index as the whole number that circular evaluation needs."""
    text = as_text(row.get("index")).removesuffix(".0")
    if not re.fullmatch(r"-?\d{1,18}", text):
        raise ValueError(f"index {row.get('index')!r} is not a whole number, which circular evaluation needs")
    return int(text)


def question_of(row: Row) -> int:
    """Return the number of the question that a row is a rotation of: its `g_index`, or its index modulo a million."""
    given = row.get("g_index")
    return row_index(row) % GROUP_SIZE if is_missing(given) else row_index({"index": given})
