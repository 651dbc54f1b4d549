"""Request forms of embedding servers, and the vectors in their responses."""

import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import NDArray

from eyechart.api.client import ApiClient
from eyechart.api.endpoints import content_parts
from eyechart.api.errors import BadAnswerError
from eyechart.api.image_payloads import EncodedImage
from eyechart.api.requests import Json, Request, excerpt, list_of
from eyechart.types import Input

Vectors = NDArray[np.float32]
Content = tuple[str | EncodedImage, ...]
"""One input, which gets one vector: a text, an image, or a text and an image."""
DTYPES = {"float": "float", "int8": "int8", "binary": "ubinary"}
"""Dtypes, and what servers call them. ``binary`` is requested as bytes of eight bits."""
_FLOAT = {"encoding_format": "float"}


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

    build: Callable[[Json, Sequence[Content]], Json]
    """Makes the body of a request from its options and its inputs."""
    path: str = "embeddings"
    answer: tuple[str, str] = ("data", "embedding")
    """Names of the list in a response, and of the vector in a row of it; empty if a row is the vector."""
    inputs: tuple[Input, ...] = ("image", "text")
    names: Mapping[str, str] = field(default_factory=dict)
    """The server's names of the options role, dimension and dtype, as far as it has them."""
    roles: Mapping[str, str] = field(default_factory=dict)
    """Values of the role; prefixes of texts if the server has no option for it."""
    dtypes: Mapping[str, Any] = field(default_factory=lambda: {"float": None})
    """Values of the dtype; None if it is the default."""
    addresses: tuple[str, ...] = ()
    """Addresses, without the scheme, that imply the form."""
    lists_models: bool = True
    """Whether GET /models lists the names of the models."""
    key_header: str = ""
    """Header that holds the key; empty for the Bearer scheme."""
    most_texts: int = 2048
    most_images: int = 16

    def body(self, asked: Asked, inputs: Sequence[Content]) -> Json:
        """Make the body of a request."""
        role = self.roles.get(asked.role)
        values = {"role": role, "dimension": asked.dimension, "dtype": self.dtypes[asked.dtype]}
        options = {name: values[key] for key, name in self.names.items() if values[key] is not None}
        if role and "role" not in self.names:
            inputs = [tuple(role + part if isinstance(part, str) else part for part in one) for one in inputs]
        return self.build({"model": asked.model, **options}, inputs)


def find_form(name: str | None, address: str, model: str) -> EmbeddingForm:
    """Return the form of a name, or the one that the address implies, or else OpenAI's; some depend on the model."""
    parts = urlsplit(address)
    place = f"{parts.hostname}{parts.path}"
    name = name or next((name for name, form in FORMS.items() if place in form.addresses), "")
    pattern, variant = _VARIANTS.get(name, ("(?!)", OPENAI))
    return variant if re.search(pattern, model) else FORMS.get(name, OPENAI)


def embed(
    client: ApiClient,
    form: EmbeddingForm,
    asked: Asked,
    inputs: Sequence[Content],
    *,
    batch_size: int = 64,
    dimension: int | None = None,
) -> Vectors:
    """Embed inputs of one kind, in their order. A failed request, or vectors of unequal size, raise an error."""
    if not inputs:
        return np.empty((0, dimension or 0), dtype=np.float32)
    size = min(batch_size, form.most_images if _has_image(inputs) else form.most_texts)

    def request(start: int) -> Request[Vectors]:
        batch = inputs[start : start + size]
        parse = partial(parse_embeddings, count=len(batch), dimension=dimension, form=form, dtype=asked.dtype)
        return Request(str(start), form.path.format(model=asked.model), partial(form.body, asked, batch), parse)

    parts = {int(reply.id): reply.result() for reply in client.map(map(request, range(0, len(inputs), size)))}
    sizes = sorted({part.shape[1] for part in parts.values()})
    if len(sizes) > 1:
        raise BadAnswerError("The server returned embeddings of different sizes: {sizes}.", sizes=sizes)
    return np.concatenate([parts[start] for start in sorted(parts)])


def parse_embeddings(
    body: Json, count: int, dimension: int | None = None, form: EmbeddingForm | None = None, dtype: str = "float"
) -> Vectors:
    """Read `count` vectors in the order of their `index`, or as they come if a server omits it."""
    (listed, name), what = (form or OPENAI).answer, "list of embeddings"
    inner = body.get(listed)  # Cohere has a list for each dtype
    rows = list_of(inner, DTYPES[dtype], what) if isinstance(inner, dict) else list_of(body, listed, what)
    if len(rows) != count:
        raise BadAnswerError("Expected {count} embeddings, the server returned {n}.", count=count, n=len(rows))
    ordered: list[Any] = [None] * count
    for place, row in enumerate(rows):
        entry = row if isinstance(row, Mapping) else {"index": None} if name else {"": row}
        if not isinstance(index := entry.get("index", place), int):
            raise BadAnswerError("The response is not a list of embeddings: {body}", body=excerpt(body))
        if not 0 <= index < count or ordered[index] is not None:
            raise BadAnswerError(
                "Index {index} of the {count} returned embeddings is repeated or out of range.",
                count=count,
                index=index,
            )
        ordered[index] = entry.get(name)
    return _matrix(ordered, dimension, dtype)


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


def _has_image(inputs: Sequence[Content]) -> bool:
    return any(isinstance(part, EncodedImage) for part in inputs[0])


def _openai(options: Json, inputs: Sequence[Content]) -> Json:
    return {**options, "input": [text for (text,) in inputs], **_FLOAT}


def _infinity(options: Json, inputs: Sequence[Content]) -> Json:
    if not _has_image(inputs):
        return _openai(options, inputs)
    urls = [part.data_url for (part,) in inputs if isinstance(part, EncodedImage)]
    return {**options, "input": urls, "modality": "image", **_FLOAT}


def _vllm(options: Json, inputs: Sequence[Content]) -> Json:
    if not _has_image(inputs):
        return _openai(options, inputs)
    [content] = inputs  # a conversation is one input; the image comes first, as in vLLM's examples
    return {**options, "messages": [{"role": "user", "content": content_parts(content[::-1])}], **_FLOAT}


def _jina(options: Json, inputs: Sequence[Content]) -> Json:
    return {**options, "input": [part if isinstance(part, str) else {"image": part.base64} for (part,) in inputs]}


def _cohere(options: Json, inputs: Sequence[Content]) -> Json:
    if not _has_image(inputs):
        return {**options, "texts": [text for (text,) in inputs]}
    return {**options, "inputs": [{"content": content_parts(content)} for content in inputs]}


def _voyage(options: Json, inputs: Sequence[Content]) -> Json:
    def image(part: EncodedImage) -> Json:
        return {"type": "image_base64", "image_base64": part.data_url}

    return {**options, "inputs": [{"content": content_parts(content, image)} for content in inputs]}


def _gemini(options: Json, inputs: Sequence[Content]) -> Json:
    def part_of(part: str | EncodedImage) -> Json:
        return {"text": part} if isinstance(part, str) else {"inlineData": {"mimeType": part.mime, "data": part.base64}}

    one = {**options, "model": f"models/{options['model']}"}
    return {"requests": [{**one, "content": {"parts": [*map(part_of, content)]}} for content in inputs]}


_BUILDERS: dict[str, Callable[[Json, Sequence[Content]], Json]] = {
    "cohere": _cohere,
    "gemini": _gemini,
    "infinity": _infinity,
    "jina": _jina,
    "vllm": _vllm,
    "vllm_pooling": lambda options, inputs: {**_vllm(options, inputs), "task": "embed"},
    "voyage": _voyage,
}


def _changed(form: EmbeddingForm, entry: Json) -> EmbeddingForm:
    """Return a form with the fields of an entry of the table; without a dtype of its own, float is the default."""
    fields: Json = {name: tuple(value) if isinstance(value, list) else value for name, value in entry.items()}
    fields |= {"build": _BUILDERS[fields["build"]]} if "build" in fields else {}
    fields |= {"dtypes": {"float": None, **fields["dtypes"]}} if "dtypes" in fields else {}
    return replace(form, **fields)


_TABLE = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
OPENAI = EmbeddingForm(_openai)
FORMS = {name: _changed(OPENAI, entry) for name, entry in _TABLE["forms"].items()}
"""By the option ``image_form``."""
_VARIANTS = {name: (entry.pop("models"), _changed(FORMS[name], entry)) for name, entry in _TABLE["variants"].items()}
"""By form: a pattern of model names that have another one."""
