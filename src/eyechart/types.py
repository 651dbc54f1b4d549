"""The core types of Eyechart.

A benchmark is a dataset evaluated by a task. A plan is a list of frozen jobs. A model is an encoder (inputs to vectors)
or a generator (messages to text). A task predicts (slow, cached) and scores (fast, pure).
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

from eyechart.errors import DataError
from eyechart.io.images import ImageRef
from eyechart.settings.evaluation import OnError as OnError  # noqa: PLC0414 - also a type of `Job`

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from PIL import Image

    from eyechart.io.progress import Progress

    Vectors = NDArray[np.float32]

Kind = Literal[
    "classification",
    "multilabel",
    "retrieval",
    "selection",
    "collection",
    "similarity",
    "images",
    "questions",
    "texts",
    "external",
]
"""The targets of a dataset's samples, in order: one label; several labels; captions; candidates to choose from; queries
and documents in a separate collection; pairwise similarities; none; a question for a generator; queries to a collection
of texts. ``external`` data are read by the library that scores them and have no samples here."""


# ---------------------------------------------------------------------------------------------- datasets


@dataclass(frozen=True, slots=True)
class Sample:
    """One row of a dataset. Which fields are set depends on the dataset's kind."""

    id: str
    """Unique within the dataset and split; records refer to it."""
    image: ImageRef | None
    """None for a text-only sample; the first image if there are several."""
    label: int | None = None
    labels: tuple[int, ...] = ()
    """Multilabel: indices of all present classes."""
    texts: tuple[str, ...] = ()
    """Retrieval: the captions. Selection: the correct candidate first, then wrong ones; samples with the same
    ``meta["question"]`` share their candidates, and an image without texts is correct for none of them. Images with
    the same ``meta["text"]`` share their correct candidate."""
    meta: Mapping[str, Any] = field(default_factory=dict)
    """Additional columns of the source: groups, paths, weights."""

    def need_image(self) -> ImageRef:
        """Return the image, or raise if there is none."""
        if self.image is None:
            raise DataError("Sample {id} has no image.", id=self.id)
        return self.image


@dataclass(frozen=True, slots=True)
class DatasetInfo:
    """Description of a dataset, available before its samples are read."""

    name: str
    kind: Kind
    split: str = "test"
    language: str = "en"
    classnames: tuple[str, ...] = ()
    templates: tuple[str, ...] = ()
    class_prompts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Prompts by class name that replace the templates (CuPL style)."""
    source: str = ""
    """Path or URL, for messages and provenance."""
    notes: tuple[Notice, ...] = ()
    """Warnings of the reader, counted in the result."""
    collection: TextCollection | None = None
    """Queries, documents and relevance."""
    shared_texts: bool = False
    """Equal captions are interchangeable: retrieving any image that has the text is correct. Published retrieval
    benchmarks require the original image (or copy of the text) instead."""
    measures: str = ""
    """What the benchmark measures, such as its task type in MTEB; by default, what the task measures."""
    collections: Mapping[str, int] = field(default_factory=dict)
    """Published collections that it is part of, with the number of benchmarks in each."""
    inputs: tuple[Input, ...] = ()
    """What it asks an encoder to encode, where the task alone does not tell."""


@runtime_checkable
class Dataset(Protocol):
    """A dataset: a description and a repeatable stream of samples in a fixed order."""

    @property
    def info(self) -> DatasetInfo:
        """Description, available without reading samples."""

    def shards(self) -> Sequence[Shard]:
        """List the independent pieces of the stream; in order, they contain every sample once."""

    def signature(self) -> str | None:
        """Return a string that changes when the files do; None if only reading the dataset can tell."""


@runtime_checkable
class Fetchable(Protocol):
    """A dataset whose files may have to be downloaded."""

    def fetch(self, progress: Progress) -> None:
        """Download the missing files of all shards."""


@runtime_checkable
class Shard(Protocol):
    """A piece of a dataset that one worker reads sequentially."""

    @property
    def name(self) -> str:
        """Name for messages."""

    def __iter__(self) -> Iterator[Sample]:
        """Stream the samples."""


@runtime_checkable
class IndexOnlyShard(Protocol):
    """A shard whose targets are stored among its images and can be read without them."""

    def outline(self) -> Iterator[Sample]:
        """Stream the samples without reading their images."""


def iter_without_images(shard: Shard) -> Iterable[Sample]:
    """Stream a shard, without reading images where possible."""
    return shard.outline() if isinstance(shard, IndexOnlyShard) else shard


@dataclass(frozen=True, slots=True)
class Document:
    """A query or document: a text, an image or both."""

    id: str
    text: str
    meta: Mapping[str, Any] = field(default_factory=dict)
    """Additional columns of the source, such as the path of the described image."""
    image: str | None = None
    """Id of the sample that is its image, if any."""


@dataclass(frozen=True, slots=True)
class TextCollection:
    """Retrieval data: documents, queries and relevance judgements."""

    documents: tuple[Document, ...]
    queries: tuple[Document, ...]
    relevance: Mapping[str, Mapping[str, float]]
    """By query id, then document id; unlisted documents are not relevant."""
    candidates: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By query id, the documents to rank (reranking); empty: the whole collection."""


# ------------------------------------------------------------------------------------------------ models


Role = Literal["encoder", "generator", "reranker"]
"""Role of a model in a task."""
Input = Literal["image", "text", "image+text"]
"""Kind of input of an encoder."""


@dataclass(frozen=True, slots=True)
class InMemoryObject:
    """An in-memory Python object passed by the caller, stored as the option ``object`` of a spec.

    Compared by identity: the state of an object may change between calls, so nothing computed from it is reused.
    """

    thing: Any = field(compare=False, repr=False)
    kind: str
    """Qualified name of its class."""
    token: str = field(default_factory=lambda: secrets.token_hex(8))

    def __str__(self) -> str:
        return f"{self.kind} {self.token}"


IN_MEMORY = "object"
"""Family of in-memory models, reader of in-memory datasets, and the option of a spec with the object."""
NO_OBJECTS: Mapping[str, InMemoryObject] = MappingProxyType({})
"""No in-memory objects."""


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """Everything needed to load a model."""

    family: str
    """Registered model type: open_clip, transformers, onnx, ..."""
    name: str
    pretrained: str = ""
    """Tag, checkpoint file, folder or hub id, as the user wrote it."""
    precision: str = "fp32"
    device: str = "auto"
    options: Mapping[str, Any] = field(default_factory=dict)
    """Family-specific options: cache folder, revision, trust, transform per task, ..."""
    access: object | None = field(default=None, compare=False, repr=False)
    """An `eyechart.models.access.Access` (key, concurrency, budget), which does not affect answers; `access_of` reads
    it."""

    @property
    def what(self) -> dict[str, Any]:
        """Cache key fields as plain values: everything that affects outputs, without device, key or timeout."""
        options = {key: value for key, value in self.options.items() if key not in RUNTIME_ONLY_OPTIONS}
        named = {"family": self.family, "name": self.name, "pretrained": self.pretrained, "precision": self.precision}
        return {**named, "options": options}

    @property
    def given(self) -> InMemoryObject | None:
        """The in-memory object, if it is one."""
        return self.options.get(IN_MEMORY)

    @property
    def label(self) -> str:
        """Name of the model in tables."""
        return self.name if self.pretrained in ("", self.name) else f"{self.name} {self.pretrained}"


PIPELINE: Mapping[str, int] = MappingProxyType({"decode": 1, "transform": 1, "tokenize": 1, "prompt": 1, "payload": 2})
"""Version of each step between the bytes of a sample and the input of a model. Increase it when the output of a step
changes: vectors and answers of the previous version are then not reused. A test compares the outputs for fixed inputs
with golden digests.

decode: encoded image to RGB; transform: RGB to model input; tokenize: text to token ids; prompt: messages to the
request or chat input of a generator; payload: image to the bytes or pixels that a generator receives."""
STEPS: Mapping[Role, tuple[str, ...]] = MappingProxyType(
    {
        "encoder": ("decode", "transform", "tokenize"),
        "generator": ("decode", "transform", "prompt", "payload"),
        "reranker": ("decode", "tokenize", "prompt", "payload"),
    }
)
"""Steps of `PIPELINE` that affect the vectors, answers or scores of a model, by role."""


@dataclass(frozen=True, slots=True)
class ModelCard:
    """Description of a loaded model, part of every result."""

    family: str
    name: str
    weights_digest: str
    transform: str
    """The image transform and text handling as text; part of the fingerprint."""
    precision: str = "fp32"
    embedding_dim: int | None = None
    image_size: int | None = None
    context_length: int | None = None
    parameters: int | None = None
    logit_scale: float | None = None
    logit_bias: float | None = None
    prompts: Mapping[str, str] = field(default_factory=dict)
    """Prompts prepended to a ``query`` or ``document``, as its authors do."""
    similarity: str = "cosine"
    """The model's similarity function: cosine, dot or another name; for a reranker, the activation that its library
    applies to the raw score."""
    notes: tuple[str, ...] = ()
    """Warnings of the loader, for example an activation that differs from the one used in training."""
    role: Role = "encoder"
    inputs: tuple[Input, ...] = ("image", "text")
    """What an encoder takes; ``image+text`` is one joint input with one embedding."""
    prompting: Literal["prefix", "message", "role"] = "prefix"
    """How a prompt reaches an encoder: prepended to texts; as a message of its chat template, for images too; or as the
    role of the input (``query``, ``document``), for servers that have a field for it."""
    multi_vector: bool = False
    """Whether an embedding is several vectors, compared by MaxSim (late interaction)."""
    weight_type: str = ""
    """Type of most weights, if it may differ from ``precision``: ``int8`` for a quantised export."""

    @property
    def fingerprint(self) -> str:
        """Key of the model's vectors or answers: depends on weights, transform, precision and `PIPELINE` only."""
        steps = {name: PIPELINE[name] for name in STEPS[self.role]}
        return digest_json([self.family, self.weights_digest, self.transform, self.precision, steps])


@runtime_checkable
class Encoder(Protocol):
    """A model that encodes images and texts into vectors of one space, independent of benchmarks."""

    @property
    def card(self) -> ModelCard:
        """Describe the loaded model."""

    def prepare_image(self, image: Image.Image) -> NDArray[Any]:
        """Transform a decoded image to the model's input. Called from several threads."""

    def encode_images(self, batch: Any) -> Vectors:
        """Encode prepared images to float32 vectors (n, dim), not normalised.

        The batch is one array of shape (n, ...) if all images have the same shape, as after almost every transform;
        otherwise a list of arrays. Its memory is reused afterwards: copy what must be kept.
        """

    def encode_texts(self, texts: Sequence[str], *, language: str = "en") -> Vectors:
        """Encode texts to float32 vectors (n, dim), not normalised."""

    def truncated(self, texts: Sequence[str]) -> list[bool]:
        """Return for each text whether it exceeds the model's context length."""


@runtime_checkable
class JointEncoder(Encoder, Protocol):
    """An encoder whose card lists ``image+text`` among its inputs.

    If ``card.prompting`` is not ``prefix``, all three methods take a keyword ``instruction``: a prompt or a role.
    """

    def encode_joint(self, batch: Sequence[Any], texts: Sequence[str], *, instruction: str = "") -> Vectors:
        """Encode pairs of a prepared image and a text to one float32 vector each (n, dim)."""


MessageRole = Literal["system", "user", "assistant"]
Part = str | ImageRef
"""Part of a message: a text, or an image that is read and encoded when sent."""


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a conversation: texts and images in the order shown to the model."""

    role: MessageRole
    parts: tuple[Part, ...]

    def to_record(self) -> dict[str, Any]:
        """Return the message as it stands in a transcript: images by content digest and file name only."""
        return {"role": self.role, "content": [p if isinstance(p, str) else _image_record(p) for p in self.parts]}


def _image_record(image: ImageRef) -> dict[str, str]:
    # An address may hold a signature in its query, and a path the name of a user.
    place = image.source.partition("?")[0] if "://" in image.source else image.source
    return {"image": image.digest().hex(), "name": place.replace("\\", "/").rpartition("/")[2]}


@dataclass(frozen=True, slots=True)
class Prompt:
    """One request to a generator: the conversation so far, and an id to match the answer."""

    id: str
    messages: tuple[Message, ...]
    temperature: float | None = None
    """Overrides the generator's temperature where supported: judges are retried at a higher one."""
    usable: Callable[[Answer], bool] | None = field(default=None, compare=False)
    """Whether an answer may be cached; others are generated again by the next run. None: every answer may."""


UNREAD = "unread"
TRUNCATED = "length"
"""The finish reason of an answer truncated at the token limit."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A generator's answer to a prompt."""

    text: str
    thinking: str = ""
    """Reasoning separated by the server or by tags; never part of the text."""
    finish_reason: str = ""
    """The server's finish reason: stop, length (truncated), content_filter, ...; `UNREAD` if no request was sent
    because an image of the prompt cannot be read."""
    usage: Mapping[str, int] = field(default_factory=dict)
    """prompt_tokens and completion_tokens, and cached_tokens (of the prompt), if known."""
    error: str = ""
    """Why the request failed; the text is then empty."""
    refusal: str = ""
    """The model's refusal, if the server returns refusals separately."""
    origin: Mapping[str, str] = field(default_factory=dict)
    """What is known of a server's answer: the reported ``model`` and ``system_fingerprint``, the ``refused`` request
    parameters, and the ``time``."""
    seconds: float | None = None
    """From sending the request that was answered to its complete response, if measured."""
    retries: int | None = None
    """Requests that failed before it."""

    def to_record(self) -> dict[str, Any]:
        """Return the answer as it stands in a transcript; what is unknown is None."""
        used = self.usage if any(self.usage.values()) else {}  # servers that report no usage store zeros
        return {
            "role": "assistant",
            "content": [self.text],
            "reasoning": self.thinking or None,
            **({"refusal": self.refusal} if self.refusal else {}),
            **({"error": self.error} if self.error else {}),
            "finish_reason": self.finish_reason or None,
            "tokens": {name: used.get(f"{name}_tokens") for name in ("prompt", "completion", "cached")},
            "seconds": self.seconds,
            "retries": self.retries,
        }


TRANSCRIPT_VERSION = 1
"""Version of the transcripts in records, see docs/results.md."""


def transcript(messages: Iterable[Mapping[str, Any]], judges: Sequence[Mapping[str, Any]] = ()) -> dict[str, Any]:
    """Return the transcript of a record: the conversation with its answers, and the exchanges with judges."""
    return {"version": TRANSCRIPT_VERSION, "messages": [*messages], **({"judges": [*judges]} if judges else {})}


def read_messages(value: object) -> list[dict[str, Any]]:
    """Return the messages of a transcript that was read from a file; empty if it is something else."""
    found = value if isinstance(value, list) else []
    whole = all(isinstance(one, dict) and "role" in one and isinstance(one.get("content"), list) for one in found)
    return found if whole else []


@runtime_checkable
class Generator(Protocol):
    """A model that generates text from messages, independent of benchmarks."""

    @property
    def card(self) -> ModelCard:
        """Description of the model; its fingerprint includes the generation settings."""

    def generate(self, messages: Sequence[Message]) -> Answer:
        """Answer one conversation.

        Failures of this conversation only (a broken image, a refusal) are the answer's error. Failures that affect
        every conversation (a wrong key, a server that is down) are raised.
        """


@runtime_checkable
class BatchGenerator(Generator, Protocol):
    """A generator that answers many conversations faster in batches or concurrently."""

    def generate_many(
        self, prompts: Iterable[Prompt], keep: Callable[[str, Answer], None] = ...
    ) -> Iterator[tuple[str, Answer]]:
        """Yield answers with the ids of their prompts, in any order, consuming prompts as fast as they are answered.

        ``keep`` is called with each successful answer immediately, before the next prompt is started, so that an
        interrupted run does not lose paid answers.
        """


RUNTIME_ONLY_OPTIONS = frozenset({"cache_dir", "concurrency", "timeout", "tries", "api_key", "api_key_variable"})
"""Runtime-only options of a model, excluded from the cache key."""


# -------------------------------------------------------------------------------------------------- jobs


@dataclass(frozen=True, slots=True)
class DatasetSpec:
    """Everything needed to open a dataset."""

    name: str
    """As the user wrote it; stored in the result unchanged."""
    reader: str
    """Registered reader: wds, jsonl, folder, table, ..."""
    root: str
    split: str = "test"
    language: str = "en"
    limit: int | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    """Reader-specific options: class name and template files, cache folder, ..."""
    own: bool = False
    """Whether it is custom data rather than a named benchmark."""

    @property
    def given(self) -> InMemoryObject | None:
        """The in-memory object, if it is one."""
        return self.options.get(IN_MEMORY)

    @property
    def source(self) -> dict[str, Any]:
        """Everything that defines the samples, as plain values, except the limit."""
        named = {"name": self.name, "reader": self.reader, "root": self.root, "options": dict(self.options)}
        return {**named, "split": self.split, "language": self.language}

    def other_split(self, name: str) -> DatasetSpec:
        """Return another split of the dataset, without the limit."""
        return dataclasses.replace(self, split=name, limit=None)


WHERE_OPTIONS = frozenset({"cache_dir", "offline"})
"""Options that only locate a dataset's files, excluded from the digest."""
HALF = "fp16"
STORE_PRECISION = "store_precision"
"""Job setting with the precision of stored vectors; absent for full precision."""


@dataclass(frozen=True, slots=True)
class EncodeOptions:
    """Runtime options of an encoder. Only ``half`` affects numbers; it is also a setting of the job."""

    batch_size: int = 64
    """Images or texts per forward pass."""
    workers: int = 4
    """Threads that decode and transform images."""
    decode_processes: int | None = None
    """Worker processes that decode for a GPU; 0 for none, None for auto."""
    half: bool | None = None
    """Store, and therefore score, vectors in half precision; None: if the model gives several vectors per item."""


DEFAULT_ENCODING = EncodeOptions()


@dataclass(frozen=True, slots=True)
class Job:
    """One model on one benchmark in one language: an immutable value."""

    model: ModelSpec
    dataset: DatasetSpec
    task: str
    settings: Mapping[str, Any]
    """All settings of the task, including defaults."""
    output: Path
    extra_models: Mapping[str, ModelSpec] = field(default_factory=dict)
    """Extra models by their part in the task: ``judge``, ``reranker``."""
    label: str = ""
    """Name of the model in the result if it differs from its own, as for several models that work together."""
    encoding: EncodeOptions = DEFAULT_ENCODING
    on_error: OnError = "fail"
    min_success: float = 0.0
    """Minimum share of samples that must neither fail nor be unreadable, else the job ends with an error."""
    thumbnails: int = 0
    """Number of errors whose thumbnails are stored in the records."""
    dump: tuple[str, ...] = ()
    """Prompt parts to store in the result: ``classnames``, ``templates``."""
    append: bool = False
    """Append the result as a line to the output, which other jobs share."""
    notes: tuple[Notice, ...] = ()
    """Notices of the planner, stored in the result."""

    @property
    def names(self) -> tuple[str, ...]:
        """Key of the result: dataset, model, pretrained, task, language and split."""
        data, model = self.dataset, self.label or self.model.name
        return (data.name, model, self.model.pretrained, self.task, data.language, data.split)

    @property
    def place(self) -> Path:
        """Path that files belonging to the result are named after; differs from ``output`` when appending."""
        if not self.append:
            return self.output
        words = re.sub(r"[^\w.-]+", "-", f"{self.dataset.name}_{self.dataset.language}_{self.task}")[-100:]
        name = f"{self.output.name.removesuffix('.json')}.{words}.{digest_json(self.names)[:8]}.json"
        return self.output.with_name(name)

    @property
    def title(self) -> str:
        """One-line description of the job."""
        return f"{self.label or self.model.label} on {self.dataset.name} ({self.dataset.language}, {self.task})"

    @property
    def digest(self) -> str:
        """Digest of everything that can change the numbers, and nothing else (no output path, no workers)."""
        options = {key: value for key, value in self.dataset.options.items() if key not in WHERE_OPTIONS}
        dataset = {**self.dataset.source, "limit": self.dataset.limit, "options": options}
        others = {part: spec.what for part, spec in self.extra_models.items()}
        return digest_json([self.model.what, others, dataset, self.task, dict(self.settings), self.on_error])


# ---------------------------------------------------------------------------------------------- outcomes


@dataclass(frozen=True, slots=True)
class Notice:
    """A warning that is also counted in the result."""

    kind: str
    """Short stable name: truncated_texts, duplicate_classes, class_without_images, ..."""
    count: int
    message: str
    """A `eyechart.messages.UserMessage` or plain text."""


@dataclass(frozen=True, slots=True)
class MeanOf:
    """The per-record values that a metric is the mean of."""

    field: str
    """Record field with the value; records without it are ignored."""
    at_most: int | None = None
    """Threshold on the field (a rank): the value is 1 up to it, else 0; null means not found: 0."""
    where: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Only records with these field values are used."""
    cluster: str = ""
    """Field with the independent unit of a record (its image); empty: each record is one."""
    balance: str = ""
    """Field (a label) to macro-average over."""
    draws: tuple[str, ...] = ()
    """For few-shot metrics: `field`, and the fields with the same value for further draws of training images."""


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric value with its interval, chance level and origin."""

    value: float
    low: float | None = None
    high: float | None = None
    chance: float | None = None
    n: int | None = None
    """Number of independent units (images, queries) averaged."""
    lower_is_better: bool = False
    primary: bool = False
    """Whether it represents the benchmark in tables and comparisons."""
    mean_of: MeanOf | None = None
    """The per-record values it is the mean of."""
    function: str = ""
    """For a metric that is not a mean: name of the function over records (see `eyechart.report.paired_records`)."""
    best: float | None = None
    """Largest attainable value on these data, if below the metric's maximum."""
    points: bool = False
    """Whether it is a rank, sum or percentage rather than a fraction; tables never convert it to per cent."""
    worst_case: float | None = None
    """If samples failed or answers could not be read: the value if all of these were wrong."""
    best_case: float | None = None
    """The value if all of these were right."""
    covers: tuple[str, ...] = ()
    """What the interval covers the choice of: ``test samples``, ``training draws``, ``judges``; all else is fixed."""


Fact = str | bool | int | float | None
"""A non-metric value among the metrics of a result file: a path, a setting, a property of the data."""
RecordForm = Literal["", "label", "labels", "ranking", "question"]
"""Content of a record: one label and a rank, several labels and scores, a query and the rank of its target, a question
and its answer; empty if the report has no view for it."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """Output of a task's scoring: metrics, one record per sample, and warnings."""

    metrics: Mapping[str, Metric]
    records: Sequence[Mapping[str, Any]]
    notices: Sequence[Notice] = ()
    details: Mapping[str, Any] = field(default_factory=dict)
    """Small derived tables for the report: class names, per-class metrics, curves."""
    facts: Mapping[str, Fact] = field(default_factory=dict)
    """Non-metric values reported among the metrics (``save_path``, ``weight_decay``, ...)."""


_CANONICAL = json.JSONEncoder(sort_keys=True, default=str, ensure_ascii=False, separators=(",", ":"))


def digest_json(value: object) -> str:
    """Return a short digest of a JSON-like value, independent of key order."""
    text = _CANONICAL.encode(value)
    # JSON may contain lone surrogates, which strict UTF-8 cannot encode.
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
