"""Kill runs with -9 at random moments, run them again, and compare with an undisturbed run.

    make chaos                     100 rounds
    make chaos ROUNDS=10

Every other round dies at a random time; the rounds between die inside a random write: half of the file on the disk,
all of it, flushed, or just renamed (chaos_hook). After the kill there may be whole files only. After the rerun
metrics and records must be identical, no stored vector may have been computed again, and no finished result touched.
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
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file

from eyechart.results import read_result

HOOK = Path(__file__).parent / "chaos_hook"
COMMAND = [
    sys.executable, "-m", "eyechart", "eval", "--model_type", "onnx", "--model", "eyechart-tiny", "--pretrained",
    "eyechart-tiny", "--dataset", "demo/garments", "demo/scenes", "--limit", "200", "--batch_size", "8", "--quiet",
    "--num_workers", "1", "--skip_existing",
]  # fmt: skip


def main() -> int:
    """Run the rounds and count failures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        bad = disturb(Path(folder), args.rounds, random.Random(args.seed), say=lambda line: print(line, flush=True))
    print(f"{args.rounds - bad} of {args.rounds} rounds: the undisturbed metrics, whole files, nothing stored twice")
    return int(bad > 0)


def disturb(folder: Path, rounds: int, rng: random.Random, say: Callable[[str], object] = str) -> int:
    """Kill and repeat; return the number of failed rounds."""
    run_to_the_end(folder / "calm", CHAOS_COUNT=str(folder / "moments"))
    moments = int((folder / "moments").read_text())
    start = time.perf_counter()
    run_to_the_end(folder / "timed")  # the first one is slower: it reads the programs from disk
    seconds = time.perf_counter() - start
    say(f"an undisturbed run takes {seconds:.1f} s and has {moments} moments of writing")
    expected = contents(folder / "calm")
    bad = killed = 0
    for number in range(rounds):
        place = folder / f"round{number}"
        if number % 2:
            how, died = kill_in_a_write(place, rng.randint(1, moments))
        else:
            how, died = kill_in_time(place, rng.uniform(0.1, 1.0) * seconds)
        killed += died
        problems = list(broken_files(place))
        before = files(place)
        run_to_the_end(place)
        problems += [] if contents(place) == expected else ["other metrics or records"]
        problems += list(done_again(place, before))
        bad += bool(problems)
        say(f"round {number}: {how}, {'killed' if died else 'had ended'}, {len(before)} files; problems: {problems}")
        shutil.rmtree(place)
    say(f"{killed} of {rounds} runs were killed before their end")
    return bad


def kill_in_time(place: Path, delay: float) -> tuple[str, bool]:
    """Kill a run after some seconds; if it has already ended, kill another one earlier."""
    process = subprocess.Popen(command(place), env=environment(place), stderr=subprocess.DEVNULL)
    try:
        process.wait(delay)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
    if process.wait() == 0:
        shutil.rmtree(place)
        return kill_in_time(place, 0.7 * delay)
    return f"after {delay:.2f} s", process.returncode == -signal.SIGKILL


def kill_in_a_write(place: Path, moment: int) -> tuple[str, bool]:
    """Make a run die during a write."""
    settings = environment(place) | {"CHAOS_MOMENT": str(moment)}
    done = subprocess.run(command(place), env=settings, stderr=subprocess.DEVNULL)
    return f"at moment {moment} of its writes", done.returncode == -signal.SIGKILL


def command(place: Path) -> list[str]:
    return [*COMMAND, "--output", f"{place}/out/{{dataset}}.json"]


def environment(place: Path) -> dict[str, str]:
    paths = [str(HOOK), str(Path(__file__).parents[1] / "src"), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "EYECHART_CACHE": str(place / "cache"), "PYTHONPATH": os.pathsep.join(filter(None, paths))}


def run_to_the_end(place: Path, **settings: str) -> None:
    subprocess.run(command(place), env=environment(place) | settings, check=True, stdout=subprocess.DEVNULL)


def contents(place: Path) -> dict[str, object]:
    """Return the metrics of all results and the raw records."""
    metrics = {path.name: json.loads(path.read_text())["metrics"] for path in (place / "out").glob("*.json")}
    return metrics | {path.name: path.read_text() for path in (place / "out").glob("*.jsonl")}


def files(place: Path) -> dict[Path, int]:
    """Return the finished files of a run with their inode numbers."""
    return {path: path.stat().st_ino for path in place.rglob("*") if path.is_file() and ".tmp-" not in path.name}


def broken_files(place: Path) -> Iterator[str]:
    """Yield incomplete files: results, their records, parts of the store, cards."""
    for path in files(place):
        try:
            if path.suffix == ".safetensors":
                load_file(path)
            elif path.suffix == ".json" and path.parent.name == "out":
                result = read_result(path)
                records = (path.parent / result.record_info["file"]).read_bytes()
                if hashlib.sha256(records).hexdigest() != result.record_info["sha256"]:
                    yield f"{path.name}: records of another run"
            elif path.suffix in (".json", ".progress"):
                json.loads(path.read_bytes())
        except Exception as error:  # noqa: BLE001 - whatever a reader says of a file that is not whole
            yield f"{path.name}: {error}"


def done_again(place: Path, before: dict[Path, int]) -> Iterator[str]:
    """Yield work that the rerun repeated: a stored vector, an existing result.

    A note about a truncated text is written just before its vector and costs nothing: it may occur twice.
    """
    keys: dict[Path, list[np.ndarray]] = {}
    for part in (*place.rglob("image/*.safetensors"), *place.rglob("text/*.safetensors")):
        keys.setdefault(part.parent, []).append(load_file(part)["keys"])
    for folder, parts in keys.items():
        rows = np.concatenate(parts)
        again = len(rows) - len(np.unique(rows, axis=0))
        if again:
            yield f"{again} vectors of {folder.name} computed again"
    now = files(place)
    yield from (
        f"{path.name} written again" for path, inode in before.items()
        if path.suffix == ".json" and path.parent.name == "out" and now.get(path) != inode
    )  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
