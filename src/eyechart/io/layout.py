"""Tables and paragraphs for people, fitted to a width. Nothing is ever cut.

With a width, columns that do not fit give way in the order of the table, the last one first: they are dropped, or
written under their row. A text wraps in its column. A name that is longer than its column stands on a line of its own.
Without a width (a pipe, a file) every row is one line and every column is there.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from eyechart.io.cells import one_line
from eyechart.io.terminal import text_width, visible, wrap
from eyechart.io.translate import translate

GAP = "  "
LEAST_TEXT = 36
"""A column of text that is narrower is no longer read with ease."""
MOST_ROWS = 4 / 5
"""So many names must fit beside their row, as long as another column could make room."""


@dataclass(frozen=True)
class TextColumn:
    """How one column of a table behaves."""

    head: str = ""
    right: bool = False
    """Numbers end at the right."""
    wraps: bool = False
    """A text of several words; only the last column can wrap."""
    gives: Literal["", "drop", "below"] = ""
    """Where it goes if there is no room: nowhere, or under its row as ``head value``."""


def columns_of(
    *heads: str,
    right: Collection[str] = (),
    below: Collection[str] = (),
    drop: Collection[str] = (),
    wraps: bool = False,
) -> list[TextColumn]:
    """Describe columns by their heads: numbers, those that give way, and whether the last one wraps."""
    return [
        TextColumn(
            head,
            right=head in right,
            wraps=wraps and number == len(heads),
            gives="below" if head in below else "drop" if head in drop else "",
        )
        for number, head in enumerate(heads, 1)
    ]


def lay_out(columns: Sequence[TextColumn], rows: Sequence[Sequence[str]], width: int | None) -> list[list[str]]:
    """Return the lines of the heads, in the reader's language, and of each row."""
    clean = one_line if width is None else lambda cell: visible(one_line(cell))
    cells = [[clean(translate(column.head)) for column in columns], *([clean(cell) for cell in row] for row in rows)]
    kept = list(range(len(columns)))
    gone: list[int] = []
    while (widths := _fit(columns, cells, kept, width)) is None:
        gone.insert(0, next(i for i in reversed(kept) if columns[i].gives))
        kept.remove(gone[0])
    under = [i for i in gone if columns[i].gives == "below"]
    return [
        [*_row(columns, row, widths), *(_below(cells[0], row, under, width) if number else ())]
        for number, row in enumerate(cells)
    ]


def _fit(
    columns: Sequence[TextColumn], cells: Sequence[Sequence[str]], kept: Sequence[int], width: int | None
) -> dict[int, int] | None:
    """Return the width of each column that is kept, or None if another one must give way first."""
    natural = {i: max(text_width(row[i]) for row in cells) for i in kept}
    over = sum(natural.values()) + len(GAP) * (len(kept) - 1) - (width or 0)
    if width is None or over <= 0:
        return natural
    first, last = kept[0], kept[-1]
    may_give = any(columns[i].gives for i in kept)
    if columns[last].wraps:
        narrowed = max(natural[last] - over, min(natural[last], LEAST_TEXT if may_give else LEAST_TEXT // 3))
        over -= natural[last] - narrowed
        natural[last] = narrowed
    names = sorted(text_width(row[first]) for row in cells)
    enough = names[int((len(names) - 1) * MOST_ROWS)] <= natural[first] - over
    if over > 0 and not enough and may_give:
        return None
    return {**natural, first: max(natural[first] - max(over, 0), min(natural[first], len(GAP)))}


def _row(columns: Sequence[TextColumn], row: Sequence[str], widths: dict[int, int]) -> Iterator[str]:
    first, last = next(iter(widths)), next(reversed(widths))
    parts = {i: [row[i]] for i in widths}
    if columns[last].wraps and last != first:
        parts[last] = [piece for line in wrap(row[last], widths[last]) for piece in _pieces(line, widths[last])]
    if text_width(row[first]) > widths[first]:
        yield row[first]
        parts[first] = [""]
    for line in range(max(map(len, parts.values()))):
        padded = (
            _pad(lines[line] if line < len(lines) else "", widths[i], right=columns[i].right)
            for i, lines in parts.items()
        )
        text = GAP.join(padded).rstrip()
        if text or line:
            yield text


def _pieces(line: str, width: int) -> Iterator[str]:
    """Divide a word that is wider than its column, behind a mark if it has one; Chinese has no spaces to break at."""
    while text_width(line) > width:
        room = next(n for n in range(len(line), -1, -1) if text_width(line[:n]) <= width)
        at = max(line.rfind(mark, 0, room) for mark in "/,_-") + 1 or max(room, 1)
        yield line[:at]
        line = line[at:]
    yield line


def _pad(text: str, width: int, *, right: bool) -> str:
    space = " " * (width - text_width(text))
    return space + text if right else text + space


def _below(heads: Sequence[str], row: Sequence[str], under: Sequence[int], width: int | None) -> Iterator[str]:
    """Write what found no room beside as a line of heads and values."""
    text = "; ".join(f"{heads[i]} {row[i]}".strip() for i in under if row[i])
    if text:
        yield from wrap(f"{2 * GAP}{text}", width)
