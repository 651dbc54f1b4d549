"""Dry runs: jobs, downloads, disk usage, time, requests and tokens of a run, without running it."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from shutil import disk_usage

from eyechart.config import Config
from eyechart.datasets.catalogue import load_catalogue, user_files
from eyechart.datasets.locations import cache_folder
from eyechart.datasets.mteb import MtebDataset
from eyechart.datasets.questions.question_reader import is_benchmark
from eyechart.datasets.registry import OpenDatasets
from eyechart.errors import DataError, NotHereError, ResultError
from eyechart.io.files import hub_cache
from eyechart.io.images import image_size
from eyechart.io.stopwatch import duration
from eyechart.messages import UserMessage
from eyechart.models.access import access_of
from eyechart.models.registry import family_of
from eyechart.plan import plan_jobs
from eyechart.plan_models import model_specs
from eyechart.results.job_results import check_owner
from eyechart.results.result import Result, read_result
from eyechart.run import missing_captions, models_of
from eyechart.session import Session
from eyechart.store.vector_store import store_place
from eyechart.tasks.registry import load_task
from eyechart.types import Job, Metric, ModelSpec, Role, Sample

MOST_RESULTS = 300
"""Maximum number of past results read per folder, newest first."""
COUNTED = frozenset({"folder", "table", "jsonl", "questions"})
"""Readers that list samples without reading images."""
BYTES = {"fp32": 4, "fp16": 2}
"""Bytes per number in the vector store."""
PATCH = 28
"""Side length in pixels of an image token in current open models; hosted ones are of the same order."""
LETTERS_PER_TOKEN = 4
CAPTION_TOKENS = 100
"""Caption length assumed if ``max_tokens`` is not set: a paragraph, as in EvalScope's examples."""
TOKENS_PER_SECOND = 50
"""Generation speed assumed per concurrent request."""
SECONDS_PER_REQUEST = 1.0
"""Time to first token assumed for an image."""


def estimate(config: Config, say: Callable[[str], object]) -> list[str]:
    """Plan a run without downloading anything; return its jobs, downloads, disk usage and time, line by line."""
    absent: dict[str, NotHereError] = {}
    datasets = OpenDatasets()
    jobs = plan_jobs(config.replaced(offline=True), say, datasets, absent=None if config.offline else absent)
    past = list(_past_results({job.output.parent for job in jobs}))
    later = []
    for name in absent:
        usual: Role = "generator" if is_benchmark(name) else "encoder"
        role = usual if config.task[0] == "auto" else load_task(config.task[0]).needs
        later += [(name, spec, role) for spec in model_specs(config, role, str)]
    count, timed, vectors = len(jobs) + len(later), list[float](), list[int]()
    lines: list[str] = ["1 job" if count == 1 else UserMessage("{n} jobs", n=count)]
    for job in jobs:
        samples = _samples(job, past, datasets, config)
        named = (job.label or job.model.name, job.model.pretrained)
        same_model = [one for one in past if (one.model, one.pretrained) == named]
        # The slowest past run of the same model; cached vectors make it faster.
        rates = [
            float(one.provenance.get("seconds") or 0) / max(one.counts.get("encoded", one.counts.get("listed", 0)), 1)
            for one in same_model
            if one.task == job.task
        ]
        dims = [int(one.model_card["embedding_dim"]) for one in same_model if one.model_card.get("embedding_dim")]
        seconds = [max(rates) * samples] if samples is not None and rates else []
        timed += seconds
        if samples is not None and dims:
            vectors.append(max(dims) * BYTES[config.store_precision or "fp32"] * samples)
        lines += _job_lines(job, samples, seconds, skip_existing=config.skip_existing)
    for name, spec, _ in later:
        title = f"{spec.label} on {name} ({', '.join(config.language)})"
        lines.append(UserMessage("  {title}, after its download", title=title))
    used = [model for job in jobs for model in models_of(job)] + [(spec, role) for _, spec, role in later]
    opened = {job.dataset.name: datasets.open(job.dataset) for job in jobs if job.dataset.reader == "mteb"}
    wanted = {path: "huggingface" for one in opened.values() if isinstance(one, MtebDataset) for path in one.missing()}
    sources = wanted | {name: error.source for name, error in absent.items()}
    lines += _downloads(used, sources, offline=config.offline)
    lines.append(UserMessage("disk: vectors about {n:,.1f} MB", n=sum(vectors) / 1e6) if vectors else "disk")
    lines += _free_space(config)
    which = "all jobs" if len(timed) == count else UserMessage("{n} of {all} jobs", n=len(timed), all=count)
    text = "time: about {time} for {which}, based on past results ({n}); less with cached vectors"
    about = UserMessage(text, time=duration(sum(timed)), which=which, n=len(past))
    lines.append(about if timed else "time: unknown, the output folders have no past results of these models")
    return [*lines, "Nothing was loaded, downloaded or written."]


def _job_lines(job: Job, samples: int | None, seconds: Sequence[float], *, skip_existing: bool) -> Iterator[str]:
    """Describe a job; whether an existing result is up to date is only checked by a run."""
    done, refused = job.output.exists(), ""
    try:
        check_owner(job)
    except ResultError as error:
        refused = error.message
    size = "" if samples is None else f", {samples:,} sample{'' if samples == 1 else 's'}"
    time = f", about {duration(seconds[0])}" if seconds else ""
    there = ", skipped if unchanged" if done and skip_existing else ""
    end = " (overwritten)" if done and not skip_existing and not job.append and not refused else ""
    yield f"  {job.title}{size}{time}{there} -> {job.output}{end}"
    if refused:
        yield f"    {refused}"


def _downloads(
    models: Iterable[tuple[ModelSpec, Role]], datasets: Mapping[str, str], *, offline: bool
) -> Iterator[str]:
    """List the models and datasets that are missing on this machine, with their sources."""
    missing = {}
    for spec, role in models:
        places = getattr(family_of(spec, role), "places", None)
        if places is not None and None in places(spec):
            missing[spec.label] = f"{spec.family}, {spec.options.get('hub') or 'huggingface'}"
    missing |= datasets
    if not missing:
        yield "to download: nothing"
        return
    yield UserMessage("missing, and {--offline} disables downloads") if offline else "to download"
    yield from (f"  {name}" + (f" ({source})" if source else "") for name, source in missing.items())
    if not offline:
        yield "  Download sizes are unknown (offline dry run)."


def _samples(job: Job, past: Sequence[Result], datasets: OpenDatasets, config: Config) -> int | None:
    """Return the number of samples: counted, from the catalogue, or from a past run."""
    spec = job.dataset
    entry = load_catalogue(user_files(config.catalogue)).find(spec.name.removeprefix("wds/"))
    found = entry.samples if entry and spec.split == "test" else None
    dataset = datasets.open(spec) if spec.reader == "mteb" else None
    if isinstance(dataset, MtebDataset):
        found = dataset.size()
    elif spec.reader in COUNTED:
        found = sum(1 for shard in datasets.open(spec).shards() for _ in shard)
    elif found is None:
        same = [one for one in past if one.dataset == spec.name and one.data.get("split") == spec.split]
        found = max((one.counts.get("listed", 0) for one in same), default=None)
    return found if found is None or spec.limit is None else min(found, spec.limit)


def _past_results(folders: set[Path]) -> Iterator[Result]:
    for folder in folders:
        files = sorted(folder.glob("*.json"), key=lambda file: file.stat().st_mtime, reverse=True)
        for file in files[:MOST_RESULTS]:
            with suppress(ResultError):  # not a result, or a damaged one
                yield read_result(file)


def _free_space(config: Config) -> Iterator[str]:
    """Describe the folders that would be written to by file system, measured once: other processes may write to it."""
    store = str(store_place())
    folders = [cache_folder({"cache_dir": config.wds_cache_dir}), hub_cache(), Path.cwd()]
    folders += [] if "://" in store else [Path(store)]  # the vector store may be remote
    by_device: dict[int, list[Path]] = {}
    for folder in folders:
        by_device.setdefault(_existing(folder).stat().st_dev, []).append(folder)
    for group in by_device.values():
        free, places = disk_usage(_existing(group[0])).free, ", ".join(map(str, group))
        yield UserMessage("  {n:,.1f} GB free for {places}", n=free / 1e9, places=places)


def _existing(folder: Path) -> Path:
    """Return the folder or its nearest existing parent."""
    return next(one for one in (folder.absolute(), *folder.absolute().parents) if one.exists())


def estimate_requests(job: Job, session: Session) -> Result:
    """Return a result that estimates the requests of captioning, without sending any."""
    numbers, price = count_tokens(job, session), access_of(job.model).price
    return Result(
        dataset=job.dataset.name,
        model=job.model.name,
        pretrained="",
        task=job.task,
        language=job.dataset.language,
        values={name: Metric(value) for name, value in numbers.items()},
        facts={"dry_run": True, **({} if price is None else {"currency": price.currency})},
        counts={"listed": int(numbers["images"])},
    )


def count_tokens(job: Job, session: Session) -> dict[str, float]:
    """Estimate requests, tokens, time and cost for the images without a cached caption.

    Assumptions: one prompt token per 28 x 28 pixels after downscaling and per four characters of the prompt; captions
    of ``max_tokens`` tokens, or 100 without it; one second per request plus one per 50 tokens. Actual token counts vary
    between models by about a factor of two, times by more. The cost needs a price table.
    """
    manifest, wanted = session.manifest(job), set(missing_captions(job, session))
    settings = job.model.options.get("settings") or {}
    words = -(-len(job.settings["prompt"]) // LETTERS_PER_TOKEN)
    longest = job.model.options.get("max_edge")
    missing = (sample for sample in manifest.samples() if sample.id in wanted)
    usage = {
        "prompt_tokens": float(sum(words + _image_tokens(sample, longest) for sample in missing)),
        "completion_tokens": float(len(wanted) * int(settings.get("max_tokens", CAPTION_TOKENS))),
    }
    access = access_of(job.model)
    busy = len(wanted) * SECONDS_PER_REQUEST + usage["completion_tokens"] / TOKENS_PER_SECOND
    return {
        "images": float(len(manifest)),
        "requests": float(len(wanted)),
        **{f"estimated_{name}": count for name, count in usage.items()},
        "estimated_seconds": round(busy / max(1, min(access.concurrency, len(wanted))), 1),
        **({"estimated_cost": access.price.cost(usage)} if access.price is not None else {}),
    }


def _image_tokens(sample: Sample, max_edge: int | None) -> int:
    """Estimate the tokens of an image from the size in its header; an unreadable image will not be sent."""
    try:
        size = image_size(sample.need_image().read(), sample.id)
    except DataError:
        size = (1, 1)
    scale = min(1.0, max_edge / max(size)) if max_edge else 1.0
    width, height = (max(1, round(side * scale)) for side in size)
    return -(-width // PATCH) * -(-height // PATCH)
