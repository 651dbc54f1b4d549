"""Run jobs on a Ray cluster: one worker per GPU or CPU, each with one model loaded, all sharing one store.

Vectors and results are files, so durability comes from the store: another worker redoes the tasks of a dead one, a
killed driver can be restarted, and any engine resumes where another stopped. Tasks are idempotent: once the queue is
empty, idle workers repeat unfinished tasks of others, so that a lost node does not stall the run.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from eyechart.engine.workers import Worker, chunk_size, chunks_of, one_of_each
from eyechart.errors import EyechartError, UsageError, import_extra
from eyechart.run import JobReport, skipped
from eyechart.session import Session
from eyechart.types import Job

RESTARTS = 5
POLL_SECONDS = 2.0
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
    """Run jobs on a cluster and yield their reports as they finish.

    Args:
        jobs: Jobs whose outputs and datasets are visible to every node.
        session: Reports progress and finds existing results.
        skip_existing: Ignore jobs that already have a result.
        address: An existing cluster (``auto``, ``ray://...``); by default a local one is started.
        workers: Number of workers; by default one per GPU, or per CPU without GPUs.
    """
    todo = []
    for job in jobs:
        placed = replace(job, output=job.output.absolute())
        done = skipped(placed, session) if skip_existing else None
        if done is not None:
            yield done
        else:
            todo.append(placed)
    if not todo:
        return
    pool = WorkerPool.start(address, workers)
    try:
        with session.progress.step("shards on the cluster", None) as bar:
            for _ in pool.do(list(_chunks(pool, todo))):
                bar.advance()
        for call, report in pool.do([Call("run", (job,)) for job in todo]):
            yield report if isinstance(report, JobReport) else JobReport(call.arguments[0], error=report)
    finally:
        pool.shutdown()


def _chunks(pool: WorkerPool, jobs: Sequence[Job]) -> Iterator[Call]:
    """Split large datasets into tasks of whole batches; small ones are embedded by their job."""
    for call, images in pool.do([Call("missing", (job,)) for job in one_of_each(jobs)]):
        job = call.arguments[0]
        if isinstance(images, list) and len(images) > chunk_size(job):
            yield from (Call("embed", (job, chunk)) for chunk in chunks_of(job, images, pool.size))


@dataclass
class WorkerPool:
    """The workers of a cluster and their running tasks."""

    ray: Any
    idle: list[Any]
    size: int
    started: bool
    """Whether this pool started the cluster and has to shut it down."""
    running: dict[Any, tuple[Any, Sequence[Call], int]] = field(default_factory=dict)
    """Running tasks: worker, list of calls, and index of the call in that list."""

    @classmethod
    def start(cls, address: str | None, workers: int | None) -> WorkerPool:
        """Connect to a cluster, or start a local one, and start the workers."""
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
        resources = ray.cluster_resources()
        gpus = int(resources.get("GPU", 0))
        count = workers or gpus or max(1, int(resources.get("CPU", 1)))
        passed = {key: value for key, value in os.environ.items() if key in PASSED}
        actor = ray.remote(
            num_cpus=0 if gpus else 1,
            num_gpus=1 if gpus else 0,
            max_restarts=RESTARTS,
            max_task_retries=RESTARTS,
            scheduling_strategy="SPREAD",
        )(Worker)
        return cls(ray, [actor.remote(os.getcwd(), passed) for _ in range(count)], count, started)  # noqa: PTH109

    def do(self, calls: Sequence[Call]) -> Iterator[tuple[Call, Any]]:
        """Execute all calls; yield each with its return value or error."""
        queue, done = deque(range(len(calls))), set[int]()
        while len(done) < len(calls):
            self._assign(calls, queue, done)
            ready, _ = self.ray.wait(list(self.running), num_returns=1, timeout=POLL_SECONDS)
            for reference in ready:
                worker, list_, number = self.running.pop(reference)
                value = self._value(reference)
                self.idle.append(worker)
                # A repeated call of an earlier list may finish late; only its worker matters.
                if list_ is calls and number not in done:
                    done.add(number)
                    yield calls[number], value

    def _assign(self, calls: Sequence[Call], queue: deque[int], done: set[int]) -> None:
        """Assign the next calls to idle workers; with an empty queue, repeat unfinished calls of others."""
        while self.idle:
            taken = [number for _, list_, number in self.running.values() if list_ is calls]
            again = [number for number in dict.fromkeys(taken) if number not in done and taken.count(number) == 1]
            if not queue and not again:
                return
            number = queue.popleft() if queue else again[0]
            worker = self.idle.pop(0)
            call = calls[number]
            self.running[getattr(worker, call.method).remote(*call.arguments)] = (worker, calls, number)

    def _value(self, reference: Any) -> Any:
        """Return the value of a task, or its error as an `EyechartError`."""
        try:
            return self.ray.get(reference)
        except self.ray.exceptions.RayTaskError as error:
            cause = error.cause if isinstance(error.cause, EyechartError) else error
            return cause if isinstance(cause, EyechartError) else EngineError("A worker failed: {reason}", reason=error)
        except self.ray.exceptions.RayError as error:
            return EngineError(
                "A worker died {n} times ({reason}).",
                advice="See the logs of the Ray cluster.",
                n=RESTARTS,
                reason=type(error).__name__,
            )

    def shutdown(self) -> None:
        """Stop the workers, and the cluster if this pool started it."""
        for worker in {*self.idle, *(worker for worker, _, _ in self.running.values())}:
            self.ray.kill(worker)
        if self.started:
            self.ray.shutdown()
