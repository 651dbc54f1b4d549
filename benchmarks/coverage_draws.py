"""The shapes of `coverage.py` in which more than test samples is drawn: few-shot training images, retrieval galleries.

Each repetition draws everything again. Two models see the same images, each with its own noise of the same size, so
they are equal in expectation but not on a given draw of training images or on a given gallery.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from coverage_shapes import Result, Rng, Shape, fixed
from numpy.typing import NDArray

from eyechart import stats

Array = NDArray[np.float64]
DIMENSIONS = 16
FOR_TRUTH = 1500
"""Repetitions whose mean is the truth, besides those that are counted."""


def _normal(rng: Rng, rows: int) -> Any:
    return rng.standard_normal((rows, DIMENSIONS), np.float32)


class FewShot(NamedTuple):
    """A nearest-class-mean classifier of normal classes, trained on `shots` images per class."""

    shots: int
    n: int
    draws: int = 3
    classes: int = 5
    distance: float = 0.55

    def hits(self, rng: Rng, models: int) -> Array:
        """Models x draws x test images: whether the right class is first."""
        centres = self.distance * np.random.default_rng(7).standard_normal((self.classes, DIMENSIONS))
        shared = rng.standard_normal((self.draws, self.classes, self.shots, DIMENSIONS))
        labels = rng.integers(0, self.classes, self.n)
        test = rng.standard_normal((self.n, DIMENSIONS))
        hits = np.empty((models, self.draws, self.n))
        for model in hits:
            # The mean over images of the model's own noise is drawn as one.
            own = rng.standard_normal((self.draws, self.classes, DIMENSIONS)) / np.sqrt(self.shots)
            means = centres + shared.mean(axis=2) + own
            seen = centres[labels] + test + rng.standard_normal(test.shape)
            scores = 2 * seen @ means.transpose(0, 2, 1) - (means**2).sum(axis=2)[:, None]
            model[:] = scores.argmax(axis=2) == labels
        return hits


def few_shot() -> Iterator[Shape]:
    for shape in [
        FewShot(2, 200), FewShot(2, 1000), FewShot(10, 200), FewShot(10, 1000), FewShot(100, 200), FewShot(100, 1000),
        FewShot(2, 1000, draws=1), FewShot(2, 1000, draws=2), FewShot(2, 1000, draws=5), FewShot(2, 1000, draws=10),
        FewShot(10, 200, draws=10), FewShot(1, 1000), FewShot(2, 20), FewShot(10, 50, draws=5),
        FewShot(5, 200, classes=2, distance=1.2), FewShot(16, 1000, classes=20, distance=1.2),
    ]:  # fmt: skip
        name = f"{shape.shots} shots, {shape.n} test images, {shape.classes} classes, {shape.draws} draws"
        truth = _mean_of(lambda rng, shape=shape: shape._replace(n=200, draws=1).hits(rng, 1).mean())
        yield Shape("few-shot accuracy", name, _accuracies(shape), truth)
        yield Shape("few-shot pair", name, _few_shot_pairs(shape), fixed(0.0), paired=True)


def _accuracies(shape: FewShot) -> Any:
    def results(rng: Rng, rounds: int) -> Iterator[Result]:
        for _ in range(rounds):
            hits = shape.hits(rng, 1)[0]
            yield stats.widen_for_draws(stats.proportion(float(hits[0].sum()), shape.n), hits)

    return results


def _few_shot_pairs(shape: FewShot) -> Any:
    return lambda rng, rounds: (stats.paired_test_over_draws(*shape.hits(rng, 2)) for _ in range(rounds))


class Gallery(NamedTuple):
    """Images with captions, drawn together: vectors are that of the image with noise."""

    images: int
    captions: int
    noise: float
    k: int = 1
    by: str = "text"
    """The query: a text finds its image, or an image one of its texts."""

    def hits(self, rng: Rng, models: int) -> tuple[Array, Array]:
        """Models x queries: whether a right answer is among the first k; and the image of each query."""
        content = _normal(rng, self.images)
        owner = np.repeat(np.arange(self.images), self.captions)
        wording = content[owner] + self.noise * _normal(rng, owner.size)
        hits = []
        for _ in range(models):
            images, texts = (part + self.noise / 2 * _normal(rng, len(part)) for part in (content, wording))
            images /= np.linalg.norm(images, axis=1, keepdims=True)
            scores = texts @ images.T / np.linalg.norm(texts, axis=1, keepdims=True)
            if self.by == "text":
                best = scores[np.arange(owner.size), owner]
                above = (scores > best[:, None]).sum(axis=1)
            else:
                image = np.arange(self.images)
                best = scores.reshape(self.images, self.captions, -1)[image, :, image].max(axis=1)
                above = (scores > best).sum(axis=0)
            hits.append((above < self.k).astype(np.float64))
        return np.array(hits), owner if self.by == "text" else np.arange(self.images)


class Collection(NamedTuple):
    """Queries and the graded documents that they share, drawn together; the metric is nDCG@10."""

    queries: int
    documents: int
    noise: float

    def hits(self, rng: Rng, models: int) -> tuple[Array, Array]:
        """Models x queries: nDCG@10."""
        documents, queries = (rng.standard_normal((n, DIMENSIONS)) for n in (self.documents, self.queries))
        likeness = queries @ documents.T
        grades = (likeness > 6).astype(np.float64) + (likeness > 9)
        grades[np.arange(self.queries), likeness.argmax(axis=1)] = 2
        discounts = 1 / np.log2(np.arange(2, 12))
        ideal = -np.sort(-grades, axis=1)[:, :10] @ discounts
        found = []
        for _ in range(models):
            order = np.argsort(-likeness - self.noise * rng.standard_normal(likeness.shape), axis=1)[:, :10]
            found.append(np.take_along_axis(grades, order, axis=1) @ discounts / ideal)
        return np.array(found), np.arange(self.queries)


def galleries() -> Iterator[Shape]:
    shapes: dict[str, Gallery | Collection] = {
        "image_retrieval_recall@1, 30 images x 5 captions": Gallery(30, 5, 0.6),
        "image_retrieval_recall@1, 100 images x 5 captions": Gallery(100, 5, 0.7),
        "image_retrieval_recall@5, 100 images x 5 captions": Gallery(100, 5, 0.7, k=5),
        "image_retrieval_recall@1, 100 images x 1 caption": Gallery(100, 1, 0.7),
        "image_retrieval_recall@1, 500 images x 5 captions": Gallery(500, 5, 0.7),
        "text_retrieval_recall@1, 30 images x 5 captions": Gallery(30, 5, 0.8, by="image"),
        "text_retrieval_recall@1, 100 images x 5 captions": Gallery(100, 5, 0.9, by="image"),
        "text_retrieval_recall@5, 100 images x 5 captions": Gallery(100, 5, 1.1, k=5, by="image"),
        "text_retrieval_recall@1, 500 images x 5 captions": Gallery(500, 5, 0.9, by="image"),
        "nDCG@10, 60 queries, 300 documents": Collection(60, 300, 3.0),
        "nDCG@10, 200 queries, 1000 documents": Collection(200, 1000, 4.0),
    }
    for name, shape in shapes.items():
        truth = _mean_of(lambda rng, shape=shape: shape.hits(rng, 1)[0].mean())
        yield Shape("redrawn gallery", name, _recalls(shape), truth)
        yield Shape("redrawn gallery, pair", name, _gallery_pairs(shape), fixed(0.0), paired=True)


def _recalls(shape: Gallery | Collection) -> Any:
    def results(rng: Rng, rounds: int) -> Iterator[Result]:
        for _ in range(rounds):
            (hits,), units = shape.hits(rng, 1)
            yield stats.mean_interval(hits, units)

    return results


def _gallery_pairs(shape: Gallery | Collection) -> Any:
    def results(rng: Rng, rounds: int) -> Iterator[Result]:
        for _ in range(rounds):
            (first, second), units = shape.hits(rng, 2)
            yield stats.paired_test(first, second, units)

    return results


def _mean_of(draw: Callable[[Rng], Any]) -> Callable[[Rng], float]:
    return lambda rng: float(np.mean([draw(rng) for _ in range(FOR_TRUTH)]))


DRAWN = (few_shot, galleries)
