"""Typed settings of ``run_task``, with EvalScope's names and defaults.

A field that corresponds to a setting of `eyechart.settings` takes description and limits from there, and the default
unless EvalScope has another (`ours`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer, model_validator

from eyechart.api import Secret, find_key
from eyechart.io.secrets import redact_settings
from eyechart.settings import declare
from eyechart.settings.evaluation import EVALUATION, Hub
from eyechart.settings.generation import QuestionSettings
from eyechart.settings.shared import OnError
from eyechart.settings.tasks import TASKS

CAPTION = "image_caption"
RERANKING = "CustomReranking"
COMPARISON = "retrieval_comparison"
_OWNERS: tuple[type[declare.Settings], ...] = (*EVALUATION, QuestionSettings, *TASKS)
DECLARED = {name: one for owner in _OWNERS for name, one in owner.fields().items()}
"""Eyechart's settings by name."""
DEFAULT_CONCURRENCY: int = DECLARED["concurrency"].default


def ours(name: str, **theirs: Any) -> Any:
    """Make a field from one of our settings; ``theirs`` overrides it with EvalScope's values, such as its default."""
    one = DECLARED[name]
    return Field(**{"default": one.default, "description": one.help, **one.limits, **theirs})


def _as_list(value: object) -> object:
    return value if isinstance(value, list | tuple) else [value]


def _hidden(value: object) -> object:
    return find_key(value) if isinstance(value, str) and value else value or None


Names = Annotated[list[str], BeforeValidator(_as_list)]
HiddenKey = Annotated[Secret | None, BeforeValidator(_hidden), PlainSerializer(str, when_used="json-unless-none")]


class Settings(BaseModel):
    """Base of all levels: immutable, unknown keys are errors, keys stay hidden."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        protected_namespaces=(),
        arbitrary_types_allowed=True,
        hide_input_in_errors=True,
    )

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
    max_edge: int | None = Field(default=2048, ge=16)
    """Extension, for captions: longer images are scaled down."""
    image_form: Literal["vllm", "infinity", "jina"] | None = None
    """Extension: the request form of a server that embeds images; without it, a model behind an API generates text."""


class TextModel(ModelEntry):
    """A text encoder or a reranker."""

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
    rerank_form: Literal["jina", "tei"] | None = None
    """Extension, for rerankers behind an API: the request form; ``tei`` is Text Embeddings Inference."""
    precision: Literal["auto", "fp32", "fp16", "bf16"] = ours("precision")


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

    models: list[VisionModel] = []
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
    caption_models: list[VisionModel] = []
    """Extension, for ``retrieval_comparison``: generators that caption the images."""
    text_models: list[TextModel] = []
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

    tool: Literal["clip_benchmark"]
    eval: ClipEval


class CustomTask(Settings):
    """A folder with corpus.jsonl, queries.jsonl and qrels; for ``CustomReranking`` also top_ranked.jsonl."""

    name: str = "CustomRetrieval"
    data_path: str
    eval_splits: Names = ["test"]
    encoding: str = ours("encoding")

    @property
    def is_reranking(self) -> bool:
        """Whether queries have their own candidates, by EvalScope's naming convention."""
        return self.name.startswith(RERANKING)


class MtebEval(Requests):
    """``eval`` of the tool ``MTEB``."""

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

    @model_validator(mode="after")
    def _something_to_do(self) -> Self:
        if not (self.task_names or self.task_types or self.languages or self.custom_tasks):
            raise ValueError("no task: set tasks (or task_names), or custom_tasks with a data_path")
        return self


class MtebConfig(Settings):
    """``eval_config`` of the tool ``MTEB``."""

    tool: Literal["mteb"]
    models: list[TextModel] = Field(min_length=1)
    eval: MtebEval
