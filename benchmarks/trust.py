"""Change one input at a time and see that no number is wrong in silence.

    make trust                 all changes
    make trust ONLY=tokenizer  those with this word in their name

For each change a small world (model, data, code) is made, and a first run fills the cache and writes its results. Then
one thing is changed, and the same command is run three ways: with that cache, with --skip_existing over those results,
and from nothing. All three must give the same numbers, or refuse. A number that differs from the one from nothing is
wrong, and nobody would know.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from trust_changes import CHANGES, Change
from trust_world import make_world

SETTLED = 2.5
"""Seconds after which the digests of files are cached."""


@dataclass(frozen=True)
class Ending:
    """Outcome of a run: its numbers, or the reason for their absence."""

    metrics: dict[str, dict[str, float]]
    records: dict[str, str]
    refused: str = ""

    def same_as(self, other: Ending, *, records: bool = False) -> bool:
        same = self.metrics == other.metrics and (not records or self.records == other.records)
        return bool(self.refused) or same


def main() -> int:
    """Try all changes; return 1 if one gave a wrong number."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="only changes with this text in their name")
    args = parser.parse_args()
    chosen = [change for change in CHANGES if args.only in change.name]
    with tempfile.TemporaryDirectory() as folder:
        worlds = {change.name: make_world(Path(folder) / f"{i:03d}") for i, change in enumerate(chosen)}
        time.sleep(SETTLED)
        wrong = [change.name for change in chosen if not holds(change, worlds[change.name])]
    print(f"{len(chosen) - len(wrong)} of {len(chosen)} changes: the same numbers three ways, or refused")
    for name in wrong:
        print(f"  WRONG: {name}")
    return int(bool(wrong))


def holds(change: Change, world: Path) -> bool:
    """Make one change and check all numbers after it."""
    first = run(change, world, "cache", "first")
    if first.refused:
        print(f"{change.name}: the first run failed: {first.refused}")
        return False
    change.make(world)
    words = change.words_after or change.words
    cached = run(change, world, "cache", "cached", words)
    skipping = run(change, world, "cache", "first", [*words, "--skip_existing"])
    fresh = run(change, world, "fresh", "fresh", words)
    good = cached.same_as(fresh, records=True) and skipping.same_as(fresh)
    effect = "refused" if fresh.refused else "same numbers" if fresh.metrics == first.metrics else "other numbers"
    print(f"{'ok   ' if good else 'WRONG'} {change.name}: {effect}", flush=True)
    if not good:
        print(
            f"      cached {cached.metrics}{cached.refused}\n      skip_existing {skipping.metrics}{skipping.refused}"
            f"\n      fresh {fresh.metrics}{fresh.refused}",
            flush=True,
        )
    return good


def run(change: Change, world: Path, cache: str, out: str, words: list[str] | None = None) -> Ending:
    """Run the command of a change in its world."""
    command = [sys.executable, "-c", "from eyechart.cli import main; import sys; sys.exit(main())", "eval", "--quiet"]
    command += [*(words or change.words), "--output", f"{out}/{{dataset}}_{{model}}_{{task}}.json"]
    environment = {
        **os.environ,
        "EYECHART_CACHE": str(world / cache),
        "LMUData": str(world / "lmu"),
        **change.variables,
    }
    done = subprocess.run(command, cwd=world, env=environment, capture_output=True, text=True, timeout=300)
    if done.returncode:
        return Ending({}, {}, done.stderr.strip().splitlines()[-1] if done.stderr.strip() else shlex.join(command))
    found = {path.name: json.loads(path.read_text())["metrics"] for path in sorted((world / out).glob("*.json"))}
    return Ending(found, {path.name: path.read_text() for path in sorted((world / out).glob("*.records.jsonl"))})


if __name__ == "__main__":
    sys.exit(main())
