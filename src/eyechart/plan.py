"""From settings to a list of jobs. Whatever can be refused is refused here, before any work."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any

from eyechart.config import Config
from eyechart.datasets.catalogue import load_catalogue, user_files
from eyechart.datasets.registry import OpenDatasets
from eyechart.datasets.resolve import OTHER_FILES, TABLES, resolve_dataset
from eyechart.datasets.table_columns import CAPTIONS, CLASSES, READ_AS
from eyechart.datasets.table_columns import OPTIONS as TABLE_OPTIONS
from eyechart.errors import DataError, LanguageError, NotHereError, UsageError, unknown_name
from eyechart.like import OWN, STYLES
from eyechart.models.family import Family
from eyechart.models.registry import family_of
from eyechart.outputs import check_outputs, place_of
from eyechart.plan_models import asked_models, list_entries, model_specs, short_name, with_generation
from eyechart.tasks.base import Task
from eyechart.tasks.groups import group_settings
from eyechart.tasks.registry import TASK_OF_KIND, load_task
from eyechart.types import (
    HALF,
    NOTHING_GIVEN,
    OBJECT,
    STORE_PRECISION,
    DatasetInfo,
    DatasetSpec,
    Given,
    Job,
    ModelSpec,
    Role,
    digest_json,
)

THUMBNAILS = 48
"""Small images that a result on data of one's own keeps, unless it is said how many."""


@dataclass(frozen=True)
class PlannedBenchmark:
    """A dataset read by a task, with all that the task needs to know: the part of a job that no model changes."""

    dataset: DatasetSpec
    task: Task
    task_name: str
    """As the user wrote it: a task of one's own goes by its path."""
    settings: Mapping[str, Any]
    others: Mapping[str, ModelSpec] = field(default_factory=dict)
    asked: frozenset[str] = frozenset()
    """The options that the task knows."""
    usual: bool = False
    """Whether the task is the one that such data are read by if nobody names one."""
    controls: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Settings of further jobs that a job is measured against, by the word that their results get."""

    def with_controls(self, job: Job) -> list[Job]:
        """Return a job and those that it is measured against.

        A control has no share of samples that must be readable: a model that is shown nothing may well say so.
        """
        name = job.label or job.model.label
        return [
            job,
            *(
                replace(
                    job,
                    settings=settings,
                    label=f"{name} ({word})",
                    output=job.output.with_stem(f"{job.output.stem}_{word}"),
                    min_success=0.0,
                )
                for word, settings in self.controls.items()
            ),
        ]

    def job(self, model: ModelSpec, output: Path, **how: Any) -> Job:
        """Make a job of it: with a model, and with how the work is to be done."""
        options = self.task.model_options(model.family)
        how.setdefault("min_success", self.task.min_success)
        return Job(
            model=replace(model, options={**model.options, **options}) if options else model,
            dataset=self.dataset,
            task=self.task_name,
            settings=self.settings,
            output=output,
            others=self.others,
            **how,
        )


class _Options(Mapping[str, Any]):
    """Options that remember which of them a task asked for."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._options = options
        self.asked: set[str] = set()

    def __getitem__(self, key: str) -> Any:
        self.asked.add(key)
        return self._options[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._options)

    def __len__(self) -> int:
        return len(self._options)


class Planner:
    """Checks benchmarks and models, each once, and makes jobs of them."""

    def __init__(self, datasets: OpenDatasets | None = None) -> None:
        self.datasets = datasets or OpenDatasets()
        self._checked: set[str] = set()

    def benchmark(
        self,
        spec: DatasetSpec,
        task_name: str,
        options: Mapping[str, Any],
        *,
        group_by: Iterable[str] = (),
        promised: bool = False,
    ) -> PlannedBenchmark:
        """Open a dataset and check that the task fits it.

        Args:
            spec: The dataset.
            task_name: A task, or ``auto``.
            options: What tasks may pick their settings from.
            group_by: Columns of metadata to give figures by.
            promised: An earlier job of the same run will write the dataset, so it cannot be opened yet.
        """
        info = None if promised else self.datasets.open(spec).info
        task_name = _task_for(info) if info is not None and task_name == "auto" else task_name
        task = load_task(task_name)
        chosen = _Options({**options, "main_metric": spec.options.get("metric"), "dataset": spec.name})
        settings = {
            **task.settings(chosen),
            **group_settings(list(group_by), spec.options.get("groups", {})),
            "task_version": task.version,
        }
        if info is not None:
            settings["prompts"] = digest_json([info.classnames, info.templates, dict(info.class_prompts)])
            task.check(info, settings)
            for split in task.splits(settings):
                self._check_split(spec, split, info, task.instead_of_splits)
        others = task.others(chosen)
        for part, model in others.items():
            self.check(model, task.roles[part])
        controls = task.controls(chosen, settings)
        # A table may have labels, too: what was asked for by its captions has a name of its own beside them.
        captions = spec.options.get("caption_column") or spec.options.get(READ_AS) == CAPTIONS
        usual = info is not None and TASK_OF_KIND.get(info.kind) == task_name and not captions
        return PlannedBenchmark(spec, task, task_name, settings, others, frozenset(chosen.asked), usual, controls)

    def check(self, spec: ModelSpec, role: Role) -> Family:
        """Refuse a model that cannot be loaded in a role, once."""
        family = family_of(spec, role)
        key = digest_json([spec.what, role])
        if key not in self._checked:
            family.check(spec)
            self._checked.add(key)
        return family

    def _check_split(self, spec: DatasetSpec, split: str, info: DatasetInfo, advice: str) -> None:
        """Open a split that a task reads besides its own."""
        try:
            other = self.datasets.open(spec.other_split(split))
        except (DataError, UsageError) as error:
            raise type(error)(error.message, advice=f"{error.advice} {advice}".strip()) from error
        if (other.info.kind, other.info.classnames) != (info.kind, info.classnames):
            raise DataError(
                f"{info.name}: the splits {info.split!r} and {split!r} do not have the same classes.",
                advice="Both must hold the same classes in the same order.",
            )


def plan_jobs(
    config: Config,
    say: Callable[[str], object] = warnings.warn,
    datasets: OpenDatasets | None = None,
    given: Mapping[str, Given] = NOTHING_GIVEN,
    absent: dict[str, NotHereError] | None = None,
) -> list[Job]:
    """Expand settings into jobs: models x datasets x languages x tasks, those of one model together.

    Args:
        config: The settings.
        say: Told about each pair of dataset and language that is left out because it does not exist. If there
            is nothing else to do, that is an error instead.
        datasets: Where those that are opened are kept for who runs the jobs.
        given: Objects of Python, by the names that the settings have for them.
        absent: Filled with datasets that are not here where nothing is fetched; without it, that is an error.
    """
    asked_models(config)  # what is wrong with these is said before a dataset is opened, or fetched
    planner = Planner(datasets)
    names = dataset_names(config, given)
    notes = config.notes()
    for note in notes:
        say(note.message)
    if not config.skip_existing and _encodes(config, names[0], given):
        for spec in model_specs(config, "encoder", str, given):  # before a dataset is opened, which may take a download
            planner.check(spec, "encoder")
    benchmarks, left_out = _benchmarks(config, planner, names, given, absent)
    if left_out and not benchmarks and not absent:
        raise next(iter(left_out.values()))
    asked = frozenset().union(*(benchmark.asked for benchmark in benchmarks.values()))
    if not absent:  # their tasks may be the ones that know an option
        _check_options(config.task_options, asked | STYLES[config.like].get("task_options", {}).keys())
    roles = list(dict.fromkeys(benchmark.task.needs for benchmark in benchmarks.values()))
    models = zip(*(model_specs(config, role, say, given) for role in roles), strict=True)
    jobs = [
        replace(job, notes=notes)
        for model, benchmark in product(models, benchmarks.values())
        for job in benchmark.with_controls(_job(config, model[roles.index(benchmark.task.needs)], benchmark))
    ]
    check_outputs(jobs)
    for job in jobs:
        # A model that has all its results is not looked at: that may take the import of its library, for nothing.
        # Should a result turn out to be another job's, loading the model refuses as well.
        task = load_task(job.task)
        if task.uses_model(job.settings) and not (config.skip_existing and job.output.exists()):
            task.check_family(planner.check(job.model, task.needs))
    for missing in left_out.values():
        say(f"Left out: {missing.message} {missing.advice}")
    return jobs


def _benchmarks(
    config: Config,
    planner: Planner,
    names: list[str],
    given: Mapping[str, Given],
    absent: dict[str, NotHereError] | None,
) -> tuple[dict[tuple[str, str, str], PlannedBenchmark], dict[str, LanguageError]]:
    """Open every dataset in every language, for every task; return also those without the language."""
    benchmarks: dict[tuple[str, str, str], PlannedBenchmark] = {}
    left_out: dict[str, LanguageError] = {}
    for (number, name), language, task in product(
        enumerate(names), dict.fromkeys(config.language), dict.fromkeys(config.task)
    ):
        try:
            dataset = dataset_spec(config, name, language, given, task)
            options = task_options(config, number, len(names))
            benchmarks[name, language, task] = planner.benchmark(dataset, task, options, group_by=config.group_by)
        except LanguageError as error:
            left_out.setdefault(f"{name} ({language})", error)
        except NotHereError as error:
            if absent is None:
                raise
            absent.setdefault(name, error)
    return benchmarks, left_out


def _encodes(config: Config, dataset: str, given: Mapping[str, Given]) -> bool:
    """Tell whether the first job of a run needs an encoder, without opening its dataset."""
    if config.task[0] == "auto":
        try:
            return dataset_spec(config, dataset, config.language[0], given).reader != "questions"
        except NotHereError:
            return False  # it is told when the dataset is opened
    return load_task(config.task[0]).needs == "encoder"


def _job(config: Config, spec: ModelSpec, benchmark: PlannedBenchmark) -> Job:
    task, dataset = benchmark.task, benchmark.dataset
    label = ""
    if task.needs == "generator":
        spec, label = with_generation(config, spec, dataset.name), short_name(spec)
    named = replace(spec, name=label) if label else spec
    if config.like != OWN:
        benchmark = replace(benchmark, settings={**benchmark.settings, "like": config.like})
    if config.store_precision == HALF and task.needs == "encoder":
        benchmark = replace(benchmark, settings={**benchmark.settings, STORE_PRECISION: HALF})
    return benchmark.job(
        spec,
        place_of(
            config.output,
            named,
            dataset.name,
            dataset.language,
            benchmark.task_name,
            usual_task=benchmark.usual,
        ),
        label=label,
        batch_size=config.batch_size,
        grow="batch_size" not in config.model_fields_set,
        workers=config.num_workers,
        decode_processes=config.decode_processes,
        on_error=config.on_error,
        **({} if config.min_success is None else {"min_success": config.min_success}),
        thumbnails=_thumbnails(config, dataset),
        append=config.append,
        dump=tuple(name for name in ("classnames", "templates") if getattr(config, f"dump_{name}")),
    )


def _thumbnails(config: Config, dataset: DatasetSpec) -> int:
    if config.thumbnails is not None:
        return config.thumbnails
    return THUMBNAILS if dataset.own else 0


def dataset_names(config: Config, given: Mapping[str, Given] = NOTHING_GIVEN) -> list[str]:
    """Return the names of all datasets, collections and list files expanded, each once."""
    catalogue = load_catalogue(user_files(config.catalogue))

    def known(name: str) -> bool:
        form = Path(name).suffix.lower()
        named = name in catalogue.collections or catalogue.find(name) is not None
        return name in given or form in TABLES or form in OTHER_FILES or named

    entries = list_entries(config.dataset, known)
    expanded = ((entry,) if entry in given else catalogue.expand(entry) for entry in entries)
    return list(dict.fromkeys(name for names in expanded for name in names))


def dataset_spec(
    config: Config, name: str, language: str, given: Mapping[str, Given] = NOTHING_GIVEN, task: str = "auto"
) -> DatasetSpec:
    """Find out what a dataset's name stands for; the task says how to read a table with labels and captions."""
    options = {
        **{option: getattr(config, option) for option in TABLE_OPTIONS},
        "classname_file": str(config.custom_classname_file or ""),
        "template_file": str(config.custom_template_file or ""),
        "allow_blank_classnames": config.allow_blank_classnames,
        "annotation_file": config.annotation_file,
        "caption_cleaning": _cleaning(config, name),
        "encoding": config.encoding,
        "skip_missing": config.on_error == "skip",
        "cache_dir": config.wds_cache_dir,
        "offline": config.offline,
        "hub": config.dataset_hub or config.hub,
        "catalogue": user_files(config.catalogue),
    }
    wanted = {key: value for key, value in options.items() if value}
    if name in given:
        wanted |= {OBJECT: given[name], "only_split": config.split}
        spec = DatasetSpec(name, OBJECT, "", config.split, language, config.limit, wanted, own=True)
    else:
        spec = resolve_dataset(
            name, config.dataset_root, split=config.split, language=language, limit=config.limit, options=wanted
        )
    asks = spec.reader in ("table", OBJECT) and task != "auto"
    read_as = READ_AS_KINDS & load_task(task).kinds if asks else frozenset()
    return replace(spec, options={**spec.options, READ_AS: min(read_as)}) if len(read_as) == 1 else spec


def _cleaning(config: Config, name: str) -> str | None:
    """Return how captions of a dataset are cleaned, by the name that the catalogue has for it."""
    wanted = config.caption_cleaning
    if isinstance(wanted, dict):
        entry = load_catalogue(user_files(config.catalogue)).find(name)
        wanted = wanted.get(entry.name if entry else name)
    return None if wanted == "none" else wanted


READ_AS_KINDS = frozenset({CLASSES, CAPTIONS})
_TASK_KEYS = {"recall_k", "save_clf", "load_clfs", "seed", "batch_size", "metrics", "questions", "reranker"}
_PER_DATASET = ("train_split", "val_split", "val_proportion")
TASK_FLAGS = frozenset({
    *_PER_DATASET, "folds", "fewshot_k", "fewshot_epochs", "fewshot_lr", "fewshot_curve", "fewshot_repeats",
    "fewshot_draw", "knn_k", "normalize", "caption_prompt", "prompt_role", "prompt_sensitivity",
    "merge_duplicate_classes", "empty_classes",
})  # fmt: skip
"""Task options that are flags of the command: they may be there for another task."""


def _check_options(given: Mapping[str, Any], asked: frozenset[str]) -> None:
    """Refuse options that no task of the run knows, and those that another setting would overrule."""
    for name in given:
        if name in _TASK_KEYS:
            raise UsageError(f"{name} is no task option.", advice=f"It is a setting of its own: --{name}.")
        if name not in asked | TASK_FLAGS:
            raise unknown_name("task option", name, asked - _TASK_KEYS - {"main_metric", "dataset"})


def task_options(config: Config, dataset: int = 0, datasets: int = 1) -> dict[str, Any]:
    """Collect what tasks may ask for; some may be given once for all datasets or once for each."""
    options = {**config.task_options, **config.model_dump(include=_TASK_KEYS)}
    for key in _PER_DATASET:
        values = options.get(key)
        if isinstance(values, list):
            if len(values) not in (1, datasets):
                raise UsageError(
                    f"--{key}: {len(values)} values for {datasets} datasets.", advice="Give one, or one each."
                )
            options[key] = values[dataset if len(values) > 1 else 0]
    return options


def _task_for(info: DatasetInfo) -> str:
    if info.kind not in TASK_OF_KIND:
        raise UsageError(f"{info.name} has images and nothing else.", advice="Name a --task, such as image_caption.")
    return TASK_OF_KIND[info.kind]
