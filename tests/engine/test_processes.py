"""Several processes on one machine. There is no GPU here: they all compute on the device ``cpu``."""

import json
import multiprocessing
import os
import signal
import threading
import time

import pytest

from eyechart.config import make_config
from eyechart.datasets.wds import tarshard
from eyechart.engine import processes
from eyechart.engine.processes import device_of, run_in_processes
from eyechart.engine.worker import Worker, chunks_of, missing_images
from eyechart.inference import embeddings
from eyechart.io import digests, media
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
    monkeypatch.chdir(tmp_path)  # a worker goes to its folder; the test comes back from there
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
    monkeypatch.setattr(processes, "get_context", None)

    assert all(report.skipped for report in run_in_processes(plan("one")[0], Session(), count=2, skip_existing=True))


@pytest.mark.slow
def test_an_error_in_a_process_is_the_jobs_error(plan, tmp_path):
    jobs, _ = plan("one")
    shard = tmp_path / "data" / "d0" / "test" / "0.tar"
    shard.write_bytes(shard.read_bytes()[:3000])

    first, second = run_in_processes(jobs, Session(), count=2)

    assert "cut short" in str(first.error)
    assert second.result is not None


@pytest.mark.parametrize("count", [1, 2, 5])
def test_every_image_of_a_tar_file_is_read_once_whoever_embeds_it(plan, tmp_path, monkeypatch, count):
    """One pass over the bytes, however many tasks the images are cut into: nobody streams to where his part begins."""
    monkeypatch.setattr(digests, "SETTLED", -1)
    (job, _), _ = plan("parts", batch_size=2)
    images = missing_images(job, Session())
    read, streamed = [], []
    monkeypatch.setattr(media, "read_part", lambda *part, real=media.read_part: read.append(part) or real(*part))
    monkeypatch.setattr(tarshard, "placed_groups", streamed.append)
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
