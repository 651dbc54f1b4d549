"""Run the examples of the documentation pages and write what they print below them.

Needs the dev environment and takes minutes. What is written, and how lines are elided, is in
``tests/support/doc_outputs.py``. Use: python scripts/docs_outputs.py [PAGE ...]
"""

from __future__ import annotations

import difflib
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "src")]

from support.doc_outputs import page_with_outputs  # noqa: E402 - after the path is set
from support.doc_pages import PAGES  # noqa: E402


def update(page: Path) -> bool:
    """Write the page with what its examples print now, and show what changed. Return False if an example failed."""
    before = page.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        try:
            after = page_with_outputs(page, Path(folder))
        except AssertionError as error:
            sys.stderr.write(f"{page.relative_to(ROOT)}: not written, an example failed: {error}\n")
            return False
    if after != before:
        page.write_text(after, encoding="utf-8")
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), str(page.relative_to(ROOT)), "now", n=1)
    sys.stdout.write("".join(f"{line.rstrip()}\n" for line in lines))
    return True


def main() -> None:
    """Update the pages that are named, or all."""
    pages = [Path(name).resolve() for name in sys.argv[1:]] or PAGES
    with ThreadPoolExecutor(2) as pool:
        succeeded = list(pool.map(update, pages))
    sys.exit(not all(succeeded))


if __name__ == "__main__":
    main()
