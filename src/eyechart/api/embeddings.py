"""POST /embeddings: texts as OpenAI defines it, images in the forms that servers have invented."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from eyechart.api.answers import Json, excerpt, list_of
from eyechart.api.client import ApiClient
from eyechart.api.errors import BadAnswerError
from eyechart.api.requests import Request

if TYPE_CHECKING:
    from eyechart.api.images import EncodedImage

Vectors = NDArray[np.float32]
ImageForm = Literal["vllm", "infinity", "jina"]


def embed_texts(
    client: ApiClient, model: str, texts: Sequence[str], *, batch_size: int = 64, dimension: int | None = None
) -> Vectors:
    """Embed texts, in their order. Any failing request raises its error; nothing is left out.

    Raises:
        BadAnswerError: If the server answers with another count, or vectors of unequal size or not of
        `dimension`.
    """
    return _embed(client, texts, batch_size, dimension, lambda batch: _text_body(model, batch))


def embed_images(
    client: ApiClient,
    model: str,
    images: Sequence[EncodedImage],
    *,
    form: ImageForm,
    batch_size: int = 16,
    dimension: int | None = None,
) -> Vectors:
    """Embed images, in their order, asking as this kind of server wants to be asked; see `embed_texts`."""
    build, whole_batches = _IMAGE_FORMS[form]
    size = batch_size if whole_batches else 1
    return _embed(client, images, size, dimension, lambda batch: build(model, batch))


def parse_embeddings(body: Json, count: int, dimension: int | None = None) -> Vectors:
    """Read `count` vectors in the order of their `index` (or as they come, where a server leaves it out)."""
    rows = list_of(body, "data", "list of embeddings")
    if len(rows) != count:
        raise BadAnswerError(f"Asked for {count} embeddings, the server sent {len(rows)}.")
    ordered: list[Any] = [None] * count
    for place, row in enumerate(rows):
        if not isinstance(row, Mapping) or not isinstance(index := row.get("index", place), int):
            raise BadAnswerError(f"The answer is no list of embeddings: {excerpt(body)}")
        if not 0 <= index < count or ordered[index] is not None:
            raise BadAnswerError(f"The server numbers its {count} embeddings wrongly: {index} twice or too large.")
        ordered[index] = row.get("embedding")
    return _matrix(ordered, dimension)


def _matrix(rows: list[Any], dimension: int | None) -> Vectors:
    sizes = {len(row) if isinstance(row, list) else None for row in rows}
    if None in sizes or 0 in sizes:
        raise BadAnswerError("The server sent an embedding that is not a list of numbers.")
    if len(sizes) > 1:
        raise BadAnswerError(f"The server sent embeddings of different sizes: {sorted(map(str, sizes))}.")
    try:
        vectors = np.array(rows, dtype=np.float32)
    except (TypeError, ValueError, OverflowError) as error:
        raise BadAnswerError("The server sent an embedding that is not a list of numbers.") from error
    if vectors.ndim != 2:
        raise BadAnswerError("The server sent several vectors for one input; a single vector is needed.")
    if not np.isfinite(vectors).all():
        raise BadAnswerError("The server sent an embedding with NaN or infinite numbers.")
    if dimension is not None and vectors.shape[1] != dimension:
        raise BadAnswerError(f"The server sent embeddings of size {vectors.shape[1]}, not {dimension}.")
    return vectors


def _embed(
    client: ApiClient,
    items: Sequence[Any],
    batch_size: int,
    dimension: int | None,
    build: Callable[[Sequence[Any]], Json],
) -> Vectors:
    if not items:
        return np.empty((0, dimension or 0), dtype=np.float32)

    def request(start: int) -> Request[Vectors]:
        batch = items[start : start + batch_size]
        return Request(
            str(start),
            "embeddings",
            lambda: build(batch),
            lambda body: parse_embeddings(body, len(batch), dimension),
        )

    replies = client.map(request(start) for start in range(0, len(items), batch_size))
    parts = {int(reply.id): reply.result() for reply in replies}
    sizes = sorted({part.shape[1] for part in parts.values()})
    if len(sizes) > 1:
        raise BadAnswerError(f"The server sent embeddings of different sizes: {sizes}.")
    return np.concatenate([parts[start] for start in sorted(parts)])


def _text_body(model: str, texts: Sequence[str]) -> Json:
    return {"model": model, "input": list(texts), "encoding_format": "float"}


def _vllm(model: str, images: Sequence[EncodedImage]) -> Json:
    """Chat form: one user message with the image alone, so one image a request."""
    [image] = images
    content = [{"type": "image_url", "image_url": {"url": image.data_url}}]
    return {"model": model, "messages": [{"role": "user", "content": content}], "encoding_format": "float"}


def _infinity(model: str, images: Sequence[EncodedImage]) -> Json:
    """Data URLs as input, with the modality named."""
    urls = [image.data_url for image in images]
    return {"model": model, "input": urls, "modality": "image", "encoding_format": "float"}


def _jina(model: str, images: Sequence[EncodedImage]) -> Json:
    """Objects with the bare base64 of the image."""
    return {"model": model, "input": [{"image": image.base64} for image in images]}


_IMAGE_FORMS: dict[str, tuple[Callable[[str, Sequence[EncodedImage]], Json], bool]] = {
    "vllm": (_vllm, False),
    "infinity": (_infinity, True),
    "jina": (_jina, True),
}
