"""Every noun of Eyechart.

A benchmark is a dataset read by a task. A plan is a list of frozen jobs. A model is an encoder (contents to
vectors) or a generator (messages to text). A task predicts (slow, cached) and scores (quick, pure).
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
from eyechart.io.media import ImageRef

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from PIL import Image

    from eyechart.io.progress import Progress
    from eyechart.models.access import Access

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
"""What a dataset's samples carry: one label, several labels, captions, candidates to choose from, nothing themselves
but a collection of queries and documents beside them, how similar they are in pairs, nothing at all, a question to a
generator, or (``texts``) a query to a collection of texts. ``external`` data are read by the library that scores them,
and have no samples here."""

OnError = Literal["fail", "skip"]


# ---------------------------------------------------------------------------------------------- datasets


@dataclass(frozen=True, slots=True)
class Sample:
    """One row of a dataset. Which fields are set depends on the dataset's kind."""

    id: str
    """Unique within the dataset and split; records refer to it."""
    image: ImageRef | None
    """None for a sample that is all text; the first one where there are several."""
    label: int | None = None
    labels: tuple[int, ...] = ()
    """Multilabel: the indices of all classes that are present."""
    texts: tuple[str, ...] = ()
    """Retrieval: the captions. Selection: the right candidate first, then wrong ones; samples with the same
    ``meta["question"]`` share their candidates, and an image without texts is right for none of them. Images with
    the same ``meta["text"]`` share their right one."""
    meta: Mapping[str, Any] = field(default_factory=dict)
    """Anything else that the source knows: group columns, paths, weights."""

    def need_image(self) -> ImageRef:
        """Return the image of a sample that must have one."""
        if self.image is None:
            raise DataError(f"Sample {self.id} has no image.")
        return self.image


@dataclass(frozen=True, slots=True)
class DatasetInfo:
    """What is known of a dataset before its samples are read."""

    name: str
    kind: Kind
    split: str = "test"
    language: str = "en"
    classnames: tuple[str, ...] = ()
    templates: tuple[str, ...] = ()
    class_prompts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Texts for a class that replace the templates, by class name (CuPL style)."""
    source: str = ""
    """Path or address, for messages and provenance."""
    notes: tuple[Notice, ...] = ()
    """Warnings that the reader found in the description (they are counted in the result)."""
    collection: TextCollection | None = None
    """Queries, documents and relevance."""
    shared_texts: bool = False
    """A text that several images have means each of them: whichever is found is right. Published retrieval benchmarks
    want the very image (or copy of the text) instead."""


@runtime_checkable
class Dataset(Protocol):
    """A readable dataset: a description and a stream of samples, in a fixed order, any number of times."""

    @property
    def info(self) -> DatasetInfo:
        """Describe the dataset without reading samples."""

    def shards(self) -> Sequence[Shard]:
        """List the independent pieces of the stream; together, in order, they hold every sample once."""

    def signature(self) -> str:
        """Return a text that changes when the files do, cheaply: sizes and small files, not all the bytes."""


@runtime_checkable
class Fetchable(Protocol):
    """A dataset whose files may lie elsewhere."""

    def fetch(self, progress: Progress) -> None:
        """Bring everything that its shards need to this machine; what is here already is not fetched again."""


@runtime_checkable
class Shard(Protocol):
    """A piece of a dataset that one worker reads from front to back."""

    @property
    def name(self) -> str:
        """Name the piece in messages."""

    def __iter__(self) -> Iterator[Sample]:
        """Stream the samples."""


@runtime_checkable
class Outlined(Protocol):
    """A shard whose targets lie among its images, and can be had without reading those."""

    def outline(self) -> Iterator[Sample]:
        """Stream the samples, their images unread."""


def outline_of(shard: Shard) -> Iterable[Sample]:
    """Stream a shard, reading no image that need not be read."""
    return shard.outline() if isinstance(shard, Outlined) else shard


@dataclass(frozen=True, slots=True)
class Document:
    """A text, an image or both: what is looked for, or what can be found."""

    id: str
    text: str
    meta: Mapping[str, Any] = field(default_factory=dict)
    """Whatever else its source knows, such as where the image is that the text describes."""
    image: str | None = None
    """The id of the sample that is its image, where it has one."""


@dataclass(frozen=True, slots=True)
class TextCollection:
    """Text retrieval data: documents, queries, and how relevant which document is to which query."""

    documents: tuple[Document, ...]
    queries: tuple[Document, ...]
    relevance: Mapping[str, Mapping[str, float]]
    """By query id, then by document id; a document that is not named is not relevant."""
    candidates: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By query id, the documents among which it is to be found (reranking); none: the whole collection."""


# ------------------------------------------------------------------------------------------------ models


Role = Literal["encoder", "generator", "reranker"]
"""What a model does in a task."""


@dataclass(frozen=True, slots=True)
class Given:
    """An object of Python that the caller handed over, as the option ``object`` of a spec.

    It equals itself and nothing else: what an object holds may change from one call to the next, so nothing that was
    made of it is ever taken for what it would give now.
    """

    thing: Any = field(compare=False, repr=False)
    kind: str
    """Its class, with the module."""
    token: str = field(default_factory=lambda: secrets.token_hex(8))

    def __str__(self) -> str:
        return f"{self.kind} {self.token}"


OBJECT = "object"
"""The family of models, the reader of datasets, and the option of a spec that holds the object itself."""
NOTHING_GIVEN: Mapping[str, Given] = MappingProxyType({})
"""No objects: everything is named."""


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """Which model, in what form: enough to load it again."""

    family: str
    """Registered model type: open_clip, transformers, onnx, ..."""
    name: str
    pretrained: str = ""
    """Tag, checkpoint file, folder or hub id, as the user wrote it."""
    precision: str = "fp32"
    device: str = "auto"
    options: Mapping[str, Any] = field(default_factory=dict)
    """Family-specific: cache folder, revision, trust, transform per task, ..."""
    access: Access | None = field(default=None, compare=False, repr=False)
    """How the model is reached (key, requests at a time, budget): nothing of this changes what it answers."""

    @property
    def what(self) -> dict[str, Any]:
        """Return all that can change what the model answers, as plain values: no device, no key, no time limit."""
        options = {key: value for key, value in self.options.items() if key not in HOW_NOT_WHAT}
        named = {"family": self.family, "name": self.name, "pretrained": self.pretrained, "precision": self.precision}
        return {**named, "options": options}

    @property
    def given(self) -> Given | None:
        """Return the object that the caller handed over, if it is one."""
        return self.options.get(OBJECT)

    @property
    def label(self) -> str:
        """Name the model in one line of a table."""
        return self.name if self.pretrained in ("", self.name) else f"{self.name} {self.pretrained}"


@dataclass(frozen=True, slots=True)
class ModelCard:
    """What a loaded model says of itself. Part of every result."""

    family: str
    name: str
    weights_digest: str
    transform: str
    """The image transform and the text handling, written out: other text, other fingerprint."""
    precision: str = "fp32"
    embedding_dim: int | None = None
    image_size: int | None = None
    context_length: int | None = None
    parameters: int | None = None
    logit_scale: float | None = None
    logit_bias: float | None = None
    prompts: Mapping[str, str] = field(default_factory=dict)
    """What its authors put in front of a ``query`` or a ``document`` before it is encoded."""
    similarity: str = "cosine"
    """How the model itself compares two vectors: cosine, dot (the lengths of vectors count), or another name; of a
    reranker, what its library makes of the raw score."""
    notes: tuple[str, ...] = ()
    """Traps that the loader found, for example another activation than the weights were trained with."""

    @property
    def fingerprint(self) -> str:
        """Name the model in the store: it changes with weights, transform or precision, and with nothing else."""
        return digest_json([self.family, self.weights_digest, self.transform, self.precision])


@runtime_checkable
class Encoder(Protocol):
    """A model that turns images and texts into vectors of one space. It knows nothing of benchmarks."""

    @property
    def card(self) -> ModelCard:
        """Describe the loaded model."""

    def prepare_image(self, image: Image.Image) -> NDArray[Any]:
        """Transform one decoded image to the tower's input. Called from several threads."""

    def encode_images(self, batch: Any) -> Vectors:
        """Encode prepared images to float32 vectors (n, dim), not normalised.

        The batch is one array of shape (n, ...) if the images have one shape, as they have after almost every
        transform; else a list of arrays. Its memory is used again afterwards: a copy of what shall stay.
        """

    def encode_texts(self, texts: Sequence[str], *, language: str = "en") -> Vectors:
        """Encode texts to float32 vectors (n, dim), not normalised."""

    def truncated(self, texts: Sequence[str]) -> list[bool]:
        """Tell for each text whether it is longer than the model reads."""


Speaker = Literal["system", "user", "assistant"]
Part = str | ImageRef
"""A piece of a message: a text, or an image that is read and encoded when it is sent."""


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a conversation: texts and images in the order in which the model shall see them."""

    role: Speaker
    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class Prompt:
    """One question to a generator: the conversation so far, and an id to recognise the answer by."""

    id: str
    messages: tuple[Message, ...]
    temperature: float | None = None
    """Another temperature than the generator's own, where it can have one: a judge is asked again more freely."""


UNREAD = "unread"


@dataclass(frozen=True, slots=True)
class Answer:
    """What a generator said to one prompt."""

    text: str
    thinking: str = ""
    """Reasoning that the server or the model's tags set apart; never part of the text."""
    finish_reason: str = ""
    """As the server calls it: stop, length (cut at the longest answer), content_filter, ...; `UNREAD` where nothing was
    asked, as an image of the prompt cannot be read."""
    usage: Mapping[str, int] = field(default_factory=dict)
    """prompt_tokens and completion_tokens, where they are known."""
    error: str = ""
    """Why there is no answer; the text is then empty."""
    refusal: str = ""
    """What the model said instead of an answer, where the server sets refusals apart."""


@runtime_checkable
class Generator(Protocol):
    """A model that turns messages into text. It knows nothing of benchmarks."""

    @property
    def card(self) -> ModelCard:
        """Describe the model with its generation settings: other settings, other fingerprint."""

    def generate(self, messages: Sequence[Message]) -> Answer:
        """Answer one conversation.

        What concerns this conversation only (a broken image, a refusal) is the answer's error. What will meet every
        other conversation as well (a wrong key, a server that is down) is raised.
        """


@runtime_checkable
class BatchGenerator(Generator, Protocol):
    """A generator that answers many conversations faster than one after the other."""

    def generate_many(
        self, prompts: Iterable[Prompt], keep: Callable[[str, Answer], None] = ...
    ) -> Iterator[tuple[str, Answer]]:
        """Answer prompts in any order, each with its id, reading them only as fast as they are answered.

        ``keep`` is called with each answer (not with errors) the moment it is there, before another prompt takes its
        place: whoever is killed afterwards has not paid in vain.
        """


HOW_NOT_WHAT = frozenset({"cache_dir", "concurrency", "timeout", "tries", "api_key", "api_key_variable"})
"""Options of a model that decide how it is run and not what it answers."""


# -------------------------------------------------------------------------------------------------- jobs


@dataclass(frozen=True, slots=True)
class DatasetSpec:
    """Which dataset, read how: enough to open it again."""

    name: str
    """As the user wrote it; it goes into the result unchanged."""
    reader: str
    """Registered reader: wds, jsonl, folder, table, ..."""
    root: str
    split: str = "test"
    language: str = "en"
    limit: int | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    """Reader-specific: class name and template files, cache folder, ..."""
    own: bool = False
    """Whether it is data of the user's own and no benchmark with a name."""

    @property
    def given(self) -> Given | None:
        """Return the object that the caller handed over, if it is one."""
        return self.options.get(OBJECT)

    @property
    def source(self) -> dict[str, Any]:
        """Return what decides which samples there are, as plain values; not how many of them are read."""
        named = {"name": self.name, "reader": self.reader, "root": self.root, "options": dict(self.options)}
        return {**named, "split": self.split, "language": self.language}

    def other_split(self, name: str) -> DatasetSpec:
        """Return another split of the dataset, which is always read whole."""
        return dataclasses.replace(self, split=name, limit=None)


WHERE_OPTIONS = frozenset({"cache_dir", "offline"})
"""Options of a dataset that say where its files are kept; they do not change the numbers."""


HALF = "fp16"
STORE_PRECISION = "store_precision"
"""The setting of a job that says in which precision vectors are stored; without it, in full."""


@dataclass(frozen=True, slots=True)
class Job:
    """One model on one benchmark in one language: a value, printable, the same every time it is planned."""

    model: ModelSpec
    dataset: DatasetSpec
    task: str
    settings: Mapping[str, Any]
    """The task's own settings, all of them, defaults included."""
    output: Path
    others: Mapping[str, ModelSpec] = field(default_factory=dict)
    """Further models that the task works with, by their part in it: ``judge``, ``reranker``."""
    label: str = ""
    """What the result calls the model, where that is not its own name: several models that work together."""
    batch_size: int = 64
    grow: bool = False
    """Whether nobody chose the batch size, so that a GPU may be given larger batches where it is faster so."""
    workers: int = 4
    decode_processes: int | None = None
    """Processes that decode images instead of threads; None where nobody said."""
    on_error: OnError = "fail"
    min_success: float = 0.0
    """The share of the samples that must neither fail nor be unreadable, else the run ends with an error."""
    thumbnails: int = 0
    """Small images of this many mistakes are kept in the records."""
    dump: tuple[str, ...] = ()
    """What of the prompts goes into the result: ``classnames``, ``templates``."""
    append: bool = False
    """The result is added to its output as a line, beside those of other jobs."""
    notes: tuple[Notice, ...] = ()
    """What the result says of how it was planned."""

    @property
    def names(self) -> tuple[str, ...]:
        """Say what the result is of: dataset, model, pretrained, task and language."""
        model = self.label or self.model.name
        return (self.dataset.name, model, self.model.pretrained, self.task, self.dataset.language)

    @property
    def place(self) -> Path:
        """Return where the result would be if it were alone: what belongs to it is named after that."""
        if not self.append:
            return self.output
        words = re.sub(r"[^\w.-]+", "-", f"{self.dataset.name}_{self.dataset.language}_{self.task}")[-100:]
        name = f"{self.output.name.removesuffix('.json')}.{words}.{digest_json(self.names)[:8]}.json"
        return self.output.with_name(name)

    @property
    def title(self) -> str:
        """Name the job in one line."""
        return f"{self.label or self.model.label} on {self.dataset.name} ({self.dataset.language}, {self.task})"

    @property
    def digest(self) -> str:
        """Identify what is computed: all that can change the numbers, and nothing else (no output path, no workers)."""
        options = {key: value for key, value in self.dataset.options.items() if key not in WHERE_OPTIONS}
        dataset = {**self.dataset.source, "limit": self.dataset.limit, "options": options}
        others = {part: spec.what for part, spec in self.others.items()}
        return digest_json([self.model.what, others, dataset, self.task, dict(self.settings), self.on_error])

    @property
    def half(self) -> bool:
        """Tell whether vectors are stored in half precision, and so also scored."""
        return self.settings.get(STORE_PRECISION) == HALF


# ---------------------------------------------------------------------------------------------- outcomes


@dataclass(frozen=True, slots=True)
class Notice:
    """A warning that is also counted in the result."""

    kind: str
    """Short stable name: truncated_texts, duplicate_classes, class_without_images, ..."""
    count: int
    message: str


@dataclass(frozen=True, slots=True)
class MeanOf:
    """What a metric is the mean of: one number for each record that counts."""

    field: str
    """The field of the record that holds the number; a record without it does not count."""
    at_most: int | None = None
    """The number is 1 where the field (a rank) is at most this, else 0; a rank that is null is not found: 0."""
    where: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Only records with these values count."""
    cluster: str = ""
    """The field that names the independent unit of a record (its image); without it, each record is one."""
    balance: str = ""
    """The mean over the values of this field (a label) of the mean over the records that have it."""


@dataclass(frozen=True, slots=True)
class Metric:
    """One number with what is needed to believe it and to compare it."""

    value: float
    low: float | None = None
    high: float | None = None
    chance: float | None = None
    n: int | None = None
    """How many independent units (images, queries) it is a mean of."""
    lower_is_better: bool = False
    primary: bool = False
    """Whether it stands for the benchmark in tables and comparisons."""
    mean_of: MeanOf | None = None
    """The records' numbers whose mean it is."""
    function: str = ""
    """Where it is no mean: the function over records that gives it, by name (see `eyechart.report.tests`)."""
    best: float | None = None
    """The largest value that any model can reach on these data, where that is not the largest there is."""
    points: bool = False
    """Whether it is no fraction, however small it is: a rank, a sum, per cent. Tables never make per cent of it."""
    if_wrong: float | None = None
    """Where samples failed or nobody could read their answers: what it would be if all of these were wrong."""
    if_right: float | None = None
    """What it would be if all of these were right."""


Fact = str | bool | int | float | None
"""What stands among the metrics of a result file but is none: a path, a setting, a number that no model decides."""
RecordForm = Literal["", "label", "labels", "ranking", "question"]
"""What a record shows: one label and a rank, several labels and scores, a query and the rank of what it looks for, a
question and its answer; nothing that the report has a view for."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a task's scoring gives: metrics, one record per sample, and warnings."""

    metrics: Mapping[str, Metric]
    records: Sequence[Mapping[str, Any]]
    notices: Sequence[Notice] = ()
    details: Mapping[str, Any] = field(default_factory=dict)
    """Small derived tables for the report: class names, per-class figures, curves."""
    facts: Mapping[str, Fact] = field(default_factory=dict)
    """What is reported among the metrics but is none (``save_path``, ``weight_decay``, ...)."""


_CANONICAL = json.JSONEncoder(sort_keys=True, default=str, ensure_ascii=False, separators=(",", ":"))


def digest_json(value: object) -> str:
    """Return a short digest of a JSON-like value, independent of key order."""
    text = _CANONICAL.encode(value)
    # JSON may hold halves of characters, which UTF-8 proper cannot.
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
