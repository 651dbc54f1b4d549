"""Rerankers behind ``POST /rerank``, as Cohere, Jina, vLLM and others serve it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import cached_property, partial

from eyechart import api
from eyechart.api.transport import check_api_base
from eyechart.errors import UsageError
from eyechart.models.client import make_client
from eyechart.models.rerankers.reranker import Shortlist
from eyechart.types import ModelCard, ModelSpec, digest_json


class ApiRerankerFamily:
    """Rerankers by address and model name; ``options``: api_base."""

    def check(self, spec: ModelSpec) -> None:
        """Refuse a missing or bad address."""
        if not spec.options.get("api_base"):
            raise UsageError(f"The model {spec.name!r} has no api_base.", advice="Example: http://localhost:8000/v1")
        check_api_base(spec.options["api_base"])

    def probe(self, spec: ModelSpec) -> None:
        """Ask the server which models it serves."""
        make_client(spec).check(spec.name)

    def identity(self, spec: ModelSpec) -> str:
        """Name address and model: all that is known of a model that others run."""
        return digest_json([spec.options["api_base"], spec.name])

    def load(self, spec: ModelSpec) -> ApiReranker:
        """Make the reranker."""
        return ApiReranker(spec)


class ApiReranker:
    """Sends shortlists to the server, several at a time."""

    def __init__(self, spec: ModelSpec) -> None:
        self.spec = spec
        self.card = ModelCard(
            family="rerank-api",
            name=spec.name,
            weights_digest=digest_json([check_api_base(spec.options["api_base"]), spec.name]),
            transform="rerank",
            precision="unknown",
        )

    @cached_property
    def client(self) -> api.ApiClient:
        """Make the client when something is to be scored."""
        return make_client(self.spec)

    def score(
        self, shortlists: Iterable[Shortlist], keep: Callable[[str, list[float]], None]
    ) -> Iterator[tuple[str, list[float]]]:
        """Score several shortlists at a time."""
        for reply in self.client.map(self._request(shortlist, keep) for shortlist in shortlists):
            yield reply.id, reply.result()

    def _request(self, shortlist: Shortlist, keep: Callable[[str, list[float]], None]) -> api.Request[list[float]]:
        request = api.rerank_request(shortlist.id, self.spec.name, shortlist.query, shortlist.documents)
        return replace(request, keep=partial(keep, shortlist.id))
