"""Write the golden files anew: ``python tests/golden/regenerate.py [NAME ...]``; all by default.

Names: scores, runs, plans, flags, pipeline (refused if outputs change under the same version of a step).

Read the diff before you commit it: each changed line is a number, a plan or a flag that users will see changed.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from support.golden_pipeline import write_pipeline
from support.golden_runs import WRITERS
from support.golden_scores import write_scores

WRITERS = {**WRITERS, "pipeline": write_pipeline}


def main(names: list[str]) -> None:
    """Write the files that were named, or all."""
    if unknown := {*names} - {"scores", *WRITERS}:
        raise SystemExit(f"unknown golden files: {', '.join(sorted(unknown))}")
    chosen = names or ["scores", *WRITERS]
    if "scores" in chosen:
        write_scores()
    for name, write in WRITERS.items():
        if name in chosen:
            with tempfile.TemporaryDirectory() as folder:
                write(Path(folder))


if __name__ == "__main__":
    main(sys.argv[1:])
