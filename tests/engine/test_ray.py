"""A real Ray cluster of two nodes on this machine: workers and nodes are lost, the results are not."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from eyechart.cli import main
from eyechart.config import make_config
from eyechart.engine.ray import RESTARTS, Call, WorkerPool, cpus_per_gpu, run_on_ray
from eyechart.errors import UsageError
from eyechart.plan import plan_jobs
from eyechart.session import Session
from support.data import write_classification, write_retrieval
from support.openai_server import OpenAIServer
from support.runs import run_planned
from support.vlm_data import write_benchmark

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


def plan_questions(folder: Path, server: OpenAIServer, count: int = 12):
    """Plan one job: a model behind an API is asked this many questions, one after the other."""
    rows = [{"index": i, "question": f"What is in image {i}?", "answer": "a cat"} for i in range(count)]
    settings = {"model_type": "api", "model": ["test-model"], "output": f"{folder}/out.json"}
    questions = {"api_base": server.api_base, "concurrency": 1}
    dataset = [str(write_benchmark(folder / "Cats.tsv", rows))]
    return plan_jobs(make_config({**settings, "dataset": dataset, "questions": questions}))


def test_with_more_workers_than_jobs_every_question_is_asked_once(cluster, tmp_path, monkeypatch):
    monkeypatch.setenv("EYECHART_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("OPENAI_API_KEY", "EMPTY")
    monkeypatch.chdir(tmp_path)  # workers of this run are recognised by their folder

    def answer(_):
        deadline = time.monotonic() + 60
        while len(workers_in(tmp_path)) < 2 and time.monotonic() < deadline:  # another worker is idle from here on
            time.sleep(0.05)
        return "a cat"

    with OpenAIServer(delay=0.2, answer=answer) as server:
        jobs = plan_questions(tmp_path, server)
        # Two workers have room, so that one is idle during the job; two more wait for room.
        (report,) = run_on_ray(jobs, Session(), address=cluster.address, workers=4)

    assert report.error is None
    asked = [request for request in server.requests if request.path.endswith("completions")]
    assert len(asked) == 12
    assert {request.attempt for request in asked} == {1}


def test_the_job_of_a_killed_worker_is_finished_by_another_one_with_the_answers_so_far(cluster, tmp_path, monkeypatch):
    monkeypatch.setenv("EYECHART_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("OPENAI_API_KEY", "EMPTY")
    monkeypatch.chdir(tmp_path)  # workers of this run are recognised by their folder

    def answer(_):
        if len(server.requests) == 6 and not killed:
            killed.extend(workers_in(tmp_path))
            for pid in killed:
                os.kill(pid, signal.SIGKILL)
        return "a cat"

    killed: list[int] = []
    with OpenAIServer(delay=0.05, answer=answer) as server:
        (report,) = run_on_ray(plan_questions(tmp_path, server), Session(), address=cluster.address, workers=1)

    assert killed
    assert report.error is None
    assert len((tmp_path / "out.records.jsonl").read_text().splitlines()) == 12
    asked = [request for request in server.requests if request.path.endswith("completions")]
    assert 12 <= len(asked) <= 14  # one question was under way, another may not have been stored


def test_an_idle_worker_does_not_repeat_a_running_call(cluster, tmp_path):
    class Slow:
        def ready(self):
            return None

        def run(self, path):
            with Path(path).open("a") as stream:
                stream.write("called\n")
            time.sleep(2)

    import ray

    ray.init(address=cluster.address, log_to_driver=False)
    pool = WorkerPool(ray, ray.remote(max_restarts=0, max_task_retries=0)(Slow).remote, 2, started=True)
    try:
        for _ in range(2):
            pool.add_worker()
        ray.wait(list(pool.running), num_returns=2)
        list(pool.do([Call("run", (str(tmp_path / "calls"),))]))
    finally:
        pool.shutdown()

    assert (tmp_path / "calls").read_text() == "called\n"


def test_a_job_that_kills_every_worker_is_an_error_and_ends(cluster):
    class Deadly:
        def ready(self):
            return None

        def run(self):
            os._exit(1)

    import ray

    ray.init(address=cluster.address, log_to_driver=False)
    pool = WorkerPool(ray, ray.remote(max_restarts=0, max_task_retries=0)(Deadly).remote, 1, started=True)
    try:
        pool.add_worker()
        ((_, error),) = pool.do([Call("run", ())])
    finally:
        pool.shutdown()

    assert f"died {RESTARTS + 1} times" in str(error)


@pytest.mark.parametrize(
    ("nodes", "threads", "cpus"),
    [
        ([{"CPU": 64, "GPU": 8}], 4, 4),
        ([{"CPU": 64, "GPU": 8}, {"CPU": 6, "GPU": 2}, {"CPU": 2}], 4, 3),
        ([{"CPU": 5, "GPU": 2}], 4, 2),
        ([{"CPU": 1, "GPU": 2}], 4, 0.5),
        ([{"GPU": 2}], 4, 0),
    ],
)
def test_a_gpu_worker_reserves_the_cpus_of_its_threads_as_far_as_every_gpu_can_have_them(nodes, threads, cpus):
    assert cpus_per_gpu(nodes, threads) == cpus


def test_gpu_workers_reserve_cpus_and_cpu_workers_no_gpu(tmp_path):
    """The cluster counts GPUs that do not exist: only their reservation is shown."""
    from ray.cluster_utils import Cluster

    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 4, "num_gpus": 2})
    jobs, _ = make_jobs(tmp_path / "data", tmp_path / "out", make_data(tmp_path / "data", 1, n=6))
    try:
        assert reserved(made.address, jobs) == {"CPU": 2, "GPU": 2}
        on_cpu = [replace(job, model=replace(job.model, device="cpu")) for job in jobs]
        assert reserved(made.address, on_cpu) == {"CPU": 4, "GPU": 0}
    finally:
        made.shutdown()


def reserved(address: str, jobs) -> dict[str, float]:
    """Start the workers of some jobs, and return what they reserve."""
    pool = WorkerPool.start(jobs, address, None)
    try:
        pool.ray.get(list(pool.running))
        have, left = pool.ray.cluster_resources(), pool.ray.available_resources()
        return {name: have[name] - left.get(name, 0) for name in ("CPU", "GPU")}
    finally:
        pool.shutdown()


def test_a_cluster_without_gpus_refuses_cuda(cluster, tmp_path):
    jobs, _ = make_jobs(tmp_path / "data", tmp_path / "out", make_data(tmp_path / "data", 1, n=6))
    with pytest.raises(UsageError, match="no GPUs"):
        WorkerPool.start([replace(job, model=replace(job.model, device="cuda")) for job in jobs], cluster.address, 1)
    import ray

    ray.shutdown()


@pytest.mark.parametrize("device", ["cuda:1", "cuda:0,cuda:1"])
def test_a_device_number_is_refused_before_a_cluster_or_a_dataset_is_touched(device, capsys):
    words = ["--model", "eyechart-tiny", "--dataset", "nowhere/at-all", "--engine", "ray", "--device", device]
    assert main(["eval", *words]) == 2
    assert f"--device {device} cannot be combined with --engine ray" in capsys.readouterr().err
