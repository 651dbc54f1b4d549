"""Rerankers behind ``POST /rerank``, as Cohere, Jina, vLLM and others serve it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial

from eyechart import api
from eyechart.models.access import ServedFamily, ServedModel, address_of
from eyechart.models.rerankers.reranker import Shortlist
from eyechart.types import ModelCard, ModelSpec, digest_json


class ApiRerankerFamily(ServedFamily):
    """Rerankers by address and model name; ``options``: api_base."""

    def identity(self, spec: ModelSpec) -> str:
        """Name address and model: all that is known of a model that others run."""
        return digest_json([address_of(spec), spec.name])

    def load(self, spec: ModelSpec) -> ApiReranker:
        """Make the reranker."""
        return ApiReranker(spec)


class ApiReranker(ServedModel):
    """Sends shortlists to the server, several at a time."""

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__(spec)
        self.card = ModelCard(
            family="rerank-api",
            name=spec.name,
            weights_digest=digest_json([address_of(spec), spec.name]),
            transform="rerank",
            precision="unknown",
        )

    def score(
        self, shortlists: Iterable[Shortlist], keep: Callable[[str, list[float]], None]
    ) -> Iterator[tuple[str, list[float]]]:
        """Score several shortlists at a time."""
        for reply in self.client.map(self._request(shortlist, keep) for shortlist in shortlists):
            yield reply.id, reply.result()

    def _request(self, shortlist: Shortlist, keep: Callable[[str, list[float]], None]) -> api.Request[list[float]]:
        request = api.rerank_request(shortlist.id, self.spec.name, shortlist.query, shortlist.documents)
        return replace(request, keep=partial(keep, shortlist.id))
