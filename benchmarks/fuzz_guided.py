"""The targets of fuzz.py, led by coverage: atheris keeps the inputs that reach new code and goes on from there.

    make fuzz-guided                                     20,000 inputs for each target
    python benchmarks/fuzz_guided.py --target tar --runs 500000
    python benchmarks/fuzz.py --replay fuzz-findings/tar-...

A target stops at its first finding; each runs in a process of its own, because libFuzzer never comes back.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
from pathlib import Path

import atheris

sys.path.insert(0, str(Path(__file__).parent))

with atheris.instrument_imports(include=["eyechart"]):
    import fuzz

LONGEST = 65536


def main() -> int:
    """Fuzz one target here, or each in turn in a process."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", choices=fuzz.TARGETS, help="only this one")
    parser.add_argument("--runs", type=int, default=20_000, help="inputs for each target")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--findings", type=Path, default=Path("fuzz-findings"))
    args = parser.parse_args()
    if args.target:
        guide(args.target, args.runs, args.seed, args.findings)
    options = ["--runs", str(args.runs), "--seed", str(args.seed), "--findings", str(args.findings)]
    failed = []
    for name in fuzz.TARGETS:
        done = subprocess.run([sys.executable, __file__, "--target", name, *options], capture_output=True, text=True)
        shown = [line for line in done.stderr.splitlines() if "number_of_executed_units" in line or "cov:" in line]
        print(f"{name:<12} {'found something' if done.returncode else 'nothing found'}  {' '.join(shown[-2:])}")
        if done.returncode:
            failed.append(name)
            print(done.stdout[-2000:], done.stderr[-2000:], sep="\n")
    return int(bool(failed))


def guide(name: str, runs: int, seed: int, findings: Path) -> None:
    """Run one target in libFuzzer, which ends the process."""
    target = fuzz.TARGETS[name]
    findings.mkdir(parents=True, exist_ok=True)
    place, corpus = (Path(tempfile.mkdtemp(prefix="eyechart-fuzz-", dir=fuzz.FAST)) for _ in range(2))
    fuzz.prepare()
    with atheris.instrument_imports(include=["eyechart"]):  # imports on first read
        for number, data in enumerate(target.seeds()):
            (corpus / str(number)).write_bytes(data)
            fuzz.attempt(name, data, place)
    fuzz.limit_memory(fuzz.MEMORY)

    def test(data: bytes) -> None:
        error = fuzz.attempt(name, data, place)
        if error is not None and not isinstance(error, fuzz.EyechartError):
            raise error

    def mutate(data: bytes, most: int, number: int) -> bytes:
        """Mutate structure half of the time, as fuzz.py does, and bytes otherwise."""
        if number % 2:
            return bytes(atheris.Mutate(data, most))
        draw = random.Random(number)
        try:
            return target.mutate(draw, [data], target.tokens)[:most]
        except Exception:  # noqa: BLE001 - what has no structure left has none to change: begin with a whole one again
            return target.mutate(draw, target.seeds(), target.tokens)[:most]

    flags = [f"-runs={runs}", f"-seed={seed}", f"-max_len={LONGEST}", f"-artifact_prefix={findings}/{name}-"]
    flags += ["-print_final_stats=1", "-rss_limit_mb=4096", "-timeout=60", str(corpus)]
    atheris.Setup([sys.argv[0], *flags], test, custom_mutator=mutate)
    atheris.Fuzz()


if __name__ == "__main__":
    raise SystemExit(main())
