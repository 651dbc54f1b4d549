"""The task interface: its context, its prediction, and the `Task` base class."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, NoReturn, Self, cast

import numpy as np
from numpy.typing import NDArray

from eyechart.errors import DataError, UsageError
from eyechart.inference.answers import CachedGenerator
from eyechart.inference.embeddings import CachedEncoder
from eyechart.io.progress import NoProgress, Progress
from eyechart.manifest import DatasetScan, Entry, Failure, Manifest
from eyechart.messages import UserMessage
from eyechart.metrics.vectors import AnyVectors, MultiVectors, all_alike, zero_rows
from eyechart.settings.tasks import OpenSettings, PromptedSettings, TaskSettings
from eyechart.stats import Interval
from eyechart.types import DatasetInfo, Input, Job, Kind, Metric, ModelSpec, Notice, OnError, Outcome, RecordForm, Role

ROLES = ("query", "document")
MANY = 3
"""Two different inputs may share a vector by chance, but not this many."""
HAIR = 1e-9
"""Tolerance for rounding that puts an interval's end on the wrong side of the value."""


def no_extra_model(part: str) -> NoReturn:
    """Raise: the job has no such extra model."""
    raise UsageError("This job has no {part}.", part=part)


@dataclass(frozen=True)
class TaskContext:
    """Input of a task: dataset, model, output path and run options."""

    listed: Manifest | DatasetScan
    """The samples. May be a dataset that has not been read yet, so that a task that embeds all of it reads it once;
    otherwise use `manifest`."""
    model: Any
    """The job's model with its cache: `CachedEncoder` or `CachedGenerator`, depending on `Task.needs`."""
    open_split: Callable[[str], Manifest]
    """Opens another split of the same dataset."""
    output: Path
    """Path of the result file; other files of the task go next to it."""
    open_extra_model: Callable[[str], Any] = no_extra_model
    """Opens an extra model of the job by its role: a judge, a reranker."""
    extra_models: Collection[str] = ()
    """Roles for which the job has an extra model."""
    device: str = "auto"
    """The device the user chose: auto, cpu, cuda, ..."""
    on_error: OnError = "fail"
    progress: Progress = field(default_factory=NoProgress)

    @property
    def encoder(self) -> CachedEncoder:
        """The model of a task that needs an encoder."""
        return cast("CachedEncoder", self.model)

    @property
    def generator(self) -> CachedGenerator:
        """The model of a task that needs a generator."""
        return cast("CachedGenerator", self.model)

    def split(self, name: str) -> Self:
        """Return a context with the same model and another split."""
        return replace(self, listed=self.open_split(name))

    @property
    def manifest(self) -> Manifest:
        """The samples with their digests; reads the dataset on first use."""
        return self.listed.manifest if isinstance(self.listed, DatasetScan) else self.listed

    @property
    def info(self) -> DatasetInfo:
        """The description of the dataset."""
        return self.listed.info


@dataclass(frozen=True)
class Prediction:
    """Base of all predictions: the scored samples, in order."""

    rows: ClassVar[tuple[str, ...]] = ()
    """Fields with one row per sample."""

    info: DatasetInfo
    entries: tuple[Entry, ...]
    failures: tuple[Failure, ...]
    notices: tuple[Notice, ...] = field(default=(), kw_only=True)
    """Warnings of the prediction, for the outcome."""
    left_out: Collection[str] = field(default=(), kw_only=True)
    """Ids of samples that are excluded from scoring, such as queries without a relevant document."""
    counts: Mapping[str, int] = field(default_factory=dict, kw_only=True)
    """Additional counts for the result."""

    def only(self, keep: NDArray[np.int64]) -> Self:
        """Return the prediction for the samples at positions ``keep``."""
        kept: dict[str, Any] = {}
        for name in ("entries", *self.rows):
            rows = getattr(self, name)
            kept[name] = rows[keep] if isinstance(rows, np.ndarray) else tuple(rows[i] for i in keep)
        return replace(self, failures=(), **kept)


class Task(ABC):
    """A way to evaluate a model on a dataset.

    ``check`` runs when the job is planned, before a model is loaded; ``predict`` is slow and cached; ``score`` is fast,
    pure and repeatable. Only ``predict`` and ``score`` are abstract.
    """

    name: ClassVar[str]
    version: ClassVar[int] = 1
    """Increased whenever the same predictions would get different numbers."""
    kinds: ClassVar[frozenset[Kind]]
    """The kinds of datasets it supports."""
    needs: ClassVar[Role] = "encoder"
    """The kind of model it needs."""
    measures: ClassVar[str] = ""
    """The ability it measures; tables group and average benchmarks by it. Defaults to the task's name."""
    records: ClassVar[RecordForm | Mapping[Kind, RecordForm]] = ""
    """The form of its records, for the report; a mapping if it depends on the kind of dataset."""

    inputs: ClassVar[tuple[Input, ...]] = ()
    """What it needs from an encoder; a model that lacks one is refused before data are read."""
    instead_of_splits: ClassVar[str] = ""
    """Advice shown when another split that the task needs does not exist."""
    min_success: ClassVar[float] = 0.0
    """Default share of samples that must be read and answered successfully."""
    roles: ClassVar[Mapping[str, Role]] = {}
    """Extra models the task supports: the kind of model by role."""
    model_options: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    """Options the task requires, by model family, in addition to the user's."""
    multi_vector: ClassVar[bool] = False
    """Whether it supports encoders with several vectors per input (late interaction)."""
    asks_questions: ClassVar[bool] = False
    """True if the model must understand questions; captioning-only generators are rejected."""
    Settings: ClassVar[type[TaskSettings]] = OpenSettings
    """Settings model of the task; by default all task options, accessed like a dict."""

    def inputs_of(self, info: DatasetInfo, settings: Any) -> tuple[Input, ...]:  # noqa: ARG002 - for few
        """Return what it needs from an encoder for a dataset."""
        return self.inputs

    def settings_of(self, job: Job) -> Any:
        """Return the typed settings of a job."""
        return self.Settings.restored(job.settings)

    def recorded(self, settings: Any) -> dict[str, Any]:
        """Return the settings that the job records; override to reject values only this task can check."""
        return cast("dict[str, Any]", settings.recorded())

    def extra_models(self, settings: Any) -> Mapping[str, ModelSpec]:  # noqa: ARG002 - for those that have some
        """Return the extra models by role."""
        return {}

    def record_form(self, info: DatasetInfo) -> RecordForm:
        """Return the form of the records for this kind of dataset."""
        return self.records if isinstance(self.records, str) else self.records[info.kind]

    def check(self, info: DatasetInfo, settings: Any) -> None:  # noqa: ARG002 - settings may matter
        """Reject an unsupported dataset before anything expensive happens."""
        if info.kind not in self.kinds:
            kinds = " or ".join(sorted(self.kinds))
            raise UsageError(
                "{name} reads {kinds} datasets, but {info_name} is a {kind} dataset.",
                advice="Use {--task=auto}, or add dataset_type.txt to the dataset if it is described wrongly.",
                name=self.name,
                kinds=kinds,
                info_name=info.name,
                kind=info.kind,
            )

    def check_vectors(self, label: str, *, several: bool | None) -> None:
        """Reject an encoder with several vectors per input, unless the task supports it."""
        if several and not self.multi_vector:
            raise UsageError(
                "{label} returns several vectors per input (late interaction), which {task} does not support.",
                advice="Use {--task} zeroshot_retrieval or text_retrieval, or a model with one vector per input.",
                label=label,
                task=self.name,
            )

    def reads(self, output: Path, settings: Any) -> tuple[Path, ...]:  # noqa: ARG002 - for few
        """Return the files besides the dataset that the numbers depend on; their content is part of the cache key."""
        return ()

    def is_whole(self, facts: Mapping[str, Any], details: Mapping[str, Any]) -> bool:  # noqa: ARG002 - for few
        """Whether a result is complete; otherwise a repeated run retries what is missing."""
        return True

    @abstractmethod
    def predict(self, context: TaskContext, settings: Any) -> Any:
        """Embed or generate what the score needs; return a `Prediction`."""

    @abstractmethod
    def score(self, prediction: Any, settings: Any) -> Outcome:
        """Compute metrics and records."""


def counted(kind: str, count: int, template: str, /, **fields: object) -> tuple[Notice, ...]:
    """Return a notice, or none if it would count nothing; ``{n}`` in the template is the count."""
    return (Notice(kind, count, UserMessage(template, n=count, **fields)),) if count else ()


def need_samples(prediction: Prediction) -> None:
    """Raise if no sample is left to score."""
    if not prediction.entries:
        raise DataError(
            "{name}: none of the {n} samples could be used.",
            advice=UserMessage("The first failed with: {reason}", reason=prediction.failures[0].reason)
            if prediction.failures
            else "",
            name=prediction.info.name,
            n=len(prediction.failures),
        )


def make_metric(value: float, interval: Interval | None, *also: str, **known: Any) -> Metric:
    """Make a metric; without an interval (too few samples) both of its ends are None.

    ``also`` names what the interval covers besides the choice of test samples.
    """
    if interval is None:
        return Metric(value, **known)
    low, high = interval
    low = value if value < low < value + HAIR else low
    high = value if value - HAIR < high < value else high
    return Metric(value, low, high, covers=("test samples", *also), **known)


@dataclass(frozen=True)
class EncodedImages:
    """The samples whose image was encoded, with its vector, and those whose image failed."""

    vectors: Any
    """One row per image, or `MultiVectors` if the task supports several vectors per input."""
    digests: NDArray[np.uint8]
    """Image digests, one row each."""
    entries: tuple[Entry, ...]
    failures: tuple[Failure, ...]
    notices: tuple[Notice, ...]

    def without(self, lost: Mapping[str, str]) -> Self:
        """Return a copy without some images, which are listed as failures: reasons by id."""
        kept = np.array([i for i, entry in enumerate(self.entries) if entry.id not in lost], np.int64)
        failures = (Failure(name, reason) for name, reason in lost.items())
        return replace(
            self,
            vectors=self.vectors[kept],
            digests=self.digests[kept],
            entries=tuple(self.entries[i] for i in kept),
            failures=(*self.failures, *failures),
        )


def prompts_of(context: TaskContext, settings: PromptedSettings) -> dict[str, str]:
    """Return the prompts by role: from the settings, else from the model's own configuration."""
    found = {role: getattr(settings, f"{role}_prompt") for role in ROLES}
    given = {role: text for role, text in found.items() if text is not None}
    return given or dict(context.encoder.card.prompts)


def encode_images(
    context: TaskContext,
    manifest: Manifest | None = None,
    *,
    normalize: bool = True,
    role: str = "",
    prompt: str | None = None,
) -> EncodedImages:
    """Encode the images of a split, by default the scored one, to unit vectors."""
    listed = context.listed if manifest is None else manifest
    embedded = context.encoder.images(listed, role=role, prompt=prompt or "")
    manifest = context.manifest if manifest is None else manifest
    digests = manifest.digests[embedded.kept]
    vectors = context.encoder.unit(embedded.vectors) if normalize else embedded.vectors
    vectors, notices = drop_constant_embeddings(vectors, "images", map(bytes, digests))
    return EncodedImages(vectors, digests, manifest.take(embedded.kept), embedded.failures, notices)


def encode_texts(
    context: TaskContext, texts: Sequence[str], *, normalize: bool = True, role: str = "", prompt: str | None = None
) -> tuple[Any, tuple[Notice, ...]]:
    """Encode texts in the job's language, one row each; unit vectors unless ``normalize`` is false."""
    given = context.encoder.texts(texts, language=context.info.language, role=role, prompt=prompt or "")
    vectors = context.encoder.unit(given)  # also rejects NaN and infinity
    usable, notices = drop_constant_embeddings(vectors, "texts", texts)
    return usable if normalize or usable is not vectors else given, notices


def encode_pairs(context: TaskContext, images: EncodedImages, prompt: str | None) -> dict[str, Any]:
    """Encode the texts of the encoded images; return the fields of a prediction about images and their texts.

    ``owner`` is, for each text, the position of the image whose sample contains it.
    """
    texts, notices = encode_texts(context, [text for entry in images.entries for text in entry.texts], prompt=prompt)
    return {
        "info": context.info,
        "entries": images.entries,
        "failures": images.failures,
        "images": images.vectors,
        "texts": texts,
        "owner": np.repeat(np.arange(len(images.entries)), [len(entry.texts) for entry in images.entries]),
        "notices": (*images.notices, *notices),
    }


def drop_constant_embeddings(
    vectors: AnyVectors, what: str, contents: Iterable[object]
) -> tuple[Any, tuple[Notice, ...]]:
    """Zero out vectors that are all equal for different inputs, with a notice; count zero vectors.

    A constant model could still predict the most frequent class or a caption that is plausible without the image. Zero
    vectors are never right, so it scores nothing.
    """
    zero = zero_rows(vectors)
    count = int(zero.sum())
    if count < len(vectors) and all_alike(vectors[~zero] if count else vectors) and len(set(contents)) >= MANY:
        alike = "All {n} {what} have the same vector: the model does not distinguish them."
        none = vectors.without_vectors() if isinstance(vectors, MultiVectors) else np.zeros_like(vectors)
        return none, counted("constant_vectors", len(vectors), alike, what=what)
    text = "{n} {what} have a zero vector, which never counts as right."
    return vectors, counted("zero_vectors", count, text, what=what)
