"""Rerankers behind ``POST /rerank``, as Cohere, Jina, vLLM and others serve it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace

from eyechart import api
from eyechart.models.rerankers.reranker import Shortlist
from eyechart.store.answers import Responses, ResponseStore
from eyechart.types import Answer, ModelCard, digest_json


class ApiReranker:
    """Asks a server; what it answered once is kept and not asked again."""

    def __init__(self, name: str, client: api.ApiClient, store: ResponseStore) -> None:
        self.name, self.client = name, client
        self.card = ModelCard(
            family="rerank-api",
            name=name,
            weights_digest=digest_json([client.api_base, name]),
            transform="rerank",
            precision="unknown",
        )
        self.table: Responses = store.table(self.card.fingerprint)

    def score(self, shortlists: Iterable[Shortlist]) -> Iterator[tuple[str, list[float]]]:
        """Score several shortlists at a time."""
        missing: list[Shortlist] = []
        for shortlist in shortlists:
            known = self.table.get(_key(shortlist))
            if known is not None:
                yield shortlist.id, json.loads(known.text)
            else:
                missing.append(shortlist)
        for reply in self.client.map(self._request(shortlist) for shortlist in missing):
            yield reply.id, reply.result()

    def _request(self, shortlist: Shortlist) -> api.Request[list[float]]:
        request = api.rerank_request(shortlist.id, self.name, shortlist.query, shortlist.documents)
        return replace(request, keep=lambda scores: self.table.add(_key(shortlist), Answer(json.dumps(scores))))


def _key(shortlist: Shortlist) -> str:
    return digest_json(["rerank", shortlist.query, shortlist.documents])
