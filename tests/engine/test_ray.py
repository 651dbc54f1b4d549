"""A real Ray cluster of two nodes on this machine: workers and nodes are lost, the results are not."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from eyechart.config import make_config
from eyechart.engine.ray import run_on_ray
from eyechart.plan import plan_jobs
from eyechart.session import Session
from support.data import write_classification, write_retrieval
from support.runs import run_planned

pytestmark = [
    pytest.mark.slow,
    # Raised inside Ray and its dependencies, not by our calls:
    pytest.mark.filterwarnings("ignore:::ray"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]
TINY = {"model_type": "onnx", "model": ["eyechart-tiny"], "pretrained": ["eyechart-tiny"], "num_workers": 1}


COUNT = 40


@pytest.fixture
def cluster():
    """Two nodes, each with room for one worker."""
    from ray.cluster_utils import Cluster

    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    made.extra = made.add_node(num_cpus=1)
    yield made
    made.shutdown()


def make_data(root: Path, count: int, n: int = 40) -> list[str]:
    """Write small datasets, half classification, half retrieval, all with images of their own."""
    for i in range(count):
        if i % 2:
            write_retrieval(root / f"d{i}", captions=[[f"text {i} {j}"] for j in range(n)], first=i * n)
        else:
            write_classification(root / f"d{i}", n=n, first=i * n)
    return [f"wds/d{i}" for i in range(count)]


def make_jobs(root: Path, output: Path, names: list[str]):
    settings = {**TINY, "dataset": names, "dataset_root": f"{root}/{{dataset}}", "output": f"{output}/{{dataset}}.json"}
    config = make_config({**settings, "skip_existing": True, "batch_size": 4})
    return plan_jobs(config), config


def start_driver(folder: Path, address: str, names: list[str]) -> subprocess.Popen:
    words = [sys.executable, "-m", "eyechart", "eval", "--model_type", "onnx", "--model", "eyechart-tiny"]
    words += ["--pretrained", "eyechart-tiny", "--num_workers", "1", "--batch_size", "4", "--skip_existing", "--quiet"]
    words += ["--engine", "ray", "--ray-address", address, "--ray-workers", "2", "--dataset_root", "data/{dataset}"]
    words += ["--output", "got/{dataset}.json", "--dataset", *names]
    return subprocess.Popen(words, cwd=folder, env={**os.environ, "EYECHART_CACHE": str(folder / "shared")})


def wait_for(count: int, folder: Path, driver: subprocess.Popen) -> None:
    """Wait until the driver's run has that many results."""
    while len(list((folder / "got").glob("*.json"))) < count and driver.poll() is None:
        time.sleep(0.02)


def kill_a_worker(folder: Path, driver: subprocess.Popen) -> None:
    """Kill a worker of this very run: workers stand in the driver's folder, and are called by what they do."""
    while not (ours := workers_in(folder)):
        assert driver.poll() is None, "the driver ended before a worker could be killed"
        time.sleep(0.02)
    os.kill(ours[0], signal.SIGKILL)


def workers_in(folder: Path) -> list[int]:
    found = subprocess.run(["pgrep", "-f", "ray::Worker"], capture_output=True, text=True).stdout.split()
    ours = []
    for pid in found:
        with suppress(FileNotFoundError):  # it may have ended since
            ours += [int(pid)] if Path(f"/proc/{pid}/cwd").readlink() == folder else []
    return ours


def metrics(folder: Path):
    return {path.name: json.loads(path.read_text())["metrics"] for path in folder.glob("*.json")}


def records(folder: Path):
    return {path.name: path.read_text() for path in folder.glob("*.jsonl")}


def vectors(store: Path):
    """Return every vector of a store by its role and key, as bytes."""
    from safetensors.numpy import load_file

    parts = [(path.parent.name, load_file(path)) for path in store.rglob("*.safetensors")]
    rows = [(role, zip(part["keys"], part["vectors"], strict=True)) for role, part in parts]
    return {(role, key.tobytes()): vector.tobytes() for role, pairs in rows for key, vector in pairs}


def test_a_cluster_that_loses_a_worker_a_driver_and_a_node_gives_what_one_machine_gives(cluster, tmp_path, monkeypatch):
    names = make_data(tmp_path / "data", COUNT)
    monkeypatch.setenv("EYECHART_CACHE", str(tmp_path / "local"))
    assert not [r.error for r in run_planned(*make_jobs(tmp_path / "data", tmp_path / "expected", names)) if r.error]

    driver = start_driver(tmp_path, cluster.address, names)
    wait_for(1, tmp_path, driver)
    kill_a_worker(tmp_path, driver)
    wait_for(COUNT // 3, tmp_path, driver)
    driver.kill()
    assert driver.wait() == -signal.SIGKILL
    done = len(metrics(tmp_path / "got"))
    driver = start_driver(tmp_path, cluster.address, names)
    wait_for(max(done + 1, 2 * COUNT // 3), tmp_path, driver)
    cluster.remove_node(cluster.extra)

    assert driver.wait(240) == 0
    assert done < COUNT
    assert metrics(tmp_path / "got") == metrics(tmp_path / "expected")
    assert records(tmp_path / "got") == records(tmp_path / "expected")
    assert vectors(tmp_path / "shared") == vectors(tmp_path / "local")


def test_a_failing_job_does_not_stop_the_others(tmp_path, monkeypatch):
    monkeypatch.setenv("EYECHART_CACHE", str(tmp_path / "cache"))
    jobs, _ = make_jobs(tmp_path / "data", tmp_path / "out", make_data(tmp_path / "data", 2, n=6))
    shard = tmp_path / "data" / "d0" / "test" / "0.tar"
    shard.write_bytes(shard.read_bytes()[:3000])

    reports = {report.job.dataset.name: report for report in run_on_ray(jobs, Session(), workers=1)}

    assert "truncated" in str(reports["wds/d0"].error)
    assert reports["wds/d1"].result is not None
