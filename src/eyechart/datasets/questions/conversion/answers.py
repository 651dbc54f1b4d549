"""The right answers of multiple choice: letters, texts of options, or positions. One reading must fit all rows."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from eyechart.errors import DataError, UsageError, unknown_name
from eyechart.metrics.cells import LETTERS

Options = Mapping[str, str]
_LETTER = re.compile(r"\(?([A-Za-z])[).:]?")


def _by_letter(answer: str, options: Options) -> str | None:
    found = _LETTER.fullmatch(answer.strip())
    letter = found[1].upper() if found else ""
    return letter if letter in options else None


def _by_text(answer: str, options: Options) -> str | None:
    same = [letter for letter, text in options.items() if text.strip() == answer.strip()]
    return same[0] if len(same) == 1 else None


def _by_position(first: int) -> Callable[[str, Options], str | None]:
    def read(answer: str, options: Options) -> str | None:
        place = int(answer) - first if re.fullmatch(r"\d{1,2}", answer.strip()) else -1
        letter = LETTERS[place] if 0 <= place < len(LETTERS) else ""
        return letter if letter in options else None

    return read


READINGS: dict[str, Callable[[str, Options], str | None]] = {
    "letter": _by_letter,
    "text": _by_text,
    "0": _by_position(0),
    "1": _by_position(1),
}
"""How an answer may be meant: as the option's letter, as its text, as its position counted from 0 or from 1."""


def answer_letters(rows: Sequence[tuple[int, str, Options]], reading: str = "") -> list[str]:
    """Return the letters of the right options.

    Args:
        rows: Number, answer and options of each row.
        reading: One of `READINGS`; empty to find the one that fits all rows.

    Raises:
        DataError: If no reading fits all rows.
        UsageError: If several do and mean different options.
    """
    if reading and reading not in READINGS:
        raise unknown_name("reading of answers", reading, READINGS)
    names = [reading] if reading else list(READINGS)
    tried = {name: [READINGS[name](answer, options) for _, answer, options in rows] for name in names}
    fitting = {name: [letter for letter in letters if letter] for name, letters in tried.items() if all(letters)}
    if not fitting:
        number, answer, options = _first_bad(rows, tried)
        raise DataError(
            f"Row {number}: the answer {answer!r} is none of the options {', '.join(options)}, neither by letter nor "
            "by text or position, if all rows are read alike.",
            advice="Correct it, or leave the options out: --column options=",
        )
    if len({tuple(letters) for letters in fitting.values()}) > 1:
        raise UsageError(
            f"The answers can be read as {' or as '.join(fitting)}, with different right options.",
            advice=f"Say which it is: --answers {' or --answers '.join(fitting)} (0 and 1: positions, from there)",
        )
    return next(iter(fitting.values()))


def _first_bad(
    rows: Sequence[tuple[int, str, Options]], tried: Mapping[str, Sequence[str | None]]
) -> tuple[int, str, Options]:
    """Return the first row that the reading that fits best does not fit."""
    best = max(tried.values(), key=lambda letters: sum(letter is not None for letter in letters))
    return next(row for row, letter in zip(rows, best, strict=True) if letter is None)
