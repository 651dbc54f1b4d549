"""A thousand jobs cost a thousand looks at their results and nothing else; `make many-jobs` times ten thousand."""

import json
import os
from pathlib import Path

import pytest

from eyechart import plan
from eyechart.cli.run_output import MOST, show_reports
from eyechart.config import make_config
from eyechart.datasets import registry
from eyechart.io import digests
from eyechart.io import progress as progress_file
from eyechart.io.progress import NoProgress, ProgressFile
from eyechart.io.stopwatch import JobClock
from eyechart.models.registry import ENCODERS
from eyechart.results import Result, write_result
from eyechart.session import Session
from eyechart.tasks.registry import TASKS, load_task
from eyechart.types import MeanOf, Metric
from support.data import write_classification
from support.runs import run_planned

MODELS, DATASETS = 50, 20


@pytest.fixture(autouse=True)
def settled(monkeypatch):
    """Believe files that were written a moment ago: what is learnt of them is written down at once, and not later."""
    monkeypatch.setattr(digests, "SETTLED", -1)


@pytest.fixture
def config(tmp_path):
    for i in range(DATASETS):
        write_classification(tmp_path / f"d{i}", n=3)
    return make_config(
        {
            "pretrained_model": [f"m{i},http://127.0.0.1:9/v1" for i in range(MODELS)],
            "model_type": "api",
            "dataset": [f"wds/d{i}" for i in range(DATASETS)],
            "dataset_root": f"{tmp_path}/{{dataset}}",
            "output": f"{tmp_path}/out/{{dataset}}_{{model}}.json",
            "skip_existing": True,
        }
    )


@pytest.fixture
def jobs(config):
    return plan.plan_jobs(config)


@pytest.fixture
def done(jobs):
    """Put the result of each job where it belongs, as if other runs had written them."""
    session, task = Session(), load_task("zeroshot_classification")
    jobs[0].output.parent.mkdir(exist_ok=True)
    for job in jobs:
        made = {"identity": session.identity(job, task), "split": job.dataset.split}
        result = Result(
            dataset=job.dataset.name,
            model=job.model.name,
            pretrained=job.model.pretrained,
            task=job.task,
            language=job.dataset.language,
            values={"acc1": Metric(1.0, primary=True, mean_of=MeanOf("rank", 1))},
            job=made,
        )
        write_result(result, [{"id": "0", "rank": 1}], job.output)
    return jobs


def count_calls(monkeypatch, owner, name):
    """Count the calls of a function, which still does what it does."""
    calls, function = [], getattr(owner, name)
    monkeypatch.setattr(owner, name, lambda *args, **kwargs: (calls.append(args), function(*args, **kwargs))[1])
    return calls


def test_a_dataset_is_opened_and_checked_once_however_many_models_there_are(config, monkeypatch):
    opened = count_calls(monkeypatch, registry, "open_dataset")
    checked = count_calls(monkeypatch, TASKS.load("zeroshot_classification"), "check")

    assert len(plan.plan_jobs(config)) == MODELS * DATASETS
    assert len(opened) == len(checked) == DATASETS


def test_a_model_that_has_all_its_results_is_not_looked_at(done, config, monkeypatch):
    done[0].output.unlink()
    checked = count_calls(monkeypatch, ENCODERS.load("api"), "check")

    plan.plan_jobs(config)

    assert [spec for _, spec in checked] == [done[0].model]


def test_a_job_that_is_done_costs_one_reading_of_its_result(done, config, monkeypatch):
    read, flushed = (count_calls(monkeypatch, *what) for what in ((Path, "read_bytes"), (os, "fsync")))

    reports = list(run_planned(done, config))

    assert all(report.skipped for report in reports)
    results = {job.output for job in done}
    assert sum(path in results for (path, *_) in read) == len(results) == MODELS * DATASETS
    assert flushed == []


def test_jobs_that_are_skipped_do_not_write_their_progress_one_by_one(tmp_path, monkeypatch):
    monkeypatch.setattr(progress_file, "EVERY", 1e9)
    written, flushed = count_calls(monkeypatch, progress_file, "write_atomic"), count_calls(monkeypatch, os, "fsync")

    with ProgressFile(NoProgress(), tmp_path, JobClock(1000)) as progress:
        for _ in range(1000):
            progress.job_done(skipped=True)
        progress.job_done()

        assert json.loads(progress.path.read_text())["jobs"]["done"] == 1001
    assert len(written) == 2
    assert flushed == []


def test_the_table_shows_a_screenful_and_says_how_much_more_there_is(done, config, capsys):
    show_reports(list(run_planned(done, config)), quiet=False)

    assert f"and {MODELS * DATASETS - MOST} more results" in capsys.readouterr().out
