"""Reading texts that others wrote: lines and JSON with limits, and one kind of error for all that can be wrong.

Everything here takes memory in proportion to a limit, not to what a file happens to hold.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

from eyechart.errors import DataError, EyechartError

MAX_LINE = 64 * 1024 * 1024
"""Bytes of the longest line that is read; a longer one is no line of a dataset."""
MAX_TEXT = 1_000_000
"""Characters of the longest caption, question or document that is given to a model."""
_BOM = b"\xef\xbb\xbf"


def parse_json(text: str | bytes) -> Any:
    """Parse JSON; whatever is wrong with it is a ValueError, also lists that are nested too deeply."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def text_lines(
    path: Path, kind: type[EyechartError] = DataError, *, errors: str = "strict"
) -> Iterator[tuple[int, str]]:
    """Stream the lines of a UTF-8 file with their numbers; a byte order mark at the start is left out.

    Raises:
        EyechartError: Of the given kind, if a line is not UTF-8 or longer than `MAX_LINE`.
    """
    with path.open("rb") as stream:
        for number in count(1):
            line = stream.readline(MAX_LINE + 1)
            if not line:
                return
            if len(line) > MAX_LINE:
                raise kind(f"{path}, line {number}: longer than {MAX_LINE} bytes.")
            try:
                yield number, (line.removeprefix(_BOM) if number == 1 else line).decode("utf-8", errors)
            except UnicodeDecodeError as error:
                raise kind(f"{path}, line {number}: not UTF-8 ({error.reason}).") from error


def json_lines(
    path: Path, kind: type[EyechartError] = DataError, *, errors: str = "strict"
) -> Iterator[tuple[int, Any]]:
    """Stream the values of a JSON-lines file with their line numbers; blank lines are left out."""
    for number, line in text_lines(path, kind, errors=errors):
        if line.strip():
            try:
                value = parse_json(line)
            except ValueError as error:
                raise kind(f"{path}, line {number}: not valid JSON ({error}).") from error
            yield number, value


def read_text(path: Path, kind: type[EyechartError] = DataError) -> str:
    """Read a small UTF-8 file (a list of class names, a number) at once."""
    try:
        if path.stat().st_size > MAX_LINE:
            raise kind(f"{path} is larger than {MAX_LINE} bytes.")
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise kind(f"{path} is not UTF-8 text ({error.reason}).") from error
    except OSError as error:
        raise kind(f"Cannot read {path} ({error.strerror}).") from error


def is_file(path: Path) -> bool:
    """Tell whether a path that data name is a plain file; one that no system could hold is none."""
    try:
        return path.is_file()
    except OSError:  # a name that is too long, a loop of links
        return False


def is_number(value: object) -> bool:
    """Tell whether a value that was read is a finite number; true and false are none."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # an integer of hundreds of digits, which nobody can compute with
        return False
