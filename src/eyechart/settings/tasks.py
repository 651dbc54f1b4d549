"""The settings of each task. A task class declares its settings class as ``Settings`` and receives an instance.

Fields named like a flag take the flag's value; others come from ``--task-option``.
"""

import re
from collections.abc import Iterator, Mapping
from functools import cache
from math import inf
from typing import Any, ClassVar, Literal, Self

from eyechart.errors import UsageError
from eyechart.settings.declare import Setting, Settings, internal, option, setting
from eyechart.settings.evaluation import (
    EVALUATION,
    HOW,
    PROBES,
    PROMPTS,
    BatchSettings,
    ClassifierFileSettings,
    MetricSettings,
    RecallSettings,
    RerankerSettings,
    SeedSettings,
)
from eyechart.settings.generation import QuestionSettings

MEAN_RECALL = re.compile(r"mean_recall@(\d+)")
MMEB_METRICS = {"hit@1": ("hit_rate", 1), "ndcg_linear@5": ("ndcg", 5)}
"""Primary metrics of MMEB, and what they are."""


class TaskSettings(Settings):
    """Base of all task settings."""

    renamed: ClassVar[Mapping[str, str]] = {}
    """Names in results of fields that are stored under another name."""

    groups: list[dict[str, Any]] = internal([], record="never")
    """Metadata columns to group metrics by; see `eyechart.tasks.label_metrics`."""

    @property
    def splits(self) -> tuple[str, ...]:
        """Splits needed in addition to the scored one; they are opened and checked when the job is planned."""
        return ()

    @property
    def uses_model(self) -> bool:
        """Whether the job runs its model; an unused model need not exist."""
        return True

    def recorded(self) -> dict[str, Any]:
        """Return the values stored in jobs and results; `restored` is the inverse."""
        return {
            self.renamed.get(name, name): value
            for name, one in self.fields().items()
            if one.record != "never" and ((value := getattr(self, name)) != one.default or one.record == "always")
        }

    @classmethod
    def picked(cls, options: Mapping[str, Any]) -> Self:
        """Build settings from the options that are declared and not None."""
        return cls(**{name: value for name in cls.fields() if (value := options.get(name)) is not None})

    @classmethod
    def restored(cls, record: Mapping[str, Any]) -> Self:
        """Build settings from a job's record; undeclared keys are ignored."""
        names = {cls.renamed.get(name, name): name for name in cls.fields()}
        return cls(**{name: record[key] for key, name in names.items() if key in record})


class OpenSettings(TaskSettings):
    """Settings of a task that declares none: all task options, accessible like a dict."""

    open = True

    @classmethod
    def picked(cls, options: Mapping[str, Any]) -> Self:
        """Take the task options, except flags of other tasks."""
        given = options.get("task_options") or {}
        return cls(**{name: value for name, value in given.items() if name not in task_flags()})

    @classmethod
    def restored(cls, record: Mapping[str, Any]) -> Self:
        """Take the whole record."""
        return cls(**record)

    def recorded(self) -> dict[str, Any]:
        """Return all options."""
        return {name: getattr(self, name) for name in self.given if name != "groups"}

    def __getitem__(self, name: str) -> Any:
        if name not in self.given:
            raise KeyError(name)
        return getattr(self, name)

    def __contains__(self, name: object) -> bool:
        return name in self.given

    def __iter__(self) -> Iterator[str]:
        return iter(self.given)

    def get(self, name: str, default: Any = None) -> Any:
        """Return an option, or the default if it is not set."""
        return getattr(self, name) if name in self.given else default


class PromptedSettings(TaskSettings):
    """Prompts of an encoder by role. In tasks without roles, images are queries, class names and captions documents."""

    group = PROMPTS

    query_prompt: str | None = setting(
        None, "prompt or instruction of queries (default: the model's own)", record="changed"
    )
    document_prompt: str | None = setting(
        None, "prompt or instruction of documents (default: the model's own)", record="changed"
    )


class ZeroshotClassificationSettings(ClassifierFileSettings, MetricSettings, PromptedSettings):
    """Settings of zero-shot classification."""

    merge_duplicate_classes: bool = setting(False, "merge classes with the same name", group=PROMPTS, record="changed")
    empty_classes: Literal["leave_out", "zero"] = setting(
        "leave_out",
        "how classes without positives count towards mAP (default: leave_out)",
        group=PROMPTS,
        record="changed",
    )
    prompt_sensitivity: Literal["auto", "yes", "no"] = setting(
        "auto", "also report the accuracy of each template", group=PROMPTS
    )
    main_metric: str | None = internal()
    """The metric that the catalogue quotes for the dataset."""

    def check(self) -> None:
        """Reject saving and loading classifiers at once."""
        if self.save_clf and self.load_clfs:
            raise UsageError("{--save_clf} cannot be combined with {--load_clfs}.")


class ProbeSettings(SeedSettings, MetricSettings, PromptedSettings):
    """Training data of a probe."""

    group = PROBES

    train_split: str | None = setting("train", "training split, one or one per dataset", per_dataset=True)
    val_split: str | None = setting(
        None, "validation split for choosing the weight decay", per_dataset=True, excludes="validation"
    )
    val_proportion: float | None = setting(
        None, "share of the training data to hold out for validation instead", per_dataset=True, excludes="validation"
    )
    folds: int | None = setting(
        None, "K-fold cross-validation on the evaluated split, without a training split", metavar="K", record="changed"
    )
    fewshot_k: int = setting(-1, "training images per class, -1 for all")
    fewshot_curve: list[int] = setting([], "also train on these numbers of images per class", record="changed")
    fewshot_repeats: int = setting(3, "number of few-shot resamples used to report the standard deviation")
    fewshot_draw: Literal["eyechart", "clip_benchmark"] = setting(
        "eyechart", "few-shot sampling order (default: eyechart)", record="changed"
    )
    normalize: bool = setting(True, "L2-normalise the features", bare=True)

    @property
    def splits(self) -> tuple[str, ...]:
        """The training and the validation split."""
        return tuple(dict.fromkeys(filter(None, (self.train_split, self.val_split))))

    def check(self) -> None:
        """Reject values that leave no training data."""
        if self.val_split and self.val_proportion:
            raise UsageError("{--val_split} cannot be combined with {--val_proportion}.")
        if self.val_proportion is not None and not 0 < self.val_proportion < 1:
            raise UsageError(
                "{--val_proportion} must be between 0 and 1, not {val_proportion}.", val_proportion=self.val_proportion
            )
        if self.fewshot_k == 0 or self.fewshot_k < -1:
            raise UsageError(
                "{--fewshot_k} must be 1 or more, or -1 for all images, not {fewshot_k}.", fewshot_k=self.fewshot_k
            )
        self.check_positive("fewshot_curve", "fewshot_repeats")
        if self.folds is None:
            return
        if self.folds < 2:
            raise UsageError("{--folds} must be 2 or more, not {folds}.", folds=self.folds)
        for other in ("val_split", "fewshot_curve"):
            if getattr(self, other):
                raise UsageError(
                    "{--folds} cannot be combined with {--{other}}.",
                    advice="Cross-validation trains and scores on one split.",
                    other=other,
                )

    def recorded(self) -> dict[str, Any]:
        """Leave out values without effect: the training split with folds, repeats without few-shot samples."""
        found = super().recorded()
        if self.folds is not None:
            found["train_split"] = None
        if self.fewshot_curve:
            found["fewshot_curve"] = sorted(set(self.fewshot_curve))
        if self.fewshot_k <= 0 and not self.fewshot_curve:
            found.pop("fewshot_repeats")
        return found


class LinearProbeSettings(BatchSettings, ProbeSettings):
    """Training of the linear layer."""

    group = PROBES

    fewshot_epochs: int = setting(10, "training epochs")
    fewshot_lr: float = setting(0.1, "learning rate")

    def check(self) -> None:
        """Reject training without updates."""
        super().check()
        if self.fewshot_epochs < 1 or not 0 < self.fewshot_lr < inf:
            raise UsageError(
                "{--fewshot_epochs} and {--fewshot_lr} must be positive, not {fewshot_epochs} and {fewshot_lr}.",
                fewshot_epochs=self.fewshot_epochs,
                fewshot_lr=self.fewshot_lr,
            )


class KnnSettings(ProbeSettings):
    """Number of neighbours. A validation set is not used."""

    group = PROBES

    knn_k: int = setting(20, "number of neighbours in kNN classification")

    def check(self) -> None:
        """Reject fewer than one neighbour."""
        super().check()
        self.check_positive("knn_k")

    def recorded(self) -> dict[str, Any]:
        """Leave out the validation set."""
        return {**super().recorded(), "val_split": None, "val_proportion": None}


class ClusteringSettings(SeedSettings, PromptedSettings):
    """Random seed of the clustering."""


class RerankingSettings(RerankerSettings, PromptedSettings):
    """The second stage of a search."""

    top_k: int = option(10, ge=1)
    """Documents per query that the reranker scores."""
    reranker_prompt: str = option("")
    """Prepended to queries for the reranker."""

    def recorded(self) -> dict[str, Any]:
        """Store the reranking options if there is a reranker."""
        second = {"top_k": self.top_k, "reranker_prompt": self.reranker_prompt}
        found = {name: value for name, value in super().recorded().items() if name not in second}
        return found | (second if self.reranker else {})


class ZeroshotRetrievalSettings(RecallSettings, MetricSettings, RerankingSettings):
    """Cutoffs and metrics of zero-shot retrieval."""

    main_metric: str | None = internal()
    """The metric that the catalogue quotes for the dataset."""

    @property
    def uses_model(self) -> bool:
        """Whether the model runs; existing rankings are scored without it."""
        return not self.predictions

    def check(self) -> None:
        """Reject cutoffs below 1."""
        self.check_positive("recall_k")

    def recorded(self) -> dict[str, Any]:
        """Add the cutoff of the dataset's main metric if that is a mean recall."""
        found = super().recorded()
        if self.main_metric in MMEB_METRICS:
            return found
        main = MEAN_RECALL.fullmatch(str(found.pop("main_metric", None)))
        ks = {*(self.recall_k or [5]), *([int(main[1])] if main else [])}
        return found | {"recall_k": sorted(ks)} | ({"main_metric": main[0]} if main else {})


class CaptionPromptSettings(Settings):
    """Prompt for captions."""

    caption_prompt: str | None = setting(
        None, "prompt of the tasks captioning and image_caption, for models that take one", group=HOW
    )


class CaptionTaskSettings(CaptionPromptSettings, TaskSettings):
    """Settings of a task that generates captions."""

    renamed: ClassVar[Mapping[str, str]] = {"caption_prompt": "prompt"}
    default_prompt: ClassVar[str]

    @property
    def prompt(self) -> str:
        """The prompt sent to the model."""
        return self.caption_prompt or self.default_prompt

    def recorded(self) -> dict[str, Any]:
        """Store the prompt even if it is the default."""
        return {**super().recorded(), "prompt": self.prompt}


class CaptioningSettings(CaptionTaskSettings, SeedSettings, MetricSettings):
    """Settings of captioning."""

    default_prompt: ClassVar[str] = "Describe this picture in one short sentence."


class ImageCaptionSettings(CaptionTaskSettings):
    """Settings of image_caption: the prompt, and the role of the message that carries it."""

    default_prompt: ClassVar[str] = (
        "Please describe this image in general. Directly provide the description, do not include prefix like "
        "'This image depicts'"
    )
    """EvalScope's, so that captions stay comparable."""

    prompt_role: Literal["user", "system"] = setting(
        "user", "role of the message that carries the image_caption prompt (default: user)", group=HOW, record="changed"
    )


class TextSearchSettings(RerankingSettings):
    """Prompts of a text encoder, and reranking."""

    normalize_embeddings: bool = option(False)
    """Use cosine similarity for a model whose similarity is the dot product."""


class TextRetrievalSettings(CaptionPromptSettings, TextSearchSettings):
    """Settings of text retrieval, with the origin of generated documents."""

    captions_by: str = option("")
    """The generator that wrote the documents."""
    candidates: bool = option(False)
    """Whether each query needs its own candidates (reranking)."""

    def recorded(self) -> dict[str, Any]:
        """Store the generator's prompt if it is known."""
        return {name: value for name, value in super().recorded().items() if name != "caption_prompt" or value}


class QuestionTaskSettings(QuestionSettings, MetricSettings, TaskSettings):
    """How questions are asked, and how answers are extracted and judged."""

    judge_prompts_digest: str = internal("", record="never")

    @property
    def uses_model(self) -> bool:
        """Whether the model runs; existing predictions are scored without it."""
        return self.mode != "eval"

    @property
    def judges(self) -> list[str]:
        """The judge models; empty for exact matching."""
        return [] if self.judge == self.fields()["judge"].default else self.judge

    def recorded(self) -> dict[str, Any]:
        """Store a single judge as a string; a blind run is a separate job."""
        judge = self.judge if len(self.judge) > 1 else self.judge[0]
        return {**super().recorded(), "judge": judge, "blind": ""}


TASKS: tuple[type[TaskSettings], ...] = (
    ZeroshotClassificationSettings,
    ZeroshotRetrievalSettings,
    ClusteringSettings,
    CaptioningSettings,
    ImageCaptionSettings,
    LinearProbeSettings,
    KnnSettings,
    TextRetrievalSettings,
)
"""Settings of tasks that declare flags; those of `QuestionTaskSettings` are in `QuestionSettings`."""


@cache
def task_flags() -> Mapping[str, Setting]:
    """Return the flags that set task options, by name: those that `EVALUATION` does not have."""
    shared = {name for owner in (*EVALUATION, QuestionSettings) for name in owner.fields()}
    declared = {name: one for task in TASKS for name, one in task.fields().items()}
    return {name: one for name, one in declared.items() if one.surface == "flag" and name not in shared}


def nested_settings(values: Mapping[str, Any]) -> dict[str, Any]:
    """Sort flat values into settings of an evaluation, with nested ``task_options`` and ``questions``."""
    names = (*(name for owner in EVALUATION for name in owner.fields()), "questions")
    found = {name: values[name] for name in names if name in values}
    tasks = {name: values[name] for name in task_flags() if name in values}
    questions = {name: values[name] for name in QuestionSettings.fields() if name in values}
    if tasks:
        found["task_options"] = tasks | found.get("task_options", {})
    if questions:
        given = found.get("questions") or {}
        if isinstance(given, QuestionSettings):
            given = {name: getattr(given, name) for name in given.given}
        found["questions"] = {**given, **questions}
    return found
