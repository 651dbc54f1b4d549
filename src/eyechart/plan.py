"""From settings to a list of jobs. Whatever can be refused is refused here, before any work."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

from eyechart import plugins
from eyechart.config import Config
from eyechart.datasets.catalogue import load_catalogue, user_files
from eyechart.datasets.choose import LanguageError
from eyechart.datasets.cleaning import cleaned
from eyechart.datasets.resolve import resolve_dataset
from eyechart.errors import DataError, UsageError
from eyechart.models.family import Family
from eyechart.models.resolve import choose_models
from eyechart.outputs import check_outputs, fill_output
from eyechart.tasks.base import Task
from eyechart.tasks.groups import group_settings
from eyechart.types import Dataset, DatasetInfo, DatasetSpec, Job, Kind, ModelSpec, digest_json

TASK_OF_KIND: dict[Kind, str] = {
    "classification": "zeroshot_classification",
    "multilabel": "zeroshot_classification",
    "retrieval": "zeroshot_retrieval",
    "selection": "image_caption_selection",
    "collection": "zeroshot_retrieval",
    "similarity": "visual_sts",
}
"""What ``--task auto`` chooses."""


@dataclass(frozen=True)
class Benchmark:
    """A dataset read by a task, with all that the task needs to know."""

    dataset: DatasetSpec
    task: str
    settings: Mapping[str, Any]


class Planner:
    """Makes jobs; opens each dataset, family and task once."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self._datasets: dict[str, Dataset] = {}
        self._benchmarks: dict[tuple[str, str, str], Benchmark] = {}
        self._tasks: dict[str, Task] = {}
        self._families: dict[str, Family] = {}
        self.left_out: dict[str, LanguageError] = {}
        """Pairs of dataset and language that do not exist, by title."""

    def jobs(self) -> list[Job]:
        """Return all jobs, those of one model together; a language that a dataset does not have makes no job."""
        models = self.models()
        if not self.config.skip_existing:
            self.check(models)
        datasets = self.datasets()
        options = [self._task_options(i, len(datasets)) for i in range(len(datasets))]
        jobs = []
        unfinished: dict[int, ModelSpec] = {}
        for model, (name, chosen), language, task in product(
            models,
            zip(datasets, options, strict=True),
            dict.fromkeys(self.config.language),
            dict.fromkeys(self.config.task),
        ):
            try:
                jobs.append(self.job(model, name, language, task, chosen))
            except LanguageError as error:
                self.left_out.setdefault(f"{name} ({language})", error)
                continue
            if self.config.skip_existing and not jobs[-1].output.exists():
                unfinished[id(model)] = model
        self.check(list(unfinished.values()))
        if self.left_out and not jobs:
            raise next(iter(self.left_out.values()))
        check_outputs(jobs)
        return jobs

    def datasets(self) -> list[str]:
        """Return the names of all datasets, collections and list files expanded, each once."""
        catalogue = load_catalogue(user_files(self.config.catalogue))
        return list(dict.fromkeys(name for entry in _entries(self.config.dataset) for name in catalogue.expand(entry)))

    def models(self) -> list[ModelSpec]:
        """Return the models of ``--pretrained_model``, or every pair of ``--model`` and ``--pretrained``."""
        config = self.config
        if self._has_encoders():
            self.family(config.model_type.partition(":")[0])
        chosen = choose_models(config.model_type, config.model, config.pretrained, _entries(config.pretrained_model))
        return [
            ModelSpec(
                choice.family,
                choice.name,
                choice.pretrained,
                precision_of(config),
                config.device,
                model_options(config) | ({"factory": choice.factory} if choice.factory else {}),
            )
            for choice in chosen
        ]

    def check(self, models: Iterable[ModelSpec]) -> None:
        """Refuse encoders that cannot be loaded.

        With ``--skip_existing`` a model that has all its results is not looked at: that may take the import of its
        library, for nothing. Should a result turn out to be another job's, loading the model refuses as well.
        """
        if self._has_encoders():
            for spec in models:
                self.family(spec.family).check(spec)

    def _has_encoders(self) -> bool:
        return any(name == "auto" or self.task(name).needs == "encoder" for name in self.config.task)

    def family(self, name: str) -> Family:
        """Return a model family by name, once."""
        if name not in self._families:
            self._families[name] = plugins.load("models", name)()
        return self._families[name]

    def job(self, model: ModelSpec, name: str, language: str, task_name: str, options: Mapping[str, Any]) -> Job:
        """Make one job and check that its dataset and task fit."""
        config = self.config
        key = (name, language, task_name)
        if key not in self._benchmarks:
            self._benchmarks[key] = self.benchmark(*key, options)
        benchmark = self._benchmarks[key]
        if self.task(benchmark.task).needs == "generator":
            model = writer_spec(config, model)
        return Job(
            model=model,
            dataset=benchmark.dataset,
            task=benchmark.task,
            settings=benchmark.settings,
            output=fill_output(config.output, model, name, language, benchmark.task),
            batch_size=config.batch_size,
            workers=config.num_workers,
            on_error=config.on_error,
        )

    def benchmark(self, name: str, language: str, task_name: str, options: Mapping[str, Any]) -> Benchmark:
        """Open a dataset and check that the task fits it: the part of a job that is the same for every model."""
        spec = self.dataset_spec(name, language)
        dataset = self.open(spec)
        info = dataset.info
        task_name = task_name if task_name != "auto" else TASK_OF_KIND[info.kind]
        task = self.task(task_name)
        settings = {
            **task.settings({**options, "main_metric": spec.options.get("metric")}),
            **group_settings(self.config.group_by, spec.options.get("groups", {})),
            "task_version": task.version,
            "prompts": digest_json([info.classnames, info.templates, dict(info.class_prompts)]),
            "data": dataset.signature(),
        }
        task.check(info, settings)
        others = {split: self._other_split(spec, split, info) for split in task.splits(settings)}
        settings |= {"splits": others} if others else {}
        return Benchmark(spec, task_name, settings)

    def dataset_spec(self, name: str, language: str) -> DatasetSpec:
        """Find out what a dataset's name stands for."""
        config = self.config
        return resolve_dataset(
            name,
            config.dataset_root,
            split=config.split,
            language=language,
            limit=config.limit,
            options=self._options(),
        )

    def open(self, spec: DatasetSpec) -> Dataset:
        """Open a dataset, once."""
        key = digest_json([spec.name, spec.reader, spec.root, spec.split, spec.language, dict(spec.options)])
        if key not in self._datasets:
            self._datasets[key] = open_dataset(spec)
        return self._datasets[key]

    def _other_split(self, spec: DatasetSpec, split: str, info: DatasetInfo) -> str:
        """Open a split that a task reads besides its own, and return its signature."""
        other = self.open(replace(spec, split=split, limit=None))
        if (other.info.kind, other.info.classnames) != (info.kind, info.classnames):
            raise DataError(
                f"{info.name}: the splits {info.split!r} and {split!r} do not have the same classes.",
                advice="Both must hold the same classes in the same order.",
            )
        return other.signature()

    def task(self, name: str) -> Task:
        """Return a task by name, once."""
        if name not in self._tasks:
            self._tasks[name] = plugins.load("tasks", name)()
        return self._tasks[name]

    def _task_options(self, dataset: int, datasets: int) -> dict[str, Any]:
        """Collect what tasks may ask for; some may be given once for all datasets or once for each."""
        options = {**self.config.task_options, **self.config.model_dump(include=_TASK_KEYS)}
        for key in _PER_DATASET:
            values = options.get(key)
            if isinstance(values, list):
                if len(values) not in (1, datasets):
                    raise UsageError(
                        f"--{key}: {len(values)} values for {datasets} datasets.", advice="Give one, or one each."
                    )
                options[key] = values[dataset if len(values) > 1 else 0]
        return options

    def _options(self) -> dict[str, Any]:
        config = self.config
        options = {
            "classname_file": str(config.custom_classname_file or ""),
            "template_file": str(config.custom_template_file or ""),
            "allow_blank_classnames": config.allow_blank_classnames,
            "annotation_file": config.annotation_file,
            "caption_cleaning": config.caption_cleaning,
            "cache_dir": config.wds_cache_dir,
            "offline": config.offline,
            "hub": config.dataset_hub or config.hub,
            "catalogue": user_files(config.catalogue),
        }
        return {key: value for key, value in options.items() if value}


_TASK_KEYS = {"recall_k", "save_clf", "load_clfs", "seed", "batch_size", "metrics"}
_PER_DATASET = ("train_split", "val_split", "val_proportion")


def make_plan(config: Config, say: Callable[[str], object] = warnings.warn) -> list[Job]:
    """Expand settings into jobs: models x datasets x languages x tasks.

    Args:
        config: The settings.
        say: Told about each pair of dataset and language that is left out because it does not exist. If there
            is nothing else to do, that is an error instead.
    """
    planner = Planner(config)
    jobs = planner.jobs()
    for error in planner.left_out.values():
        say(f"Left out: {error.message} {error.advice}")
    return jobs


def writer_spec(config: Config, spec: ModelSpec) -> ModelSpec:
    """Return the spec of a model as a generator, checked: the same model, with how it shall write."""
    wished = {"temperature": config.questions.temperature, "max_tokens": config.questions.max_tokens}
    settings = {key: value for key, value in wished.items() if value is not None}
    options = {**spec.options, "settings": {**spec.options.get("settings", {}), **settings}}
    if config.questions.api_base:
        options["api_base"] = config.questions.api_base
    writer = replace(spec, options=options)
    plugins.load("generators", spec.family)().check(writer)
    return writer


def open_dataset(spec: DatasetSpec) -> Dataset:
    """Open a dataset with its reader, and clean its captions if asked to."""
    dataset: Dataset = plugins.load("datasets", spec.reader)(spec)
    cleaning = spec.options.get("caption_cleaning")
    return cleaned(dataset, cleaning) if cleaning else dataset


def model_options(config: Config) -> dict[str, Any]:
    """Collect what a family is told beyond the model's name; what was not asked for is left out."""
    named = {
        "cache_dir": config.model_cache_dir,
        "revision": config.revision,
        "hub": config.hub,
        "trust_remote_code": config.trust_remote_code,
        "compile": config.compile,
    }
    return {**config.model_options, **{key: value for key, value in named.items() if value}}


def precision_of(config: Config) -> str:
    """Resolve ``auto``: float32. A wrong digit is worse than a slow run, and amp is one flag away."""
    return "fp32" if config.precision == "auto" else config.precision


def _entries(names: list[str]) -> Iterator[str]:
    """Yield names; a text file stands for the names in it, one a line."""
    for name in names:
        path = Path(name)
        if path.suffix == ".txt" and path.is_file():
            lines = (line.strip() for line in path.read_text(encoding="utf-8").splitlines())
            yield from (line for line in lines if line and not line.startswith("#"))
        else:
            yield name
