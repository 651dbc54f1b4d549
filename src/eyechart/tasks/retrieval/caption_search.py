"""The two searches between images and captions: image by caption and caption by image."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from eyechart.metrics.retrieval import Ranks, rank_both_ways, rank_positives
from eyechart.metrics.search import Positives
from eyechart.metrics.vectors import Vectors
from eyechart.tasks.base import Prediction
from eyechart.types import MeanOf, Notice

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class RetrievalPrediction(Prediction):
    """Unit vectors of images and captions, and whose caption each is."""

    images: Vectors
    texts: Vectors
    owner: Ints
    """For each caption, the position of its image."""
    asked: Ints
    """The images that are queries, as their captions are; the gallery is always everything."""
    notices: tuple[Notice, ...]

    def only(self, keep: Ints) -> Self:
        """Return the prediction with fewer queries and the same gallery."""
        return replace(self, asked=self.asked[keep], failures=())

    @property
    def captions(self) -> list[str]:
        """Return the captions, image after image."""
        return [text for entry in self.entries for text in entry.texts]

    @property
    def asked_captions(self) -> Ints:
        """Return the captions that are queries."""
        return np.flatnonzero(np.isin(self.owner, self.asked))

    @property
    def text_numbers(self) -> Ints:
        """Number the different texts in order of appearance; equal captions have one number."""
        known: dict[str, int] = {}
        return np.array([known.setdefault(text, len(known)) for text in self.captions], np.int64)


@dataclass(frozen=True)
class Direction:
    """One way to search: which queries, in which gallery, what is right, and which image each query belongs to."""

    name: str
    query: str
    """What the queries are: ``image`` or ``text``, as in the records."""
    queries: Vectors
    gallery: Vectors
    positives: Positives
    cluster: Ints

    def mean_of(self, field: str, at_most: int | None = None) -> MeanOf:
        """Describe a metric as the mean over the records of this direction's queries."""
        return MeanOf(field, at_most, {"query": self.query}, cluster="image" if self.query == "text" else "")


@dataclass(frozen=True)
class Search:
    """Both directions and the ranks of what they look for."""

    to_image: Direction
    to_text: Direction
    image_ranks: Ranks
    """One per text that is a query."""
    text_ranks: Ranks
    """One per image that is a query."""

    @property
    def both(self) -> tuple[tuple[Direction, Ranks], tuple[Direction, Ranks]]:
        """Return each direction with its ranks."""
        return (self.to_image, self.image_ranks), (self.to_text, self.text_ranks)


def search(
    prediction: RetrievalPrediction, number: Ints, pairs: tuple[Ints, Ints] | None = None
) -> tuple[Search, Ints]:
    """Search with equal texts as one: a query that any of its images answers, an item that is right for all of them.

    Published numbers have no equal texts: there every caption is a query and an item for itself.

    Args:
        prediction: The vectors.
        number: The number of each caption's text.
        pairs: Which text belongs to which image; by default each to the images that have it.

    Returns:
        The search, and for each text that is a query the first caption that has it.
    """
    images, asked, captions = prediction.images, prediction.asked, prediction.asked_captions
    _, first = np.unique(number, return_index=True)
    texts = prediction.texts if len(first) == len(number) else prediction.texts[first]
    chosen, at = np.unique(number[captions], return_index=True)
    text_query, image_query = _places(chosen, len(first)), _places(asked, len(images))
    # Each text with each image that has it, once.
    text, image = pairs or np.divmod(np.unique(number * len(images) + prediction.owner), len(images))
    to_image, to_text = text_query[text] >= 0, image_query[image] >= 0
    ways = (
        Direction(
            "image_retrieval",
            "text",
            texts[chosen],
            images,
            Positives.of_pairs(text_query[text[to_image]], image[to_image], len(chosen)),
            image_query[prediction.owner[captions[at]]],
        ),
        Direction(
            "text_retrieval",
            "image",
            images[asked],
            texts,
            Positives.of_pairs(image_query[image[to_text]], text[to_text], len(asked)),
            np.arange(len(asked)),
        ),
    )
    if len(asked) == len(images):
        return Search(*ways, *rank_both_ways(images, texts, image, text)), captions[at]
    return Search(*ways, *(rank_positives(way.queries, way.gallery, way.positives) for way in ways)), captions[at]


def shared_pairs(prediction: RetrievalPrediction) -> tuple[Ints, Ints]:
    """Pair each caption with every image that has the same text."""
    number, images = prediction.text_numbers, len(prediction.images)
    text, image = np.divmod(np.unique(number * images + prediction.owner), images)
    counts = np.bincount(text)
    starts = np.concatenate([[0], np.cumsum(counts)])
    captions = np.repeat(np.arange(len(number)), counts[number])
    found = np.concatenate([image[starts[n] : starts[n + 1]] for n in number])
    return captions, found


def _places(chosen: Ints, n: int) -> Ints:
    """Return the place of each of n items among the chosen ones, or -1."""
    place = np.full(n, -1)
    place[chosen] = np.arange(len(chosen))
    return place
