"""What a run would do, before it does anything: its jobs, what it would fetch, the disk and the time that it takes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from shutil import disk_usage

from eyechart.config import Config
from eyechart.datasets.catalogue import load_catalogue, user_files
from eyechart.datasets.questions.reader import question_names
from eyechart.datasets.registry import OpenDatasets
from eyechart.datasets.remote.files import cache_folder
from eyechart.errors import NotHereError, ResultError
from eyechart.io.hub_cache import hub_cache
from eyechart.io.stopwatch import duration
from eyechart.models.registry import family_of
from eyechart.plan import plan_jobs
from eyechart.plan_models import model_specs
from eyechart.results.done import check_owner
from eyechart.results.files import read_result
from eyechart.results.result import Result
from eyechart.store.vectors import store_place
from eyechart.tasks.registry import load_task
from eyechart.types import Job, ModelSpec, Role

MOST_RESULTS = 300
"""Past results that are looked at in a folder, the newest first."""
COUNTED = frozenset({"folder", "table", "jsonl", "questions"})
"""Readers that list their samples without reading them."""
BYTES = {"fp32": 4, "fp16": 2}
"""Of a number in the store of vectors."""


@dataclass(frozen=True)
class JobEstimate:
    """What is known of a job beforehand; None for what is not."""

    job: Job
    samples: int | None
    seconds: float | None
    """As the slowest past run of the same model would take: what is in the store already takes less."""
    vectors: int | None
    """Bytes in the store, if none of them is there yet."""

    @property
    def done(self) -> bool:
        """Tell whether there is a result; whether it would come out the same today is looked at when it runs."""
        return self.job.output.exists()

    @property
    def refused(self) -> str:
        """Say why the run would refuse to write the result; empty if it would not."""
        try:
            check_owner(self.job)
        except ResultError as error:
            return error.message
        return ""


@dataclass(frozen=True)
class Estimate:
    """What a run would do."""

    jobs: tuple[JobEstimate, ...]
    later: tuple[str, ...]
    """Jobs on data that are not here: what is in them is not known before."""
    datasets: dict[str, str]
    """What is not on this machine, and where it would come from."""
    models: dict[str, str]
    """The same for models."""
    free: dict[Path, int]
    """Bytes that are free where something would be written."""
    past: int
    """How many past runs the times are from."""
    offline: bool = False
    """Whether the run may fetch nothing."""


def estimate(config: Config, say: Callable[[str], object]) -> Estimate:
    """Plan a run without fetching anything, and say what is known of it.

    Args:
        config: Its settings.
        say: Told what planning has to say.
    """
    absent: dict[str, NotHereError] = {}
    datasets = OpenDatasets()
    wanted = config.model_copy(update={"offline": True})
    jobs = plan_jobs(wanted, say, datasets, absent=None if config.offline else absent)
    past = list(_past_results({job.output.parent for job in jobs}))
    store = str(store_place())
    places = [cache_folder({"cache_dir": config.wds_cache_dir}), hub_cache(), Path.cwd()]
    places += [] if "://" in store else [Path(store)]  # vectors may be kept elsewhere
    later = [(name, spec, role) for name in absent for spec, role in _models_for(name, config)]
    used = [(spec, role) for job in jobs for spec, role in _models_of(job)] + [(spec, role) for _, spec, role in later]
    return Estimate(
        later=tuple(f"{spec.label} on {name} ({', '.join(config.language)})" for name, spec, _ in later),
        jobs=tuple(_of_job(job, past, datasets, config) for job in jobs),
        datasets={name: error.source for name, error in absent.items()},
        models=dict(_absent_models(used)),
        free={place: disk_usage(_existing(place)).free for place in places},
        past=len(past),
        offline=config.offline,
    )


def _of_job(job: Job, past: Sequence[Result], datasets: OpenDatasets, config: Config) -> JobEstimate:
    same_model = [
        one for one in past if (one.model, one.pretrained) == (job.label or job.model.name, job.model.pretrained)
    ]
    samples = _samples(job, past, datasets, config)
    rates = [_rate(one) for one in same_model if one.task == job.task]
    dims = {int(one.model_card["embedding_dim"]) for one in same_model if one.model_card.get("embedding_dim")}
    return JobEstimate(
        job=job,
        samples=samples,
        seconds=max(rates) * samples if samples is not None and rates else None,
        vectors=max(dims) * BYTES[config.store_precision] * samples if samples is not None and dims else None,
    )


def _rate(result: Result) -> float:
    """Return the seconds for each sample of a past run."""
    return float(result.provenance.get("seconds") or 0) / max(result.counts.get("listed", 0), 1)


def _samples(job: Job, past: Sequence[Result], datasets: OpenDatasets, config: Config) -> int | None:
    """Return how many samples there are: counted, by the catalogue, or as a past run found."""
    spec = job.dataset
    entry = load_catalogue(user_files(config.catalogue)).find(spec.name.removeprefix("wds/"))
    found = entry.samples if entry and spec.split == "test" else None
    if spec.reader in COUNTED:
        found = sum(1 for shard in datasets.open(spec).shards() for _ in shard)
    elif found is None:
        same = [one for one in past if one.dataset == spec.name and one.data.get("split") == spec.split]
        found = max((one.counts.get("listed", 0) for one in same), default=None)
    if found is None or spec.limit is None:
        return found
    return min(found, spec.limit)


def _models_of(job: Job) -> Iterator[tuple[ModelSpec, Role]]:
    task = load_task(job.task)
    if task.uses_model(job.settings):
        yield job.model, task.needs
    yield from ((spec, task.roles[part]) for part, spec in job.others.items())


def _models_for(dataset: str, config: Config) -> Iterator[tuple[ModelSpec, Role]]:
    """Yield the models that a dataset which is not here would be given to."""
    usual: Role = "generator" if dataset in question_names() else "encoder"
    role = usual if config.task[0] == "auto" else load_task(config.task[0]).needs
    yield from ((spec, role) for spec in model_specs(config, role, str))


def _absent_models(models: Iterable[tuple[ModelSpec, Role]]) -> Iterator[tuple[str, str]]:
    """Yield the models that a family looks for on this machine and does not find."""
    for spec, role in models:
        places = getattr(family_of(spec, role), "places", None)
        if places is not None and None in places(spec):
            yield spec.label, f"{spec.family}, {spec.options.get('hub') or 'huggingface'}"


def _past_results(folders: set[Path]) -> Iterator[Result]:
    for folder in folders:
        files = sorted(folder.glob("*.json"), key=lambda file: file.stat().st_mtime, reverse=True)
        for file in files[:MOST_RESULTS]:
            try:
                yield read_result(file)
            except ResultError:
                continue  # another file, or a damaged one: nothing is learned from it


def _existing(place: Path) -> Path:
    """Return the folder, or the next one above it, that is there."""
    return next(folder for folder in (place.absolute(), *place.absolute().parents) if folder.exists())


def estimate_lines(found: Estimate, *, skip_existing: bool = False) -> Iterator[str]:
    """Write an estimate for people."""
    count = len(found.jobs) + len(found.later)
    yield f"{count} job{'' if count == 1 else 's'}"
    for one in found.jobs:
        size = "" if one.samples is None else f", {one.samples:,} sample{'' if one.samples == 1 else 's'}"
        time = "" if one.seconds is None else f", about {duration(one.seconds)}"
        there = ", skipped if nothing changed" if one.done and skip_existing else ""
        over = ", which is written over" if one.done and not skip_existing and not one.job.append else ""
        yield f"  {one.job.title}{size}{time}{there} -> {one.job.output}{over if not one.refused else ''}"
        if one.refused:
            yield f"    {one.refused}"
    yield from (f"  {title}, after its download" for title in found.later)
    fetched = {**found.models, **found.datasets}
    head = "not here, and --offline fetches nothing" if found.offline else "to download"
    yield head if fetched else "to download: nothing"
    yield from (f"  {name}" + (f" ({source})" if source else "") for name, source in fetched.items())
    if fetched and not found.offline:
        yield "  Sizes are not known: nobody was asked."
    vectors = [one.vectors for one in found.jobs if one.vectors is not None]
    yield "disk" + (f": vectors about {sum(vectors) / 1e6:,.1f} MB" if vectors else "")
    for free in dict.fromkeys(found.free.values()):
        places = ", ".join(str(place) for place, there in found.free.items() if there == free)
        yield f"  {free / 1e9:,.1f} GB free for {places}"
    timed = [one.seconds for one in found.jobs if one.seconds is not None]
    if timed:
        which = "all jobs" if len(timed) == count else f"{len(timed)} of {count} jobs"
        yield f"time: about {duration(sum(timed))} for {which}, by past results ({found.past}); less for what is stored"
    else:
        yield "time: not known, there is no past result of these models beside the new ones"
    yield "Nothing was loaded, fetched or written."
