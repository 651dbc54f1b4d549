"""Rerankers behind ``POST /rerank``, as Cohere, Jina, vLLM and others serve it, or Text Embeddings Inference."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from itertools import chain

from eyechart import api
from eyechart.api.rerank import RerankForm
from eyechart.models.access import ServedFamily, ServedModel, access_of, address_of
from eyechart.models.rerankers.reranker import Shortlist
from eyechart.types import ModelCard, ModelSpec, digest_json


class ApiRerankerFamily(ServedFamily):
    """Rerankers by address and model name; ``options``: api_base, rerank_form (``jina`` or ``tei``)."""

    def identity(self, spec: ModelSpec) -> str:
        """Name address and model: all that is known of a model that others run."""
        return _who(spec)

    def load(self, spec: ModelSpec) -> ApiReranker:
        """Make the reranker."""
        return ApiReranker(spec)


class ApiReranker(ServedModel):
    """Sends shortlists to the server, several at a time."""

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__(spec)
        self.form: RerankForm = spec.options.get("rerank_form") or "jina"
        self.card = ModelCard(
            family="rerank-api",
            name=spec.name,
            weights_digest=_who(spec),
            transform="rerank",
            precision="unknown",
        )

    def score(
        self, shortlists: Iterable[Shortlist], keep: Callable[[str, list[float]], None]
    ) -> Iterator[tuple[str, list[float]]]:
        """Score several shortlists at a time, each in one request, or in as many as the server's form needs."""
        found: dict[str, dict[int, list[float]]] = {}
        for reply in self.client.map(chain.from_iterable(self._requests(one, keep) for one in shortlists)):
            name, start, parts = json.loads(reply.id)
            found.setdefault(name, {})[start] = reply.result()
            if len(found[name]) == parts:
                scores = [score for _, part in sorted(found.pop(name).items()) for score in part]
                if parts > 1:
                    keep(name, scores)
                yield name, scores

    def _requests(
        self, shortlist: Shortlist, keep: Callable[[str, list[float]], None]
    ) -> Iterator[api.Request[list[float]]]:
        # TEI refuses more documents at a time than it was started for, which is 32 unless told otherwise.
        whole = max(1, len(shortlist.documents))
        size = min(whole, access_of(self.spec).batch_size) if self.form == "tei" else whole
        starts = range(0, whole, size)
        for start in starts:
            documents = shortlist.documents[start : start + size]
            name = json.dumps([shortlist.id, start, len(starts)])
            request = api.rerank_request(name, self.spec.name, shortlist.query, documents, self.form)
            yield replace(request, keep=partial(keep, shortlist.id)) if len(starts) == 1 else request


def _who(spec: ModelSpec) -> str:
    form = spec.options.get("rerank_form")
    return digest_json([address_of(spec), spec.name, *([form] if form else [])])
