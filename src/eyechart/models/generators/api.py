"""The ``api`` family: a chat model behind an OpenAI-compatible server."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from types import MappingProxyType
from typing import Any

from eyechart import api
from eyechart.api.answers import Json
from eyechart.api.errors import ServerBusyError
from eyechart.errors import DataError, EyechartError
from eyechart.io.media import ImageRef
from eyechart.metrics.answers import split_thinking
from eyechart.models.access import ServedFamily, ServedModel, address_of, has_address, make_client
from eyechart.models.generators.batches import ManyAtOnce, drop
from eyechart.types import UNREAD, Answer, ModelCard, ModelSpec, Prompt, digest_json

MAX_EDGE = 2048
"""Longer images are scaled down: no server looks closer, and they cost upload time and tokens."""
RECENT = 8
"""Encoded images that are kept for the next prompts: several questions about one image come together."""


class ApiGeneratorFamily(ServedFamily):
    """Generators by address and model name; ``options``: api_base, settings (request fields), max_edge."""

    own_options = MappingProxyType({"api_base": str, "settings": dict, "max_edge": int})

    def check(self, spec: ModelSpec) -> None:
        """Refuse a bad address or settings that the request has no room for."""
        super().check(spec)
        api.chat_body(spec.name, [], options=spec.options.get("settings"))

    def probe(self, spec: ModelSpec) -> None:
        """Ask the server which models it serves; if its list is out of order, ask the model for a single token."""
        try:
            super().probe(spec)
        except ServerBusyError:
            body = api.chat_body(spec.name, [api.user("Hi")], options={"max_tokens": 1})
            make_client(spec).call(api.Request("probe", "chat/completions", body, api.parse_chat))

    def identity(self, spec: ModelSpec) -> str | None:
        """Name address, model and settings: all that is known of a model that others run."""
        if not has_address(spec):
            return None  # answers that are there already are scored without asking it
        return digest_json([address_of(spec), spec.name, dict(spec.options)])

    def load(self, spec: ModelSpec) -> ApiGenerator:
        """Make the client."""
        return ApiGenerator(spec)


class ApiGenerator(ServedModel, ManyAtOnce):
    """Sends conversations to the server, several at a time."""

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__(spec)
        self.settings: dict[str, Any] = dict(spec.options.get("settings") or {})
        self.max_edge: int | None = spec.options.get("max_edge", MAX_EDGE)
        self._recent: dict[bytes, api.EncodedImage] = {}
        self.card = ModelCard(
            family="api",
            name=spec.name,
            weights_digest=digest_json([address_of(spec), spec.name]),
            transform=digest_json([self.settings, self.max_edge]),
            precision="unknown",
        )

    def generate_many(
        self, prompts: Iterable[Prompt], keep: Callable[[str, Answer], None] = drop
    ) -> Iterator[tuple[str, Answer]]:
        """Answer prompts as they come back; a failed one, after all tries, is an answer with an error."""
        for reply in self.client.map(self._request(prompt, keep) for prompt in prompts):
            yield reply.id, _failed(reply.error) if reply.error else reply.result()

    def _request(self, prompt: Prompt, keep: Callable[[str, Answer], None]) -> api.Request[Answer]:
        return api.Request(
            prompt.id,
            "chat/completions",
            body=partial(self._body, prompt),
            parse=lambda body: read_answer(api.parse_chat(body)),
            keep=partial(keep, prompt.id),
        )

    def _body(self, prompt: Prompt) -> Json:
        """Build the request's body; runs in a thread, just before it is sent."""
        turns = [api.ChatMessage(message.role, tuple(map(self._part, message.parts))) for message in prompt.messages]
        own = {} if prompt.temperature is None else {"temperature": prompt.temperature}
        return api.chat_body(self.spec.name, turns, options={**self.settings, **own})

    def _part(self, part: Any) -> Any:
        return part if isinstance(part, str) else self._image(part)

    def _image(self, image: ImageRef) -> api.EncodedImage:
        """Encode an image, unless a prompt shortly before had the same one."""
        key = image.digest()
        found = self._recent.get(key)
        if found is None:
            # Bytes may go as they are; a part of an image is cut out first.
            content = image.decode() if image.box else image.read()
            found = self._recent[key] = api.encode_image(content, max_edge=self.max_edge, source=image.source)
            if len(self._recent) > RECENT:
                self._recent.pop(next(iter(self._recent)), None)
        return found


def read_answer(said: api.ChatAnswer) -> Answer:
    """Turn a server's answer into ours: reasoning apart, whether the server or the model's tags mark it."""
    text, thinking = split_thinking(said.text or "")
    return Answer(
        text=text,
        thinking="\n".join(part for part in (said.reasoning, thinking) if part),
        finish_reason="refusal" if said.refusal and not text else said.finish_reason or "",
        refusal=said.refusal or "",
        usage={"prompt_tokens": said.usage.prompt_tokens, "completion_tokens": said.usage.completion_tokens},
    )


def _failed(error: EyechartError) -> Answer:
    """Say why there is no answer, and whether that is the fault of an image of ours."""
    return Answer("", error=error.message, finish_reason=UNREAD if isinstance(error, DataError) else "")
