"""The way to the terminal: what others wrote arrives there as text that is seen, never as an order to the terminal."""

from __future__ import annotations

import os
import re
import unicodedata
from typing import TYPE_CHECKING, Any, TextIO

from eyechart.io.translate import translate

if TYPE_CHECKING:
    from rich.console import Console

_UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters but tab and line feed, what turns the direction of writing around, and halves of characters."""
_WIDE = "\u2e80-\u9fff\uf900-\ufaff\uff00-\uffef"
_CLOSING = "\u3001\u3002\uff01\uff09\uff0c\uff1a\uff1b\uff1f\u201d"
_WORD = re.compile(
    rf"(?P<gap>\s*)(?P<word>`[^`]*`[^\s{_WIDE}]*[{_CLOSING}]*|[{_WIDE}][{_CLOSING}]*|[^\s{_WIDE}]+[{_CLOSING}]*)"
)
"""A word, or a command between backticks, which nobody wants to put together again. A line may end after any Chinese
character, but begins with no closing sign."""


USUAL_WIDTH = 80


def visible(text: str) -> str:
    r"""Write control characters so that they are seen and do nothing: ``\x1b``, ``\u202e``."""
    return _UNSEEN.sub(lambda found: _code(ord(found[0])), text)


def _code(point: int) -> str:
    return f"\\x{point:02x}" if point < 256 else f"\\u{point:04x}"


def width_of(stream: TextIO) -> int | None:
    """Return how many columns a terminal has, or ``COLUMNS`` says it has; None in a pipe or a file."""
    if not stream.isatty():
        return None
    wanted = os.environ.get("COLUMNS", "")
    if wanted.isdecimal() and int(wanted):
        return int(wanted)
    try:
        return os.get_terminal_size(stream.fileno()).columns or USUAL_WIDTH
    except (OSError, ValueError):  # no window behind it, as in some consoles
        return USUAL_WIDTH


def text_width(text: str) -> int:
    """Return how many columns of a terminal a text takes: two for a Chinese character, none for an accent."""
    if text.isascii():
        return len(text)
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def wrap(text: str, width: int | None, indent: str = "") -> list[str]:
    """Break a line between words; a word that is too long keeps a line to itself."""
    if width is None or text_width(text) <= width:
        return [text]
    lead = text[: len(text) - len(text.lstrip())]
    lines, line = [], lead
    for found in _WORD.finditer(text):
        gap, word = " " if found["gap"] else "", found["word"]
        if line.strip() and text_width(line) + len(gap) + text_width(word) > width:
            lines.append(line)
            line = lead + indent
        line = f"{line}{gap}{word}" if line.strip() else line + word
    return [*lines, line]


def write_message(text: str, stream: TextIO) -> None:
    """Write what is for people, in a terminal or in a log that somebody will open in one, in their language."""
    width = width_of(stream)
    lines = visible(translate(text)).split("\n")
    _write("\n".join(part for line in lines for part in wrap(line, width)), stream)


def write_output(text: str, stream: TextIO) -> None:
    """Write what may be for a program: into a pipe or a file as it is, on a terminal visibly."""
    _write(visible(text) if stream.isatty() else text, stream)


def _write(text: str, stream: TextIO) -> None:
    encoding = stream.encoding or "utf-8"
    stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
    stream.flush()


def make_console(**options: Any) -> Console:
    """Return a rich console whose colours are its own: markup, emoji names and escapes in what it prints are text."""
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.segment import Segment
    from rich.text import Text

    class Safe(Console):
        def render_str(self, text: str, **options: Any) -> Text:
            return super().render_str(visible(translate(text)), **options)  # before its width is measured

        def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Any:
            for part in super().render(renderable, options):
                yield part if part.control else Segment(visible(part.text), part.style)

    return Safe(markup=False, emoji=False, highlight=False, **options)
