"""Which column of somebody's rows is which of ours: by usual names, or as the user says."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from eyechart.errors import UsageError, unknown_name
from eyechart.metrics.cells import LETTERS

USUAL: Mapping[str, tuple[str, ...]] = {
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
"""Our columns, and the names that people give them, the likeliest first."""
_OPTION = re.compile(r"(?i:option|choice|opt)(?:[ _-]([A-Za-z])|([A-Z])|[ _-]?(\d{1,2}))")
_IMAGE = re.compile(r"image[ _-]?(\d{1,2})")


def match_columns(columns: Sequence[str], given: Mapping[str, str]) -> dict[str, list[str]]:
    """Return, for each of our columns, the columns that fill it; images may be in several.

    Args:
        columns: Of the source.
        given: Ours to theirs, as the user says; an empty text for a column that shall not be filled.

    Raises:
        UsageError: If a name is not known, or there is nothing that could be asked.
    """
    ours = [*USUAL, *LETTERS]
    for name, theirs in given.items():
        if name not in ours:
            raise unknown_name("column of a benchmark", name, ours)
        if theirs and theirs not in columns:
            raise unknown_name("column", theirs, columns)
    found = {name: [theirs] for name, theirs in given.items() if theirs}
    free = [name for name in columns if name not in given.values()]
    lower = {name.lower(): name for name in reversed(free)}
    for name, usual in USUAL.items():
        likeliest = next((lower[word] for word in usual if word in lower), "")
        if name not in given and likeliest:
            found[name] = [likeliest]
    _add_options(found, free, given)
    images = sorted((int(match[1]), name) for name in free if (match := _IMAGE.fullmatch(name.lower())))
    if images and "image" not in found and "image" not in given:
        found["image"] = [name for _, name in images]
    if not {"question", "answer"} & found.keys():
        raise UsageError(
            f"None of the columns is a question: {', '.join(columns)}.", advice="Name it: --column question=NAME"
        )
    return found


def _add_options(found: dict[str, list[str]], free: Sequence[str], given: Mapping[str, str]) -> None:
    """Add columns A, B, ..., or option_a, choice_1, ..., if the options do not stand in one column."""
    for name in free:
        match = _OPTION.fullmatch(name)
        letter = name if len(name) == 1 and name in LETTERS else "".join(match.groups("")).upper() if match else ""
        if letter and letter not in given:
            found.setdefault(letter, [name])
    numbers = sorted(int(name) for name in found if name.isdigit())
    for letter, number in zip(LETTERS, numbers, strict=False):  # choice_0 or choice_1 may be the first
        found[letter] = found.pop(str(number))
