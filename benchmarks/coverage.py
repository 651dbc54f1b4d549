"""How often the intervals hold what they should, and how often the paired test sees a difference that is not there.

Draws made-up results of many shapes, small and lopsided ones among them, and counts. Prints a table and writes it into
docs/results.md, between its two marks. Use:

    python benchmarks/coverage.py [--rounds 10000] [--seed 0]
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from coverage_agreement import AGREEMENT
from coverage_draws import DRAWN
from coverage_judges import JUDGED
from coverage_metrics import METRICS
from coverage_pairs import PAIRED
from coverage_shapes import MEANS, Row, measure

DOCS = Path(__file__).parent.parent / "docs" / "results.md"
MARKS = ("<!-- coverage: written by `make coverage` -->", "<!-- end of coverage -->")


HEAD = [
    "| interval | shape | draws | covers | too few | false alarms |",
    "|---|---|---:|---:|---:|---:|",
]


def as_line(row: Row) -> str:
    """Format one line of the table."""
    covers = "-" if np.isnan(row.covers) else f"{100 * row.covers:.1f} %"
    few = f"{100 * row.too_few:.1f} %" if row.too_few else ""
    alarms = "" if row.false_alarms is None else f"{100 * row.false_alarms:.1f} %"
    return f"| {row.interval} | {row.shape} | {row.rounds} | {covers} | {few} | {alarms} |"


def write(lines: list[str], path: Path) -> None:
    """Insert the table between the two marks of a file."""
    text = path.read_text()
    start, end = (text.index(mark) for mark in MARKS)
    path.write_text(text[:start] + "\n".join([MARKS[0], "", *lines, "", text[end:]]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="only shapes with this in their line; nothing is written then")
    settings = parser.parse_args()
    shapes = [shape for family in (*MEANS, *JUDGED, *AGREEMENT, *METRICS, *PAIRED, *DRAWN) for shape in family()]
    chosen = [shape for shape in shapes if settings.only in f"{shape.interval} {shape.name}"]
    lines = [f"Seed {settings.seed}; all intervals are of 95 %.", "", *HEAD]
    print("\n".join(lines))
    for shape in chosen:
        lines.append(as_line(measure(shape, settings.rounds, settings.seed)))
        print(lines[-1], flush=True)
    if not settings.only:
        write(lines, DOCS)


if __name__ == "__main__":
    main()
