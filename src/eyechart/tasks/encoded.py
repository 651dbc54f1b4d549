"""The images and texts of a task as vectors, and warnings of a model that does not look at them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from eyechart.manifest import Entry, Failure, Manifest
from eyechart.metrics.vectors import Vectors, all_alike, unit, zero_rows
from eyechart.tasks.base import Material
from eyechart.types import Notice

MANY = 3
"""Two different images or texts may have one vector by chance, but not so many."""


@dataclass(frozen=True)
class EncodedImages:
    """The samples whose image could be encoded, with its vector, and those whose image could not."""

    vectors: Vectors
    digests: NDArray[np.uint8]
    """Of the images, one row each."""
    entries: tuple[Entry, ...]
    failures: tuple[Failure, ...]
    notices: tuple[Notice, ...]

    def without(self, lost: Mapping[str, str]) -> Self:
        """Return the images but some, which failed for a reason of their own: the reasons by id."""
        kept = np.array([i for i, entry in enumerate(self.entries) if entry.id not in lost], np.int64)
        failures = (Failure(name, reason) for name, reason in lost.items())
        return replace(
            self,
            vectors=self.vectors[kept],
            digests=self.digests[kept],
            entries=tuple(self.entries[i] for i in kept),
            failures=(*self.failures, *failures),
        )


def encode_images(material: Material, manifest: Manifest | None = None, *, normalize: bool = True) -> EncodedImages:
    """Encode the images of a split, by default of the one that is scored, to unit vectors."""
    embedded = material.encoder.images(material.listed if manifest is None else manifest)
    manifest = material.manifest if manifest is None else manifest
    digests = manifest.digests[embedded.kept]
    vectors = unit(embedded.vectors) if normalize else embedded.vectors
    vectors, notices = that_say_something(vectors, "images", map(bytes, digests))
    return EncodedImages(vectors, digests, manifest.take(embedded.kept), embedded.failures, notices)


def encode_texts(
    material: Material, texts: Sequence[str], *, normalize: bool = True
) -> tuple[Vectors, tuple[Notice, ...]]:
    """Encode texts of the job's language to unit vectors, one row each; or as the model gives them."""
    given = material.encoder.texts(texts, language=material.language)
    vectors = unit(given)  # also refuses what is no number
    usable, notices = that_say_something(vectors, "texts", texts)
    return usable if normalize or usable is not vectors else given, notices


def encode_own_texts(
    material: Material, entries: Sequence[Entry]
) -> tuple[Vectors, NDArray[np.int64], tuple[Notice, ...]]:
    """Encode the texts of samples, sample after sample; also return the position of the sample that each belongs to."""
    vectors, notices = encode_texts(material, [text for entry in entries for text in entry.texts])
    return vectors, np.repeat(np.arange(len(entries)), [len(entry.texts) for entry in entries]), notices


def that_say_something(vectors: Vectors, what: str, contents: Iterable[object]) -> tuple[Vectors, tuple[Notice, ...]]:
    """Make vectors zero if they are all the same although their contents are not; say so, and count zero vectors.

    A model that gives everything one vector has not looked. By luck it might still name the commonest class, or the
    caption that people would choose without the image; as zero vectors are never right, it gets nothing.
    """
    zero = zero_rows(vectors)
    count = int(zero.sum())
    if count < len(vectors) and all_alike(vectors[~zero] if count else vectors) and len(set(contents)) >= MANY:
        message = f"All {len(vectors)} {what} have the same vector: the model does not tell them apart."
        return np.zeros_like(vectors), (Notice("constant_vectors", len(vectors), message),)
    if not count:
        return vectors, ()
    message = f"{count} {what} have a zero vector: it is similar to nothing, and never counts as right."
    return vectors, (Notice("zero_vectors", count, message),)
