"""Plain tables for the terminal and for pipes."""

from __future__ import annotations

import sys
from collections.abc import Sequence


def show_columns(rows: Sequence[Sequence[str]], head: Sequence[str]) -> None:
    """Write rows in aligned columns; the head goes to the error stream, so that pipes get the rows alone."""
    widths = [max(len(row[i]) for row in (*rows, head)) for i in range(len(head) - 1)]

    def line(row: Sequence[str]) -> str:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=False))
        return "  ".join((*cells, row[-1])).rstrip() + "\n"

    sys.stderr.write(line(head))
    sys.stderr.flush()
    sys.stdout.write("".join(line(row) for row in rows))
