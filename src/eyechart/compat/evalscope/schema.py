"""The typed settings of ``run_task``. Names and defaults are EvalScope's; what it lacks is marked as ours."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer, model_validator

from eyechart.api import Secret, find_key
from eyechart.compat.evalscope.secrets import redacted
from eyechart.types import OnError

CAPTION = "image_caption"
RERANKING = "CustomReranking"
COMPARISON = "retrieval_comparison"
DEFAULT_CONCURRENCY = 8


def _as_list(value: object) -> object:
    return value if isinstance(value, list | tuple) else [value]


def _hidden(value: object) -> object:
    return find_key(value) if isinstance(value, str) and value else value or None


Names = Annotated[list[str], BeforeValidator(_as_list)]
HiddenKey = Annotated[Secret | None, BeforeValidator(_hidden), PlainSerializer(str, when_used="json-unless-none")]
Hub = Literal["modelscope", "huggingface"]


class Settings(BaseModel):
    """What all levels have in common: unknown keys are errors, nothing changes later, keys stay hidden."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        protected_namespaces=(),
        arbitrary_types_allowed=True,
        hide_input_in_errors=True,
    )

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        """Show settings without what is secret by its name, however deep it lies."""
        for name, value in super().__repr_args__():
            yield name, redacted(value)


class Endpoint(Settings):
    """Where a model behind an API is and how to ask it."""

    api_base: str | None = None
    api_key: HiddenKey = Field(default=None, repr=False)
    api_key_variable: str | None = None
    """Ours: the environment variable that holds the key, so that it is in no file at all."""


class ModelEntry(Endpoint):
    """Where a model is found, and how it is loaded."""

    hub: Hub = "modelscope"
    revision: str | None = None
    model_type: str | None = None
    """Ours: the model family, where the name does not tell it, or another one whose text side shall be used."""
    pretrained: str = ""
    """Ours: tag or checkpoint, as ``eyechart eval --pretrained``."""
    trust_remote_code: bool = False
    device: str = "auto"
    prompt: str | None = None
    """What a generator is told, or what is put in front of every query."""


class VisionModel(ModelEntry):
    """A model that sees: a CLIP-like encoder, or with ``image_caption`` one that writes."""

    model_name: str = Field(min_length=1)
    precision: Literal["auto", "fp32", "fp16", "bf16", "amp"] = "auto"
    temperature: float | None = Field(default=0.0, ge=0)
    """Ours, for captions: None sends none, for servers that refuse it."""
    max_tokens: int | None = Field(default=None, ge=1)
    """Ours, for captions: the longest answer."""
    prompt_role: Literal["user", "system"] = "user"
    """Ours, for captions: who says the prompt. EvalScope lets the system say it."""
    extra_body: dict[str, Any] = {}
    """Ours, for captions: further fields of the request, as the server knows them."""
    max_edge: int | None = Field(default=2048, ge=16)
    """Ours, for captions: longer images are scaled down."""
    image_form: Literal["vllm", "infinity", "jina"] | None = None
    """Ours: the server embeds images, asked in this form; without it a model behind an API writes text."""


class TextModel(ModelEntry):
    """A text encoder or a reranker."""

    model_name_or_path: str = Field(min_length=1)
    is_cross_encoder: bool = False
    pooling_mode: Literal["cls", "lasttoken", "max", "mean", "mean_sqrt_len_tokens", "weightedmean"] | None = None
    max_seq_length: int | None = Field(default=None, ge=1)
    """Tokens that are read; by default what the model's authors set."""
    prompts: dict[str, str] = {}
    """By role: ``query`` and ``document`` (or ``passage``)."""
    model_kwargs: dict[str, Any] = {}
    config_kwargs: dict[str, Any] = {}
    encode_kwargs: dict[str, Any] = {}
    dimensions: int | None = Field(default=None, ge=1)
    rerank_form: Literal["jina", "tei"] | None = None
    """Ours, for rerankers behind an API: how the server takes documents; ``tei`` is Text Embeddings Inference."""
    precision: Literal["auto", "fp32", "fp16", "bf16"] = "auto"


class Requests(Settings):
    """Ours: how requests to APIs are sent and what they may cost."""

    concurrency: int | None = Field(default=None, ge=1)
    """Requests at a time, at most; 8 by default."""
    timeout: float = Field(default=120.0, gt=0)
    tries: int = Field(default=6, ge=1)
    max_requests: int | None = Field(default=None, ge=0)
    max_total_tokens: int | None = Field(default=None, ge=0)
    dry_run: bool = False
    """Only count what would be asked; estimate tokens, time and, with ``prices``, cost."""
    prices: str = ""
    """A file with the prices of tokens, by model."""


class ClipEval(Requests):
    """``eval`` of the tool ``clip_benchmark``."""

    models: list[VisionModel] = []
    dataset_name: Names = Field(min_length=1)
    data_dir: str | dict[str, str] | None = None
    """A folder for all datasets, or (ours) one by dataset name."""
    split: str = "test"
    task: str | None = None
    batch_size: int = Field(default=128, ge=1)
    num_workers: int = Field(default=1, ge=0)
    verbose: bool = True
    output_dir: str | None = None
    cache_dir: str = "cache"
    skip_existing: bool = False
    limit: int | None = Field(default=None, ge=1)
    recall_k: Annotated[list[int], BeforeValidator(_as_list)] = Field(default=[5, 1, 10], min_length=1)
    """Ours: the seeds' 5, with 1 and 10 as extra keys."""
    language: str | None = None
    """Ours: of class names and captions; by default English, or the dataset's own if it has no English."""
    hub: Hub = "modelscope"
    """Ours: where named datasets come from."""
    on_error: OnError = "fail"
    min_success: float | None = Field(default=None, ge=0, le=1)
    """Ours: the share of the samples that must not be lost, else the run ends with an error; captions: all of them."""
    encoding: str = ""
    """Ours: how the text files of a dataset of one's own are encoded, if not in UTF-8."""
    caption_models: list[VisionModel] = []
    """Ours, for ``retrieval_comparison``: generators that describe the images."""
    text_models: list[TextModel] = []
    """Ours, for ``retrieval_comparison``: encoders (and rerankers) that search the captions."""
    top_k: int = Field(default=10, ge=1)

    @model_validator(mode="after")
    def _models_fit_the_task(self) -> Self:
        if self.task == COMPARISON:
            if not self.models and not self.caption_models:
                raise ValueError("retrieval_comparison needs models, or caption_models with text_models")
            if bool(self.caption_models) != bool(self.text_models):
                raise ValueError("caption_models write what text_models search: give both or none")
        elif not self.models:
            raise ValueError("models: at least one is needed")
        elif self.caption_models or self.text_models:
            raise ValueError("caption_models and text_models belong to task: retrieval_comparison")
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
    encoding: str = ""
    """Ours: how the files are encoded, if not in UTF-8."""

    @property
    def is_reranking(self) -> bool:
        """Tell whether queries look among candidates of their own, by the name that EvalScope gives to it."""
        return self.name.startswith(RERANKING)


class MtebEval(Requests):
    """``eval`` of the tool ``MTEB``."""

    task_names: Names = []
    task_types: Names = []
    languages: Names = []
    custom_tasks: list[CustomTask] = []
    top_k: int = Field(default=10, ge=1)
    """How many documents the second stage orders anew."""
    limit: int | None = Field(default=None, ge=1)
    """Use only the first queries; the corpus stays whole."""
    overwrite_results: bool = True
    output_dir: str | None = None
    splits: dict[str, Names] | Names = []
    """Of MTEB's own tasks: for all of them, or by task."""
    data_dir: str | dict[str, str] | None = None
    """Ours: the data of MTEB's own tasks, in a folder with one folder for each task, or (by task name) anywhere."""
    hub: Hub = "modelscope"
    encode_kwargs: dict[str, Any] = {}
    verbosity: int = 2
    skip_existing: bool = False

    @model_validator(mode="after")
    def _something_to_do(self) -> Self:
        if not (self.task_names or self.task_types or self.languages or self.custom_tasks):
            raise ValueError("no task: give tasks (or task_names), or custom_tasks with a data_path")
        return self


class MtebConfig(Settings):
    """``eval_config`` of the tool ``MTEB``."""

    tool: Literal["mteb"]
    models: list[TextModel] = Field(min_length=1)
    eval: MtebEval
