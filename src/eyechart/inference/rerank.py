"""A reranker behind the store of answers: a query and its documents are scored once."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from eyechart.models.lazy import LazyModel
from eyechart.models.rerankers.reranker import Reranker, Shortlist
from eyechart.store.answers import ResponseStore
from eyechart.types import Answer, ModelCard, Notice, digest_json


@dataclass
class StoredReranker:
    """Scores shortlists; what was scored once is read."""

    model: LazyModel
    store: ResponseStore

    @property
    def card(self) -> ModelCard:
        """Describe the reranker."""
        return self.model.card

    def notices(self) -> list[Notice]:
        """Return what the model had to say."""
        return [Notice("model_note", 1, note) for note in self.card.notes]

    def score(self, shortlists: Iterable[Shortlist]) -> Iterator[tuple[str, list[float]]]:
        """Score the documents of each shortlist, in any order of shortlists, each with its id."""
        fingerprint = self.card.fingerprint
        table = self.store.table(fingerprint)
        missing: dict[str, Shortlist] = {}
        for shortlist in shortlists:
            known = table.get(_key(shortlist))
            if known is not None:
                yield shortlist.id, json.loads(known.text)
            else:
                missing[shortlist.id] = shortlist
        if missing:
            reranker: Reranker = self.model.load(fingerprint)

            def keep(name: str, scores: list[float]) -> None:
                table.add(_key(missing[name]), Answer(json.dumps(scores)))

            yield from reranker.score(missing.values(), keep)


def _key(shortlist: Shortlist) -> str:
    return digest_json(["rerank", shortlist.query, shortlist.documents])
