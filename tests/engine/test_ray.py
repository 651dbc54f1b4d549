"""A real Ray cluster of two nodes on this machine: workers and nodes are lost, the results are not."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from eyechart.config import make_config
from eyechart.engine import ray as engine
from eyechart.plan import make_plan
from eyechart.run import run_jobs
from support.data import write_classification, write_retrieval

pytestmark = [
    pytest.mark.slow,
    # Raised inside Ray and its dependencies, not by our calls:
    pytest.mark.filterwarnings("ignore:::ray"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]
TINY = {"model_type": "onnx", "model": ["eyechart-tiny"], "pretrained": ["eyechart-tiny"], "num_workers": 1}


@pytest.fixture(scope="module")
def cluster():
    from ray.cluster_utils import Cluster

    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    made.extra = made.add_node(num_cpus=1)
    made.wait_for_nodes()
    yield made
    import ray

    ray.shutdown()
    made.shutdown()


def make_jobs(root: Path, output: Path, count: int, n: int = 40):
    """Plan ``count`` jobs on small datasets, half classification, half retrieval."""
    names = []
    for i in range(count):
        if i % 2:
            write_retrieval(root / f"d{i}", captions=[[f"text {i} {j}"] for j in range(n)])
        else:
            write_classification(root / f"d{i}", n=n)
        names.append(f"wds/d{i}")
    settings = {**TINY, "dataset": names, "dataset_root": f"{root}/{{dataset}}", "output": f"{output}/{{dataset}}.json"}
    config = make_config({**settings, "skip_existing": True, "batch_size": 4})
    return make_plan(config), config


def metrics(folder: Path):
    return {path.name: json.loads(path.read_text())["metrics"] for path in folder.glob("*.json")}


def records(folder: Path):
    return {path.name: path.read_text() for path in folder.glob("*.jsonl")}


def test_a_cluster_that_loses_a_worker_and_a_node_gives_what_one_machine_gives(cluster, tmp_path, monkeypatch):
    monkeypatch.setenv("EYECHART_CACHE", str(tmp_path / "local"))
    jobs, config = make_jobs(tmp_path / "data", tmp_path / "expected", 8)
    assert not [report.error for report in run_jobs(jobs, config) if report.error]
    monkeypatch.setenv("EYECHART_CACHE", str(tmp_path / "shared"))
    jobs, config = make_jobs(tmp_path / "data", tmp_path / "got", 8)

    reports = []
    for report in engine.run_jobs(jobs, config, address=cluster.address, workers=2):
        reports.append(report)
        if len(reports) == 1:
            kill_a_worker()
        if len(reports) == 3:
            cluster.remove_node(cluster.extra)

    assert [report.error for report in reports] == [None] * 8
    assert metrics(tmp_path / "got") == metrics(tmp_path / "expected")
    assert records(tmp_path / "got") == records(tmp_path / "expected")


def kill_a_worker():
    found = subprocess.run(["pgrep", "-f", "ray::Worker"], capture_output=True, text=True).stdout.split()
    assert found
    os.kill(int(found[0]), signal.SIGKILL)


def test_a_killed_driver_is_started_again_and_goes_on(tmp_path, monkeypatch):
    shared = tmp_path / "shared"
    write_classification(tmp_path / "data" / "d", n=60)
    words = [sys.executable, "-m", "eyechart", "eval", "--model_type", "onnx", "--model", "eyechart-tiny"]
    words += ["--pretrained", "eyechart-tiny", "--dataset", "wds/d", "--dataset_root", str(tmp_path / "data" / "d")]
    words += ["--engine", "ray", "--ray-workers", "1", "--batch_size", "2", "--output", str(tmp_path / "r.json")]
    environment = {**os.environ, "EYECHART_CACHE": str(shared)}
    driver = subprocess.Popen([*words, "--quiet"], env=environment, start_new_session=True)
    deadline = time.monotonic() + 120
    while not list(shared.rglob("image/*.safetensors")) and time.monotonic() < deadline and driver.poll() is None:
        time.sleep(0.05)
    os.killpg(driver.pid, signal.SIGKILL)
    driver.wait()

    subprocess.run([*words, "--quiet"], env=environment, check=True, timeout=200)

    assert json.loads((tmp_path / "r.json").read_text())["counts"]["scored"] == 60


def test_a_failing_job_does_not_stop_the_others(tmp_path, monkeypatch):
    monkeypatch.setenv("EYECHART_CACHE", str(tmp_path / "cache"))
    jobs, config = make_jobs(tmp_path / "data", tmp_path / "out", 2, n=6)
    shard = tmp_path / "data" / "d0" / "test" / "0.tar"
    shard.write_bytes(shard.read_bytes()[:3000])

    reports = {report.job.dataset.name: report for report in engine.run_jobs(jobs, config, workers=1)}

    assert "cut short" in str(reports["wds/d0"].error)
    assert reports["wds/d1"].result is not None
