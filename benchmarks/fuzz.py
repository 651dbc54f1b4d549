"""Give hostile inputs to everything that reads what others wrote: only errors of ours may come back, and soon.

    make fuzz                                        1,000,000 inputs
    make fuzz INPUTS=10000
    python benchmarks/fuzz.py --target tar --seed 3  one reader, other inputs
    python benchmarks/fuzz.py --replay fuzz-findings/tar-ab12cd34
    python benchmarks/fuzz.py --target tar --seed 0 --only 1234

Input number n of a target is a pure function of the seed, the target's name and n, so a finding is one line to repeat.
What fails is saved under ``fuzz-findings``, one file for each kind of failure.
"""

from __future__ import annotations

import argparse
import faulthandler
import hashlib
import logging
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from fuzz_files import FILE_TARGETS, Target
from fuzz_records import RECORD_TARGETS
from fuzz_texts import TEXT_TARGETS

from eyechart.errors import EyechartError

TARGETS: dict[str, Target] = FILE_TARGETS | RECORD_TARGETS | TEXT_TARGETS
SECONDS = 2.0
"""CPU seconds allowed per input."""
MEMORY = 1024
"""MiB by which the process may grow in total."""


FAST = "/dev/shm" if Path("/dev/shm").is_dir() else None  # noqa: S108 - a random name below it
"""Folder of the inputs, in memory: a million of them need no disk."""


class TooSlowError(BaseException):
    """An input took too long. A BaseException, so that no handler swallows it."""


@dataclass
class Outcome:
    """Outcome of the inputs of one target."""

    inputs: int = 0
    refused: int = 0
    """Ended with an EyechartError."""
    seconds: float = 0.0
    slowest: float = 0.0
    findings: dict[str, str] = field(default_factory=dict)
    """By kind of failure: the saved input, and the command that reproduces it."""


def make_input(name: str, seed: int, number: int) -> bytes:
    """Generate one input."""
    target = TARGETS[name]
    return target.mutate(random.Random(f"{seed}/{name}/{number}"), target.seeds(), target.tokens)


def fuzz(name: str, numbers: Iterable[int], seed: int, saved: Path) -> Outcome:
    """Run inputs of one target."""
    outcome, start = Outcome(), time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="eyechart-fuzz-", dir=FAST) as place:
        for number in numbers:
            data = make_input(name, seed, number)
            began = time.process_time()
            error = attempt(name, data, Path(place))
            outcome.slowest = max(outcome.slowest, time.process_time() - began)
            outcome.inputs += 1
            if isinstance(error, EyechartError):
                outcome.refused += 1
            elif error is not None:
                _keep(outcome, name, data, error, saved, f"--target {name} --seed {seed} --only {number}")
    outcome.seconds = time.perf_counter() - start
    return outcome


def attempt(name: str, data: bytes, place: Path) -> BaseException | None:
    """Run one input in an empty folder; return its exception."""
    if any(place.iterdir()):
        shutil.rmtree(place)
        place.mkdir()
    faulthandler.dump_traceback_later(20 * SECONDS, exit=True)
    signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)
    try:
        TARGETS[name].run(data, place)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - every kind of failure is what we look for
        return error
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        faulthandler.cancel_dump_traceback_later()
    return None


def _keep(outcome: Outcome, name: str, data: bytes, error: BaseException, saved: Path, repeat: str) -> None:
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.name != ring.__name__]
    ours = [frame for frame in frames if "eyechart" in frame.filename] or frames
    where = f"{Path(ours[-1].filename).name}:{ours[-1].name}" if ours else "?"
    # A hang is located where the alarm fired: one kind per function of ours.
    kind = f"{type(error).__name__} in {where}"
    if kind in outcome.findings:
        return
    saved.mkdir(parents=True, exist_ok=True)
    path = saved / f"{name}-{hashlib.sha256(data).hexdigest()[:8]}"
    path.write_bytes(data)
    text = str(error).replace("\n", " ")[:100].encode("utf-8", "backslashreplace").decode()
    outcome.findings[kind] = f"{path}  ({text})\n    python benchmarks/fuzz.py {repeat}"


def limit_memory(mebibytes: int) -> None:
    """Limit the growth of the process: exceeding it is a finding and does not exhaust the machine."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + 2 * mebibytes * 2**20
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


def peak_memory() -> float:
    """Return the peak size of the process in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def ring(*_: object) -> None:
    """Raise at the current position of the program."""
    raise TooSlowError


def prepare() -> None:
    """Silence warnings and logs, and turn the alarm into an exception."""

    signal.signal(signal.SIGVTALRM, ring)
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    os.environ["EYECHART_CACHE"] = tempfile.gettempdir() + "/eyechart-fuzz-cache"


def campaign(inputs: int, seed: int, saved: Path, names: Iterable[str], say: Callable[[str], object] = print) -> int:
    """Fuzz targets in proportion to their shares; return the number of failure kinds."""
    names, findings, done = list(names), 0, 0
    for name in names:  # load libraries and generate seeds before memory is measured
        TARGETS[name].seeds()
        with tempfile.TemporaryDirectory(dir=FAST) as place:
            attempt(name, TARGETS[name].seeds()[0], Path(place))
    before, start = peak_memory(), time.perf_counter()
    whole = sum(TARGETS[name].share for name in names)
    say(f"{'target':<12}{'inputs':>9}{'refused':>9}{'seconds':>9}{'slowest ms':>12}")
    for name in names:
        outcome = fuzz(name, range(-(-inputs * TARGETS[name].share // whole)), seed, saved)
        done, findings = done + outcome.inputs, findings + len(outcome.findings)
        say(f"{name:<12}{outcome.inputs:>9}{outcome.refused:>9}{outcome.seconds:>9.1f}{1000 * outcome.slowest:>12.0f}")
        for kind, place in outcome.findings.items():
            say(f"  {kind}: {place}")
    grown = peak_memory() - before
    say(f"{done} inputs in {time.perf_counter() - start:.0f} s, {findings} findings; memory grew by {grown:.0f} MiB")
    if grown > MEMORY:
        say(f"  that is more than {MEMORY} MiB")
        findings += 1
    return findings


def main() -> int:
    """Run a campaign, or one input."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inputs", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--target", choices=TARGETS, action="append", help="only this one; may be repeated")
    parser.add_argument("--findings", type=Path, default=Path("fuzz-findings"))
    parser.add_argument("--only", type=int, help="one input of one target, with its traceback")
    parser.add_argument("--replay", type=Path, help="a saved input; its name begins with the target's")
    args = parser.parse_args()
    prepare()
    if args.only is None and args.replay is None:
        limit_memory(MEMORY)
        return int(campaign(args.inputs, args.seed, args.findings, args.target or TARGETS) > 0)
    name = args.target[0] if args.replay is None else args.replay.name.partition("-")[0]
    data = args.replay.read_bytes() if args.replay else make_input(name, args.seed, args.only)
    with tempfile.TemporaryDirectory() as place:
        error = attempt(name, data, Path(place))
    print(f"{len(data)} bytes: {data[:300]!r}")
    if error is not None:
        traceback.print_exception(error)
    return int(error is not None and not isinstance(error, EyechartError))


if __name__ == "__main__":
    raise SystemExit(main())
