"""Change one input at a time and see that no number is wrong in silence.

    make trust                 all changes
    make trust ONLY=tokenizer  those with this word in their name
    make trust-faults          each with its defence disabled: all must go wrong

For each change a small world (model, data, code) is made, and a first run fills the cache and writes its results. Then
one thing is changed, and the same command is run three ways: with that cache, with --skip_existing over those results,
and from nothing. All three must give the same numbers and records, or all must refuse. A number that differs from the
one from nothing is wrong without a sign of it.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path

from trust_edits import Change
from trust_world import make_world

import eyechart

LISTS = sorted(path.stem for path in Path(__file__).parent.glob("trust_changes*.py"))
"""Modules with a list CHANGES."""

SETTLED = 2.5
"""Seconds after which the digests of files are cached."""


@dataclass(frozen=True)
class Ending:
    """Outcome of a run: its numbers, or the reason for their absence."""

    metrics: dict[str, dict[str, float]]
    records: dict[str, str]
    notices: str = ""
    refused: str = ""

    def same_as(self, other: Ending) -> bool:
        """Whether both give the same numbers and records, or both refuse."""
        same = self.metrics == other.metrics and self.records == other.records
        return same and bool(self.refused) == bool(other.refused)


def main() -> int:
    """Try all changes; return 1 if one gave a wrong number, or with --faults if one did not."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="only changes with this text in their name")
    parser.add_argument("--faults", action="store_true", help="disable the defence of each change")
    args = parser.parse_args()
    changes = [change for name in LISTS for change in import_module(name).CHANGES]
    chosen = [change for change in changes if args.only in change.name]
    with tempfile.TemporaryDirectory() as folder:
        worlds = {change.name: make_world(Path(folder) / f"{i:03d}") for i, change in enumerate(chosen)}
        for change in chosen:
            change.prepare(worlds[change.name])
        time.sleep(SETTLED)
        check = can_fail if args.faults else holds
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            good = pool.map(lambda change: check(change, worlds[change.name]), chosen)
            failed = [change.name for change, fine in zip(chosen, good, strict=True) if not fine]
    what = (
        "go wrong without their defence"
        if args.faults
        else "the same numbers three ways, or refused where they must be"
    )
    print(f"{len(chosen) - len(failed)} of {len(chosen)} changes: {what}")
    for name in failed:
        print(f"  {'CANNOT FAIL' if args.faults else 'WRONG'}: {name}")
    return int(bool(failed))


def can_fail(change: Change, world: Path) -> bool:
    """Whether a change gives a wrong number, or none, if its defence is disabled in a copy of the package."""
    if not change.defence:
        return False
    source = world / "faulty"
    shutil.copytree(Path(eyechart.__file__).parent, source / "eyechart", ignore=shutil.ignore_patterns("__pycache__"))
    for fault in change.defence:
        file = source / "eyechart" / fault.path
        text = file.read_text()
        if text.count(fault.old) != 1:
            raise ValueError(f"{change.name}: {fault.path} contains {fault.old!r} {text.count(fault.old)} times")
        file.write_text(text.replace(fault.old, fault.new))
    return not holds(change, world, source)


def holds(change: Change, world: Path, source: Path | None = None) -> bool:
    """Make one change and check all numbers after it."""
    with change.serve(world) if change.serve else nullcontext({}) as variables:
        run = partial(_run, change, world, source, variables)
        first = run("cache", "first", change.words)
        if first.refused:
            print(f"{change.name}: the first run failed: {first.refused}")
            return False
        change.make(world)
        words = change.words_after or change.words
        cached = run("cache", "cached", words)
        if change.repeated and cached.refused:
            cached = run("cache", "cached", words)
        skipping = run("cache", "first", [*words, "--skip_existing"])
        fresh = run("fresh", "fresh", words)
    good = cached.same_as(fresh) and bool(fresh.refused) == change.refused
    good = good and (bool(skipping.refused) if change.occupied else skipping.same_as(fresh))
    if change.notice:
        good = good or all(change.notice in ending.notices for ending in (cached, skipping))
    effect = "refused" if fresh.refused else "same numbers" if fresh.metrics == first.metrics else "other numbers"
    print(f"{'ok   ' if good else 'WRONG'} {change.name}: {effect}", flush=True)
    if not good:
        print(
            f"      cached {cached.metrics}{cached.refused}\n      skip_existing {skipping.metrics}{skipping.refused}"
            f"\n      fresh {fresh.metrics}{fresh.refused}",
            flush=True,
        )
    return good


def _run(
    change: Change,
    world: Path,
    source: Path | None,
    variables: Mapping[str, str],
    cache: str,
    out: str,
    words: list[str],
) -> Ending:
    """Run the command of a change in its world."""
    command = [sys.executable, "-c", "from eyechart.cli import main; import sys; sys.exit(main())", "eval", "--quiet"]
    command += [word.format(**variables) if variables else word for word in words]
    command += ["--output", f"{out}/{{dataset}}_{{model}}_{{task}}.json"]
    environment = {
        **os.environ,
        "EYECHART_CACHE": str(world / cache),
        "LMUData": str(world / "lmu"),
        **({"PYTHONPATH": str(source)} if source else {}),
        **change.variables,
    }
    done = subprocess.run(command, cwd=world, env=environment, capture_output=True, text=True, timeout=300)
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1] if done.stderr.strip() else shlex.join(command)
        return Ending({}, {}, refused=last)
    try:
        results = {path.name: json.loads(path.read_text()) for path in sorted((world / out).glob("*.json"))}
    except ValueError as error:
        return Ending({"damaged result": {str(error): 0.0}}, {})
    return Ending(
        {name: body["metrics"] for name, body in results.items()},
        {path.name: path.read_text() for path in sorted((world / out).glob("*.records.jsonl"))},
        json.dumps([body.get("notices", []) for body in results.values()], ensure_ascii=False),
    )


if __name__ == "__main__":
    sys.exit(main())
