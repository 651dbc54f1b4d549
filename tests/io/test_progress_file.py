"""The progress file of a run does not outlive it."""

import os
import platform
import subprocess
import sys
import time

import pytest

from eyechart.io import progress
from eyechart.io.progress import ABANDONED, PROGRESS_PREFIX, NoProgress, ProgressFile, read_progress
from eyechart.io.stopwatch import JobClock


def progress_file(folder):
    return ProgressFile(NoProgress(), folder, JobClock(1))


def leftover(folder, node, process, age=0.0):
    path = folder / f"{PROGRESS_PREFIX}{node}-{process}.progress"
    path.write_text("{}")
    then = path.stat().st_mtime - age
    os.utime(path, (then, then))
    return path


@pytest.fixture
def dead():
    """Return the id of a process that has ended."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def test_files_of_killed_runs_are_removed_by_the_next_run(tmp_path, dead):
    here = platform.node()
    killed = [
        leftover(tmp_path, here, dead),
        leftover(tmp_path, "elsewhere", 1, ABANDONED + 60),
        leftover(tmp_path, here, "not-a-number", ABANDONED + 60),
        leftover(tmp_path, here, "9" * 30),
    ]
    running = [leftover(tmp_path, here, os.getppid(), ABANDONED + 60), leftover(tmp_path, "elsewhere", 2)]

    with progress_file(tmp_path) as own:
        assert not any(path.exists() for path in killed)
        assert all(path.exists() for path in (*running, own.path))

    assert sorted(tmp_path.iterdir()) == sorted(running)


def test_a_run_whose_file_was_removed_writes_it_again(tmp_path):
    with progress_file(tmp_path) as own:
        own.path.unlink()
        own.job_done()

        assert len(read_progress(tmp_path)) == 1

    assert list(tmp_path.iterdir()) == []


SCRIPT = """
import os, signal, sys
from pathlib import Path
from eyechart.io.progress import NoProgress, ProgressFile
from eyechart.io.stopwatch import JobClock

class Interrupted(ProgressFile):
    def _write(self):
        super()._write()
        os.kill(os.getpid(), signal.SIGINT)

with Interrupted(NoProgress(), Path(sys.argv[1]), JobClock(1)):
    pass
"""


def test_an_interrupt_before_the_block_leaves_no_file(tmp_path):
    done = subprocess.run([sys.executable, "-c", SCRIPT, str(tmp_path)], capture_output=True, text=True)

    assert "KeyboardInterrupt" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_long_silence_is_explained_and_a_short_one_is_not(monkeypatch):
    said = []
    quiet = NoProgress()
    quiet.say = said.append
    monkeypatch.setattr(progress, "MOMENT", 0.05)

    with progress.announced(quiet, "loading a small model"):
        pass
    with progress.announced(quiet, "loading a large model"):
        time.sleep(0.5)

    assert said == ["loading a large model"]
