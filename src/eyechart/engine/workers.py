"""Workers that embed parts of a dataset into the store: one process per device, or ranks started by a launcher."""

import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from multiprocessing import get_context, resource_tracker
from pathlib import Path

from eyechart.errors import EyechartError, UsageError
from eyechart.inference.embeddings import CachedEncoder
from eyechart.inference.image_batches import KeyedSample
from eyechart.inference.image_loader import main_is_import_safe
from eyechart.io.progress import Progress
from eyechart.messages import UserMessage
from eyechart.models.towers.torch_tools import choose_devices, local_rank
from eyechart.run import JobReport, run_jobs, run_or_skip, skipped
from eyechart.session import Session
from eyechart.tasks.registry import load_task
from eyechart.types import Job, digest_json

CHUNK_BATCHES = 8
"""Batches per task: large enough to hide a millisecond of dispatch, small enough to distribute a dataset."""

TEXT_ONLY = ("texts", "external")
"""Dataset kinds without images."""


class Worker:
    """Executes tasks in its process, keeping one model loaded."""

    def __init__(self, folder: str, environment: dict[str, str]) -> None:
        os.environ.update(environment)
        if Path(folder).is_dir():
            os.chdir(folder)
        self.session = Session()

    def ready(self) -> None:
        """Return as soon as the worker has started."""

    def missing(self, job: Job) -> list[KeyedSample]:
        """List the images of a job without a stored vector."""
        return missing_images(job, self.session)

    def embed(self, job: Job, images: list[KeyedSample]) -> None:
        """Embed some images of a job, reading only their bytes."""
        embeddings(job, self.session).embed_samples(images, lambda: self.session.manifest(job))

    def run(self, job: Job) -> JobReport:
        """Run a whole job, using the vectors in the store."""
        self.session.store.refresh()
        return run_or_skip(job, self.session)


def missing_images(job: Job, session: Session) -> list[KeyedSample]:
    """List the images of a job that an encoder still has to embed."""
    return embeddings(job, session).missing_samples(session.manifest(job)) if has_images(job, session) else []


def has_images(job: Job, session: Session) -> bool:
    """Whether the job embeds images with an encoder."""
    return load_task(job.task).needs == "encoder" and session.manifest(job).info.kind not in TEXT_ONLY


def embeddings(job: Job, session: Session) -> CachedEncoder:
    """Return the cached encoder of a job; broken images are skipped here and handled by the job."""
    session.store.refresh()
    model = session.model(job.model, "encoder")
    return CachedEncoder(model, session.store, job.encoding, on_error="skip")


def one_of_each(jobs: Sequence[Job]) -> list[Job]:
    """Keep one job per (model, dataset) pair: the others need the same vectors."""
    return list({digest_json([job.model.what, job.dataset]): job for job in jobs}.values())


def chunk_size(job: Job) -> int:
    """Return the number of images per task."""
    return CHUNK_BATCHES * job.encoding.batch_size


def chunks_of(job: Job, images: list[KeyedSample], workers: int) -> Iterator[list[KeyedSample]]:
    """Split images into tasks of whole batches, so that a batch holds the same images as in a single process.

    Images that can only be read by streaming the dataset make one task per worker, each of which reads it once.
    """
    step = chunk_size(job)
    if any(sample.image is None for _, sample in images):
        size = job.encoding.batch_size
        step = max(step, -(-len(images) // (workers * size)) * size)
    yield from (images[i : i + step] for i in range(0, len(images), step))


# Several processes on this machine, one per device, embed images; the main process scores.
#
# Each process receives its share before it starts, so there are no locks and no communication. Vectors become durable
# in the store: whatever a dead process did not store, the main process computes.


Share = list[tuple[Job, list[KeyedSample]]]
"""Jobs, each with the images that a process embeds."""


def run_on_this_machine(
    jobs: Sequence[Job], session: Session, *, skip_existing: bool = False, processes: int | None = None
) -> Iterator[JobReport]:
    """Run jobs in this process; with several GPUs, or with ``processes``, child processes embed the images first."""
    count = processes or process_count(jobs)
    if count > 1 or processes:
        return run_in_processes(jobs, session, count=count, skip_existing=skip_existing)
    return run_jobs(jobs, session, skip_existing=skip_existing)


def process_count(jobs: Sequence[Job]) -> int:
    """Choose the number of embedding processes: one per GPU available to encoders.

    It is 1 without several GPUs, and if a spawned process would re-run the caller's script.
    """
    devices = {job.model.device for job in jobs if _can_be_sent(job)}
    listed = max((len(device.split(",")) for device in devices), default=1)
    several = "auto" in devices and may_have_several_gpus()
    if (listed == 1 and not several) or local_rank() is not None or not main_is_import_safe():
        return 1
    # Importing torch is slow, and a run that finds all vectors in the store does not need it.
    return max(listed, len(choose_devices("auto")) if several else 1)


def _can_be_sent(job: Job) -> bool:
    return load_task(job.task).needs == "encoder" and job.model.given is None and job.dataset.given is None


def may_have_several_gpus(devices: Path = Path("/dev")) -> bool:
    """Whether the kernel lists several GPUs; only then is torch queried for the usable ones."""
    return any(len(list(devices.glob(pattern))) > 1 for pattern in ("nvidia[0-9]*", "dri/renderD*"))


def run_in_processes(
    jobs: Sequence[Job], session: Session, *, count: int, skip_existing: bool = False
) -> Iterator[JobReport]:
    """Embed the images of all jobs in ``count`` processes, then run the jobs here, one after the other.

    With ``--device auto`` the n-th process uses the n-th GPU; a list of devices is assigned in order.
    """
    existing = [skipped(job, session) if skip_existing else None for job in jobs]
    yield from (report for report in existing if report is not None)
    todo = [job for job, report in zip(jobs, existing, strict=True) if report is None]
    work: Share = []
    for job in filter(_can_be_sent, one_of_each(todo)):
        with suppress(EyechartError):  # errors reading a dataset are left for its job to report
            work += [(job, chunk) for chunk in chunks_of(job, missing_images(job, session), count)]
    shares = [share for share in (work[i::count] for i in range(count)) if share]
    if len(shares) > 1:
        _embed_all(shares, session.progress)
        session.store.refresh()
    yield from (run_or_skip(job, session) for job in todo)


def device_of(device: str, number: int) -> str:
    """Return the device of the n-th process."""
    names = device.split(",")
    return names[number % len(names)].strip()


def _embed_all(shares: Sequence[Share], progress: Progress) -> None:
    context = get_context("spawn")  # a fork would inherit the state of CUDA and of threads
    started = [context.Process(target=_embed, args=(number, len(shares), share)) for number, share in enumerate(shares)]
    with progress.step(UserMessage("images in {n} processes", n=len(shares)), len(shares)) as bar:
        try:
            # They ignore Ctrl-C, which a terminal sends to all of them: this process ends them.
            resource_tracker.ensure_running()  # its start unblocks the signal
            before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
            try:
                for process in started:
                    process.start()
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, before)
            for process in started:
                process.join()
                bar.advance()
        finally:  # after an interrupt: the processes store their vectors and end
            for process in started:
                if process.is_alive():
                    process.terminate()
            for process in started:
                if process.pid is not None:
                    process.join()
    died = sum(process.exitcode != 0 for process in started)
    if died:
        progress.say(
            UserMessage(
                "{n} of {all} processes died. The main process computes the missing vectors.", n=died, all=len(started)
            )
        )


def _embed(number: int, count: int, share: Share) -> None:
    os.environ["LOCAL_RANK"] = str(number)  # selects the GPU that ``auto`` means
    os.environ["LOCAL_WORLD_SIZE"] = str(count)  # divides the CPU cores
    worker = Worker(os.getcwd(), {})  # noqa: PTH109
    for job, images in share:
        placed = replace(job, model=replace(job.model, device=device_of(job.model.device, number)))
        with suppress(EyechartError):  # the job raises and reports it again
            worker.embed(placed, images)


# Distribute a run over processes started by a launcher: torchrun, Slurm, MPI (``--distributed``).
#
# Each process runs every n-th job. With fewer jobs than processes, all of them first embed their part of every
# dataset; the process that scores a dataset waits for the others' vectors as long as the store grows. Processes do
# not communicate: whatever a dead one did not store, the scoring process computes.


VARIABLES = (
    ("RANK", "WORLD_SIZE"),
    ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
)
"""Rank and world size; torchrun's variables come first, since it may run under the other launchers. Only ``srun`` sets
the number of a step's tasks: a batch script has SLURM_PROCID=0 and SLURM_NTASKS, but is a single process."""
POLL_SECONDS = 2.0
PATIENCE = 45
"""Polls without progress before giving up; a process flushes its vectors every 20 seconds."""


def rank_and_size(environment: Mapping[str, str] = os.environ) -> tuple[int, int]:
    """Read the rank and the number of processes from the environment; (0, 1) without a launcher."""
    for mine, all_ in VARIABLES:
        if mine in environment and all_ in environment:
            try:
                rank, size = int(environment[mine]), int(environment[all_])
            except ValueError:
                rank, size = -1, 0
            if not 0 <= rank < size:
                raise UsageError(
                    "Inconsistent rank and number of processes: {a}={x}, {b}={y}.",
                    a=mine,
                    x=environment[mine],
                    b=all_,
                    y=environment[all_],
                )
            return rank, size
    return 0, 1


def share_of(jobs: Sequence[Job], rank: int, size: int) -> list[Job]:
    """Return every ``size``-th job, starting at this rank: each job belongs to exactly one process."""
    return list(jobs[rank::size])


def on_own_device(jobs: Sequence[Job], local: int) -> list[Job]:
    """Assign the n-th listed device to the n-th process of a machine; ``auto`` is one GPU per process already."""
    return [replace(job, model=replace(job.model, device=device_of(job.model.device, local))) for job in jobs]


def embed_together(
    jobs: Sequence[Job],
    session: Session,
    rank: int,
    size: int,
    *,
    skip_existing: bool = False,
    pause: Callable[[float], None] = time.sleep,
) -> None:
    """Embed this process's part of all images, if there are fewer jobs than processes, and wait for the others.

    Every process gets all jobs in the same order, and a session with the same store.
    """
    if len(jobs) >= size:
        return
    todo = [job for job in jobs if not (skip_existing and skipped(job, session))]
    embedded = []
    for job in one_of_each(todo):
        with suppress(EyechartError):  # the job raises and reports it again
            part = part_of(job, session, rank, size)
            embeddings(job, session).embed_samples(part, partial(session.manifest, job))
            embedded.append(job)
    mine = [(job.model, job.dataset) for job in share_of(jobs, rank, size)]
    for job in embedded:
        if (job.model, job.dataset) in mine:
            # Until the dataset is embedded or the store stops growing, as for broken images and dead processes.
            left, still = _count(job, session), 0
            while left and still < PATIENCE:
                pause(POLL_SECONDS)
                before, left = left, _count(job, session)
                still = still + 1 if left == before else 0


def part_of(job: Job, session: Session, rank: int, size: int) -> list[KeyedSample]:
    """List the missing images in this process's part of a dataset: consecutive samples, which share files.

    The boundaries depend on the dataset alone, not on what the others have stored meanwhile. Parts are whole batches,
    so a batch holds the same images as in a single process.
    """
    missing = missing_images(job, session)
    if not missing:
        return []
    distinct = dict.fromkeys(digest.tobytes() for digest in session.manifest(job).digests)
    size_of_batch = job.encoding.batch_size
    batch_of = {key: i // size_of_batch for i, key in enumerate(distinct)}
    batches = -(-len(distinct) // size_of_batch)
    return [(key, sample) for key, sample in missing if batch_of[key] * size // batches == rank]


def _count(job: Job, session: Session) -> int:
    return embeddings(job, session).count_missing(session.manifest(job)) if has_images(job, session) else 0
