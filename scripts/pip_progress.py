"""Show the steps of `pip install` as one line that changes, or as a few lines in a log.

Usage: { pip install ... || echo failed; } | python scripts/pip_progress.py
Reads pip's output and exits with 1 if its last line is "failed". Errors of pip go to standard error, unchanged.
"""

from __future__ import annotations

import re
import shutil
import sys
import time

STEP = re.compile(r"\s*(Collecting|Processing|Downloading|Using cached|Building|Installing collected packages)\b(.*)")
LAST = "Installing collected packages"
EVERY = 10.0
"""Seconds between two lines of a log."""


def main() -> int:
    """Show the steps and return the exit code."""
    terminal, packages, shown, line = sys.stdout.isatty(), 0, time.monotonic(), ""
    for line in sys.stdin:
        found = STEP.match(line)
        if not found:
            continue
        step, rest = found.groups()
        packages += step in ("Collecting", "Processing")
        rest = re.sub(r"(/\S*/|\(from .*|-\d\S*\.(whl|tar\.gz)|\.metadata)", "", rest).rstrip()
        text = f"  package {packages}: {step.lower()}{rest}" if step != LAST else f"  installing {packages} packages"
        text = text[: shutil.get_terminal_size().columns - 1]
        if terminal:
            print(f"\r\033[K{text}", end="", flush=True)
        elif time.monotonic() - shown >= EVERY or step == LAST:
            shown = time.monotonic()
            print(text, flush=True)
    print("\r\033[K" if terminal else "", end="")
    return int(line.strip() == "failed")


if __name__ == "__main__":
    sys.exit(main())
