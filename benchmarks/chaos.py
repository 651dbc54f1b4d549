"""End runs at random moments by SIGKILL, SIGINT and SIGTERM, run them again, and compare with an undisturbed run.

    make chaos                     200 rounds
    make chaos ROUNDS=10

In each round three runs write to one cache and one output at the same time. Each gets one of the signals at a random
time, or inside a random write: half of the file on the disk, all of it, flushed, or just renamed (chaos_hook). Then
there may be whole files only. After SIGINT and SIGTERM every vector that was computed is stored, and no progress file
is left. After the rerun metrics and records are identical, no vector that was stored was computed again, no finished
result was touched, and no progress file is left.
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
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from safetensors.numpy import load_file

from eyechart.io.progress import PROGRESS_PREFIX
from eyechart.results import read_result

HOOK = Path(__file__).parent / "chaos_hook"
COMMAND = [
    sys.executable, "-m", "eyechart", "eval", "--model_type", "onnx", "--model", "eyechart-tiny", "--pretrained",
    "eyechart-tiny", "--dataset", "demo/garments", "demo/scenes", "--limit", "96", "--batch_size", "8", "--quiet",
    "--num_workers", "1", "--skip_existing",
]  # fmt: skip


SIGNALS = (signal.SIGKILL, signal.SIGINT, signal.SIGTERM)
WRITERS = 3


def main() -> int:
    """Run the rounds and count failures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        bad = disturb(Path(folder), args.rounds, random.Random(args.seed), say=lambda line: print(line, flush=True))
    print(f"{args.rounds - bad} of {args.rounds} rounds: the undisturbed metrics, whole files, nothing finished lost")
    return int(bad > 0)


def disturb(folder: Path, rounds: int, rng: random.Random, say: Callable[[str], object] = str) -> int:
    """Disturb and repeat; return the number of failed rounds."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a shell's background job, whose children would ignore it
        signal.signal(signal.SIGINT, signal.default_int_handler)
    run_to_the_end(folder / "calm", CHAOS_COUNT=str(folder / "moments"))
    moments = int((folder / "moments").read_text())
    start = time.perf_counter()
    run_to_the_end(folder / "timed")  # the first one is slower: it reads the programs from disk
    seconds = time.perf_counter() - start
    say(f"an undisturbed run takes {seconds:.1f} s and has {moments} moments of writing")
    expected = contents(folder / "calm")
    bad, ended = 0, Counter[str]()
    for number in range(rounds):
        place = folder / f"round{number}"
        place.mkdir()
        writers = [
            Writer(place, i, rng.choice(SIGNALS), rng.randint(1, moments), WRITERS * seconds * rng.uniform(0.1, 1.0))
            for i in range(WRITERS)
        ]
        problems = [problem for writer in writers for problem in writer.finish()]
        problems += broken_files(place)
        before, stored = files(place), vectors(place)
        run_to_the_end(place)
        problems += [] if contents(place) == expected else ["other metrics or records"]
        problems += done_again(place, before, stored)
        bad += bool(problems)
        ended.update(writer.ending for writer in writers)
        say(f"round {number}: {', '.join(map(str, writers))}; {len(before)} files; problems: {problems}")
        shutil.rmtree(place)
    say(f"endings: {dict(ended)}")
    return bad


class Writer:
    """A run that receives a signal, at a moment of its writes if that is even, else after some seconds."""

    def __init__(self, place: Path, number: int, sent: signal.Signals, moment: int, delay: float) -> None:
        self.place, self.sent, self.moment, self.deadline = place, sent, moment, time.perf_counter() + delay
        self.log = place / f"computed-{number}.txt"
        settings = {"CHAOS_LOG": str(self.log), "CHAOS_SIGNAL": str(int(sent))}
        if moment % 2 == 0:
            settings["CHAOS_MOMENT"] = str(moment)
        self.process = subprocess.Popen(
            command(place), env=environment(place) | settings, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )

    def __str__(self) -> str:
        return f"{self.sent.name} {self.ending}"

    @property
    def ending(self) -> str:
        code = self.process.returncode
        return "had ended" if code == 0 else f"code {code}"

    def finish(self) -> Iterator[str]:
        """Send the signal, wait for the end, and yield what was lost."""
        if self.moment % 2:
            try:
                self.process.wait(max(0.0, self.deadline - time.perf_counter()))
            except subprocess.TimeoutExpired:
                self.process.send_signal(self.sent)
        code = self.process.wait()
        if self.sent == signal.SIGKILL:
            return
        # Before the handlers are installed and after they are removed, the interpreter ends by itself.
        if code not in (0, 128 + self.sent, -self.sent, 1):
            yield f"{self.sent.name} ended with code {code}"
        stored = {f"{table} {key}" for table, keys in vectors(self.place).items() for key in keys}
        computed = set(self.log.read_text().splitlines()) if self.log.exists() else set()
        if computed - stored:
            yield f"{len(computed - stored)} of {len(computed)} vectors lost after {self.sent.name}"
        if list(self.place.rglob(f"{PROGRESS_PREFIX}*-{self.process.pid}.progress")):
            yield f"a progress file left after {self.sent.name}"


def vectors(place: Path) -> dict[str, set[str]]:
    """Return the keys of all stored vectors by table."""
    found: dict[str, set[str]] = {}
    for part in place.rglob("[0-9]*.safetensors"):
        keys = {key.tobytes().hex() for key in load_file(part)["keys"]}
        found.setdefault("/".join(part.parts[-3:-1]), set()).update(keys)
    return found


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


def stored_twice(place: Path) -> Iterator[str]:
    """Yield the tables of images and texts in which a vector occurs in several parts, as after repeated work."""
    for table in {part.parent for role in ("image", "text") for part in place.rglob(f"{role}/[0-9]*.safetensors")}:
        keys = [key.tobytes() for part in table.glob("[0-9]*.safetensors") for key in load_file(part)["keys"]]
        if len(keys) > len(set(keys)):
            yield f"{len(keys) - len(set(keys))} vectors of {table.name} computed again"


def done_again(place: Path, before: dict[Path, int], stored: dict[str, set[str]]) -> Iterator[str]:
    """Yield work that the rerun repeated (a stored vector, an existing result), and files that it left behind.

    A note about a truncated text is written just before its vector and costs nothing: it may occur twice.
    """
    for part in (*place.rglob("image/*.safetensors"), *place.rglob("text/*.safetensors")):
        if part not in before:
            again = {key.tobytes().hex() for key in load_file(part)["keys"]} & stored.get(
                "/".join(part.parts[-3:-1]), set()
            )
            if again:
                yield f"{len(again)} vectors of {part.parent.name} computed again"
    now = files(place)
    yield from (
        f"{path.name} written again" for path, inode in before.items()
        if path.suffix == ".json" and path.parent.name == "out" and now.get(path) != inode
    )  # fmt: skip
    yield from (f"{path.name} left behind" for path in now if path.suffix == ".progress")


if __name__ == "__main__":
    sys.exit(main())
