"""Jobs on a Ray cluster: one worker per slot, each with one model, all with the same store.

Durability is the store's, not the engine's: vectors and results are files, so a dead worker's work is done again by
another one, a killed driver is started again, and any engine goes on where another stopped. Tasks may therefore run
twice without harm, and do: when nothing else is left, an idle worker repeats what another one has not finished, so
that a lost node does not hold up the run.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from eyechart.engine.worker import Worker, chunk_size, chunks_of, one_of_each
from eyechart.errors import EyechartError, UsageError, import_extra
from eyechart.run import JobReport, skipped
from eyechart.session import Session
from eyechart.types import Job

RESTARTS = 5
POLL_SECONDS = 2.0
PASSED = ("EYECHART_CACHE", "EYECHART_STORE", "XDG_CACHE_HOME")
"""Variables that every worker gets from the driver."""


class EngineError(EyechartError):
    """The cluster could not do a task."""


@dataclass(frozen=True)
class Call:
    """A method of a worker and what it is given."""

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
    """Run jobs on a cluster and yield how each ended, as they end.

    Args:
        jobs: What to do; outputs and datasets must lie where every node sees them.
        session: Where to report, and where results that need not be made again are looked for.
        skip_existing: Whether jobs whose result is there are left out.
        address: An existing cluster (``auto``, ``ray://...``); without it, one is started on this machine.
        workers: How many; by default one per GPU, or per CPU where there is no GPU.
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
    """Cut large datasets into tasks; a batch holds the same images as it would on one machine."""
    for call, images in pool.do([Call("missing", (job,)) for job in one_of_each(jobs)]):
        job = call.arguments[0]
        if isinstance(images, list) and len(images) > chunk_size(job):
            yield from (Call("embed", (job, chunk)) for chunk in chunks_of(job, images, pool.size))


@dataclass
class WorkerPool:
    """The workers, and who does what."""

    ray: Any
    idle: list[Any]
    size: int
    started: bool
    """Whether the cluster is ours to shut down."""
    running: dict[Any, tuple[Any, Sequence[Call], int]] = field(default_factory=dict)
    """What each task is: its worker, the list of calls it belongs to, and its number in that list."""

    @classmethod
    def start(cls, address: str | None, workers: int | None) -> WorkerPool:
        """Connect, or start a cluster on this machine, and start the workers."""
        ray = import_extra("ray", "ray")
        started = not ray.is_initialized()
        if started:
            os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
            try:
                ray.init(address=address, log_to_driver=False, include_dashboard=None if address else False)
            except (ConnectionError, ValueError) as error:
                raise UsageError(f"No Ray cluster at {address!r} ({error}).", advice="Check --ray-address.") from error
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
        """Do all calls and yield each with its value, or with the error that kept it from being done."""
        queue, done = deque(range(len(calls))), set[int]()
        while len(done) < len(calls):
            self._assign(calls, queue, done)
            ready, _ = self.ray.wait(list(self.running), num_returns=1, timeout=POLL_SECONDS)
            for reference in ready:
                worker, list_, number = self.running.pop(reference)
                value = self._value(reference)
                self.idle.append(worker)
                # A repeated call of an earlier list may end late; its worker is free again, its value known.
                if list_ is calls and number not in done:
                    done.add(number)
                    yield calls[number], value

    def _assign(self, calls: Sequence[Call], queue: deque[int], done: set[int]) -> None:
        """Give idle workers the next calls; when there are none, what others have not finished."""
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
        """Return what a task gave, or why it could not be done, as an error of ours."""
        try:
            return self.ray.get(reference)
        except self.ray.exceptions.RayTaskError as error:
            cause = error.cause if isinstance(error.cause, EyechartError) else error
            return cause if isinstance(cause, EyechartError) else EngineError(f"A worker failed: {error}")
        except self.ray.exceptions.RayError as error:
            return EngineError(
                f"A worker died {RESTARTS} times ({type(error).__name__}).", advice="See the logs of the Ray cluster."
            )

    def shutdown(self) -> None:
        """Stop the workers, and the cluster if it is ours."""
        for worker in {*self.idle, *(worker for worker, _, _ in self.running.values())}:
            self.ray.kill(worker)
        if self.started:
            self.ray.shutdown()
