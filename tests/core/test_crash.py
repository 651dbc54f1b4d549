"""Bad days: killed runs, many runs at once, a full disk."""

import importlib.util
import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TINY = ["--model_type", "onnx", "--model", "eyechart-tiny", "--pretrained", "eyechart-tiny", "--quiet"]


def chaos():
    spec = importlib.util.spec_from_file_location("chaos", ROOT / "benchmarks" / "chaos.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(folder, cache, *words, stderr=None):
    command = [sys.executable, "-m", "eyechart", "eval", *TINY, "--num_workers", "1", *words]
    return subprocess.Popen(command, cwd=folder, env={**os.environ, "EYECHART_CACHE": str(cache)}, stderr=stderr)


@pytest.mark.slow
def test_a_run_killed_at_a_random_moment_is_completed_by_running_it_again(tmp_path):
    """Four rounds here, two at random times and two inside writes; `make chaos` does a hundred."""
    assert chaos().disturb(tmp_path, 4, random.Random()) == 0


@pytest.mark.slow
def test_many_runs_on_one_store_and_one_output_end_with_one_right_result(tmp_path):
    words = ["--dataset", "demo/garments", "--limit", "60", "--batch_size", "4", "--output", "r.json"]
    assert run(tmp_path, tmp_path / "alone", *words).wait() == 0
    expected = json.loads((tmp_path / "r.json").read_text())["metrics"]
    (tmp_path / "r.json").unlink()

    runs = [run(tmp_path, tmp_path / "shared", *words) for _ in range(6)]

    assert [process.wait() for process in runs] == [0] * 6
    assert json.loads((tmp_path / "r.json").read_text())["metrics"] == expected
    assert not list(tmp_path.rglob(".tmp-*"))


@pytest.fixture
def small_disk(tmp_path):
    """Mount a file system of one megabyte."""
    folder = tmp_path / "disk"
    folder.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)], capture_output=True)
    if done.returncode:
        pytest.skip("mounting a small file system needs root")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk_is_a_clear_error_and_the_run_goes_on_when_there_is_space(tmp_path, small_disk):
    filler = small_disk / "filler"
    filler.write_bytes(b"x" * 980_000)
    words = ["--dataset", "demo/garments", "--output", "disk/r.json"]

    full = run(tmp_path, small_disk / "cache", *words, stderr=subprocess.PIPE)
    message = full.communicate()[1].decode()

    assert full.returncode == 1
    assert "No space left on device" in message
    assert "Traceback" not in message
    assert not (small_disk / "r.json").exists()

    filler.unlink()
    assert run(tmp_path, small_disk / "cache", *words).wait() == 0
    assert json.loads((small_disk / "r.json").read_text())["counts"]["scored"] == 600
