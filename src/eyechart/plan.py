"""Settings to jobs. Everything that can be validated is validated here, before any work starts."""

import warnings
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cache, partial
from itertools import chain, product
from pathlib import Path
from typing import Any

from eyechart.config import Config
from eyechart.datasets.catalogue import load_catalogue, user_files
from eyechart.datasets.image_table import CAPTIONS, CLASSES, READ_AS
from eyechart.datasets.image_table import OPTIONS as TABLE_OPTIONS
from eyechart.datasets.questions.question_dataset import QuestionInfo
from eyechart.datasets.registry import OpenDatasets
from eyechart.datasets.resolve import OTHER_FILES, TABLES, resolve_dataset
from eyechart.errors import DataError, LanguageError, NotHereError, UsageError, unknown_name
from eyechart.io.config_files import PARSERS, read_file
from eyechart.messages import UserMessage, join
from eyechart.models.family import Family, need_inputs
from eyechart.models.registry import family_of, inputs_of, is_multi_vector, open_model
from eyechart.outputs import check_outputs, place_of
from eyechart.plan_models import list_entries, model_specs, requested_models, with_generation
from eyechart.settings.generation import QuestionSettings
from eyechart.settings.presets import OWN, PRESETS
from eyechart.settings.tasks import QuestionTaskSettings, TaskSettings, task_flags
from eyechart.tasks.base import ROLES, Task
from eyechart.tasks.label_metrics import group_rules
from eyechart.tasks.question_prompts import BLIND_RESULTS
from eyechart.tasks.registry import TASK_OF_KIND, load_task
from eyechart.types import (
    HALF,
    IN_MEMORY,
    NO_OBJECTS,
    STORE_PRECISION,
    DatasetInfo,
    DatasetSpec,
    EncodeOptions,
    InMemoryObject,
    Input,
    Job,
    ModelSpec,
    Role,
    digest_json,
)

THUMBNAILS = 48
"""Default number of thumbnails in results on custom data."""


@dataclass(frozen=True)
class PlannedBenchmark:
    """A dataset, its task and the task's settings: the part of a job that does not depend on the model."""

    dataset: DatasetSpec
    task: Task
    task_name: str
    """As the user wrote it; a custom task is given by its path."""
    settings: Mapping[str, Any]
    extra_models: Mapping[str, ModelSpec] = field(default_factory=dict)
    usual: bool = False
    """Whether the task is the default for the kind of dataset."""
    blind: str = ""
    """The control that is run in addition, if any: without images, or with other ones."""
    max_tokens: int | None = None
    """The benchmark's own maximum length of an answer."""
    inputs: tuple[Input, ...] = ()
    """What it needs from an encoder."""

    def job(self, model: ModelSpec, output: Path, **how: Any) -> Job:
        """Combine the benchmark with a model and run options into a job."""
        options = self.task.model_options.get(model.family)
        how.setdefault("min_success", self.task.min_success)
        return Job(
            model=replace(model, options={**model.options, **options}) if options else model,
            dataset=self.dataset,
            task=self.task_name,
            settings=self.settings,
            output=output,
            extra_models=self.extra_models,
            **how,
        )


@dataclass
class Planner:
    """Validates benchmarks and models, each once, and builds jobs from them."""

    datasets: OpenDatasets = field(default_factory=OpenDatasets)
    _checked: set[str] = field(default_factory=set)

    def benchmark(
        self,
        spec: DatasetSpec,
        task_name: str,
        options: Mapping[str, Any],
        *,
        group_by: Iterable[str] = (),
        promised: bool = False,
        extra_models: Mapping[str, ModelSpec] | None = None,
    ) -> PlannedBenchmark:
        """Open a dataset and check that the task, or the usual one for ``auto``, supports it.

        The task picks its settings from the options. A promised dataset is written by an earlier job of the run and
        cannot be opened yet. Extra models by part replace those named in the settings.
        """
        info = None if promised else self.datasets.open(spec).info
        if info is not None and task_name == "auto":
            if info.kind not in TASK_OF_KIND:
                advice = "Choose a {--task}, such as image_caption."
                raise UsageError("{name} contains only images.", advice=advice, name=info.name)
            task_name = TASK_OF_KIND[info.kind]
        task = load_task(task_name)
        chosen = task.Settings.picked({**options, "main_metric": spec.options.get("metric")})
        rules = group_rules(list(group_by), spec.options.get("groups", {}))
        record = {**task.recorded(chosen), **({"groups": rules} if rules else {}), "task_version": task.version}
        settings = task.Settings.restored(record)
        if info is not None:
            record["prompts"] = digest_json([info.classnames, info.templates, dict(info.class_prompts)])
            task.check(info, settings)
            for split in settings.splits:
                self._check_split(spec, split, info, task.instead_of_splits)
        others = task.extra_models(chosen) if extra_models is None else extra_models
        for part, model in others.items():
            self.check(model, task.roles[part])
        # A table may have labels as well: a result on its captions keeps the task in its name.
        captions = spec.options.get("caption_column") or spec.options.get(READ_AS) == CAPTIONS
        usual = info is not None and TASK_OF_KIND.get(info.kind) == task_name and not captions
        blind = chosen.blind if isinstance(chosen, QuestionTaskSettings) else ""
        length = info.benchmark.max_tokens if isinstance(info, QuestionInfo) else None
        inputs = task.inputs if info is None else task.inputs_of(info, settings)
        return PlannedBenchmark(spec, task, task_name, record, others, usual, blind, length, inputs)

    def check_model(self, spec: ModelSpec, benchmark: PlannedBenchmark, widest: int = 0) -> None:
        """Reject a model that cannot be loaded, does not support the task, or is known to have fewer dimensions."""
        task = benchmark.task
        family = self.check(spec, task.needs)
        if widest:
            open_model(spec, task.needs).check_dim(widest)
        if task.needs == "encoder":
            task.check_vectors(spec.label, several=is_multi_vector(spec))
        known = inputs_of(family, spec) if benchmark.inputs and task.needs == "encoder" else None
        if known is not None:
            need_inputs(spec.label, known, benchmark.inputs)
        if task.asks_questions and getattr(family, "only_describes", False):
            text = "CoCa captions images but does not answer questions."
            raise UsageError(text, advice="Use another {--model_type}.")

    def check(self, spec: ModelSpec, role: Role) -> Family:
        """Reject a model that cannot be loaded in a role; each model is checked once."""
        family = family_of(spec, role)
        key = digest_json([spec.what, role])
        if key not in self._checked:
            family.check(spec)
            self._checked.add(key)
        return family

    def _check_split(self, spec: DatasetSpec, split: str, info: DatasetInfo, otherwise: str) -> None:
        try:
            other = self.datasets.open(spec.other_split(split))
        except (DataError, UsageError) as error:
            raise type(error)(error.message, advice=join((error.advice, otherwise))) from error
        if (other.info.kind, other.info.classnames) != (info.kind, info.classnames):
            text = "{name}: the splits {first!r} and {second!r} have different classes."
            advice = "Both splits must have the same classes in the same order."
            raise DataError(text, advice=advice, name=info.name, first=info.split, second=split)


def plan_jobs(
    config: Config,
    say: Callable[[str], object] = warnings.warn,
    datasets: OpenDatasets | None = None,
    given: Mapping[str, InMemoryObject] = NO_OBJECTS,
    absent: dict[str, NotHereError] | None = None,
) -> list[Job]:
    """Expand settings into jobs: models x datasets x languages x tasks, grouped by model.

    Args:
        config: The settings.
        say: Called with a message for every skipped (dataset, language) pair. If nothing remains, that is an error.
        datasets: Cache of opened datasets, shared with the runner.
        given: In-memory objects by their names in the settings.
        absent: Filled with datasets that would have to be downloaded; without it, they raise an error.
    """
    planner, guesses = Planner(datasets or OpenDatasets()), defaultdict[Role, list[str]](list)
    requested = requested_models(config)  # rejects wrong names before a dataset is opened or downloaded
    names, notes = dataset_names(config, given), config.notes()
    for note in notes:
        say(note.message)

    @cache
    def models(role: Role) -> list[ModelSpec]:
        return model_specs(config, role, guesses[role].append, given, requested)

    resolve = cache(partial(dataset_spec, config, given=given))
    first = partial(resolve, names[0], config.language[0])
    if not (config.skip_existing or config.predictions) and _encodes(config.task[0], first):
        for spec in models("encoder"):  # before opening a dataset, which may download it
            planner.check(spec, "encoder")
    benchmarks, left_out = _benchmarks(config, planner, names, resolve, absent)
    if left_out and not benchmarks and not absent:
        raise next(iter(left_out.values()))
    if not absent:  # tasks of absent datasets may accept further options
        _check_options(config, {benchmark.task.Settings for benchmark in benchmarks})
    roles = list(dict.fromkeys(benchmark.task.needs for benchmark in benchmarks))
    jobs = [
        (benchmark, replace(job, notes=notes))
        for specs, benchmark in product(zip(*map(models, roles), strict=True), benchmarks)
        for job in _jobs(config, specs[roles.index(benchmark.task.needs)], benchmark)
    ]
    check_outputs([job for _, job in jobs])
    for benchmark, job in jobs:
        # Checking a model may import its library, which is wasted if all its results exist.
        # If a result turns out to be outdated, loading the model checks it again.
        if benchmark.task.settings_of(job).uses_model and not (config.skip_existing and job.output.exists()):
            planner.check_model(job.model, benchmark, max(job.settings.get("truncate_dim", [0])))
    skipped = (UserMessage("Skipped: {reason} {hint}", reason=e.message, hint=e.advice) for e in left_out.values())
    for line in (*chain.from_iterable(guesses[role] for role in roles), *skipped):
        say(line)
    return [job for _, job in jobs]


def _encodes(task: str, dataset: Callable[[], DatasetSpec]) -> bool:
    """Whether a job needs an encoder, decided without opening its dataset."""
    if task != "auto":
        return load_task(task).needs == "encoder"
    try:
        return dataset().reader != "questions"
    except NotHereError:
        return False  # opening the dataset reports it


def _benchmarks(
    config: Config,
    planner: Planner,
    names: list[str],
    resolve: Callable[[str, str], DatasetSpec],
    absent: dict[str, NotHereError] | None,
) -> tuple[list[PlannedBenchmark], dict[str, LanguageError]]:
    """Open every dataset in every language for every task; also return those that lack the language."""
    benchmarks, left_out = list[PlannedBenchmark](), dict[str, LanguageError]()
    instructions = read_instructions(config.instructions, names) if config.instructions else {}
    for number, name in enumerate(names):
        options = task_options(config, number, len(names))
        options |= {key: text for key, text in instructions.get(name, {}).items() if options.get(key) is None}
        for language, task in product(dict.fromkeys(config.language), dict.fromkeys(config.task)):
            try:
                dataset = read_by(resolve(name, language), task)
                benchmarks.append(planner.benchmark(dataset, task, options, group_by=config.group_by))
            except LanguageError as error:
                left_out.setdefault(f"{name} ({language})", error)
            except NotHereError as error:
                if absent is None:
                    raise
                absent.setdefault(name, error)
    return benchmarks, left_out


def _jobs(config: Config, spec: ModelSpec, benchmark: PlannedBenchmark) -> list[Job]:
    """Return the job of a model on a benchmark, and its control if there is one."""
    task, dataset, label = benchmark.task, benchmark.dataset, ""
    settings = dict(benchmark.settings)
    if task.needs == "generator":
        spec, label = with_generation(config, spec, dataset.name, benchmark.max_tokens)
    if config.preset != OWN:
        settings["like"] = config.preset
    precision = config.store_precision if task.needs == "encoder" else None
    if precision == HALF or (precision and is_multi_vector(spec) is not False):
        settings[STORE_PRECISION] = precision
    settings |= _compression(config, benchmark)
    thumbnails = THUMBNAILS if dataset.own else 0
    half = None if precision is None else precision == HALF
    named = (replace(spec, name=label) if label else spec, dataset.name, dataset.language, benchmark.task_name)
    job = replace(benchmark, settings=settings).job(
        spec,
        place_of(config.output, *named, split=dataset.split, usual_task=benchmark.usual),
        label=label,
        encoding=EncodeOptions(config.batch_size, config.num_workers, config.decode_processes, half),
        on_error=config.on_error,
        min_success=task.min_success if config.min_success is None else config.min_success,
        thumbnails=thumbnails if config.thumbnails is None else config.thumbnails,
        append=config.append,
        dump=tuple(name for name in ("classnames", "templates") if getattr(config, f"dump_{name}")),
    )
    if not benchmark.blind:
        return [job]
    word = BLIND_RESULTS[benchmark.blind]
    control = replace(
        job,
        settings={**settings, "blind": benchmark.blind},
        label=f"{job.label or job.model.label} ({word})",
        output=job.output.with_stem(f"{job.output.stem}_{word}"),
        min_success=0.0,  # a model that is shown no image may rightly decline to answer
    )
    return [job, control]


def _compression(config: Config, benchmark: PlannedBenchmark) -> dict[str, list[Any]]:
    """Return the dimensions and precisions to which vectors are compressed; reject jobs that do not support any."""
    config.check_positive("truncate_dim")
    names = "truncate_dim", "quantize"  # full vectors first
    found = {name: sorted({*values}, reverse=True) for name in names if (values := getattr(config, name))}
    reasons = {
        "{task} does not compare vectors": benchmark.task.needs != "encoder",
        "a reranker would read other documents": benchmark.extra_models,
        "{--load_clfs} loads full vectors": benchmark.settings.get("load_clfs"),
        "MTEB breaks ties of binary codes by rounding (int8 works)": benchmark.task.name == "mteb"
        and "binary" in config.quantize,
    }
    for reason in (text for text, applies in reasons.items() if found and applies):
        why = UserMessage(reason, task=benchmark.task.name)
        raise UsageError("{--truncate_dim} and {--quantize} are not supported here: {reason}.", reason=why)
    return found


def dataset_names(config: Config, given: Mapping[str, InMemoryObject] = NO_OBJECTS) -> list[str]:
    """Return the names of all datasets, with collections and list files expanded, without duplicates."""
    catalogue = load_catalogue(user_files(config.catalogue))

    def known(name: str) -> bool:
        return name in given or Path(name).suffix.lower() in {*TABLES, *OTHER_FILES} or name in catalogue

    names: dict[str, None] = {}
    for entry in list_entries(config.dataset, known):
        names |= dict.fromkeys((entry,) if entry in given else catalogue.expand(entry))
    return list(names)


def dataset_spec(
    config: Config, name: str, language: str, given: Mapping[str, InMemoryObject] = NO_OBJECTS, task: str = "auto"
) -> DatasetSpec:
    """Resolve a dataset's name; the task decides how a table with labels and captions is read."""
    cleaning = config.caption_cleaning
    if isinstance(cleaning, dict):
        entry = load_catalogue(user_files(config.catalogue)).find(name)
        cleaning = cleaning.get(entry.name if entry else name)
    options = {
        **{option: getattr(config, option) for option in TABLE_OPTIONS},
        "classname_file": str(config.custom_classname_file or ""),
        "template_file": str(config.custom_template_file or ""),
        "allow_blank_classnames": config.allow_blank_classnames,
        "annotation_file": config.annotation_file,
        "caption_cleaning": None if cleaning == "none" else cleaning,
        "encoding": config.encoding,
        "predictions": config.predictions,
        "skip_missing": config.on_error == "skip",
        "cache_dir": config.wds_cache_dir,
        "offline": config.offline,
        "hub": config.dataset_hub or config.hub,
        "catalogue": user_files(config.catalogue),
    }
    wanted = {key: value for key, value in options.items() if value}
    if name in given:
        wanted |= {IN_MEMORY: given[name], "only_split": config.split}
        spec = DatasetSpec(name, IN_MEMORY, "", config.split, language, config.limit, wanted, own=True)
    else:
        spec = resolve_dataset(
            name, config.dataset_root, split=config.split, language=language, limit=config.limit, options=wanted
        )
    if config.predictions and spec.reader != "mmeb":
        raise UsageError("{--predictions} applies to mmeb/NAME, not to {name}.", name=name)
    return read_by(spec, task)


def read_by(spec: DatasetSpec, task: str) -> DatasetSpec:
    """Return the dataset as the task reads it: a table may have both labels and captions."""
    asks = spec.reader in ("table", IN_MEMORY) and task != "auto"
    read_as = {CLASSES, CAPTIONS} & load_task(task).kinds if asks else frozenset()
    return replace(spec, options={**spec.options, READ_AS: min(read_as)}) if len(read_as) == 1 else spec


def _check_options(config: Config, kinds: Collection[type[TaskSettings]]) -> None:
    """Reject task options that no task of the run accepts, and those that are settings of the run."""
    own = {name for kind in kinds for name, one in kind.fields().items() if one.surface != "internal"}
    shared = {*Config.fields(), *QuestionSettings.fields()}
    known = {*own, *task_flags(), *PRESETS[config.preset].get("task_options", {})}
    for name in config.task_options:
        if name in shared:
            raise UsageError("{name} is not a task option.", advice="Use the setting {--{name}}.", name=name)
        if name not in known and not any(kind.open for kind in kinds):
            raise unknown_name("task option", name, own - shared)


def read_instructions(file: str, names: Iterable[str]) -> dict[str, dict[str, str]]:
    """Read the prompts of benchmarks from a file: a query prompt, or prompts by role, by benchmark name or pattern.

    A benchmark takes the entry of its name, else the first pattern that matches it.
    """
    content, found = read_file(Path(file), PARSERS), dict[str, dict[str, str]]()
    keys = "Its keys are benchmark names or patterns; * matches all."
    if not isinstance(content, dict):
        raise UsageError("{path} is not a mapping of benchmarks to prompts.", advice=keys, path=file)
    for name, entry in content.items():
        roles = {"query": entry} if isinstance(entry, str) else entry
        if not isinstance(roles, dict) or roles.keys() - ROLES or not all(isinstance(v, str) for v in roles.values()):
            advice = "Write a prompt for queries, or a mapping with the keys query and document."
            raise UsageError("{path}: invalid entry {name!r}.", advice=advice, path=file, name=name)
        found[name] = {f"{role}_prompt": text for role, text in roles.items()}
    matched = {
        name: found[entry]
        for name in names
        if (entry := next((known for known in (name, *found) if known in found and fnmatchcase(name, known)), None))
    }
    if not matched:
        raise UsageError("{path} has no entry for any of these benchmarks.", advice=keys, path=file)
    return matched


def task_options(config: Config, dataset: int = 0, datasets: int = 1) -> dict[str, Any]:
    """Collect the values that tasks pick settings from; per-dataset values are resolved for one dataset."""
    options = {**config.task_options, **config.as_dict(), **config.questions.as_dict()}
    for name, one in task_flags().items():
        values = options.get(name)
        if one.per_dataset and isinstance(values, list):
            if len(values) not in (1, datasets):
                text = "{--{key}}: {n} values for {datasets} datasets."
                advice = "Give one value, or one per dataset."
                raise UsageError(text, advice=advice, key=name, n=len(values), datasets=datasets)
            options[name] = values[dataset if len(values) > 1 else 0]
    return options
