"""Chat requests: messages with images in, an answer with its reasoning split off out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from eyechart.api.answers import Json, field_of, list_of, whole
from eyechart.api.budget import Usage, read_usage
from eyechart.api.images import EncodedImage
from eyechart.api.requests import Request
from eyechart.errors import UsageError

Part = str | EncodedImage
_OURS = frozenset({"messages", "model", "n", "stream"})


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """One turn: texts and images in the order in which the model shall see them."""

    role: Literal["system", "user", "assistant"]
    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class ChatAnswer:
    """What the model said."""

    text: str | None
    """None when the server sent no content (cut before the first word, filtered, refused)."""
    reasoning: str | None = None
    """The thinking that the server split off (`reasoning_content` or `reasoning`)."""
    finish_reason: str | None = None
    """"length" means that the answer was cut at max_tokens."""
    refusal: str | None = None
    usage: Usage = field(default_factory=Usage)


def user(*parts: Part) -> ChatMessage:
    """Make a user's turn."""
    return ChatMessage("user", parts)


def chat_body(
    model: str, messages: Sequence[ChatMessage], *, system: str | None = None, options: Mapping[str, Any] | None = None
) -> Json:
    """Build the body of POST /chat/completions.

    `options` are further fields as the server knows them: temperature, max_tokens, seed,
    chat_template_kwargs ...
    """
    taken = _OURS & set(options or {})
    if taken:
        raise UsageError(f"These chat options are set by Eyechart itself: {', '.join(sorted(taken))}.")
    turns = [ChatMessage("system", (system,)), *messages] if system else list(messages)
    return {"model": model, "messages": [_turn(turn) for turn in turns], **(options or {})}


def chat_request(
    request_id: str,
    model: str,
    messages: Sequence[ChatMessage],
    *,
    system: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> Request[ChatAnswer]:
    """Make the request for one answer; see `chat_body`."""
    return Request(
        request_id, "chat/completions", chat_body(model, messages, system=system, options=options), parse_chat
    )


def parse_chat(body: Json) -> ChatAnswer:
    """Read the first choice of a chat completion.

    Raises:
        BadAnswerError: If there is none.
    """
    choices = list_of(body, "choices", "chat completion")
    choice = choices[0] if choices and isinstance(choices[0], Mapping) else {}
    message = field_of(choice, "message", dict, "chat completion", body)
    return ChatAnswer(
        text=_content(message.get("content")),
        reasoning=_text(message.get("reasoning_content")) or _text(message.get("reasoning")),
        finish_reason=_text(choice.get("finish_reason")),
        refusal=_text(message.get("refusal")),
        usage=read_usage(body),
    )


def _turn(message: ChatMessage) -> Json:
    if all(isinstance(part, str) for part in message.parts):
        # Plain text as a string: servers of text-only models know no parts.
        return {"role": message.role, "content": "\n".join(str(part) for part in message.parts)}
    return {"role": message.role, "content": [_part(part) for part in message.parts]}


def _part(part: Part) -> Json:
    if isinstance(part, str):
        return {"type": "text", "text": part}
    return {"type": "image_url", "image_url": {"url": part.data_url}}


def _content(content: object) -> str | None:
    if not isinstance(content, list):
        return _text(content)
    texts = [
        part["text"]
        for part in content
        if isinstance(part, Mapping) and part.get("type", "text") in ("text", "output_text") and _text(part.get("text"))
    ]
    return whole("".join(texts)) if texts else None


def _text(value: object) -> str | None:
    return whole(value) if isinstance(value, str) else None
