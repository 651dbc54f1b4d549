"""Run jobs on a Ray cluster: one worker per GPU or CPU, each with one model loaded, all sharing one store.

Vectors, answers and results are files, so durability comes from the store: a killed driver can be restarted, and any
engine resumes where another stopped. A call runs once. It is repeated only if its worker or its node is lost; the
replacement of a lost worker receives calls as soon as the cluster has room for it.
"""

from __future__ import annotations

import os
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from eyechart.engine.workers import Worker, chunk_size, chunks_of, one_of_each
from eyechart.errors import EyechartError, UsageError, import_extra
from eyechart.run import JobReport, skipped
from eyechart.session import Session
from eyechart.types import Job

RESTARTS = 5
"""Lost workers per call, and per pool while starting, before that is an error."""
PASSED = ("EYECHART_CACHE", "EYECHART_STORE", "XDG_CACHE_HOME")
"""Environment variables copied from the driver to every worker."""


class EngineError(EyechartError):
    """A task failed on the cluster."""


@dataclass(frozen=True)
class Call:
    """A worker method and its arguments."""

    method: str
    arguments: tuple[Any, ...]


def run_on_ray(
    jobs: Sequence[Job],
    session: Session,
    *,
    skip_existing: bool = False,
    address: str | None = None,
    workers: int | None = None,
) -> Iterator[JobReport]:
    """Run jobs, whose outputs and datasets every node sees, on a cluster; yield their reports as they finish.

    ``address`` is an existing cluster (``auto``, ``ray://...``); by default a local one is started. ``workers`` is by
    default one per GPU, or per CPU without GPUs.
    """
    placed = [replace(job, output=job.output.absolute()) for job in jobs]
    existing = [skipped(job, session) if skip_existing else None for job in placed]
    yield from (report for report in existing if report is not None)
    todo = [job for job, report in zip(placed, existing, strict=True) if report is None]
    if not todo:
        return
    pool = WorkerPool.start(todo, address, workers)
    try:
        with session.progress.step("shards on the cluster", None) as bar:
            chunks: list[Call] = []
            for call, images in pool.do([Call("missing", (job,)) for job in one_of_each(todo)]):
                [job] = call.arguments
                if isinstance(images, list) and len(images) > chunk_size(job):  # small ones are embedded by their job
                    chunks += [Call("embed", (job, chunk)) for chunk in chunks_of(job, images, pool.size)]
            for _ in pool.do(chunks):
                bar.advance()
        for call, report in pool.do([Call("run", (job,)) for job in todo]):
            yield report if isinstance(report, JobReport) else JobReport(call.arguments[0], error=report)
    finally:
        pool.shutdown()


def check_device(device: str) -> None:
    """Reject device numbers: Ray assigns one GPU to each worker, which sees no other."""
    numbered = [name.strip() for name in device.split(",")]
    if len(numbered) > 1 or numbered[0].partition(":")[2] not in ("", "0"):
        raise UsageError(
            "{--device={device}} cannot be combined with {--engine=ray}: Ray assigns one GPU to each worker.",
            advice="Use {--device=auto}, {--device=cuda} or {--device=cpu}; {--ray_workers} limits the number of GPUs.",
            device=device,
        )


@dataclass
class WorkerPool:
    """The workers of a cluster and their running calls."""

    ray: Any
    actor: Callable[[], Any]
    size: int
    started: bool
    """Whether this pool started the cluster and has to shut it down."""
    idle: list[Any] = field(default_factory=list)
    running: dict[Any, tuple[Any, int | None]] = field(default_factory=dict)
    """Worker and number of each running call; None for a worker that the cluster has not placed yet."""
    lost_at_start: int = 0

    @classmethod
    def start(cls, jobs: Sequence[Job], address: str | None, workers: int | None) -> WorkerPool:
        """Connect to a cluster, or start a local one, and start the workers of some jobs."""
        ray = import_extra("ray", "ray")
        started = not ray.is_initialized()
        if started:
            os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
            try:
                ray.init(address=address, log_to_driver=False, include_dashboard=None if address else False)
            except (ConnectionError, ValueError) as error:
                raise UsageError(
                    "No Ray cluster at {address!r} ({reason}).",
                    advice="Check {--ray_address}.",
                    address=address,
                    reason=error,
                ) from error
        devices = {job.model.device.partition(":")[0] for job in jobs}
        nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        gpus = 0 if devices == {"cpu"} else int(sum(node.get("GPU", 0) for node in nodes))
        if "cuda" in devices and not gpus:
            raise UsageError("The Ray cluster has no GPUs.", advice="Use {--device=auto} or {--device=cpu}.")
        threads = max(1, *(job.encoding.workers for job in jobs))
        count = workers or gpus or max(1, int(sum(node.get("CPU", 0) for node in nodes)))
        passed = {key: value for key, value in os.environ.items() if key in PASSED}
        # Lost workers are replaced here, not by Ray, which would queue their calls until a lost node is back.
        actor = ray.remote(
            num_cpus=cpus_per_gpu(nodes, threads) if gpus else 1,
            num_gpus=1 if gpus else 0,
            max_restarts=0,
            max_task_retries=0,
            scheduling_strategy="SPREAD",
        )(Worker)
        pool = cls(ray, partial(actor.remote, os.getcwd(), passed), count, started)  # noqa: PTH109
        for _ in range(count):
            pool.add_worker()
        return pool

    def add_worker(self) -> None:
        """Start a worker. It receives calls once the cluster has placed it."""
        worker = self.actor()
        self.running[worker.ready.remote()] = (worker, None)

    def do(self, calls: Sequence[Call]) -> Iterator[tuple[Call, Any]]:
        """Execute all calls, each once unless its worker is lost; yield each with its return value or error."""
        queue, lost, left = deque(range(len(calls))), Counter[int](), len(calls)
        while left:
            while self.idle and queue:
                worker, number = self.idle.pop(0), queue.popleft()
                call = calls[number]
                self.running[getattr(worker, call.method).remote(*call.arguments)] = (worker, number)
            [reference], _ = self.ray.wait(list(self.running), num_returns=1)
            worker, done = self.running.pop(reference)
            try:
                value = self._value(reference)
            except self.ray.exceptions.RayError as error:
                self.ray.kill(worker)  # it may be alive but out of reach, and would repeat the call
                self.lost_at_start += done is None
                if self.lost_at_start > RESTARTS:
                    raise _lost(self.lost_at_start, error) from error
                self.add_worker()
                if done is None:
                    continue
                lost[done] += 1
                if lost[done] <= RESTARTS:
                    queue.appendleft(done)
                    continue
                value = _lost(lost[done], error)
            else:
                self.idle.append(worker)
            if done is not None:
                left -= 1
                yield calls[done], value

    def _value(self, reference: Any) -> Any:
        """Return the value of a call, or its error as an `EyechartError`; raise RayError if the worker is lost."""
        try:
            return self.ray.get(reference)
        except self.ray.exceptions.RayTaskError as error:
            own = isinstance(error.cause, EyechartError)
            return error.cause if own else EngineError("A worker failed: {reason}", reason=error)

    def shutdown(self) -> None:
        """Stop the workers, and the cluster if this pool started it."""
        for worker in {*self.idle, *(worker for worker, _ in self.running.values())}:
            self.ray.kill(worker)
        if self.started:
            self.ray.shutdown()


def cpus_per_gpu(nodes: Sequence[Mapping[str, float]], threads: int) -> float:
    """Return the CPUs that a GPU worker reserves: its threads, as far as every GPU of each node can have as many."""
    share = min(node.get("CPU", 0) / node["GPU"] for node in nodes if node.get("GPU"))
    return min(threads, int(share)) if share >= 1 else share


def _lost(times: int, error: Exception) -> EngineError:
    return EngineError(
        "A worker died {n} times ({reason}).",
        advice="See the logs of the Ray cluster.",
        n=times,
        reason=type(error).__name__,
    )
