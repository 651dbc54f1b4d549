"""Reading texts that others wrote: lines and JSON with limits, and one kind of error for all that can be wrong.

Everything here takes memory in proportion to a limit, not to what a file happens to hold.
"""

from __future__ import annotations

import codecs
import io
import json
import sys
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

from eyechart.errors import DataError, EyechartError

MAX_LINE = 64 * 1024 * 1024
"""Bytes of the longest line that is read; a longer one is no line of a dataset."""
MAX_TEXT = 1_000_000
"""Characters of the longest caption, question or document that is given to a model."""
MAX_JSON = 1024 * 1024 * 1024
"""Bytes of the largest JSON file that is read at once: annotations of a large dataset."""
_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_ENCODINGS = (("gb2312", "GBK"), ("shift_jis", "SHIFT_JIS"), ("gbk", "GBK"), ("cp1252", "WINDOWS-1252"))
"""What a text that is not UTF-8 may be, the strictest first."""
DAMAGED = (AttributeError, IndexError, KeyError, TypeError, ValueError, OverflowError, RecursionError)
"""What parts of a file raise that are of another kind, or nested deeper, than those that we write."""


def parse_json(text: str | bytes, make_object: Callable[[list[tuple[str, Any]]], Any] | None = None) -> Any:
    """Parse JSON; whatever is wrong with it is a ValueError, also lists that are nested too deeply."""
    try:
        return json.loads(text, object_pairs_hook=make_object)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def text_lines(path: Path, kind: type[EyechartError] = DataError) -> Iterator[tuple[int, str]]:
    """Stream the lines of a text file with their numbers; a byte order mark at the start is left out.

    Raises:
        EyechartError: Of the given kind, if a line is no text (see `decode_text`) or longer than `MAX_LINE`.
    """
    with path.open("rb") as stream:
        wide = stream.read(2) in _UTF16
        stream.seek(0)
        # Bytes tell where a line feed is, except where a character has two of them.
        lines = io.TextIOWrapper(stream, "utf-16", newline="\n") if wide else stream
        for number in count(1):
            try:
                line = lines.readline(MAX_LINE + 1)
            except UnicodeError as error:
                raise kind(f"{path}, line {number}: not UTF-16 ({error}).") from error
            if not line:
                return
            if len(line) > MAX_LINE:
                raise kind(f"{path}, line {number}: longer than {MAX_LINE} bytes.")
            yield number, line if isinstance(line, str) else decode_text(line, path, kind, first=number)


def json_lines(path: Path, kind: type[EyechartError] = DataError) -> Iterator[tuple[int, Any]]:
    """Stream the values of a JSON-lines file with their line numbers; blank lines are left out."""
    for number, line in text_lines(path, kind):
        if line.strip():
            try:
                value = parse_json(line)
            except ValueError as error:
                raise kind(f"{path}, line {number}: not valid JSON ({error}).") from error
            yield number, value


def read_text(path: Path, kind: type[EyechartError] = DataError, largest: int = MAX_LINE) -> str:
    """Read a text file at once, such as a list of class names or a number; one of more bytes is refused."""
    try:
        if path.stat().st_size > largest:
            raise kind(f"{path} is larger than {largest} bytes.")
        return decode_text(path.read_bytes(), path, kind)
    except OSError as error:
        raise kind(f"Cannot read {path} ({error.strerror}).") from error


def read_json(path: Path, kind: type[EyechartError] = DataError) -> Any:
    """Read a JSON file at once."""
    try:
        return parse_json(read_text(path, kind, MAX_JSON))
    except ValueError as error:
        raise kind(f"{path} is not valid JSON ({error}).", advice="It may be half-written: make it again.") from error


def split_lines(text: str) -> list[str]:
    """Split a text at line feeds alone, with or without a carriage return.

    ``str.splitlines`` knows ten more characters (U+2028, a form feed, ...), and one of them within a class name would
    shift every label after it.
    """
    return [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")] if text else []


def decode_text(data: bytes, path: Path, kind: type[EyechartError] = DataError, *, first: int = 1) -> str:
    """Decode a file, or its line number ``first``: UTF-8, or UTF-16 with a byte order mark.

    Raises:
        EyechartError: Of the given kind, with the line and what the encoding may be instead.
    """
    wide = first == 1 and data[:2] in _UTF16
    try:
        text = data.decode("utf-16" if wide else "utf-8")
    except UnicodeDecodeError as error:
        line = first + data.count(b"\n", 0, error.start)
        reason = f"{path}, line {line}: not {'UTF-16' if wide else 'UTF-8'} ({error.reason})."
        likely = likely_encoding(data)
        advice = f" It may be {likely}: iconv -f {likely} -t UTF-8" if likely else ""
        raise kind(reason, advice=f"Save it as UTF-8.{advice}") from error
    if text.count("\0") * 4 > len(text):
        raise kind(f"{path}, line {first}: UTF-16 without its mark, or no text at all.", advice="Save it as UTF-8.")
    return text.removeprefix("\ufeff") if first == 1 else text


def likely_encoding(data: bytes) -> str:
    """Guess what bytes that are not UTF-8 are; nothing if they are nothing usual."""
    for codec, name in _ENCODINGS:
        try:
            data.decode(codec)
        except UnicodeDecodeError:
            continue
        return name
    return ""


def is_file(path: Path) -> bool:
    """Tell whether a path that data name is a plain file; one that no system could hold is none."""
    try:
        return path.is_file()
    except OSError:  # a name that is too long, a loop of links
        return False


def text_of(value: object) -> str:
    """Return a value that was read as a text: texts as they are, numbers as they are written.

    Raises:
        TypeError: If it is anything else, such as null or NaN, whose names would be taken for words.
    """
    if not isinstance(value, str | bool) and not is_number(value):
        raise TypeError(f"{value!r} is neither a text nor a number")
    return str(value)


def is_number(value: object) -> bool:
    """Tell whether a value that was read is a finite number; true and false are none."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return False
    return -sys.float_info.max <= value <= sys.float_info.max
