"""Break the core in small ways, one at a time, and see that a test notices each.

    make mutants                    all of them
    make mutants ONLY=scorers       those with this word in their name

The mutations are made in a copy of the project; the tests listed for each are run there until one fails.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from mutants_list import MUTANTS, Mutant

ROOT = Path(__file__).parent.parent


@dataclass(frozen=True)
class Verdict:
    """Outcome of a mutant."""

    mutant: Mutant
    killed: bool
    said: str


def main() -> int:
    """Try all mutants; return 1 if one survives."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="only mutants with this text in their name")
    args = parser.parse_args()
    chosen = [mutant for mutant in MUTANTS if args.only in mutant.name]
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "copy"
        ignored = shutil.ignore_patterns(".git", ".venv*", "__pycache__", ".*_cache", ".hypothesis", "outputs")
        shutil.copytree(ROOT, copy, ignore=ignored)
        verdicts = [try_one(mutant, copy) for mutant in chosen]
    alive = [verdict for verdict in verdicts if not verdict.killed]
    print(f"{len(verdicts) - len(alive)} of {len(verdicts)} mutants killed")
    for verdict in alive:
        print(f"  ALIVE: {verdict.mutant.name}: {verdict.said}")
    return int(bool(alive))


def try_one(mutant: Mutant, copy: Path) -> Verdict:
    """Mutate, run the relevant tests, and restore the file."""
    path = copy / "src" / "eyechart" / mutant.file
    before = path.read_text()
    if before.count(mutant.old) != 1:
        return Verdict(mutant, False, f"the line occurs {before.count(mutant.old)} times in {mutant.file}")
    path.write_text(before.replace(mutant.old, mutant.new))
    environment = {**os.environ, "PYTHONPATH": str(copy / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *mutant.tests.split()]
    try:
        done = subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True, timeout=600)
    except subprocess.TimeoutExpired:
        print(f"killed {mutant.name}  the tests do not end", flush=True)
        return Verdict(mutant, True, "the tests do not end")
    finally:
        path.write_text(before)
    failed = next((line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))), "")
    killed = done.returncode == 1
    print(f"{'killed' if killed else 'ALIVE '} {mutant.name}  {failed[:100]}", flush=True)
    return Verdict(mutant, killed, done.stdout.strip().splitlines()[-1] if done.stdout.strip() else done.stderr[-200:])


if __name__ == "__main__":
    sys.exit(main())
