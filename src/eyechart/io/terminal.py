"""Text for the terminal: escaped, wrapped, and in the reader's language."""

from __future__ import annotations

import os
import re
import tomllib
import unicodedata
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any, TextIO

from eyechart.io.secrets import redact_message
from eyechart.messages import UserMessage, render

if TYPE_CHECKING:
    from rich.console import Console


VARIABLE = "EYECHART_LANG"
_CHINESE = {"zh", "zh-cn", "zh-sg", "zh-hans", "zh-hans-cn", "zh-hans-sg", "chinese"}
"""Spellings of simplified Chinese. Traditional Chinese is another language."""


def language() -> str:
    """Return the language selected by ``$EYECHART_LANG``: ``zh``, else ``en``."""
    code = os.environ.get(VARIABLE, "").partition(".")[0].strip().lower().replace("_", "-")
    return "zh" if code in _CHINESE else "en"


def words(section: str) -> dict[str, str]:
    """Return a section of the Chinese translations, keyed by the English text."""
    return _table()[section]


@cache
def _table() -> dict[str, dict[str, str]]:
    text = resources.files("eyechart").joinpath("words", "zh.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


@cache
def _templates() -> dict[str, str]:
    """Return all translations except those of the report page."""
    return {key: value for name, part in _table().items() if name != "page" for key, value in part.items()}


def translate(text: str) -> str:
    """Translate a text into the reader's language: whole lines first, then sentence by sentence."""
    return str(text) if language() == "en" else chinese(text)


def chinese(text: str) -> str:
    """Translate a text into Chinese, whatever the reader's language is."""
    return render(text, _templates().get)


# Terminal output: foreign text is shown literally and never interpreted by the terminal.

_UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters except tab and line feed, bidirectional overrides, and lone surrogates."""
_WIDE = "\u2e80-\u9fff\uf900-\ufaff\uff00-\uffef"
_CLOSING = "\u3001\u3002\uff01\uff09\uff0c\uff1a\uff1b\uff1f\u201d"
_WORD = re.compile(
    rf"(?P<gap>\s*)(?P<word>`[^`]*`[^\s{_WIDE}]*[{_CLOSING}]*|[{_WIDE}][{_CLOSING}]*|[^\s{_WIDE}]+[{_CLOSING}]*)"
)
"""A word, or a command in backticks, which stays on one line. A line may break after any Chinese character but not
before closing punctuation."""
USUAL_WIDTH = 80


def visible(text: str) -> str:
    r"""Escape control characters: ``\x1b``, ``\u202e``."""
    return _UNSEEN.sub(lambda at: f"\\x{ord(at[0]):02x}" if at[0] < "\u0100" else f"\\u{ord(at[0]):04x}", text)


def width_of(stream: TextIO) -> int | None:
    """Return the width of a terminal, or ``COLUMNS``; None for a pipe or a file."""
    if not stream.isatty():
        return None
    wanted = os.environ.get("COLUMNS", "")
    if wanted.isdecimal() and int(wanted):
        return int(wanted)
    try:
        return os.get_terminal_size(stream.fileno()).columns or USUAL_WIDTH
    except (OSError, ValueError):  # no window, as in some consoles
        return USUAL_WIDTH


def text_width(text: str) -> int:
    """Return the display width of a text: two columns for a Chinese character, none for an accent."""
    if text.isascii():
        return len(text)
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def wrap(text: str, width: int | None, indent: str = "") -> list[str]:
    """Wrap a line between words; an overlong word gets a separate line."""
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


def write_message(text: str, stream: TextIO, /, **fields: object) -> None:
    """Write a message for people: translated, wrapped and with control characters escaped.

    With fields, the text is a template of `UserMessage`.
    """
    width = width_of(stream)
    lines = visible(redact_message(translate(UserMessage(text, **fields) if fields else text))).split("\n")
    _write("\n".join(part for line in lines for part in wrap(line, width)), stream)


def write_output(text: str, stream: TextIO) -> None:
    """Write output that a program may read: unchanged into a pipe or a file, escaped on a terminal."""
    _write(visible(text) if stream.isatty() else text, stream)


def _write(text: str, stream: TextIO) -> None:
    encoding = stream.encoding or "utf-8"
    stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
    stream.flush()


def make_console(**options: Any) -> Console:
    """Return a rich console that treats markup, emoji names and escapes in its input as text."""
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.segment import Segment
    from rich.text import Text

    class Safe(Console):
        def render_str(self, text: str, **options: Any) -> Text:
            return super().render_str(visible(translate(text)), **options)  # before its width is computed

        def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Any:
            for part in super().render(renderable, options):
                yield part if part.control else Segment(visible(part.text), part.style)

    return Safe(markup=False, emoji=False, highlight=False, **options)
