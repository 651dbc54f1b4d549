"""From settings to jobs of generative benchmarks; whatever cannot be scored is refused here."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

from eyechart import plugins
from eyechart.config import OUTPUT, Config, Questions
from eyechart.errors import UsageError, unknown_name
from eyechart.models.generators.family import Access, GeneratorFamily
from eyechart.outputs import check_outputs, fill_output
from eyechart.plan import precision_of
from eyechart.types import DatasetSpec, Job, ModelSpec
from eyechart.vlm.benchmarks import known_benchmarks
from eyechart.vlm.custom import custom_file, is_benchmark
from eyechart.vlm.download import fetch
from eyechart.vlm.folders import lmu_data_root
from eyechart.vlm.python_models import PREFIX
from eyechart.vlm.scoring import EXACT

TASK = "questions"
VERSION = 1
READER = "vlm"
ONLY_DESCRIBE = {"open_clip"}
"""Generators that describe images and read no question (CoCa)."""
DEFAULT_OUTPUT = "{model}_{dataset}.json"


def plan_questions(config: Config) -> list[Job]:
    """Make a job for each model and benchmark."""
    others = [name for name in config.dataset if not is_benchmark(name)]
    if others:
        raise UsageError(
            f"{others[0]!r} is no benchmark for models that write, but others in this run are.",
            advice="Evaluate encoders and generators in separate runs.",
        )
    jobs = [_job(config, model, name) for model, name in product(model_names(config), config.dataset)]
    check_outputs(jobs)
    return jobs


def model_names(config: Config) -> list[str]:
    """Return the models: those of ``--model``, or of ``--pretrained`` where only that was given."""
    names = [name for name in config.model or config.pretrained if name]
    if not names:
        raise UsageError("No model is named.", advice="Name one: --model NAME, a folder, or python:module:Class.")
    return list(dict.fromkeys(names))


def _job(config: Config, name: str, dataset: str) -> Job:
    options = config.questions
    path = _file(dataset)
    _check_scoring(dataset, options)
    spec = model_spec(config, name, dataset)
    if options.mode != "eval":
        _family(spec.family).check(spec)
    settings = {
        **options.model_dump(exclude=_NOT_SETTINGS),
        "task_version": VERSION,
        "data": [path.stat().st_size, path.stat().st_mtime_ns] if path else plugins_of(dataset),
    }
    template = DEFAULT_OUTPUT if config.output == OUTPUT else config.output
    short = ModelSpec(spec.family, short_name(name), "")
    return Job(
        model=spec,
        dataset=DatasetSpec(dataset, READER, str(path or ""), config.split, "en", config.limit),
        task=TASK,
        settings=settings,
        output=fill_output(template, short, path.stem if path else dataset, "en", TASK),
        batch_size=config.batch_size,
        workers=config.num_workers,
        on_error=config.on_error,
    )


_NOT_SETTINGS = {"concurrency", "timeout", "tries", "api_key_variable", "judge_key_variable", "api_base", "xlsx"}
"""What changes no number, or is part of the model already."""


def plugins_of(dataset: str) -> str:
    """Name the class of a registered benchmark, which knows its own data."""
    return f"plugin {dataset}"


def short_name(model: str) -> str:
    """Return a model's name as it stands in file names."""
    return Path(model).name if Path(model).exists() else model.removeprefix(PREFIX)


def _file(dataset: str) -> Path | None:
    """Return a benchmark's file, downloaded if need be; None where a package's class reads it."""
    known = known_benchmarks().get(dataset)
    if known is not None:
        return fetch(known.url, lmu_data_root() / f"{dataset}.tsv", known.md5)
    return None if dataset in plugins.names("benchmarks") else custom_file(dataset)


def _check_scoring(dataset: str, options: Questions) -> None:
    known = known_benchmarks().get(dataset)
    if known is None or options.mode == "infer":
        return
    if not known.answers:
        raise UsageError(
            f"{dataset} has no answers in its file: its owner scores predictions.",
            advice="Use --mode infer and submit the xlsx file.",
        )
    if known.needs_judge and options.judge == EXACT:
        raise UsageError(
            f"{dataset} can only be scored by a judge.",
            advice="Name one: --judge MODEL --judge_api_base URL; or --mode infer for predictions only.",
        )


def model_spec(config: Config, name: str, dataset: str) -> ModelSpec:
    """Return the spec of a model that writes."""
    options = config.questions
    family = "python" if name.startswith(PREFIX) else config.model_type
    able = [known for known in plugins.names("generators") if known not in ONLY_DESCRIBE]
    if family not in able:
        raise unknown_name("model type for questions", family, able, advice="Only models that write can answer.")
    chosen: dict[str, Any] = {"temperature": options.temperature, "max_tokens": options.max_tokens}
    settings = {key: value for key, value in chosen.items() if value is not None}
    extra = dict(config.model_options)
    if family == "python":
        return ModelSpec(family, name, "", options={**extra, "dataset": dataset})
    extra["settings"] = {**extra.get("settings", {}), **settings}
    if family == "api":
        return ModelSpec(family, name, options={**extra, "api_base": options.api_base})
    return ModelSpec(family, name, "", precision_of(config), config.device, extra)


def judge_spec(options: Questions) -> ModelSpec:
    """Return the spec of the judge."""
    from eyechart.vlm.connect import JUDGE_SETTINGS

    chosen: dict[str, Any] = {"settings": JUDGE_SETTINGS}
    if options.judge_type == "api":
        chosen["api_base"] = options.judge_api_base or options.api_base
    return ModelSpec(options.judge_type, options.judge, options=chosen)


def access_of(config: Config, key_variable: str | None) -> Access:
    """Return how a model is reached."""
    options = config.questions
    return Access(
        key_variable=key_variable,
        concurrency=options.concurrency,
        timeout=options.timeout,
        tries=options.tries,
        batch_size=min(config.batch_size, MAX_BATCH),
    )


MAX_BATCH = 8
"""Conversations per forward pass: far fewer than images per pass of an encoder."""


def _family(name: str) -> GeneratorFamily:
    family: GeneratorFamily = plugins.load("generators", name)()
    return family


def are_questions(datasets: Sequence[str]) -> bool:
    """Tell whether a run is about generative benchmarks."""
    return any(is_benchmark(name) for name in datasets)
