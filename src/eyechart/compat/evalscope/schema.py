"""Typed settings of ``run_task``, with EvalScope's names and defaults.

A field that corresponds to a setting of `eyechart.settings` takes description and limits from there, and the default
unless EvalScope has another (`ours`).
"""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal, Self, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer, model_validator

from eyechart.api import Secret, find_key
from eyechart.errors import UsageError, nearest, unknown_name
from eyechart.io.secrets import redact_settings
from eyechart.settings import declare
from eyechart.settings.evaluation import EVALUATION, Hub, OnError
from eyechart.settings.generation import QuestionSettings
from eyechart.settings.tasks import TASKS

CAPTION = "image_caption"
CUSTOM_TASKS = RETRIEVAL, RERANKING = ("CustomRetrieval", "CustomReranking")
COMPARISON = "retrieval_comparison"
_OWNERS: tuple[type[declare.Settings], ...] = (*EVALUATION, QuestionSettings, *TASKS)
DECLARED = {name: one for owner in _OWNERS for name, one in owner.fields().items()}
"""Eyechart's settings by name."""
DEFAULT_CONCURRENCY: int = DECLARED["concurrency"].default


def ours(name: str, **theirs: Any) -> Any:
    """Make a field from one of our settings; ``theirs`` overrides it with EvalScope's values, such as its default."""
    one = DECLARED[name]
    return Field(**{"default": one.default, "description": one.help, **one.limits, **theirs})


def _as_list(value: object) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [] if value is None else [value]


def _hidden(value: object) -> object:
    return find_key(value) if isinstance(value, str) and value else value or None


Names = Annotated[list[str], BeforeValidator(_as_list)]
HiddenKey = Annotated[Secret | None, BeforeValidator(_hidden), PlainSerializer(str, when_used="json-unless-none")]


def put(values: dict[str, Any], name: str, value: object, other_name: str) -> None:
    """Set a key that was given by another name; two different values are an error."""
    if name in values and values[name] != value:
        raise UsageError(
            "The config has both {old} and {new}.", advice="They are synonyms: keep {new}.", old=other_name, new=name
        )
    values[name] = value


class Settings(BaseModel):
    """Base of all levels: immutable, unknown keys are errors, null means not given, keys stay hidden."""

    ALIASES: ClassVar[Mapping[str, str]] = {}
    """Keys of the other generation of EvalScope, and common synonyms."""
    model_config = ConfigDict(
        extra="forbid", frozen=True, protected_namespaces=(), arbitrary_types_allowed=True, hide_input_in_errors=True
    )

    @model_validator(mode="before")
    @classmethod
    def _rename(cls, values: Any) -> Any:
        if not isinstance(values, Mapping):
            return values
        fields = cls.model_fields
        nullable = {name for name, field in fields.items() if type(None) in get_args(field.annotation)}
        values = {key: value for key, value in values.items() if value is not None or key in nullable}
        current = {key: value for key, value in values.items() if key not in cls.ALIASES}
        for old, new in cls.ALIASES.items():
            if old in values:
                put(current, new, values[old], old)
        return cls.reshape(current)

    @classmethod
    def reshape(cls, values: dict[str, Any]) -> dict[str, Any]:
        """Convert older shapes of this level, after its keys were renamed."""
        return values

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        """Show settings with secrets redacted at any depth."""
        for name, value in super().__repr_args__():
            yield name, redact_settings(value)


class Endpoint(Settings):
    """Address and key of a model behind an API."""

    api_base: str | None = ours("api_base", default=None)
    api_key: HiddenKey = Field(default=None, repr=False)
    api_key_variable: str | None = ours("api_key_variable")


class ModelEntry(Endpoint):
    """Location and loading options of a model."""

    hub: Hub = ours("hub", default="modelscope")
    revision: str | None = ours("revision")
    model_type: str | None = ours("model_type")
    pretrained: str = ours("pretrained", default="")
    trust_remote_code: bool = ours("trust_remote_code")
    device: str = ours("device")
    prompt: str | None = None
    """Prompt of a generator, or the prefix of every query."""


class VisionModel(ModelEntry):
    """A vision model: a CLIP-like encoder, or with ``image_caption`` a generator."""

    model_name: str = Field(min_length=1)
    precision: Literal["auto", "fp32", "fp16", "bf16", "amp"] = ours("precision")
    temperature: float | None = ours("temperature", default=0.0)
    """For captions: None omits it, for servers that reject it."""
    max_tokens: int | None = ours("max_tokens")
    prompt_role: Literal["user", "system"] = ours("prompt_role")
    """EvalScope puts the prompt into the system message."""
    extra_body: dict[str, Any] = {}
    """Extension, for captions: further fields of the request."""
    max_edge: int | None = Field(default=None, ge=16)
    """Extension, for captions: longer images are scaled down."""
    image_form: str | None = None
    """Extension: the request form of a server that embeds images; without it, a model behind an API generates text."""


class TextModel(ModelEntry):
    """A text encoder or a reranker."""

    ALIASES = {"model_name": "model_name_or_path", "dimension": "dimensions"}

    model_name_or_path: str = Field(min_length=1)
    is_cross_encoder: bool = False
    pooling_mode: Literal["cls", "lasttoken", "max", "mean", "mean_sqrt_len_tokens", "weightedmean"] | None = None
    max_seq_length: int | None = Field(default=None, ge=1)
    """Maximum tokens; by default the model's limit."""
    prompts: dict[str, str] = {}
    """By role: ``query`` and ``document`` (or ``passage``)."""
    model_kwargs: dict[str, Any] = {}
    config_kwargs: dict[str, Any] = {}
    encode_kwargs: dict[str, Any] = {}
    dimensions: int | None = Field(default=None, ge=1)
    rerank_form: Literal["jina", "tei", "vllm"] | None = None
    """Extension, for rerankers behind an API: the request form; ``tei`` is Text Embeddings Inference."""
    precision: Literal["auto", "fp32", "fp16", "bf16"] = ours("precision")


VisionModels = Annotated[list[VisionModel], BeforeValidator(_as_list)]
TextModels = Annotated[list[TextModel], BeforeValidator(_as_list)]


class Requests(Settings):
    """Extension: request handling and cost limits of APIs."""

    concurrency: int | None = ours("concurrency", default=None)
    timeout: float = ours("timeout", default=120.0)
    tries: int = ours("tries")
    max_requests: int | None = Field(default=None, ge=0)
    max_total_tokens: int | None = Field(default=None, ge=0)
    dry_run: bool = False
    """Only count requests; estimate tokens, time and, with ``prices``, cost."""
    prices: str = ours("prices")


class ClipEval(Requests):
    """``eval`` of the tool ``clip_benchmark``."""

    ALIASES = {"model": "models", "datasets": "dataset_name", "dataset": "dataset_name", "limits": "limit"}

    models: VisionModels = []
    dataset_name: Names = Field(min_length=1)
    data_dir: str | dict[str, str] | None = None
    """A folder for all datasets, or (extension) one per dataset name."""
    split: str = ours("split")
    task: str | None = ours("task", default=None, min_length=None)
    batch_size: int = ours("batch_size", default=128)
    num_workers: int = ours("num_workers", default=1)
    verbose: bool = True
    output_dir: str | None = None
    cache_dir: str = "cache"
    skip_existing: bool = ours("skip_existing")
    limit: int | None = ours("limit")
    recall_k: Annotated[list[int], BeforeValidator(_as_list)] = ours("recall_k", default=[5, 1, 10], min_length=1)
    language: str | None = ours("language", default=None, min_length=None)
    """By default English, or the dataset's first language if it has no English."""
    hub: Hub = ours("dataset_hub", default="modelscope")
    on_error: OnError = ours("on_error")
    min_success: float | None = ours("min_success")
    encoding: str = ours("encoding")
    caption_models: VisionModels = []
    """Extension, for ``retrieval_comparison``: generators that caption the images."""
    text_models: TextModels = []
    """Extension, for ``retrieval_comparison``: encoders (and rerankers) that search the captions."""
    top_k: int = ours("top_k")

    @model_validator(mode="after")
    def _models_fit_the_task(self) -> Self:
        if self.task == COMPARISON:
            if not self.models and not self.caption_models:
                raise ValueError("retrieval_comparison needs models, or caption_models with text_models")
            if bool(self.caption_models) != bool(self.text_models):
                raise ValueError("caption_models and text_models must be set together: text_models search the captions")
        elif not self.models:
            raise ValueError("models: at least one is required")
        elif self.caption_models or self.text_models:
            raise ValueError("caption_models and text_models require task: retrieval_comparison")
        return self


class ClipConfig(Settings):
    """``eval_config`` of the tool ``clip_benchmark``."""

    ALIASES = {"model": "models"}

    tool: Literal["clip_benchmark"]
    eval: ClipEval

    @classmethod
    def reshape(cls, values: dict[str, Any]) -> dict[str, Any]:
        """Move models next to ``eval`` into it."""
        if "models" in values and isinstance(values.get("eval"), Mapping):
            values["eval"] = dict(values["eval"])
            put(values["eval"], "models", values.pop("models"), "eval_config.models")
        return values


def _custom_name(name: object) -> object:
    """Return the canonical spelling of a custom task; a name that is only similar is an error."""
    if not isinstance(name, str) or name.startswith(CUSTOM_TASKS):
        return name
    plain = name.replace("_", "").replace("-", "").lower()
    known = next((task for task in CUSTOM_TASKS if task.lower() == plain), None)
    if known is None and nearest(plain, CUSTOM_TASKS, cutoff=0.85):
        raise unknown_name("task", name, CUSTOM_TASKS)
    return known or name


class CustomTask(Settings):
    """A folder with corpus.jsonl, queries.jsonl and qrels; for ``CustomReranking`` also top_ranked.jsonl."""

    ALIASES = {"dataset_path": "data_path", "path": "data_path"}

    name: Annotated[str, BeforeValidator(_custom_name)] = RETRIEVAL
    data_path: str
    eval_splits: Names = ["test"]
    encoding: str = ours("encoding")


class MtebEval(Requests):
    """``eval`` of the tool ``MTEB``."""

    ALIASES = {
        "tasks": "task_names",
        "topk": "top_k",
        "limits": "limit",
        "output_folder": "output_dir",
        "dataset_path": "data_path",
    }

    task_names: Names = []
    task_types: Names = []
    languages: Names = []
    custom_tasks: list[CustomTask] = []
    top_k: int = ours("top_k")
    """Number of documents that the second stage reranks."""
    limit: int | None = ours("limit")
    """Use only the first queries; the corpus is complete."""
    overwrite_results: bool = True
    output_dir: str | None = None
    splits: dict[str, Names] | Names = []
    """Splits of MTEB's built-in tasks: for all of them, or by task."""
    data_dir: str | dict[str, str] | None = None
    """Extension: data of MTEB's built-in tasks, in a folder with one subfolder per task, or by task name."""
    hub: Hub = ours("dataset_hub", default="modelscope")
    encode_kwargs: dict[str, Any] = {}
    verbosity: int = 2
    skip_existing: bool = ours("skip_existing")

    @classmethod
    def reshape(cls, values: dict[str, Any]) -> dict[str, Any]:
        """Turn paths, and custom tasks among the others with their folder next to them, into custom tasks."""
        tasks = [
            {"data_path": task} if isinstance(task, str) else task for task in _as_list(values.get("custom_tasks"))
        ]
        names = [_custom_name(name) for name in _as_list(values.get("task_names"))]
        custom = [name for name in names if name in CUSTOM_TASKS]
        if "data_path" in values:
            folder = values.pop("data_path")
            tasks += [{"name": name, "data_path": folder} for name in custom or [RETRIEVAL]]
        elif custom and not tasks:
            raise UsageError(
                "Task {task} has no data.",
                advice="Set its folder in eval_config.eval.custom_tasks: [{{data_path}}].",
                task=custom[0],
            )
        if names:
            values["task_names"] = [name for name in names if name not in CUSTOM_TASKS]
        return {**values, "custom_tasks": tasks}

    @model_validator(mode="after")
    def _something_to_do(self) -> Self:
        if not (self.task_names or self.task_types or self.languages or self.custom_tasks):
            raise ValueError("no task: set tasks (or task_names), or custom_tasks with a data_path")
        return self


class MtebConfig(Settings):
    """``eval_config`` of the tool ``MTEB``."""

    ALIASES = {"model": "models"}

    tool: Literal["mteb"]
    models: TextModels = Field(min_length=1)
    eval: MtebEval

    @classmethod
    def reshape(cls, values: dict[str, Any]) -> dict[str, Any]:
        """Move models in ``eval`` next to it."""
        inner = values.get("eval")
        for name in ("models", "model"):
            if isinstance(inner, Mapping) and name in inner:
                put(values, "models", inner[name], f"eval_config.eval.{name}")
                values["eval"] = inner = {key: value for key, value in inner.items() if key != name}
        return values
