"""Break the code in small ways, one at a time, and see that a test fails for each.

    make mutants                    all of them
    make mutants ONLY=scorers       those with this word in their name

There are two lists: `mutants_list.py` is curated, `mutants_drawn.jsonl` was drawn at random by `mutants_draw.py` and
records the verdict on each mutant: the test that kills it, why it is equivalent, or why it stays. The mutations are
made in a copy of the project. The recorded test is run first; if it does not fail, so are the tests of the package.
Mutants that are equivalent or stay are not run.

A mutant is killed if a test fails that passes without it. A mutant that cannot be imported is not counted: every test
would fail. The tests run in forks of a process that has imported the large libraries, but nothing of Eyechart.

To judge a new sample: draw it to a file, run it with --drawn FILE --write, which records the tests that kill, and write
"verdict" ("equivalent" or "stays") and "why" for what survives.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path

from mutants_list import MUTANTS

ROOT = Path(__file__).parent.parent
DRAWN = Path(__file__).with_name("mutants_drawn.jsonl")
LIBRARIES = (
    "numpy", "PIL.Image", "torch", "torchvision.transforms", "transformers", "open_clip", "scipy.stats",
    "sklearn.linear_model", "onnxruntime", "pandas", "httpx2", "rich.console", "pydantic", "yaml", "orjson",
    "hypothesis", "pytest", "openpyxl", "safetensors", "tokenizers",
)  # fmt: skip
TESTS = {
    "cli/run_output.py": "tests/report/test_run_output.py",
    "cli/serve.py": "tests/report/test_serve.py",
    "cli/compare.py": "tests/report/test_compare.py",
    "cli/build.py": "tests/report/test_build.py",
    "datasets/in_memory": "tests/python_api",
    "datasets/mteb.py": "tests/tasks/test_mteb.py",
    "datasets/remote": "tests/end_to_end/test_hostile_network.py",
    "io/config_files.py": "tests/compat tests/cli/test_config_file.py",
    "io/secrets.py": "tests/compat/test_evalscope_task_config.py tests/end_to_end/test_api_keys.py",
    "api/budget.py": "tests/end_to_end/test_prices.py",
    "results/views.py": "tests/python_api/test_shown.py",
    "metrics/": "tests/scorers",
    "inference/answers.py": "tests/tasks/test_question_answering.py",
}
"""Tests of modules outside the folder of their package, by the start of the path."""
STATIC = "tests/test_messages.py"
"""Checks of the source text of all modules."""
OPTIONS = ("-q", "-p", "no:cacheprovider", "--no-header", "-W", "ignore::pytest.PytestAssertRewriteWarning")
TEST_SECONDS, ALL_SECONDS = 200, 1200
"""A mutant may make a test endless."""
MEMORY = 10 << 30
KILLED, ALIVE, BROKEN, GONE = "killed", "ALIVE", "cannot be imported", "its text is gone"
EQUIVALENT, STAYS = "equivalent", "stays"
ENDLESS = " (does not end)"
ENOUGH = 0.9
"""The share of the drawn mutants that must be killed, equivalent ones left out."""


@dataclass(frozen=True)
class Trial:
    """A mutant, the tests to run, and what was recorded or found."""

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]
    curated: bool
    fallback: bool = False
    verdict: str = ""
    why: str = ""
    test: str = ""
    seconds: float = 0.0

    @property
    def module(self) -> str:
        """The module's dotted name."""
        return ".".join(("eyechart", *Path(self.file).with_suffix("").parts)).removesuffix(".__init__")

    @property
    def package(self) -> str:
        """The first part of the path; "root" for modules of the root."""
        return self.file.split("/")[0] if "/" in self.file else "root"


@dataclass(frozen=True)
class TestRun:
    """Outcome of a run of tests: the names of those that failed, or that they could not be collected."""

    failed: tuple[str, ...] = ()
    uncollected: str = ""
    endless: bool = False


class Watch:
    """Plugin of pytest that notes failures and makes property tests repeatable and short."""

    def __init__(self) -> None:
        self.failed: list[str] = []
        self.uncollected = ""
        self.slow = False

    def pytest_sessionstart(self) -> None:
        from hypothesis import Phase, settings

        phases = (Phase.explicit, Phase.generate)
        settings.register_profile("mutants", deadline=None, derandomize=True, database=None, phases=phases)
        settings.load_profile("mutants")

    def pytest_collectreport(self, report) -> None:
        if report.failed:
            self.uncollected = str(report.longrepr)[-300:]

    def pytest_runtest_logreport(self, report) -> None:
        if report.failed:
            self.failed.append(report.nodeid)
            self.slow |= "Timeout (>" in str(report.longrepr)


def main() -> int:
    """Try all mutants; return 1 if too many survive, or one survives without an explanation."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="only mutants with this text in their name")
    parser.add_argument("--drawn", type=Path, default=DRAWN, help="file of drawn mutants")
    parser.add_argument("--tests", type=Path, help="JSON file: names of mutants and the tests to run for each")
    parser.add_argument("--drawn_only", action="store_true", help="leave out the curated list")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--write", action="store_true", help="write the tests that killed drawn mutants to the file")
    args = parser.parse_args()
    known = json.loads(args.tests.read_text()) if args.tests else {}
    every = (*(() if args.drawn_only else curated()), *drawn(args.drawn, known))
    trials = [trial for trial in every if args.only in trial.name]
    for library in LIBRARIES:
        with suppress(ImportError):
            import_module(library)
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        pool = ProcessPoolExecutor(args.workers, get_context("fork"), Copy.make, (folder,))
        found = list(pool.map(try_one, trials))
        found = [*without_false_alarms(found, pool)]
        pool.shutdown()
    if args.write:
        write_tests(args.drawn, found)
    return report(found)


def curated() -> Iterator[Trial]:
    """Read the curated list."""
    for one in MUTANTS:
        yield Trial(one.name, one.file, one.old, one.new, tuple(one.tests.split()), curated=True)


def drawn(path: Path, known: dict[str, list[str]]) -> Iterator[Trial]:
    """Read the drawn list; `known` has more tests to run for mutants without a recorded one."""
    for text in path.read_text().splitlines() if path.exists() else ():
        line = json.loads(text)
        name = name_of(line)
        recorded = (line["test"].removesuffix(ENDLESS),) if "test" in line else ()
        tests = recorded or tuple(known.get(name) or tests_of(line["file"]))
        yield Trial(
            name, line["file"], line["old"], line["new"], tests, False, bool(recorded), line.get("verdict", ""),
            line.get("why", ""),
        )  # fmt: skip


def tests_of(file: str) -> list[str]:
    """List the tests that should notice a fault in a module: those of its package, and others that TESTS names."""
    package = f"tests/{file.partition('/')[0]}"
    others = [test for start, tests in TESTS.items() if file.startswith(start) for test in tests.split()]
    return [test for test in (package, *others, STATIC) if (ROOT / test).exists()]


def name_of(line: dict) -> str:
    """Name a drawn mutant."""
    return f"{line['file']}:{line['function']}:{line['line']} {line['operator']} ({line['seed']})"


class Copy:
    """The copy of the project in which a worker makes its mutations."""

    root: Path

    @classmethod
    def make(cls, folder: str) -> None:
        """Copy the project, with an own folder for temporary files."""
        cls.root = Path(tempfile.mkdtemp(dir=folder)) / "copy"
        ignored = shutil.ignore_patterns(".git", ".venv*", "__pycache__", ".*_cache", ".hypothesis", "outputs")
        shutil.copytree(ROOT, cls.root, ignore=ignored)

    @classmethod
    @contextmanager
    def mutated(cls, trial: Trial) -> Iterator[bool]:
        """Mutate a file, and restore it; False if the text to replace does not occur exactly once."""
        path = cls.root / "src" / "eyechart" / trial.file
        before = path.read_text() if path.exists() else ""
        if before.count(trial.old) != 1:
            yield False
            return
        times = path.stat()
        path.write_text(before.replace(trial.old, trial.new))
        try:
            yield True
        finally:
            path.write_text(before)
            os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
            for compiled in path.parent.glob(f"__pycache__/{path.stem}.*"):
                compiled.unlink()


def try_one(trial: Trial) -> Trial:
    """Mutate, run the tests until one fails, and restore."""
    started = time.monotonic()
    with Copy.mutated(trial) as there:
        if not there:
            verdict, test = GONE, ""
        elif trial.verdict in {EQUIVALENT, STAYS}:
            verdict, test = trial.verdict, ""
        else:
            verdict, test = first_failure(trial)
    found = replace(trial, verdict=verdict, test=test, seconds=time.monotonic() - started)
    print(f"{found.verdict:10} {found.seconds:5.1f} s  {found.name}  {found.test}", flush=True)
    return found


def first_failure(trial: Trial) -> tuple[str, str]:
    """Run the tests of a mutant and, if none fails, those of its package."""
    for tests in (trial.tests, tests_of(trial.file) if trial.fallback else ()):
        ran = run_tests(tests, module=trial.module) if tests else TestRun()
        if ran.uncollected:
            return BROKEN, ""
        if ran.failed or ran.endless:
            return KILLED, (ran.failed or tests)[0] + ENDLESS * ran.endless
    return ALIVE, ""


def environment() -> dict[str, str]:
    """Variables for processes that use the copy."""
    return {**os.environ, "PYTHONPATH": str(Copy.root / "src"), "OMP_NUM_THREADS": "1"}


def run_tests(tests: Iterable[str], *options: str, module: str = "eyechart") -> TestRun:
    """Import a module of the copy and run tests in a fork; without options, until one fails."""
    scratch = Path(tempfile.mkdtemp(dir=Copy.root.parent))
    child = os.fork()
    if child == 0:
        try:
            _run_here(scratch, tests, options, module)
        finally:
            os._exit(0)  # a fork must not return into the code of its parent
    try:
        return _wait(child, scratch)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _run_here(scratch: Path, tests: Iterable[str], options: Sequence[str], module: str) -> None:
    """Run tests in this process and write what failed."""
    import pytest

    os.setsid()
    os.chdir(Copy.root)
    os.environ.update(environment())
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    with (scratch / "output").open("wb") as output:
        for stream in (1, 2):
            os.dup2(output.fileno(), stream)
    sys.path[:0] = [str(Copy.root / "src"), str(Copy.root / "tests")]
    (scratch / "names").write_text("\n".join(tests))
    watch = Watch()
    stop = options or ("-x", f"--timeout={TEST_SECONDS}")
    try:
        import_module(module)
    except Exception:  # noqa: BLE001 - a mutant may raise anything
        watch.uncollected = traceback.format_exc()
    else:
        pytest.main([*OPTIONS, f"--basetemp={scratch / 't'}", *stop, f"@{scratch / 'names'}"], plugins=[watch])
    (scratch / "found").write_text(json.dumps([watch.failed, watch.uncollected, watch.slow]))


def _wait(child: int, scratch: Path) -> TestRun:
    end = time.monotonic() + ALL_SECONDS
    while os.waitpid(child, os.WNOHANG)[0] == 0:
        if time.monotonic() > end:
            os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return TestRun(endless=True)
        time.sleep(0.05)
    with suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    if not (scratch / "found").exists():  # killed, for want of memory
        return TestRun(endless=True)
    failed, uncollected, slow = json.loads((scratch / "found").read_text())
    return TestRun(tuple(failed), uncollected, slow)


def without_false_alarms(found: list[Trial], pool: ProcessPoolExecutor) -> Iterator[Trial]:
    """Run the tests that killed without any mutant; those that fail then killed nothing."""
    names = sorted({trial.test.removesuffix(ENDLESS) for trial in found if trial.verdict == KILLED})
    parts = [names[start : start + 40] for start in range(0, len(names), 40)]
    failing = {name for part in pool.map(_fail_unmutated, parts) for name in part}
    for trial in found:
        if trial.test.removesuffix(ENDLESS) in failing:
            yield replace(trial, verdict=ALIVE, test=f"{trial.test} fails without the mutant as well")
        else:
            yield trial


def _fail_unmutated(names: list[str]) -> tuple[str, ...]:
    ran = run_tests(names, "--timeout=300")
    if ran.uncollected or ran.endless:
        raise RuntimeError(f"The tests cannot be run without a mutant: {ran.uncollected or 'they do not end'}")
    return ran.failed


def write_tests(path: Path, found: list[Trial]) -> None:
    """Record the tests that killed."""
    by_name = {trial.name: trial for trial in found if not trial.curated}
    lines = []
    for line in map(json.loads, path.read_text().splitlines()):
        trial = by_name.get(name_of(line))
        if trial is not None and trial.verdict == KILLED:
            line |= {"verdict": KILLED, "test": trial.test}
            line.pop("why", None)
        elif trial is not None and trial.verdict in {BROKEN, ALIVE}:
            line |= {"verdict": trial.verdict}
            line.pop("test", None)
        lines.append(json.dumps(line, ensure_ascii=False))
    path.write_text("\n".join(lines) + "\n")


def report(found: list[Trial]) -> int:
    """Print the figures by package and the survivors without an explanation."""
    table: dict[tuple[bool, str], Counter[str]] = defaultdict(Counter)
    for trial in found:
        table[trial.curated, trial.package][trial.verdict] += 1
        table[trial.curated, "all"][trial.verdict] += 1
    columns = (KILLED, EQUIVALENT, STAYS, ALIVE, BROKEN, GONE)
    enough = True
    for is_curated, title in ((True, "Curated mutants"), (False, "Drawn mutants")):
        rows = {package: counts for (kind, package), counts in table.items() if kind == is_curated}
        if not rows:
            continue
        print(f"\n{title:12}{''.join(f'{column:>20}' for column in columns)}{'killed of the rest':>20}")
        for package, counts in sorted(rows.items(), key=lambda row: (row[0] == "all", row[0])):
            judged = counts[KILLED] + counts[STAYS] + counts[ALIVE]
            share = f"{counts[KILLED] / judged:.1%}" if judged else ""
            print(f"{package:15}{''.join(f'{counts[column]:20}' for column in columns)}{share:>20}")
        judged = rows["all"][KILLED] + rows["all"][STAYS] + rows["all"][ALIVE]
        enough &= rows["all"][KILLED] >= ENOUGH * judged
    unexplained = [trial for trial in found if trial.verdict == ALIVE or (trial.curated and trial.verdict != KILLED)]
    for trial in found:
        if trial in unexplained or trial.verdict == GONE:
            print(f"  {trial.verdict}: {trial.name} {trial.test}")
    return int(bool(unexplained) or not enough)


if __name__ == "__main__":
    sys.exit(main())
