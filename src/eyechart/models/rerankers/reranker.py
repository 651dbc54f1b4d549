"""What a reranker offers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from eyechart.types import ModelCard

SIGMOID = "sigmoid"
"""The `ModelCard.similarity` of a reranker whose own library puts its raw score between 0 and 1."""


@dataclass(frozen=True, slots=True)
class Shortlist:
    """A query and the documents that the first stage found for it."""

    id: str
    query: str
    documents: tuple[str, ...]


@runtime_checkable
class Reranker(Protocol):
    """A model that scores documents for a query; higher is better. It knows nothing of benchmarks."""

    @property
    def card(self) -> ModelCard:
        """Describe the model."""

    def score(
        self, shortlists: Iterable[Shortlist], keep: Callable[[str, list[float]], None]
    ) -> Iterator[tuple[str, list[float]]]:
        """Score the documents of each shortlist, in any order of shortlists, each with its id.

        ``keep`` is called with the scores of each the moment they are there.

        Raises:
            EyechartError: If a shortlist cannot be scored; a query without its answer would be a wrong number.
        """
