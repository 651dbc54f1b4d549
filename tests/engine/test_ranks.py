import json
import os
import subprocess
import sys

import pytest

from eyechart.config import make_config
from eyechart.engine import workers
from eyechart.engine.workers import (
    PATIENCE,
    embed_together,
    embeddings,
    missing_images,
    on_own_device,
    part_of,
    rank_and_size,
    share_of,
)
from eyechart.errors import UsageError
from eyechart.io import digests, images
from eyechart.plan import plan_jobs
from eyechart.run import run_jobs
from eyechart.session import Session
from support.data import write_classification


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"RANK": "1", "WORLD_SIZE": "4"}, (1, 4)),
        ({"SLURM_PROCID": "1", "SLURM_NTASKS": "4", "SLURM_STEP_NUM_TASKS": "2"}, (1, 2)),
        ({"PMI_RANK": "1", "PMI_SIZE": "2"}, (1, 2)),
        ({}, (0, 1)),
        ({"SLURM_PROCID": "0", "SLURM_NTASKS": "4"}, (0, 1)),  # a batch script without srun: it runs all jobs
        ({"RANK": "3", "WORLD_SIZE": "4", "SLURM_PROCID": "0", "SLURM_NTASKS": "1"}, (3, 4)),
    ],
)
def test_launchers_are_understood_and_without_one_there_is_one_process(environment, expected):
    assert rank_and_size(environment) == expected


@pytest.mark.parametrize("environment", [{"RANK": "4", "WORLD_SIZE": "4"}, {"RANK": "x", "WORLD_SIZE": "4"}])
def test_impossible_ranks_are_wrong_usage(environment):
    with pytest.raises(UsageError):
        rank_and_size(environment)


def test_every_job_belongs_to_exactly_one_rank():
    jobs = list(range(10))

    shares = [share_of(jobs, rank, 3) for rank in range(3)]

    assert sorted(job for share in shares for job in share) == jobs


def test_devices_that_are_listed_are_dealt_out_to_the_processes_of_a_machine(plan):
    (job,) = plan("one", device="cuda:0,cuda:2")

    assert [on_own_device([job], local)[0].model.device for local in range(3)] == ["cuda:0", "cuda:2", "cuda:0"]


@pytest.fixture
def plan(tmp_path, monkeypatch):
    """Plan a job on 40 images in two tar files, with an output and a store of its own."""
    write_classification(tmp_path / "data", n=40)

    def make(name, **changes):
        monkeypatch.setenv("EYECHART_CACHE", str(tmp_path / name / "cache"))
        settings = {"model_type": "onnx", "device": "cpu", "batch_size": 4, "num_workers": 1, **changes}
        place = {"dataset_root": str(tmp_path / "data"), "output": f"{tmp_path}/{name}/r.json"}
        return plan_jobs(make_config({**settings, **place, "dataset": ["wds/x"]}))

    return make


def test_processes_share_the_images_of_a_job_and_each_is_in_one_part_whatever_is_stored(plan):
    jobs = plan("parts")
    before = [part_of(jobs[0], Session(), rank, 3) for rank in range(3)]
    ids = [[sample.id for _, sample in part] for part in before]

    assert [len(part) for part in ids] == [16, 12, 12]  # whole batches of four
    assert len({id_ for part in ids for id_ in part}) == 40
    assert [id_ for part in ids for id_ in part] == [entry.id for entry in Session().manifest(jobs[0]).entries]
    # Another one has stored some in the meantime: nobody's part becomes another one's.
    embeddings(jobs[0], Session()).embed_samples(before[0][:9] + before[1][:2], None)
    after = [[sample.id for _, sample in part_of(jobs[0], Session(), rank, 3)] for rank in range(3)]
    assert after == [ids[0][9:], ids[1][2:], ids[2]]


def test_each_process_reads_its_own_part_only_and_the_one_that_scores_waits(plan, monkeypatch):
    monkeypatch.setattr(digests, "SETTLED", -1)
    jobs = plan("together")
    missing_images(jobs[0], Session())  # the tar files' contents are known
    read, waits = [], []
    monkeypatch.setattr(images, "read_part", lambda *part, real=images.read_part: read.append(part) or real(*part))

    def pause(seconds):
        waits.append(len(read))
        if len(waits) <= 2:  # the others are slower
            embed_together(jobs, Session(), len(waits), 3, pause=pytest.fail)

    embed_together(jobs, Session(), 0, 3, pause=pause)

    assert waits == [16, 28]
    assert len(read) == len(set(read)) == 40
    session = Session()
    assert missing_images(jobs[0], session) == []
    (report,) = run_jobs(share_of(jobs, 0, 3), session)
    assert "throughput" not in report.result.provenance  # nothing was left to encode


def test_who_waits_for_the_dead_goes_on_alone(plan):
    jobs, waits = plan("dead"), []

    embed_together(jobs, Session(), 0, 2, pause=waits.append)

    assert len(waits) == PATIENCE
    (report,) = run_jobs(jobs, Session())
    assert report.result.counts["scored"] == 40


def test_who_cannot_do_his_own_part_waits_for_nobody(plan, tmp_path):
    jobs = plan("broken")
    shard = next((tmp_path / "data").rglob("*.tar"))
    shard.write_bytes(shard.read_bytes()[:3000])

    embed_together(jobs, Session(), 0, 2, pause=pytest.fail)

    (report,) = run_jobs(jobs, Session())
    assert "truncated" in str(report.error)


def test_with_a_job_for_everyone_nobody_embeds_for_others(plan, monkeypatch):
    jobs = plan("many", language=["en", "en"]) * 2
    monkeypatch.setattr(workers, "part_of", pytest.fail)

    embed_together(jobs, Session(), 0, 2, pause=pytest.fail)


def test_what_is_done_is_not_embedded(plan, monkeypatch):
    jobs = plan("done")
    assert [report.error for report in run_jobs(jobs, Session())] == [None]
    monkeypatch.setattr(workers, "part_of", pytest.fail)

    embed_together(jobs, Session(), 0, 2, skip_existing=True, pause=pytest.fail)


@pytest.mark.slow
def test_two_real_processes_give_what_one_gives(plan, tmp_path):
    plan("one")
    line = ["eval", "--model", "eyechart-tiny", "--device", "cpu", "--batch-size", "4", "--dataset", "wds/x",
            "--dataset-root", str(tmp_path / "data"), "--distributed", "--quiet", "--output"]  # fmt: skip

    def start(name, **variables):
        environment = {**os.environ, "EYECHART_CACHE": str(tmp_path / name / "cache"), **variables}
        place = str(tmp_path / name / "r.json")
        return subprocess.Popen([sys.executable, "-m", "eyechart", *line, place], env=environment, cwd=tmp_path)

    assert start("one").wait() == 0
    both = [start("two", RANK=str(rank), WORLD_SIZE="2", LOCAL_RANK=str(rank)) for rank in range(2)]
    assert [process.wait() for process in both] == [0, 0]

    one, two = (json.loads((tmp_path / name / "r.json").read_text()) for name in ("one", "two"))
    assert two["metrics"] == one["metrics"]
    assert "throughput" in one["provenance"]
    assert "throughput" not in two["provenance"]
