"""Tables and paragraphs fitted to the width of a terminal, and cells that no spreadsheet takes for formulas."""

import csv
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from types import SimpleNamespace
from typing import Any, Literal, TypeVar

from eyechart.io.terminal import text_width, translate, visible, wrap

T = TypeVar("T")

_FORMULA = re.compile("'*[=+\\-@\t\r\n\uff1d\uff0b\uff0d\uff20]")
"""Start of a cell that a spreadsheet would evaluate; leading apostrophes count, so that reading is the inverse."""
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)


def is_formula(text: str) -> bool:
    """Whether a spreadsheet would evaluate a text; ``-0.5`` is a number."""
    return bool(_FORMULA.match(text)) and not _NUMBER.fullmatch(text)


def guarded(text: str) -> str:
    """Prefix a text that a spreadsheet would evaluate with an apostrophe, which marks it as text."""
    return f"'{text}" if is_formula(text) else text


def unguarded(cell: T) -> T:
    """Remove the apostrophe that `guarded` added; anything but a text is returned unchanged."""
    if isinstance(cell, str) and cell.startswith("'") and _FORMULA.match(cell):
        return cell[1:]  # type: ignore[return-value]  # a text again
    return cell


def one_line(text: str) -> str:
    """Put a name on one line: every kind of line break becomes a space."""
    return " ".join(text.split())


def csv_text(rows: Iterable[Iterable[Any]]) -> str:
    """Format rows as CSV for spreadsheets: texts guarded, numbers in full, None as an empty cell.

    Any cell with a line break is quoted. With a line feed as line terminator, Python's writer leaves a lone carriage
    return unquoted, and readers then see two rows.
    """
    lines: list[str] = []
    stream: Any = SimpleNamespace(write=lines.append)
    writer = csv.writer(stream)  # it terminates lines with both, so it quotes both
    for row in rows:
        writer.writerow(v if v is None or isinstance(v, int | float) else guarded(str(v)) for v in row)
    return "".join(line.removesuffix("\r\n") + "\n" for line in lines)


# Plain-text tables, fitted to a width without truncation.
#
# With a width, columns that do not fit are dropped or moved below their row, the last one first. A text wraps in its
# column. A name longer than its column gets a separate line. Without a width (a pipe, a file) every row is one line
# and every column is shown.

GAP = "  "
LEAST_TEXT = 36
"""Minimum readable width of a text column."""
MOST_ROWS = 4 / 5
"""Share of names that must fit into their row as long as another column could make room."""


@dataclass(frozen=True)
class TextColumn:
    """Layout of a table column."""

    head: str = ""
    right: bool = False
    """Right-aligned, for numbers."""
    wraps: bool = False
    """A text of several words; only the last column can wrap."""
    gives: Literal["", "drop", "below"] = ""
    """What happens to it if there is no room: it is dropped, or moved below its row as ``head value``."""


def columns_of(
    *heads: str,
    right: Collection[str] = (),
    below: Collection[str] = (),
    drop: Collection[str] = (),
    wraps: bool = False,
) -> list[TextColumn]:
    """Make columns from their heads: right-aligned ones, those that give way, and whether the last one wraps."""
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
    """Return the lines of the header, translated, and of each row."""
    heads = [translate(column.head) for column in columns]
    cells = [[one_line(cell) for cell in row] for row in (heads, *rows)]
    if width is not None:
        cells = [[visible(cell) for cell in row] for row in cells]
    kept, below = list(range(len(columns))), list[int]()
    while (widths := _fit(columns, cells, kept, width)) is None:
        gone = next(i for i in reversed(kept) if columns[i].gives)
        kept.remove(gone)
        if columns[gone].gives == "below":
            below.insert(0, gone)
    laid_out = []
    for number, row in enumerate(cells):
        lines = list(_row(columns, row, widths))
        under = "; ".join(f"{cells[0][i]} {row[i]}".strip() for i in below if row[i])
        if number and under:
            lines += wrap(f"{2 * GAP}{under}", width)
        laid_out.append(lines)
    return laid_out


def _fit(
    columns: Sequence[TextColumn], cells: Sequence[Sequence[str]], kept: Sequence[int], width: int | None
) -> dict[int, int] | None:
    """Return the width of each remaining column; None if another one must give way first."""
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
        parts[last] = [piece for line in wrap(row[last], widths[last]) for piece in pieces(line, widths[last])]
    if text_width(row[first]) > widths[first]:
        yield row[first]
        parts[first] = [""]
    for cells in zip_longest(*parts.values(), fillvalue=""):
        line = ""
        for (i, width), cell in zip(widths.items(), cells, strict=True):
            space = " " * (width - text_width(cell))
            line += (space + cell if columns[i].right else cell + space) + GAP
        if line := line.rstrip():
            yield line


def pieces(line: str, width: int) -> Iterator[str]:
    """Break a word that is wider than its column, after a separator if possible; Chinese has no spaces to break at."""
    while text_width(line) > width:
        room = next(n for n in range(len(line), -1, -1) if text_width(line[:n]) <= width)
        at = max(line.rfind(mark, 0, room) for mark in "/,_-") + 1 or max(room, 1)
        yield line[:at]
        line = line[at:]
    yield line
