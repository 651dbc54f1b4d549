"""Bad days: killed runs, many runs at once, a full disk."""

import errno
import importlib.util
import itertools
import json
import os
import random
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from subprocess import PIPE

import numpy as np
import pytest
from safetensors.numpy import load_file

from eyechart.config import make_config
from eyechart.io.progress import NoProgress, ProgressFile
from eyechart.io.stopwatch import JobClock
from eyechart.plan import plan_jobs
from support.data import write_classification
from support.runs import run_planned

ROOT = Path(__file__).parents[2]
TINY = ["--model_type", "onnx", "--model", "eyechart-tiny", "--pretrained", "eyechart-tiny", "--quiet"]


def chaos():
    spec = importlib.util.spec_from_file_location("chaos", ROOT / "benchmarks" / "chaos.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(folder, cache, *words, stderr=None, **environment):
    command = [sys.executable, "-m", "eyechart", "eval", *TINY, "--num_workers", "1", *words]
    settings = {**os.environ, **environment, "EYECHART_CACHE": str(cache)}
    return subprocess.Popen(command, cwd=folder, env=settings, stderr=stderr)


@pytest.mark.slow
def test_a_run_killed_at_a_random_moment_is_completed_by_running_it_again(tmp_path):
    """Three writers in two rounds, ended by random signals; `make chaos` does two hundred."""
    assert chaos().disturb(tmp_path, 2, random.Random()) == 0


@pytest.mark.slow
def test_sixteen_runs_on_one_store_and_one_output_lose_nothing_and_mix_nothing(tmp_path):
    words = ["--dataset", "demo/garments", "demo/scenes", "--limit", "60", "--batch_size", "4"]
    words += ["--output", "out/{dataset}.json"]
    for place in ("alone", "together"):
        (tmp_path / place).mkdir()
    assert run(tmp_path / "alone", tmp_path / "alone" / "cache", *words).wait() == 0

    runs = [run(tmp_path / "together", tmp_path / "together" / "cache", *words) for _ in range(16)]

    assert [process.wait() for process in runs] == [0] * 16
    assert list(chaos().broken_files(tmp_path / "together")) == []
    assert chaos().contents(tmp_path / "together") == chaos().contents(tmp_path / "alone")
    assert vectors(tmp_path / "together") == vectors(tmp_path / "alone")
    assert not list((tmp_path / "together").rglob("*.part"))


def vectors(place):
    """Return every vector below a folder by its role and key; what is stored several times must be the same."""
    found = {}
    for path in place.rglob("*.safetensors"):
        part = load_file(path)
        for key, vector in zip(part["keys"], part["vectors"], strict=True):
            assert np.array_equal(found.setdefault((path.parent.name, key.tobytes()), vector), vector)
    return {key: vector.tobytes() for key, vector in found.items()}


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


def fails_clearly(process):
    """Wait for a run that must fail, and return what it says."""
    message = process.communicate()[1].decode()
    assert process.returncode == 1
    assert "Traceback" not in message
    return message


def leave(folder, free):
    """Fill a disk but for some bytes."""
    state = os.statvfs(folder)
    (folder / "filler").write_bytes(b"x" * (state.f_bavail * state.f_frsize - free))


def test_a_disk_that_is_too_full_for_the_model_card_is_a_clear_error(tmp_path, small_disk):
    leave(small_disk, 0)

    full = run(tmp_path, small_disk / "cache", "--dataset", "demo/garments", "--output", "r.json", stderr=PIPE)

    assert "No space left on device" in fails_clearly(full)
    (small_disk / "filler").unlink()
    assert run(tmp_path, small_disk / "cache", "--dataset", "demo/garments", "--output", "r.json").wait() == 0


def test_a_disk_that_fills_up_keeps_the_vectors_and_the_run_goes_on_when_there_is_space(tmp_path, small_disk):
    words = ["--dataset", "demo/garments", "--limit", "300", "--batch_size", "4", "--output", "r.json"]
    leave(small_disk, 100_000)

    full = run(tmp_path, small_disk / "cache", *words, stderr=PIPE, **chaos().environment(small_disk))

    assert "embedding store" in fails_clearly(full)
    kept = set(small_disk.rglob("image/*.safetensors"))
    assert kept
    assert list(chaos().broken_files(small_disk)) == []
    assert not (tmp_path / "r.json").exists()

    (small_disk / "filler").unlink()
    assert run(tmp_path, small_disk / "cache", *words, **chaos().environment(small_disk)).wait() == 0
    assert json.loads((tmp_path / "r.json").read_text())["counts"]["scored"] == 300
    assert kept < set(small_disk.rglob("image/*.safetensors"))
    assert list(chaos().stored_twice(small_disk)) == []


def test_a_disk_too_full_for_records_keeps_the_store_and_nothing_is_encoded_again(tmp_path, small_disk):
    words = ["--dataset", "demo/garments", "--output", "disk/r.json"]
    leave(small_disk, 16_384)  # the file of the progress fits

    full = run(tmp_path, tmp_path / "cache", *words, stderr=PIPE)

    assert "Cannot write the result disk/r.json (No space left on device)" in fails_clearly(full)
    assert [path.name for path in small_disk.iterdir()] == ["filler"]
    kept = chaos().files(tmp_path / "cache")

    (small_disk / "filler").unlink()
    assert run(tmp_path, tmp_path / "cache", *words).wait() == 0
    assert json.loads((small_disk / "r.json").read_text())["counts"]["scored"] == 600
    assert chaos().files(tmp_path / "cache") == kept


@pytest.mark.parametrize(("read_only", "says"), [("cache", "Cannot write to the cache"), ("out", "Cannot write")])
def test_a_read_only_folder_is_a_clear_error(tmp_path, small_disk, read_only, says):
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    (tmp_path / read_only).symlink_to(small_disk)

    failed = run(tmp_path, tmp_path / "cache", "--dataset", "demo/garments", "--output", "out/r.json", stderr=PIPE)

    message = failed.communicate()[1].decode()
    assert failed.returncode in (1, 2)
    assert says in message
    assert "Traceback" not in message


class Meddling(NoProgress):
    """Does something when a step begins."""

    def __init__(self, name, act):
        self.name, self.act = name, act

    @contextmanager
    def step(self, name, total):
        if name.startswith(self.name):
            self.act()
        with super().step(name, total) as bar:
            yield bar


def small_jobs(tmp_path, monkeypatch):
    monkeypatch.setenv("EYECHART_CACHE", str(tmp_path / "cache"))
    for i in range(2):
        write_classification(tmp_path / "data" / f"d{i}", first=100 * i, shards=2)
    settings = {"model_type": "onnx", "dataset": ["wds/d0", "wds/d1"], "dataset_root": f"{tmp_path}/data/{{dataset}}"}
    config = make_config({**settings, "output": f"{tmp_path}/out/{{dataset}}.json", "batch_size": 2})
    return plan_jobs(config), config


def test_a_dataset_that_vanishes_while_it_is_read_costs_its_own_result_only(tmp_path, monkeypatch):
    jobs, config = small_jobs(tmp_path, monkeypatch)
    gone = tmp_path / "data" / "d0" / "test" / "1.tar"

    first, second = run_planned(jobs, config, Meddling("images of wds/d0", lambda: gone.rename(tmp_path / "1.tar")))

    assert f"The shard {gone} is missing" in str(first.error)
    assert second.result is not None
    kept = len(vectors(tmp_path))
    (tmp_path / "1.tar").rename(gone)
    first, second = run_planned(jobs, config)
    assert first.result is not None
    assert len(vectors(tmp_path)) > kept
    assert list(chaos().stored_twice(tmp_path)) == []


def test_a_file_system_that_fails_while_a_dataset_is_read_is_a_clear_error(tmp_path, monkeypatch):
    """No disk here can be made to fail: the error is what the system would give."""
    jobs, config = small_jobs(tmp_path, monkeypatch)

    def fail(path, *_, **__):
        raise OSError(errno.ESTALE, "Stale file handle", str(path))

    monkeypatch.setattr("eyechart.datasets.tar_shards.placed_groups", fail)

    reports = list(run_planned(jobs, config))

    assert ["Stale file handle" in str(report.error) for report in reports] == [True, True]


@pytest.mark.parametrize("tick", [-3600 * 10**9, 0])
def test_a_clock_that_goes_backward_or_stands_still_changes_nothing(tmp_path, monkeypatch, tick):
    jobs, config = small_jobs(tmp_path, monkeypatch)
    expected = [report.result.metrics for report in run_planned(jobs, config)]
    monkeypatch.setenv("EYECHART_CACHE", str(tmp_path / "other"))
    now = itertools.count(time.time_ns(), tick) if tick else itertools.repeat(time.time_ns())
    monkeypatch.setattr(time, "time_ns", lambda: next(now))
    monkeypatch.setattr(time, "time", lambda: next(now) / 1e9)

    for _ in range(2):
        with ProgressFile(NoProgress(), tmp_path / "out", JobClock(2)) as progress:
            assert [report.result.metrics for report in run_planned(jobs, config, progress)] == expected

    assert vectors(tmp_path / "other") == vectors(tmp_path / "cache")
    assert list(chaos().stored_twice(tmp_path / "other")) == []


def test_what_a_killed_run_left_behind_does_not_block_the_next_one(tmp_path, monkeypatch):
    jobs, config = small_jobs(tmp_path, monkeypatch)
    assert all(report.result for report in run_planned(jobs, config))
    left = [tmp_path / "out" / name for name in (".tmp-1-0-d0.json.part", "eyechart-progress-host-1.progress")]
    for path in left:
        path.write_text("{")

    skipping = config.replaced(skip_existing=True)

    assert all(report.skipped for report in run_planned(jobs, skipping))
    assert all(report.result and not report.skipped for report in run_planned(jobs, config))
