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

from eyechart.errors import DataError, EyechartError, UsageError

MAX_LINE = 64 * 1024 * 1024
"""Bytes of the longest line that is read; a longer one is no line of a dataset."""
MAX_TEXT = 1_000_000
"""Characters of the longest caption, question or document that is given to a model."""
MAX_JSON = 1024 * 1024 * 1024
"""Bytes of the largest JSON file that is read at once: annotations of a large dataset."""
_LOOKED_AT = 4096
"""Bytes at the beginning of a file by which its encoding is recognised."""
_MARKS = {
    codecs.BOM_UTF32_LE: "utf-32",  # begins with the mark of UTF-16
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
"""How texts of wide characters begin."""
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


def text_lines(
    path: Path, kind: type[EyechartError] = DataError, encoding: str | None = None
) -> Iterator[tuple[int, str]]:
    """Stream the lines of a text file with their numbers; a byte order mark at the start is left out.

    Args:
        path: The file.
        kind: Of which kind errors are.
        encoding: How it is encoded, as the user says; empty for UTF-8, or UTF-16 if a byte order mark says so. None
            if there is no setting for it, so that none is recommended.

    Raises:
        EyechartError: Of the given kind, if a line is no text (see `decode_text`) or longer than `MAX_LINE`.
    """
    with path.open("rb") as stream:
        start = stream.read(_LOOKED_AT)
        stream.seek(0)
        named = check_encoding(encoding) if encoding else _marked(start)
        if not named and (wide := wide_encoding(start)):
            raise _unmarked(kind, path, 1, wide, settable=encoding is not None)
        # Bytes tell where a line feed is, except where a character has two of them.
        lines = io.TextIOWrapper(stream, named, newline="\n") if named else stream
        for number in count(1):
            try:
                line = lines.readline(MAX_LINE + 1)
            except UnicodeError as error:
                raise _undecodable(kind, path, number, f"{named.upper()} ({error})", "", settable=False) from error
            if not line:
                return
            if len(line) > MAX_LINE:
                raise kind(f"{path}, line {number}: longer than {MAX_LINE} bytes.")
            text = line if isinstance(line, str) else _decoded(line, path, kind, number, settable=encoding is not None)
            yield number, text.removeprefix("\ufeff") if number == 1 else text


def check_encoding(name: str) -> str:
    """Return Python's name of an encoding of texts.

    Raises:
        UsageError: If there is none.
    """
    try:
        found = codecs.lookup(name)
        "".encode(found.name)
    except LookupError:
        raise UsageError(
            f"There is no encoding {name!r}.", advice="Usual ones are utf-8, gb18030 (which reads GBK), utf-16, big5."
        ) from None
    return found.name


def _marked(start: bytes) -> str:
    """Read the byte order mark of a text of wide characters; nothing if there is none."""
    return next((name for mark, name in _MARKS.items() if start.startswith(mark)), "")


def wide_encoding(start: bytes) -> str:
    """Recognise UTF-16 without its mark by how a text begins: every other byte of plain letters is zero."""
    pairs = len(start) // 2
    halves = [start[place : 2 * pairs : 2].count(0) for place in (0, 1)]
    for zeros, others, name in ((halves[1], halves[0], "UTF-16LE"), (halves[0], halves[1], "UTF-16BE")):
        if pairs and zeros * 4 >= pairs and others * 4 <= zeros:  # some characters are U+4E00 and the like
            return name
    return ""


def _unmarked(kind: type[EyechartError], path: Path, line: int, wide: str, *, settable: bool) -> EyechartError:
    advice = f"Save it as UTF-8{f', or give --encoding {wide.lower()}' if settable else ''}."
    return kind(f"{path}, line {line}: UTF-16 without its mark, or no text at all.", advice=advice)


def _undecodable(
    kind: type[EyechartError], path: Path, line: int, what: str, likely: str, *, settable: bool
) -> EyechartError:
    setting = f", or give --encoding {likely.lower()}" if settable and likely else ""
    guess = f" It may be {likely}: iconv -f {likely} -t UTF-8" if likely else ""
    return kind(f"{path}, line {line}: not {what}.", advice=f"Save it as UTF-8{setting}.{guess}")


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
    return _decoded(data, path, kind, first, settable=False)


def _decoded(data: bytes, path: Path, kind: type[EyechartError], first: int, *, settable: bool) -> str:
    marked = _marked(data) if first == 1 else ""
    if not marked and (wide := wide_encoding(data[:_LOOKED_AT])):
        raise _unmarked(kind, path, first, wide, settable=settable)
    try:
        text = data.decode(marked or "utf-8")
    except UnicodeDecodeError as error:
        line = first + data.count(b"\n", 0, error.start)
        name = f"{(marked or 'utf-8').upper()} ({error.reason})"
        raise _undecodable(kind, path, line, name, likely_encoding(data), settable=settable) from error
    if text.count("\0") * 4 > len(text):
        raise kind(f"{path}, line {first}: UTF-16 without its mark, or no text at all.", advice="Save it as UTF-8.")
    return text.removeprefix("\ufeff") if first == 1 else text


def likely_encoding(data: bytes) -> str:
    """Guess what bytes that are not UTF-8 are; nothing if they are nothing usual."""
    for codec, name in _ENCODINGS:
        try:
            text = data.decode(codec)
        except UnicodeDecodeError:
            continue
        if codec != "shift_jis" or any("\u3041" <= letter <= "\u30ff" for letter in text):  # no Japanese without kana
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
