"""Text encoders and rerankers of a config: what they are, and how they are made when they are needed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from eyechart import plugins
from eyechart.api import ApiClient, Budget
from eyechart.compat.evalscope.context import Context
from eyechart.compat.evalscope.models import access_of
from eyechart.compat.evalscope.schema import DEFAULT_CONCURRENCY, Requests, TextModel
from eyechart.errors import UsageError, nearest
from eyechart.inference.embeddings import StoredEmbeddings
from eyechart.models.encoders.text import TextFamily, own_prompts
from eyechart.models.encoders.text_api import REQUEST_SIZE, TextApiFamily
from eyechart.models.family import Family, LazyModel
from eyechart.models.generators.api import make_client
from eyechart.models.generators.family import Access
from eyechart.models.rerankers import cross_encoder
from eyechart.models.rerankers.api import ApiReranker
from eyechart.models.rerankers.cross_encoder import CrossEncoderReranker
from eyechart.models.rerankers.reranker import Reranker
from eyechart.types import ModelSpec

TEXT = "text"
BATCH = 32
WITHOUT_EFFECT = frozenset({"show_progress_bar", "normalize_embeddings", "convert_to_tensor", "convert_to_numpy"})
"""Arguments of ``encode`` that cannot change a number here: vectors are always compared by cosine."""


@dataclass(frozen=True)
class PlannedText:
    """A text model of a config, checked but not loaded."""

    entry: TextModel
    spec: ModelSpec
    access: Access
    batch_size: int
    prompts: dict[str, str] = field(default_factory=dict)
    """What is put in front of queries and of documents."""

    @property
    def name(self) -> str:
        """Return the name as the user wrote it."""
        return self.entry.model_name_or_path

    @property
    def is_remote(self) -> bool:
        """Tell whether the model is behind an API."""
        return self.entry.api_base is not None

    def client(self) -> ApiClient:
        """Make the client of a remote model."""
        return make_client(self.spec, self.access)

    def probe(self) -> None:
        """See that a remote model is there."""
        if self.is_remote:
            self.client().check(self.name)

    def with_prompt(self, role: str, texts: Sequence[str]) -> list[str]:
        """Put the role's prompt in front of texts."""
        prompt = self.prompts.get(role, "")
        return [prompt + text for text in texts]

    def embeddings(self, context: Context) -> StoredEmbeddings:
        """Return the encoder behind the embedding store."""
        family = TextApiFamily(self.client(), self.batch_size) if self.is_remote else family_of(self.entry)
        # A remote encoder is asked several times at once, so it gets several requests' worth of texts at a time.
        size = self.batch_size * (self.access.concurrency if self.is_remote else 1)
        return StoredEmbeddings(
            LazyModel(self.spec, family),
            context.session.store,
            batch_size=size,
            progress=context.session.progress,
        )

    def reranker(self, context: Context) -> Reranker:
        """Load the reranker."""
        if self.is_remote:
            return ApiReranker(self.name, self.client(), context.responses)
        return CrossEncoderReranker(self.spec, self.batch_size)


def plan_text(entry: TextModel, requests: Requests, budget: Budget, encode_kwargs: dict[str, Any]) -> PlannedText:
    """Check a text model and find out how to make it."""
    batch = _batch_size({**encode_kwargs, **entry.encode_kwargs}, REQUEST_SIZE if entry.api_base else BATCH)
    spec = _spec(entry)
    if entry.is_cross_encoder and not entry.api_base:
        cross_encoder.check(spec)
    else:
        family_of(entry).check(spec)
    concurrency = requests.concurrency or DEFAULT_CONCURRENCY
    access = access_of(entry, requests, budget, concurrency=concurrency, batch_size=batch)
    return PlannedText(entry, spec, access, batch, {} if entry.is_cross_encoder else _prompts(entry, spec))


def family_of(entry: TextModel) -> Family:
    """Return the family of an encoder: through sentence-transformers, unless the entry names another one."""
    if entry.api_base:
        return TextApiFamily()
    if entry.model_type in (None, TEXT):
        return TextFamily()
    family: Family = plugins.load("models", str(entry.model_type))()
    return family


def _spec(entry: TextModel) -> ModelSpec:
    precision = "fp32" if entry.precision == "auto" else entry.precision
    if entry.api_base:
        remote = _given({"api_base": entry.api_base, "dimensions": entry.dimensions})
        return ModelSpec("text-api", entry.model_name_or_path, options=remote)
    options: dict[str, Any] = {
        "pooling_mode": entry.pooling_mode,
        "max_seq_length": entry.max_seq_length,
        "model_kwargs": entry.model_kwargs,
        "config_kwargs": entry.config_kwargs,
        "trust_remote_code": entry.trust_remote_code,
    }
    if not Path(entry.model_name_or_path).exists():
        options |= {"hub": entry.hub, "revision": entry.revision}
    family = "cross-encoder" if entry.is_cross_encoder else entry.model_type or TEXT
    return ModelSpec(family, entry.model_name_or_path, entry.pretrained, precision, entry.device, _given(options))


def _given(options: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in options.items() if value not in (None, {}, False)}


def _prompts(entry: TextModel, spec: ModelSpec) -> dict[str, str]:
    """Return the prompts by role: the config's, else those that the model's authors saved with it."""
    given = dict(entry.prompts)
    for role in given:
        if role not in ("query", "document", "passage"):
            near = nearest(role, ["query", "document"])
            hint = f"did you mean {near[0]}?" if near else "there are query and document."
            raise UsageError(f"prompts of {entry.model_name_or_path}: unknown role {role!r}; {hint}")
    if entry.prompt:
        given.setdefault("query", entry.prompt)
    found = given or own_prompts(spec)
    prompts = {"query": found.get("query", ""), "document": found.get("document", found.get("passage", ""))}
    return {role: text for role, text in prompts.items() if text}


def _batch_size(options: dict[str, Any], default: int) -> int:
    unknown = sorted(set(options) - WITHOUT_EFFECT - {"batch_size"})
    if unknown:
        raise UsageError(
            f"encode_kwargs: {unknown[0]!r} is not supported.", advice="batch_size is; vectors are compared by cosine."
        )
    return int(options.get("batch_size") or default)
