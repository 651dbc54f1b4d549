"""Request forms of embedding servers, and the vectors in their responses.

Each form follows the vendor's documentation:

- ``cohere``: API reference v2, POST /v2/embed (embed-v4.0), read in November 2026
- ``voyage``: POST /v1/multimodalembeddings and /v1/embeddings, Atlas Embedding and Reranking API 1.1 (August 2026) and
  voyageai-python of July 2026
- ``gemini``: API v1beta, models.batchEmbedContents (gemini-embedding-001 and gemini-embedding-2), read in November 2026
- ``jina``: Search Foundation API, POST /v1/embeddings (jina-clip-v2, jina-embeddings-v4), read in November 2026
- ``vllm``, ``vllm_pooling``: vLLM 0.18, POST /v1/embeddings with messages and POST /pooling
- ``infinity``: infinity-emb, POST /embeddings with a modality
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import NDArray

from eyechart.api.client import ApiClient
from eyechart.api.endpoints import image_part
from eyechart.api.errors import BadAnswerError
from eyechart.api.image_payloads import EncodedImage
from eyechart.api.requests import Json, Request, excerpt, list_of
from eyechart.types import Input

Vectors = NDArray[np.float32]
Content = tuple[str | EncodedImage, ...]
"""One input, which gets one vector: a text, an image, or a text and an image."""
IMAGES_PER_REQUEST = 16
_FLOAT = {"encoding_format": "float"}
_QUANTIZED = {"float": "float", "int8": "int8", "binary": "ubinary"}


@dataclass(frozen=True, slots=True)
class Asked:
    """What is asked of an embedding server, apart from the inputs."""

    model: str
    role: str = ""
    """``query``, ``document`` or empty."""
    dimension: int | None = None
    """Requested length; None for the model's own."""
    dtype: str = "float"


@dataclass(frozen=True, slots=True)
class EmbeddingForm:
    """The request form of an embedding server; the inputs of one request are of the same kind."""

    build: Callable[[EmbeddingForm, Asked, Sequence[Content]], Json]
    """Returns the body of a request."""
    rows: Callable[[Json, str], list[tuple[Any, Any]]]
    """Returns the index of each vector in a response, and the vector; given the server's name of the dtype."""
    path: str = "embeddings"
    addresses: tuple[str, ...] = ()
    """Addresses, without the scheme, that imply the form."""
    inputs: tuple[Input, ...] = ("image", "text")
    roles: Mapping[str, str] = field(default_factory=dict)
    """The server's names of the roles, or prefixes; empty if it has none."""
    dtypes: Mapping[str, str] = field(default_factory=lambda: {"float": "float"})
    """The server's names of the supported dtypes. ``binary`` is requested as bytes of eight bits."""
    has_dimension: bool = True
    """Whether the dimension is sent; otherwise it is only the expected length of the vectors."""
    lists_models: bool = True
    """Whether GET /models lists the names of the models."""
    key_header: str = ""
    """Header that holds the key; empty for the Bearer scheme."""
    most_texts: int = 2048
    most_images: int = IMAGES_PER_REQUEST


def find_form(name: str | None, address: str, model: str) -> EmbeddingForm:
    """Return the form of a name, or the one that the address implies, or else OpenAI's.

    Voyage and Gemini have other forms for models that take only texts.
    """
    parts = urlsplit(address)
    place = f"{parts.hostname}{parts.path}"
    name = name or next((name for name, form in FORMS.items() if place in form.addresses), "")
    if name in _TEXT_FORMS and re.search(_TEXT_FORMS[name][0], model):
        return _TEXT_FORMS[name][1]
    return FORMS.get(name, OPENAI)


def embed(
    client: ApiClient,
    form: EmbeddingForm,
    asked: Asked,
    inputs: Sequence[Content],
    *,
    batch_size: int = 64,
    dimension: int | None = None,
) -> Vectors:
    """Embed inputs of one kind, in their order. Any failed request raises its error.

    Raises:
        BadAnswerError: If the server returns a wrong number of vectors, or vectors of unequal size or not of
            `dimension`.
    """
    if not inputs:
        return np.empty((0, dimension or 0), dtype=np.float32)
    size = min(batch_size, form.most_images if _has_image(inputs) else form.most_texts)

    def request(start: int) -> Request[Vectors]:
        batch = inputs[start : start + size]
        parse = partial(parse_embeddings, count=len(batch), dimension=dimension, form=form, dtype=asked.dtype)
        path = form.path.format(model=asked.model)
        return Request(str(start), path, partial(form.build, form, asked, batch), parse)

    parts = {int(reply.id): reply.result() for reply in client.map(map(request, range(0, len(inputs), size)))}
    sizes = sorted({part.shape[1] for part in parts.values()})
    if len(sizes) > 1:
        raise BadAnswerError("The server returned embeddings of different sizes: {sizes}.", sizes=sizes)
    return np.concatenate([parts[start] for start in sorted(parts)])


# ------------------------------------------------------------------------------------------------ requests


def _has_image(inputs: Sequence[Content]) -> bool:
    return any(isinstance(part, EncodedImage) for part in inputs[0])


def _given(**fields: object) -> Json:
    return {name: value for name, value in fields.items() if value is not None}


def _parts(content: Content, image: Callable[[EncodedImage], Json]) -> list[Json]:
    return [{"type": "text", "text": part} if isinstance(part, str) else image(part) for part in content]


def _openai(form: EmbeddingForm, asked: Asked, inputs: Sequence[Content]) -> Json:  # noqa: ARG001
    return {"model": asked.model, "input": [text for (text,) in inputs], **_FLOAT}


def _infinity(form: EmbeddingForm, asked: Asked, inputs: Sequence[Content]) -> Json:
    if not _has_image(inputs):
        return _openai(form, asked, inputs)
    urls = [part.data_url for (part,) in inputs if isinstance(part, EncodedImage)]
    return {"model": asked.model, "input": urls, "modality": "image", **_FLOAT}


def _vllm(form: EmbeddingForm, asked: Asked, inputs: Sequence[Content]) -> Json:
    more = _given(dimensions=asked.dimension)
    if not _has_image(inputs):
        return _openai(form, asked, inputs) | more
    [content] = inputs  # a conversation is one input; images come first, as in vLLM's examples
    messages = [{"role": "user", "content": _parts(content[::-1], image_part)}]
    return {"model": asked.model, "messages": messages, **_FLOAT, **more}


def _vllm_pooling(form: EmbeddingForm, asked: Asked, inputs: Sequence[Content]) -> Json:
    return {**_vllm(form, asked, inputs), "task": "embed"}


def _jina(form: EmbeddingForm, asked: Asked, inputs: Sequence[Content]) -> Json:
    # jina-clip has a task for queries only.
    task = None if "clip" in asked.model and asked.role != "query" else form.roles.get(asked.role)
    dtype = form.dtypes[asked.dtype] if asked.dtype != "float" else None
    rows = [part if isinstance(part, str) else {"image": part.base64} for (part,) in inputs]
    more = _given(task=task, dimensions=asked.dimension, embedding_type=dtype)
    return {"model": asked.model, "input": rows, **more}


def _cohere(form: EmbeddingForm, asked: Asked, inputs: Sequence[Content]) -> Json:
    body = {"model": asked.model, "input_type": form.roles[asked.role], "embedding_types": [form.dtypes[asked.dtype]]}
    rows = {"inputs": [{"content": _parts(content, image_part)} for content in inputs]}
    texts = {"texts": [text for (text,) in inputs]} if not _has_image(inputs) else rows
    return {**body, **texts, **_given(output_dimension=asked.dimension)}


def _voyage(form: EmbeddingForm, asked: Asked, inputs: Sequence[Content]) -> Json:
    dtype = form.dtypes[asked.dtype] if asked.dtype != "float" else None
    more = _given(input_type=form.roles.get(asked.role), output_dimension=asked.dimension, output_dtype=dtype)
    if "image" not in form.inputs:
        return {"model": asked.model, "input": [text for (text,) in inputs], **more}
    rows = [{"content": _parts(content, _voyage_image)} for content in inputs]
    return {"model": asked.model, "inputs": rows, **more}


def _voyage_image(image: EncodedImage) -> Json:
    return {"type": "image_base64", "image_base64": image.data_url}


def _gemini(form: EmbeddingForm, asked: Asked, inputs: Sequence[Content]) -> Json:
    # gemini-embedding-2 takes the task as a prefix of the text; its predecessor has a field.
    prefix = form.roles.get(asked.role, "") if "image" in form.inputs else ""
    task = form.roles.get(asked.role) if "image" not in form.inputs else None
    one = {"model": f"models/{asked.model}", **_given(taskType=task, outputDimensionality=asked.dimension)}
    rows = [
        [
            {"text": prefix + part}
            if isinstance(part, str)
            else {"inlineData": {"mimeType": part.mime, "data": part.base64}}
            for part in content
        ]
        for content in inputs
    ]
    return {"requests": [{**one, "content": {"parts": row}} for row in rows]}


# ----------------------------------------------------------------------------------------------- responses


def parse_embeddings(
    body: Json, count: int, dimension: int | None = None, form: EmbeddingForm | None = None, dtype: str = "float"
) -> Vectors:
    """Read `count` vectors in the order of their `index`, or as they come if a server omits it."""
    form = form or OPENAI
    rows = form.rows(body, form.dtypes[dtype])
    if len(rows) != count:
        raise BadAnswerError("Expected {count} embeddings, the server returned {n}.", count=count, n=len(rows))
    ordered: list[Any] = [None] * count
    for index, vector in rows:
        if not isinstance(index, int):
            raise BadAnswerError("The response is not a list of embeddings: {body}", body=excerpt(body))
        if not 0 <= index < count or ordered[index] is not None:
            raise BadAnswerError(
                "Index {index} of the {count} returned embeddings is repeated or out of range.",
                count=count,
                index=index,
            )
        ordered[index] = vector
    return _matrix(ordered, dimension, dtype)


def _openai_rows(body: Json, dtype: str, name: str = "embedding") -> list[tuple[Any, Any]]:  # noqa: ARG001
    rows = list_of(body, "data", "list of embeddings")
    return [
        (row.get("index", i), row.get(name)) if isinstance(row, Mapping) else (None, None) for i, row in enumerate(rows)
    ]


def _cohere_rows(body: Json, dtype: str) -> list[tuple[Any, Any]]:
    found = body.get("embeddings")
    return list(enumerate(list_of(found if isinstance(found, dict) else body, dtype, "list of embeddings")))


def _gemini_rows(body: Json, dtype: str) -> list[tuple[Any, Any]]:  # noqa: ARG001
    rows = list_of(body, "embeddings", "list of embeddings")
    return [(i, row.get("values")) if isinstance(row, Mapping) else (None, None) for i, row in enumerate(rows)]


def _matrix(rows: list[Any], dimension: int | None, dtype: str) -> Vectors:
    sizes = {len(row) if isinstance(row, list) else None for row in rows}
    if None in sizes or 0 in sizes:
        raise BadAnswerError("The server returned an embedding that is not a list of numbers.")
    if len(sizes) > 1:
        raise BadAnswerError(
            "The server returned embeddings of different sizes: {sizes}.", sizes=sorted(map(str, sizes))
        )
    try:
        vectors = np.array(rows, dtype=np.float32)
    except (TypeError, ValueError, OverflowError) as error:
        raise BadAnswerError("The server returned an embedding that is not a list of numbers.") from error
    if vectors.ndim != 2:
        raise BadAnswerError("The server returned several vectors for one input; expected one.")
    if not np.isfinite(vectors).all():
        raise BadAnswerError("The server returned an embedding with NaN or infinite values.")
    if dtype != "float":
        low, high = (-128, 127) if dtype == "int8" else (0, 255)
        if (vectors != np.rint(vectors)).any() or vectors.min() < low or vectors.max() > high:
            raise BadAnswerError("The server returned an embedding that is not {dtype}.", dtype=dtype)
    if dtype == "binary":
        # The dot product of vectors of 1 and -1 orders like the Hamming distance.
        vectors = np.unpackbits(vectors.astype(np.uint8), axis=1).astype(np.float32) * 2 - 1
    if dimension is not None and vectors.shape[1] != dimension:
        raise BadAnswerError(
            "The server returned embeddings of size {n}, expected {dimension}.", n=vectors.shape[1], dimension=dimension
        )
    return vectors


# -------------------------------------------------------------------------------------------------- forms


_JOINT: tuple[Input, ...] = ("image", "text", "image+text")
OPENAI = EmbeddingForm(_openai, _openai_rows, has_dimension=False)
FORMS = {
    "vllm": EmbeddingForm(_vllm, _openai_rows, inputs=_JOINT, most_images=1),
    "infinity": EmbeddingForm(_infinity, _openai_rows, has_dimension=False),
    "jina": EmbeddingForm(
        _jina,
        _openai_rows,
        addresses=("api.jina.ai/v1",),
        roles={"query": "retrieval.query", "document": "retrieval.passage"},
        dtypes={"float": "float", "binary": "ubinary"},
    ),
    "vllm_pooling": EmbeddingForm(
        _vllm_pooling, partial(_openai_rows, name="data"), "pooling", inputs=_JOINT, most_images=1
    ),
    "cohere": EmbeddingForm(
        _cohere,
        _cohere_rows,
        "embed",
        ("api.cohere.com/v2",),
        _JOINT,
        # The field is required.
        roles={"": "search_document", "query": "search_query", "document": "search_document"},
        dtypes=_QUANTIZED,
        lists_models=False,
        most_texts=96,
    ),
    "voyage": EmbeddingForm(
        _voyage,
        _openai_rows,
        "multimodalembeddings",
        ("api.voyageai.com/v1", "ai.mongodb.com/v1"),
        _JOINT,
        roles={"query": "query", "document": "document"},
        dtypes=_QUANTIZED,
        lists_models=False,
        most_texts=1000,
    ),
    "gemini": EmbeddingForm(
        _gemini,
        _gemini_rows,
        "models/{model}:batchEmbedContents",
        ("generativelanguage.googleapis.com/v1beta",),
        _JOINT,
        roles={"query": "task: search result | query: ", "document": "title: none | text: "},
        lists_models=False,
        key_header="x-goog-api-key",
        most_texts=100,
        most_images=6,
    ),
}
"""By the option ``image_form``."""
_TEXT_FORMS = {
    "voyage": (r"^(?!.*multimodal)", replace(FORMS["voyage"], path="embeddings", inputs=("text",))),
    "gemini": (
        r"embedding-00\d",
        replace(
            FORMS["gemini"],
            inputs=("text",),
            roles={"query": "RETRIEVAL_QUERY", "document": "RETRIEVAL_DOCUMENT"},
        ),
    ),
}
"""By form: pattern of the names of models that take texts only, and their form."""
