"""Models behind an OpenAI-compatible server: embeddings, chat and rerank."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from types import MappingProxyType
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from eyechart import api
from eyechart.api.endpoints import ImageForm, RerankForm
from eyechart.api.errors import ServerBusyError
from eyechart.api.requests import Json
from eyechart.errors import DataError, ModelError, UsageError, unknown_name
from eyechart.io.images import ImageRef
from eyechart.metrics.answers import split_thinking
from eyechart.models.access import ServedFamily, ServedModel, access_of, address_of, make_client
from eyechart.models.family import BaseEncoder, check_options
from eyechart.models.local_generators import BatchedGenerator, Keep, drop
from eyechart.models.rerankers import KeepScores, Shortlist
from eyechart.types import UNREAD, Answer, ModelCard, ModelSpec, Prompt, digest_json

FORMS: tuple[str, ...] = get_args(ImageForm)
EMBEDDING_MAX_EDGE = 1024
"""Images are downscaled to this edge before sending; embedding models use smaller inputs."""
REQUEST_SIZE = 32
"""Default number of texts per request: OpenAI accepts 2048, many servers 32 to 128."""
Vectors = NDArray[np.float32]


class ApiEncoder(ServedModel, BaseEncoder):
    """Requests vectors from a server, several at a time, with retries."""

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__(spec)
        self.form = spec.options.get("image_form")
        self.max_edge = int(spec.options.get("max_edge", EMBEDDING_MAX_EDGE))
        self.request_size = access_of(spec).batch_size if spec.access is not None else REQUEST_SIZE
        self.client.check(spec.name)
        wanted = spec.options.get("dimension")
        self.dimension = int(wanted) if wanted else int(self._embed(["a"], None).shape[1])
        self.card = ModelCard(
            family="api",
            name=spec.name,
            weights_digest=digest_json([address_of(spec), spec.name, self.dimension]),
            transform=str(_request_options(spec)),
            embedding_dim=self.dimension,
            notes=("The weights behind an API cannot be verified: the server may change them under the same name.",),
        )

    def prepare_image(self, image: Image.Image) -> NDArray[Any]:
        """Encode an image as PNG; a batch holds these bytes."""
        if self.form is None:
            raise ModelError(
                "The image format that {api_base} accepts is unknown.",
                advice="Set {--model_option=image_form={forms}}.",
                api_base=self.client.api_base,
                forms="|".join(FORMS),
            )
        return np.frombuffer(api.encode_image(image, max_edge=self.max_edge, format="png").data, np.uint8)

    def encode_images(self, batch: Sequence[NDArray[Any]]) -> Vectors:
        """Request the vectors of images in the server's format."""
        if not len(batch) or self.form is None:
            return self.no_vectors()
        images = [api.EncodedImage("image/png", bytes(data)) for data in batch]
        return api.embed_images(self.client, self.spec.name, images, form=self.form, dimension=self.dimension)

    def encode_texts(self, texts: Sequence[str], *, language: str = "en") -> Vectors:  # noqa: ARG002 - detected by the server
        """Request the vectors of texts, many per request."""
        return self._embed(texts, self.dimension) if len(texts) else self.no_vectors()

    def _embed(self, texts: Sequence[str], dimension: int | None) -> Vectors:
        return api.embed_texts(self.client, self.spec.name, texts, batch_size=self.request_size, dimension=dimension)


class ApiFamily(ServedFamily):
    """Models behind an address: ``--model NAME --pretrained http://host/v1``, or the option ``api_base``.

    ``options``: api_base, image_form (the server's request format for images), max_edge, dimension (the expected vector
    length). The spec's access settings configure the connection and the number of texts per request.
    """

    own_options = MappingProxyType({"api_base": str, "image_form": str, "max_edge": int, "dimension": int})
    model = ApiEncoder

    def check(self, spec: ModelSpec) -> None:
        """Refuse a missing or malformed address, unknown options and formats; the server is contacted on load."""
        super().check(spec)
        check_options(self, spec.family, spec.options)
        if spec.precision not in ("fp32", "amp"):
            raise UsageError(
                "{--precision={precision}} does not apply to a model behind an API.", precision=spec.precision
            )
        form = spec.options.get("image_form")
        if form is not None and form not in FORMS:
            raise unknown_name("image_form", str(form), FORMS)

    def identity(self, spec: ModelSpec) -> str:
        """Identify the address and the request settings; the weights behind an API are unknown."""
        return digest_json([address_of(spec), spec.name, _request_options(spec), spec.options.get("dimension")])


def _request_options(spec: ModelSpec) -> dict[str, Any]:
    """Return the options that change what is sent."""
    return {"image_form": spec.options.get("image_form"), "max_edge": spec.options.get("max_edge", EMBEDDING_MAX_EDGE)}


# The ``api`` family: a chat model behind an OpenAI-compatible server.


CHAT_MAX_EDGE = 2048
"""Longer images are downscaled: servers use smaller inputs, and they cost upload time and tokens."""
RECENT = 8
"""Encoded images kept for the next prompts: questions about the same image usually follow each other."""


class ApiGenerator(ServedModel, BatchedGenerator):
    """Sends conversations to the server, several at a time."""

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__(spec)
        self.settings: dict[str, Any] = dict(spec.options.get("settings") or {})
        self.max_edge: int | None = spec.options.get("max_edge", CHAT_MAX_EDGE)
        self._recent: dict[bytes, api.EncodedImage] = {}
        self.card = ModelCard(
            family="api",
            name=spec.name,
            weights_digest=digest_json([address_of(spec), spec.name]),
            transform=digest_json([self.settings, self.max_edge]),
            precision="unknown",
        )

    def generate_many(self, prompts: Iterable[Prompt], keep: Keep = drop) -> Iterator[tuple[str, Answer]]:
        """Yield answers as they arrive; a prompt that fails after all retries gets an answer with an error."""
        requests = (
            api.Request(
                prompt.id,
                "chat/completions",
                body=partial(self._body, prompt),
                parse=lambda body: read_answer(api.parse_chat(body)),
                keep=partial(keep, prompt.id),
            )
            for prompt in prompts
        )
        for reply in self.client.map(requests):
            if reply.error is None:
                yield reply.id, reply.result()
            else:  # unread if an input image caused it
                reason = UNREAD if isinstance(reply.error, DataError) else ""
                yield reply.id, Answer("", error=reply.error.message, finish_reason=reason)

    def _body(self, prompt: Prompt) -> Json:
        """Build the request body; runs in a thread just before sending."""
        own = {} if prompt.temperature is None else {"temperature": prompt.temperature}
        return api.chat_body(self.spec.name, prompt.messages, options={**self.settings, **own}, encode=self._image)

    def _image(self, image: ImageRef) -> api.EncodedImage:
        """Encode an image, reusing a recent encoding."""
        key = image.digest()
        found = self._recent.get(key)
        if found is None:
            found = self._recent[key] = api.encode_ref(image, self.max_edge)
            if len(self._recent) > RECENT:
                self._recent.pop(next(iter(self._recent)), None)
        return found


class ApiGeneratorFamily(ServedFamily):
    """Generators by address and model name; ``options``: api_base, settings (request fields), max_edge."""

    own_options = MappingProxyType({"api_base": str, "settings": dict, "max_edge": int})
    model = ApiGenerator

    def check(self, spec: ModelSpec) -> None:
        """Refuse a malformed address and settings that collide with request fields."""
        super().check(spec)
        api.chat_body(spec.name, [], options=spec.options.get("settings"))

    def probe(self, spec: ModelSpec) -> None:
        """List the served models; if that fails with a server error, request a single token."""
        try:
            super().probe(spec)
        except ServerBusyError:
            body = api.chat_body(spec.name, [api.user("Hi")], options={"max_tokens": 1})
            make_client(spec).call(api.Request("probe", "chat/completions", body, api.parse_chat))

    def identity(self, spec: ModelSpec) -> str | None:
        """Identify address, model and settings: the weights behind an API are unknown."""
        if not (spec.options.get("api_base") or spec.pretrained):
            return None  # existing answers are scored without a server
        return digest_json([address_of(spec), spec.name, dict(spec.options)])


def read_answer(answer: Answer) -> Answer:
    """Split off reasoning in the model's tags, in addition to what the server split off."""
    text, thinking = split_thinking(answer.text)
    return replace(
        answer,
        text=text,
        thinking="\n".join(part for part in (answer.thinking, thinking) if part),
        finish_reason="refusal" if answer.refusal and not text else answer.finish_reason,
    )


# Rerankers behind ``POST /rerank``, in the format of Cohere, Jina and vLLM or of Text Embeddings Inference (TEI).


class ApiReranker(ServedModel):
    """Sends shortlists to the server, several at a time."""

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__(spec)
        self.form: RerankForm = spec.options.get("rerank_form") or "jina"
        self.card = ModelCard(
            family="rerank-api",
            name=spec.name,
            weights_digest=ApiRerankerFamily().identity(spec),
            transform="rerank",
            precision="unknown",
        )

    def score(self, shortlists: Iterable[Shortlist], keep: KeepScores) -> Iterator[tuple[str, list[float]]]:
        """Score several shortlists at a time, each in one request or in as many as the server's format needs."""
        found: dict[str, dict[int, list[float]]] = {}
        for reply in self.client.map(chain.from_iterable(self._requests(one, keep) for one in shortlists)):
            name, start, parts = json.loads(reply.id)
            found.setdefault(name, {})[start] = reply.result()
            if len(found[name]) == parts:
                scores = [score for _, part in sorted(found.pop(name).items()) for score in part]
                if parts > 1:
                    keep(name, scores)
                yield name, scores

    def _requests(self, shortlist: Shortlist, keep: KeepScores) -> Iterator[api.Request[list[float]]]:
        # TEI limits the documents per request, by default to 32.
        whole = max(1, len(shortlist.documents))
        size = min(whole, access_of(self.spec).batch_size) if self.form == "tei" else whole
        starts = range(0, whole, size)
        for start in starts:
            documents = shortlist.documents[start : start + size]
            name = json.dumps([shortlist.id, start, len(starts)])
            request = api.rerank_request(name, self.spec.name, shortlist.query, documents, self.form)
            yield replace(request, keep=partial(keep, shortlist.id)) if len(starts) == 1 else request


class ApiRerankerFamily(ServedFamily):
    """Rerankers by address and model name; ``options``: api_base, rerank_form (``jina`` or ``tei``)."""

    model = ApiReranker

    def identity(self, spec: ModelSpec) -> str:
        """Identify address and model: the weights behind an API are unknown."""
        form = spec.options.get("rerank_form")
        return digest_json([address_of(spec), spec.name, *([form] if form else [])])
