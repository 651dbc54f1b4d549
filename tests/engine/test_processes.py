"""Several processes on one machine. There is no GPU here: they all compute on the device ``cpu``."""

import json
import multiprocessing
import os
import signal
import threading
import time

import pytest

from eyechart.config import make_config
from eyechart.datasets import tar_shards
from eyechart.engine import workers
from eyechart.engine.workers import (
    Worker,
    chunks_of,
    device_of,
    may_have_several_gpus,
    missing_images,
    process_count,
    run_in_processes,
)
from eyechart.inference import embeddings
from eyechart.io import digests
from eyechart.io import images as image_files
from eyechart.io.progress import NoProgress
from eyechart.plan import plan_jobs
from eyechart.session import Session
from eyechart.types import Sample
from support.data import write_classification, write_retrieval
from support.runs import run_planned


class Recorder(NoProgress):
    """Keeps what is said."""

    def __init__(self):
        self.lines = []

    def say(self, line):
        self.lines.append(line)


@pytest.fixture
def plan(tmp_path, monkeypatch):
    """Plan the same two jobs with an output and a store of one's own."""
    monkeypatch.chdir(tmp_path)  # workers go there, and the folder is gone afterwards
    write_classification(tmp_path / "data" / "d0", n=80)
    write_retrieval(tmp_path / "data" / "d1", captions=[[f"text {i}"] for i in range(80)], first=80)

    def make(name, **changes):
        monkeypatch.setenv("EYECHART_CACHE", str(tmp_path / name / "cache"))
        settings = {"model_type": "onnx", "device": "cpu,cpu", "batch_size": 4, "num_workers": 1, **changes}
        place = {"dataset_root": f"{tmp_path}/data/{{dataset}}", "output": f"{tmp_path}/{name}/{{dataset}}.json"}
        config = make_config({**settings, **place, "dataset": ["wds/d0", "wds/d1"]})
        return plan_jobs(config), config

    return make


def files(folder):
    """Return the metrics of all results, and the records as they are."""
    metrics = {path.name: json.loads(path.read_text())["metrics"] for path in folder.glob("*.json")}
    return metrics | {path.name: path.read_text() for path in folder.glob("*.jsonl")}


@pytest.mark.slow
def test_two_processes_give_what_one_gives_and_leave_nothing_to_encode(plan, tmp_path):
    assert all(report.result for report in run_planned(*plan("one")))

    reports = list(run_in_processes(plan("two")[0], Session(), count=2))

    assert files(tmp_path / "two") == files(tmp_path / "one")
    assert ["throughput" in report.result.provenance for report in reports] == [False, False]


@pytest.mark.slow
def test_a_process_that_is_killed_costs_time_only(plan, tmp_path):
    assert all(report.result for report in run_planned(*plan("one")))
    progress = Recorder()

    def kill_one():
        while len(multiprocessing.active_children()) < 2:
            time.sleep(0.01)
        os.kill(multiprocessing.active_children()[0].pid, signal.SIGKILL)

    killer = threading.Thread(target=kill_one)
    killer.start()
    reports = list(run_in_processes(plan("two")[0], Session(progress), count=2))
    killer.join()

    assert [report.error for report in reports] == [None, None]
    assert files(tmp_path / "two") == files(tmp_path / "one")
    assert "1 of 2 processes died" in progress.lines[0]


def test_jobs_that_are_done_start_no_process(plan, monkeypatch):
    assert all(report.result for report in run_planned(*plan("one")))
    monkeypatch.setattr(workers, "get_context", None)

    assert all(report.skipped for report in run_in_processes(plan("one")[0], Session(), count=2, skip_existing=True))


@pytest.mark.slow
def test_an_error_in_a_process_is_the_jobs_error(plan, tmp_path):
    jobs, _ = plan("one")
    shard = tmp_path / "data" / "d0" / "test" / "0.tar"
    shard.write_bytes(shard.read_bytes()[:3000])

    first, second = run_in_processes(jobs, Session(), count=2)

    assert "truncated" in str(first.error)
    assert second.result is not None


@pytest.mark.parametrize("count", [1, 2, 5])
def test_every_image_of_a_tar_file_is_read_once_whoever_embeds_it(plan, tmp_path, monkeypatch, count):
    """One pass over the bytes, however many tasks the images are cut into: no worker streams up to its own part."""
    monkeypatch.setattr(digests, "SETTLED", -1)
    (job, _), _ = plan("parts", batch_size=2)
    images = missing_images(job, Session())
    read, streamed = [], []
    monkeypatch.setattr(
        image_files, "read_part", lambda *part, real=image_files.read_part: read.append(part) or real(*part)
    )
    monkeypatch.setattr(tar_shards, "placed_groups", streamed.append)
    tasks = list(chunks_of(job, images, count))

    for number in range(count):
        worker = Worker(str(tmp_path), {})
        for task in tasks[number::count]:
            worker.embed(job, task)

    assert len(tasks) == 5
    assert sorted(read) == sorted({sample.image.part for _, sample in images})
    assert len(read) == 80
    assert streamed == []
    assert missing_images(job, Session()) == []


def test_images_that_are_only_in_memory_are_found_by_their_ids_once_a_worker(plan, tmp_path, monkeypatch):
    (job, _), _ = plan("memory", batch_size=2)
    images = [(key, Sample(sample.id, None)) for key, sample in missing_images(job, Session())]
    passes = []
    monkeypatch.setattr(
        embeddings, "_missing_samples", lambda *a, real=embeddings._missing_samples: passes.append(a) or real(*a)
    )

    tasks = list(chunks_of(job, images, 2))
    for task in tasks:
        Worker(str(tmp_path), {}).embed(job, task)

    assert [len(task) for task in tasks] == [40, 40]
    assert len(passes) == 2
    assert missing_images(job, Session()) == []


def test_devices_are_dealt_out_in_their_order():
    assert [device_of("cuda:0, cuda:2", i) for i in range(3)] == ["cuda:0", "cuda:2", "cuda:0"]
    assert device_of("auto", 5) == "auto"


@pytest.fixture
def four_gpus(monkeypatch):
    """Stand for a machine with four GPUs."""
    monkeypatch.delenv("LOCAL_RANK", raising=False)
    monkeypatch.setattr(workers, "may_have_several_gpus", lambda: True)
    monkeypatch.setattr(workers, "choose_devices", lambda wanted: [f"cuda:{i}" for i in range(4)])
    monkeypatch.setattr(workers, "main_is_import_safe", lambda: True)


@pytest.mark.parametrize(("device", "count"), [("auto", 4), ("cpu", 1), ("cuda:1", 1), ("cuda:0,cuda:2", 2)])
def test_several_gpus_take_one_process_each(plan, four_gpus, device, count):
    jobs, _ = plan("several", device=device)

    assert process_count(jobs) == count


def test_a_rank_and_a_script_without_a_guard_start_no_processes(plan, four_gpus, monkeypatch):
    jobs, _ = plan("several", device="auto")
    monkeypatch.setattr(workers, "main_is_import_safe", lambda: False)
    assert process_count(jobs) == 1
    monkeypatch.setattr(workers, "main_is_import_safe", lambda: True)
    monkeypatch.setenv("LOCAL_RANK", "0")
    assert process_count(jobs) == 1


def test_torch_is_asked_only_where_the_kernel_lists_several_gpus(plan, monkeypatch, tmp_path):
    jobs, _ = plan("one", device="auto")
    monkeypatch.setattr(workers, "may_have_several_gpus", lambda: False)
    monkeypatch.setattr(workers, "choose_devices", None)
    monkeypatch.setattr(workers, "main_is_import_safe", lambda: True)
    assert process_count(jobs) == 1

    devices = tmp_path / "dev"
    devices.mkdir()
    for name in ("nvidia0", "nvidiactl", "nvidia-uvm"):
        (devices / name).touch()
    assert not may_have_several_gpus(devices)
    (devices / "nvidia1").touch()
    assert may_have_several_gpus(devices)
