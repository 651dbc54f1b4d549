"""Endpoints of OpenAI-compatible servers: request bodies and response parsers.

POST /chat/completions takes messages with images; POST /rerank has three forms. `eyechart.api.embedding_forms` has the
embeddings.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Literal

from eyechart.api.budget import read_usage
from eyechart.api.errors import BadAnswerError
from eyechart.api.image_payloads import EncodedImage, encode_image
from eyechart.api.requests import Json, Request, excerpt, list_of, not_a, whole
from eyechart.errors import UsageError
from eyechart.io.images import ImageRef
from eyechart.io.safe_parse import is_number
from eyechart.types import Answer, Message, Part

RerankForm = Literal["jina", "tei", "vllm"]
"""Cohere's and Jina's form (followed by vLLM and others), Text Embeddings Inference, and vLLM's form for images."""
_OURS = frozenset({"messages", "model", "n", "stream"})
"""Chat options that are set by Eyechart."""


def user(*parts: Part) -> Message:
    """Make a user message."""
    return Message("user", parts)


def encode_ref(image: ImageRef, max_edge: int | None = None) -> EncodedImage:
    """Encode an image that a message refers to."""
    # Bytes may be sent unchanged; a crop must be decoded first.
    content = image.decode() if image.box else image.read()
    return encode_image(content, max_edge=max_edge, source=image.source)


def chat_body(
    model: str,
    messages: Sequence[Message],
    *,
    options: Mapping[str, Any] | None = None,
    encode: Callable[[ImageRef], EncodedImage] = encode_ref,
) -> Json:
    """Build the body of POST /chat/completions; ``options`` are its further fields, such as temperature and seed."""
    taken = _OURS & set(options or {})
    if taken:
        raise UsageError("Chat options reserved by Eyechart: {taken}.", taken=", ".join(sorted(taken)))
    turns: list[Json] = []
    for message in messages:
        if all(isinstance(part, str) for part in message.parts):
            # Plain text as a string: servers of text-only models do not accept parts.
            content: object = "\n".join(str(part) for part in message.parts)
        else:
            content = content_parts([part if isinstance(part, str) else encode(part) for part in message.parts])
        turns.append({"role": message.role, "content": content})
    return {"model": model, "messages": turns, **(options or {})}


def content_parts(
    parts: Iterable[str | EncodedImage], image: Callable[[EncodedImage], Json] | None = None
) -> list[Json]:
    """Return texts and images as the content of a chat message; ``image`` makes the parts of another vendor."""
    make = image or (lambda one: {"type": "image_url", "image_url": {"url": one.data_url}})
    return [{"type": "text", "text": part} if isinstance(part, str) else make(part) for part in parts]


def chat_request(
    request_id: str, model: str, messages: Sequence[Message], *, options: Mapping[str, Any] | None = None
) -> Request[Answer]:
    """Make a chat request; see `chat_body`."""
    return Request(request_id, "chat/completions", chat_body(model, messages, options=options), parse_chat)


def parse_chat(body: Json) -> Answer:
    """Read the first choice of a chat completion; the text is empty if the server sent none."""
    choices = list_of(body, "choices", "chat completion")
    choice = choices[0] if choices and isinstance(choices[0], Mapping) else {}
    message = choice.get("message")
    if not isinstance(message, dict):
        raise not_a("chat completion", "message", body)
    read, usage = read_usage(body), body.get("usage")
    used = {"prompt_tokens": read.prompt_tokens, "completion_tokens": read.completion_tokens}
    if isinstance(usage, Mapping):  # tokens of the prompt in the server's prefix cache, in OpenAI's or DeepSeek's form
        details = usage.get("prompt_tokens_details")
        cached = details.get("cached_tokens") if isinstance(details, Mapping) else None
        cached = usage.get("prompt_cache_hit_tokens") if cached is None else cached
        used |= {"cached_tokens": cached} if type(cached) is int and cached >= 0 else {}
    return Answer(
        text=_content(message.get("content")),
        thinking=_text(message.get("reasoning_content")) or _text(message.get("reasoning")),
        finish_reason=_text(choice.get("finish_reason")),
        refusal=_text(message.get("refusal")),
        usage=used,
        origin=read_origin(body),
    )


def read_origin(body: Json) -> dict[str, str]:
    """Read which model and which version of the server made a response, as far as it reports them."""
    return {name: said for name in ("model", "system_fingerprint") if (said := _text(body.get(name)))}


def _content(content: object) -> str:
    if not isinstance(content, list):
        return _text(content)
    parts = [part for part in content if isinstance(part, Mapping)]
    shown = [part.get("text") for part in parts if part.get("type", "text") in ("text", "output_text")]
    return whole("".join(text for text in shown if isinstance(text, str)))


def _text(value: object) -> str:
    return whole(value) if isinstance(value, str) else ""


def rerank_request(
    request_id: str,
    model: str,
    query: str | tuple[Part, ...],
    documents: Sequence[str | tuple[Part, ...]],
    form: RerankForm = "jina",
    max_edge: int | None = None,
) -> Request[list[float]]:
    """Request the scores of all documents, in the order of the documents.

    TEI serves a single model and does not take its name; it is asked for raw scores because good scores tie between 0
    and 1. Images follow jina-reranker-m0 (``{"image": ..., "text": ...}``) or vLLM 0.18 (``{"content": [...]}``).
    """

    def body() -> Json:
        if form == "tei":
            return {"raw_scores": True, "query": query, "texts": list(documents)}
        items = [_ranked_item(item, form, max_edge) for item in (query, *documents)]
        return {"model": model, "query": items[0], "documents": items[1:]}

    return Request(request_id, "rerank", body, partial(parse_rerank, count=len(documents)))


def _ranked_item(item: str | tuple[Part, ...], form: RerankForm, max_edge: int | None) -> str | Json:
    if isinstance(item, str):
        return item
    encoded = [part if isinstance(part, str) else encode_ref(part, max_edge) for part in item]
    if form == "vllm":
        return {"content": content_parts(encoded)}
    return dict(("text", part) if isinstance(part, str) else ("image", part.base64) for part in encoded)


def parse_rerank(body: Json, count: int) -> list[float]:
    """Read `results[{index, relevance_score}]`; older servers and TEI (a bare list) use `data` and `score`.

    Every document must have exactly one finite score.
    """
    rows = list_of(body, "results" if "results" in body else "data", "rerank response")
    scores: list[float | None] = [None] * count
    for row in rows:
        entry = row if isinstance(row, Mapping) else {}
        index, score = entry.get("index"), entry.get("relevance_score", entry.get("score"))
        if not isinstance(index, int) or not is_number(score):
            raise BadAnswerError("The response is not a rerank response: {body}", body=excerpt(body))
        if not 0 <= index < count or scores[index] is not None:
            raise BadAnswerError(
                "Index {index} of the {count} returned scores is repeated or out of range.", count=count, index=index
            )
        scores[index] = float(score)
    missing = scores.count(None)
    if missing:
        raise BadAnswerError(
            "Requested scores for {count} documents, the server omitted {missing}.", count=count, missing=missing
        )
    return [score for score in scores if score is not None]
