"""Kill runs with -9 at random moments, run them again, and compare with a run that nobody disturbed.

    make chaos                     100 rounds
    make chaos ROUNDS=10

After each kill the results folder may hold whole files only; after the rerun the metrics must be identical.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from eyechart.results import read_result

COMMAND = [
    sys.executable, "-m", "eyechart", "eval", "--model_type", "onnx", "--model", "eyechart-tiny", "--pretrained",
    "eyechart-tiny", "--dataset", "demo/garments", "demo/scenes", "--limit", "200", "--batch_size", "8", "--quiet",
    "--num_workers", "1", "--skip_existing",
]  # fmt: skip


def main() -> int:
    """Run the rounds and count what went wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        bad = disturb(Path(folder), args.rounds, random.Random(args.seed), say=print)
    print(f"{args.rounds - bad} of {args.rounds} rounds gave the undisturbed metrics and whole files only")
    return int(bad > 0)


def disturb(folder: Path, rounds: int, rng: random.Random, say: Callable[[str], object] = str) -> int:
    """Kill and repeat; return the number of rounds in which something was wrong."""
    start = time.perf_counter()
    run_to_the_end(folder / "calm")
    seconds = time.perf_counter() - start
    expected = metrics(folder / "calm")
    bad = 0
    for number in range(rounds):
        place = folder / f"round{number}"
        delay = rng.uniform(0.2, 1.0) * seconds
        process = subprocess.Popen(command(place), env=environment(place), stderr=subprocess.DEVNULL)
        try:
            process.wait(delay)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
        broken = list(broken_files(place))
        run_to_the_end(place)
        same = metrics(place) == expected
        bad += bool(broken) or not same
        say(f"round {number}: stopped after {delay:.2f} s; broken files {broken}; same metrics {same}")
        shutil.rmtree(place)
    return bad


def command(place: Path) -> list[str]:
    return [*COMMAND, "--output", f"{place}/out/{{dataset}}.json"]


def environment(place: Path) -> dict[str, str]:
    return {**os.environ, "EYECHART_CACHE": str(place / "cache")}


def run_to_the_end(place: Path) -> None:
    subprocess.run(command(place), env=environment(place), check=True, stdout=subprocess.DEVNULL)


def metrics(place: Path) -> dict[str, object]:
    return {path.name: json.loads(path.read_text())["metrics"] for path in sorted((place / "out").glob("*.json"))}


def broken_files(place: Path):
    """Yield result files that are not whole, or whose records are not those they name."""
    for path in (place / "out").glob("*.json"):
        result = read_result(path)
        records = path.parent / result.records["file"]
        if hashlib.sha256(records.read_bytes()).hexdigest() != result.records["sha256"]:
            yield path.name


if __name__ == "__main__":
    sys.exit(main())
