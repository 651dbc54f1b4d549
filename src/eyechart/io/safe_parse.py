"""Untrusted texts: lines and JSON with limits and one kind of error, and any value as valid JSON."""

import codecs
import io
import json
import math
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from itertools import count, islice
from pathlib import Path
from typing import Any

import orjson

from eyechart.errors import DataError, EyechartError, UsageError
from eyechart.messages import UserMessage

MAX_LINE = 64 * 1024 * 1024
"""Longest line, in bytes."""
MAX_TEXT = 1_000_000
"""Longest caption, question or document passed to a model, in characters."""
MAX_JSON = 1024 * 1024 * 1024
"""Largest JSON file, in bytes: annotations of a large dataset."""
_INTEGER = re.compile(rb"(?:^|[-:,\[\s])[0-9]{19}")
"""Start of an integer that may exceed 64 bits; decimals and most texts do not match."""
_DIGITS = bytes(ord("0") if chr(code).isdigit() and code < 128 else ord(" ") for code in range(256))
_LOOKED_AT = 4096
"""Bytes at the beginning of a file from which its encoding is detected."""
_MARKS = {
    codecs.BOM_UTF32_LE: "utf-32",  # starts with the mark of UTF-16
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
"""Byte order marks of wide encodings."""
_ENCODINGS = (("gb2312", "GBK"), ("shift_jis", "SHIFT_JIS"), ("gbk", "GBK"), ("cp1252", "WINDOWS-1252"))
"""Candidate encodings of text that is not UTF-8, the strictest first."""
DAMAGED = (AttributeError, IndexError, KeyError, TypeError, ValueError, OverflowError, RecursionError)
"""Errors raised by file contents of unexpected types or nesting."""


def parse_json(text: str | bytes, make_object: Callable[[list[tuple[str, Any]]], Any] | None = None) -> Any:
    """Parse JSON; every error is a ValueError, including too deep nesting.

    Python's parser reads what orjson rejects or rounds (lone surrogates, NaN, integers of more than 64 bits), and
    provides the error messages.
    """
    if make_object is None:
        with suppress(ValueError):
            data = text.encode() if isinstance(text, str) else text
            if not may_have_big_integers(data):
                return orjson.loads(data)
    try:
        return json.loads(text, object_pairs_hook=make_object)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def may_have_big_integers(data: bytes) -> bool:
    """Whether JSON may hold integers of more than 64 bits, which orjson would read as floats."""
    # Searching a run of zeros takes a tenth of the time of the pattern, which then excludes decimals.
    return b"0" * 19 in data.translate(_DIGITS) and _INTEGER.search(data) is not None


def text_lines(
    path: Path, kind: type[EyechartError] = DataError, encoding: str | None = None
) -> Iterator[tuple[int, str]]:
    """Stream the lines of a text file with their numbers, without a byte order mark; errors are of the given kind.

    The encoding is empty for UTF-8, or UTF-16 with a byte order mark; None if the caller has no setting for it, so that
    errors do not recommend one.
    """
    settable = encoding is not None
    try:
        codec = codecs.lookup(encoding).name if encoding else ""
        "".encode(codec or "utf-8")  # only encodings of texts
    except LookupError:
        advice = "Common ones are utf-8, gb18030 (which includes GBK), utf-16 and big5."
        raise UsageError("Unknown encoding: {name!r}.", advice=advice, name=encoding) from None
    with path.open("rb") as stream:
        start = stream.read(_LOOKED_AT)
        stream.seek(0)
        named = codec or _marked(start)
        if not named and (wide := wide_encoding(start)):
            raise _wrong_encoding(kind, path, 1, "", wide, settable=settable)
        # Lines can be split in bytes, except where a character has two of them.
        lines = io.TextIOWrapper(stream, named, newline="\n") if named else stream
        for number in count(1):
            try:
                line = lines.readline(MAX_LINE + 1)
            except UnicodeError as error:
                raise _wrong_encoding(kind, path, number, f"{named.upper()} ({error})", "", settable=False) from error
            if not line:
                return
            if len(line) > MAX_LINE:
                text = "{path}, line {number}: longer than {max_line} bytes."
                raise kind(text, path=path, number=number, max_line=MAX_LINE)
            text = line if isinstance(line, str) else decode_text(line, path, kind, first=number, settable=settable)
            yield number, text.removeprefix("\ufeff") if number == 1 else text


def _marked(start: bytes) -> str:
    """Return the wide encoding of a byte order mark; empty if there is none."""
    return next((name for mark, name in _MARKS.items() if start.startswith(mark)), "")


def wide_encoding(start: bytes) -> str:
    """Detect UTF-16 without a byte order mark: every other byte of plain letters is zero."""
    pairs = len(start) // 2
    even, odd = start[: 2 * pairs : 2].count(0), start[1 : 2 * pairs : 2].count(0)
    for zeros, others, name in ((odd, even, "UTF-16LE"), (even, odd, "UTF-16BE")):
        if pairs and zeros * 4 >= pairs and others * 4 <= zeros:  # some characters have a zero low byte, such as U+4E00
            return name
    return ""


def _wrong_encoding(
    kind: type[EyechartError], path: Path, line: int, what: str, likely: str, *, settable: bool
) -> EyechartError:
    """Make the error of a line that is not ``what``; without it, the file is UTF-16 without a byte order mark."""
    setting = UserMessage(", or set {--encoding={likely}}", likely=likely.lower()) if settable and likely else ""
    if not what:
        text = "{path}, line {line}: UTF-16 without a byte order mark, or not text."
        return kind(text, advice="Save it as UTF-8{setting}.", path=path, line=line, setting=setting)
    return kind(
        "{path}, line {line}: not {what}.",
        advice="Save it as UTF-8{setting}.{guess}",
        path=path,
        line=line,
        what=what,
        setting=setting,
        guess=f" It may be {likely}: iconv -f {likely} -t UTF-8" if likely else "",
    )


def json_lines(path: Path, kind: type[EyechartError] = DataError) -> Iterator[tuple[int, Any]]:
    """Stream the values of a JSON Lines file with their line numbers, skipping blank lines."""
    for number, line in text_lines(path, kind):
        if line.strip():
            try:
                value = parse_json(line)
            except ValueError as error:
                text = "{path}, line {number}: not valid JSON ({reason})."
                raise kind(text, path=path, number=number, reason=error) from error
            yield number, value


def read_text(path: Path, kind: type[EyechartError] = DataError, largest: int = MAX_LINE) -> str:
    """Read a small text file, such as a list of class names, of at most ``largest`` bytes."""
    try:
        if path.stat().st_size > largest:
            raise kind("{path} is larger than {largest} bytes.", path=path, largest=largest)
        return decode_text(path.read_bytes(), path, kind)
    except OSError as error:
        raise kind("Cannot read {path} ({reason}).", path=path, reason=error.strerror) from error


def read_json(
    path: Path, kind: type[EyechartError] = DataError, advice: str = "It may be incomplete: create it again."
) -> Any:
    """Read a JSON file."""
    try:
        return parse_json(read_text(path, kind, MAX_JSON))
    except ValueError as error:
        raise kind("{path} is not valid JSON ({reason}).", advice=advice, path=path, reason=error) from error


def split_lines(text: str) -> list[str]:
    """Split a text at line feeds only, with or without a carriage return.

    ``str.splitlines`` splits at ten more characters (U+2028, a form feed, ...); one of them within a class name would
    shift every label after it.
    """
    return [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")] if text else []


def decode_text(
    data: bytes, path: Path, kind: type[EyechartError] = DataError, *, first: int = 1, settable: bool = False
) -> str:
    """Decode a file, or its line number ``first``: UTF-8, or UTF-16 with a byte order mark.

    Errors are of the given kind and have the line and the probable encoding.
    """
    if data.isascii() and b"\0" not in data:
        return data.decode()
    marked = _marked(data) if first == 1 else ""
    if not marked and (wide := wide_encoding(data[:_LOOKED_AT])):
        raise _wrong_encoding(kind, path, first, "", wide, settable=settable)
    try:
        text = data.decode(marked or "utf-8")
    except UnicodeDecodeError as error:
        line = first + data.count(b"\n", 0, error.start)
        name = f"{(marked or 'utf-8').upper()} ({error.reason})"
        raise _wrong_encoding(kind, path, line, name, likely_encoding(data), settable=settable) from error
    if text.count("\0") * 4 > len(text):
        raise _wrong_encoding(kind, path, first, "", "", settable=False)
    return text.removeprefix("\ufeff") if first == 1 else text


def likely_encoding(data: bytes) -> str:
    """Guess the encoding of bytes that are not UTF-8; empty if it is none of the usual ones."""
    for codec, name in _ENCODINGS:
        try:
            text = data.decode(codec)
        except UnicodeDecodeError:
            continue
        # Japanese text contains kana.
        if codec != "shift_jis" or any("\u3041" <= letter <= "\u30ff" for letter in text):
            return name
    return ""


def is_file(path: Path) -> bool:
    """Whether a path from data is a regular file; False for one that no file system allows."""
    try:
        return path.is_file()
    except OSError:  # the name is too long, or a loop of links
        return False


def text_of(value: object) -> str:
    """Return a parsed text or number as text; TypeError for null or NaN, whose names would be taken for words."""
    if not isinstance(value, str | bool) and not is_number(value):
        raise TypeError(f"{value!r} is neither a text nor a number")
    return str(value)


def is_number(value: object) -> bool:
    """Whether a parsed value is a finite number and not a boolean."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return False
    return -sys.float_info.max <= value <= sys.float_info.max


# JSON Lines, the format of result records.

Objects = list[dict[str, Any]]
_BLOCK = 64 * 1024
"""Bytes parsed at a time."""
_LINES = 1_000


def to_json(value: object, indent: int | None = None) -> str:
    """Serialise to valid JSON; non-finite floats become null."""
    return json.dumps(plain(value), ensure_ascii=False, indent=indent, allow_nan=False)


def plain(value: Any) -> Any:
    """Convert numpy scalars, tuples, paths and non-finite floats to JSON types."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, str | int | bool) or value is None:
        return value
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(item) for item in value]
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    return str(value)


def object_blocks(path: Path, kind: type[EyechartError] = DataError) -> Iterator[Objects]:
    """Stream the objects of a JSON Lines file in lists.

    From the first block that is not one object per line (a blank line, another encoding, an error), lines are read one
    by one, and errors have their number.
    """
    done = 0
    with path.open("rb") as stream:
        while block := stream.read(_BLOCK):
            found = _parse_block(block + stream.readline(MAX_LINE))
            if found is None:
                break
            done += len(found)
            yield found
        else:
            return
    rest = islice(json_lines(path, kind), done, None)
    while lines := list(islice(rest, _LINES)):
        for number, row in lines:
            if not isinstance(row, dict):
                raise kind("{path}, line {number}: not a JSON object.", path=path, number=number)
        yield [row for _, row in lines]


def _parse_block(block: bytes) -> Objects | None:
    """Parse lines of one object each; None if there is anything else."""
    block = block.removesuffix(b"\n")
    try:
        found: list[Any] = [] if may_have_big_integers(block) else list(map(orjson.loads, block.split(b"\n")))
    except ValueError:
        found = []
    if not found:
        # Values that only Python's parser reads: lone surrogates, NaN, integers of more than 64 bits.
        try:
            found = [parse_json(line) for line in block.decode().split("\n")]
        except ValueError:
            return None
    return found if {dict}.issuperset(map(type, found)) else None
