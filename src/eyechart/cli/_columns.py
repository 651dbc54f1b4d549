"""Plain tables for the terminal and for pipes."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from eyechart.io.cells import one_line
from eyechart.io.terminal import write_message, write_output


def show_columns(rows: Sequence[Sequence[str]], head: Sequence[str]) -> None:
    """Write rows in aligned columns; the head goes to the error stream, so that pipes get the rows alone."""
    rows = [[one_line(cell) for cell in row] for row in rows]
    widths = [max(len(row[i]) for row in (*rows, head)) for i in range(len(head) - 1)]

    def line(row: Sequence[str]) -> str:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=False))
        return "  ".join((*cells, row[-1])).rstrip() + "\n"

    write_message(line(head), sys.stderr)
    write_output("".join(line(row) for row in rows), sys.stdout)
