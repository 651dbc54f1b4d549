"""Models behind an OpenAI-compatible server: embeddings, chat and rerank."""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from eyechart import api
from eyechart.api.embedding_forms import FORMS, OPENAI, Asked, Content, EmbeddingForm, find_form
from eyechart.api.endpoints import RerankForm, read_origin
from eyechart.api.errors import RequestRefusedError, ServerBusyError
from eyechart.api.requests import Json
from eyechart.errors import DataError, ModelError, UsageError, unknown_name
from eyechart.io.images import ImageRef
from eyechart.io.stopwatch import timestamp
from eyechart.messages import UserMessage
from eyechart.metrics.answers import split_thinking
from eyechart.models.access import ServedFamily, ServedModel, access_of, address_of, make_client
from eyechart.models.family import BaseEncoder, check_options
from eyechart.models.local_generators import BatchedGenerator, Keep, drop, generation_parameters
from eyechart.models.rerankers import KeepScores, Shortlist
from eyechart.types import PIPELINE, UNREAD, Answer, ModelCard, ModelSpec, Prompt, digest_json

EMBEDDING_MAX_EDGE = 1024
"""Images are downscaled to this edge before sending; embedding models use smaller inputs."""
REQUEST_SIZE = 32
"""Default number of texts per request: OpenAI accepts 2048, many servers 32 to 128."""
UNVERIFIED = "The weights behind an API cannot be verified: the server may change them under the same name."
Vectors = NDArray[np.float32]


class ApiEncoder(ServedModel, BaseEncoder):
    """Requests vectors from a server, several at a time, with retries."""

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__(spec)
        self.form = _form_of(spec)
        self.key_header = self.form.key_header
        self.max_edge = int(spec.options.get("max_edge", EMBEDDING_MAX_EDGE))
        self.request_size = access_of(spec).batch_size if spec.access is not None else REQUEST_SIZE
        if self.form.lists_models:
            self.client.check(spec.name)
        self.dimension, served = int(spec.options.get("dimension") or 0), spec.name
        self.asked = Asked(spec.name, dimension=self.dimension or None, dtype=spec.options.get("dtype", "float"))
        if not self.dimension:
            path, body = self.form.path.format(model=spec.name), self.form.body(self.asked, [("a",)])
            reply = self.client.call(api.Request("probe", path, body, lambda reply: reply))
            found = api.parse_embeddings(reply, 1, form=self.form, dtype=self.asked.dtype)
            self.dimension = int(found.shape[1])
            served = read_origin(reply).get("model", spec.name)
        self.card = ModelCard(
            family="api",
            name=spec.name,
            # A model that the server reports to have replaced the requested one has vectors of its own.
            weights_digest=digest_json(
                [address_of(spec), spec.name, self.dimension] + [served] * (served != spec.name)
            ),
            transform=str(_request_options(spec)),
            embedding_dim=self.dimension,
            notes=(UNVERIFIED, *_downscaling(self.max_edge)),
            inputs=self.form.inputs,
            prompting="role" if self.form.roles else "prefix",
        )

    def prepare_image(self, image: Image.Image) -> NDArray[Any]:
        """Encode an image as PNG; a batch holds these bytes."""
        if self.form is OPENAI:
            raise ModelError(
                "The image format that {api_base} accepts is unknown.",
                advice="Set {--model_option=image_form={forms}}.",
                api_base=self.client.api_base,
                forms="|".join(FORMS),
            )
        if "image" not in self.form.inputs:
            raise ModelError("{name} encodes texts only, not images.", name=self.spec.name)
        stored = Image.fromarray(np.asarray(image))  # without EXIF: encoders see images as stored
        return np.frombuffer(api.encode_image(stored, max_edge=self.max_edge, format="png").data, np.uint8)

    def encode_images(self, batch: Sequence[NDArray[Any]], *, instruction: str = "") -> Vectors:
        """Request the vectors of images in the server's form; ``instruction`` is their role."""
        return self._embed([(_png(data),) for data in batch], instruction)

    def encode_texts(self, texts: Sequence[str], *, language: str = "en", instruction: str = "") -> Vectors:  # noqa: ARG002 - detected by the server
        """Request the vectors of texts, many per request."""
        return self._embed([(text,) for text in texts], instruction)

    def encode_joint(self, batch: Sequence[NDArray[Any]], texts: Sequence[str], *, instruction: str = "") -> Vectors:
        """Request one vector for each pair of an image and a text."""
        return self._embed([(text, _png(data)) for data, text in zip(batch, texts, strict=True)], instruction)

    def _embed(self, inputs: Sequence[Content], role: str) -> Vectors:
        asked = replace(self.asked, role=role)
        return api.embed(self.client, self.form, asked, inputs, batch_size=self.request_size, dimension=self.dimension)


def _png(data: NDArray[Any]) -> api.EncodedImage:
    return api.EncodedImage("image/png", bytes(data))


class ApiFamily(ServedFamily):
    """Models behind an address: ``--model NAME --pretrained http://host/v1``, or the option ``api_base``.

    ``options``: api_base, image_form (the server's request form, see `eyechart.api.embedding_forms`), max_edge,
    dimension (of the vectors: requested if the form can, otherwise the expected length), dtype (``float``, ``int8`` or
    ``binary``). The spec's access settings configure the connection and the number of texts per request.
    """

    own_options = MappingProxyType(
        {"api_base": str, "image_form": str, "max_edge": int, "dimension": int, "dtype": str}
    )
    model = ApiEncoder

    def check(self, spec: ModelSpec) -> None:
        """Refuse a missing or malformed address, unknown options and forms; the server is contacted on load."""
        super().check(spec)
        check_options(self, spec.family, spec.options)
        if spec.precision not in ("fp32", "amp"):
            raise UsageError(
                "{--precision={precision}} does not apply to a model behind an API.", precision=spec.precision
            )
        form = spec.options.get("image_form")
        if form is not None and form not in FORMS:
            raise unknown_name("image_form", str(form), FORMS)
        dtype, dtypes = spec.options.get("dtype", "float"), _form_of(spec).dtypes
        if dtype not in dtypes:
            raise unknown_name(UserMessage("dtype of {name}", name=form or address_of(spec)), dtype, dtypes)

    def probe(self, spec: ModelSpec) -> None:
        """Check that the server serves the model; if it has no list of models, request one vector."""
        if _form_of(spec).lists_models:
            super().probe(spec)
        else:
            ApiEncoder(spec).encode_texts(["a"])

    def identity(self, spec: ModelSpec) -> str:
        """Identify the address and the request settings; the weights behind an API are unknown."""
        return digest_json([address_of(spec), spec.name, _request_options(spec), spec.options.get("dimension")])


def _form_of(spec: ModelSpec) -> EmbeddingForm:
    return find_form(spec.options.get("image_form"), address_of(spec), spec.name)


def _request_options(spec: ModelSpec) -> dict[str, Any]:
    """Return the options that change what is sent."""
    form, options = _form_of(spec), spec.options
    sent = {"image_form": options.get("image_form"), "payload": PIPELINE["payload"]}
    asked = {name: options[name] for name in ("dimension", "dtype") if name in options and name in form.names}
    return {**sent, "max_edge": options.get("max_edge", EMBEDDING_MAX_EDGE), "roles": dict(form.roles), **asked}


RECENT = 8
"""Encoded images kept for the next prompts: questions about the same image usually follow each other."""
SYNONYMS = {"max_tokens": "max_completion_tokens", "max_completion_tokens": "max_tokens"}
"""Parameters that a server may require under another name."""
_REFUSAL = re.compile(
    r"unsupported|unrecogni[sz]ed|unknown|unexpected|invalid|deprecated|incompatible|too (?:large|high|long)"
    r"|(?:not|n't) (?:support|allow|accept|permit|recogni[sz]e|valid|compatible)|must be|only the default"
    r"|extra (?:inputs|fields)|不支持|无效|未知",
    re.IGNORECASE,
)
"""Words of an error response that refuses a parameter."""


class ApiGenerator(ServedModel, BatchedGenerator):
    """Sends conversations to the server, several at a time.

    A parameter that the server refuses is left out of all further requests, or sent under the name that it asks for.
    """

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__(spec)
        self.settings = generation_parameters(spec)
        self.max_edge: int | None = spec.options.get("max_edge")
        self.refused: dict[str, str] = {}
        """Refused parameters, each with the name that replaces it, or an empty one."""
        self.blameless: set[str] = set()
        """Parameters that an error named although it stayed the same without them."""
        self._recent: dict[bytes, api.EncodedImage] = {}
        self.card = ModelCard(
            family="api",
            name=spec.name,
            weights_digest=digest_json([address_of(spec), spec.name]),
            transform=digest_json([self.settings, self.max_edge]),
            precision="unknown",
            notes=(UNVERIFIED, *_downscaling(self.max_edge)),
            role="generator",
        )

    def generate_many(self, prompts: Iterable[Prompt], keep: Keep = drop) -> Iterator[tuple[str, Answer]]:
        """Yield answers as they arrive; a prompt that fails after all retries gets an answer with an error."""
        requests = (_ChatCall(self, prompt).request(keep) for prompt in prompts)
        for reply in self.client.map(requests):
            if reply.error is None:
                yield reply.id, reply.result()
            else:  # unread if an input image caused it
                reason = UNREAD if isinstance(reply.error, DataError) else ""
                yield reply.id, Answer("", error=reply.error.message, finish_reason=reason)

    def image(self, image: ImageRef) -> api.EncodedImage:
        """Encode an image, reusing a recent encoding."""
        key = image.digest()
        found = self._recent.get(key)
        if found is None:
            found = self._recent[key] = api.encode_ref(image, self.max_edge)
            self.note_traits(image, found.traits)
            if len(self._recent) > RECENT:
                self._recent.pop(next(iter(self._recent)), None)
        return found


@dataclass
class _ChatCall:
    """A prompt on its way to the server, and the parameters it is sent with."""

    owner: ApiGenerator
    prompt: Prompt
    sent: dict[str, Any] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    """Parameters that were refused, like `ApiGenerator.refused`, which takes them over once the server answers."""
    said: str = ""
    """The last error response."""

    def request(self, keep: Keep) -> api.Request[Answer]:
        kept = partial(keep, self.prompt.id)
        return api.Request(self.prompt.id, "chat/completions", self.body, self.parse, kept, self.amend, _timed)

    def body(self) -> Json:
        """Build the request body; runs in a thread just before sending."""
        warmth = self.prompt.temperature
        wanted = self.owner.settings | ({} if warmth is None else {"temperature": warmth})
        known = self.owner.refused | self.refused
        self.refused = {name: known[name] for name in wanted if name in known}
        self.sent = {known.get(name, name): value for name, value in wanted.items() if known.get(name) != ""}
        name, messages = self.owner.spec.name, self.prompt.messages
        return api.chat_body(name, messages, options=self.sent, encode=self.owner.image)

    def amend(self, error: RequestRefusedError) -> bool:
        """Leave out or rename the parameter that an error refuses; False if it refuses none that was sent."""
        names, same = sorted(self.sent.keys() - self.owner.blameless), error.body == self.said
        named = re.compile(rf"(?<![\w-])(?:{'|'.join(map(re.escape, names)) or '(?!)'})(?![\w-])")
        self.said = error.body
        stated = re.search(r'"param"\s*:\s*"([^"]+)"', error.body)  # as OpenAI names the cause
        found = named.search(stated[1] if stated else error.body)
        if not found or not (stated or _REFUSAL.search(error.body)):
            self.owner.blameless |= self.refused.keys() - self.owner.refused.keys() if same else set()
            return False
        name = next((old for old, new in self.refused.items() if new == found[0]), found[0])
        other = "" if name in self.refused else SYNONYMS.get(name, "")
        self.refused[name] = other if other and re.search(rf"\b{other}\b", error.body) else ""
        return True

    def parse(self, body: Json) -> Answer:
        answer = read_answer(api.parse_chat(body))
        self.owner.refused |= self.refused
        refused = ", ".join(f"{name} -> {other}" if other else name for name, other in self.refused.items())
        more = {"refused": refused} if refused else {}
        return replace(answer, origin={**answer.origin, **more, "time": timestamp()})


def _timed(answer: Answer, seconds: float, retries: int) -> Answer:
    return replace(answer, seconds=round(seconds, 4), retries=retries)


def _downscaling(max_edge: int | None) -> tuple[str, ...]:
    text = "Images with more than {n} pixels on the longer side are downscaled before they are sent (max_edge)."
    return (UserMessage(text, n=max_edge),) if max_edge else ()


class ApiGeneratorFamily(ServedFamily):
    """Generators by address and model name; ``options``: api_base, settings (request fields), max_edge."""

    own_options = MappingProxyType({"api_base": str, "settings": dict, "max_edge": int})
    model = ApiGenerator

    def check(self, spec: ModelSpec) -> None:
        """Refuse a malformed address and settings that collide with request fields."""
        super().check(spec)
        api.chat_body(spec.name, [], options=spec.options.get("settings"))

    def parameters(self, spec: ModelSpec) -> dict[str, Any]:
        """Return the request parameters, before the server refuses any."""
        return generation_parameters(spec)

    def probe(self, spec: ModelSpec) -> None:
        """List the served models; if that fails with a server error, request a single token."""
        try:
            super().probe(spec)
        except ServerBusyError:
            one = ApiGenerator(replace(spec, options={**spec.options, "settings": {"max_tokens": 1}}))
            make_client(spec).call(_ChatCall(one, Prompt("probe", (api.user("Hi"),))).request(drop))

    def identity(self, spec: ModelSpec) -> str | None:
        """Identify address, model and settings: the weights behind an API are unknown."""
        if not (spec.options.get("api_base") or spec.pretrained):
            return None  # existing answers are scored without a server
        return digest_json([address_of(spec), spec.name, dict(spec.options), generation_parameters(spec)])


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
        self.max_edge: int | None = spec.options.get("max_edge")
        self.card = ModelCard(
            family="rerank-api",
            name=spec.name,
            weights_digest=ApiRerankerFamily().identity(spec),
            transform="rerank",
            precision="unknown",
            notes=(UNVERIFIED, *_downscaling(self.max_edge)),
            role="reranker",
            inputs=("text",) if self.form == "tei" else ("image", "text", "image+text"),
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
            request = api.rerank_request(name, self.spec.name, shortlist.query, documents, self.form, self.max_edge)
            yield replace(request, keep=partial(keep, shortlist.id)) if len(starts) == 1 else request


class ApiRerankerFamily(ServedFamily):
    """Rerankers by address and model name; ``options``: api_base, rerank_form (jina, tei, vllm), max_edge."""

    model = ApiReranker

    def identity(self, spec: ModelSpec) -> str:
        """Identify address and model: the weights behind an API are unknown."""
        sent = [spec.options[name] for name in ("rerank_form", "max_edge") if spec.options.get(name)]
        return digest_json([address_of(spec), spec.name, *sent])
