"""Images that are embedded as their dataset is read: digest and pixels are made of the same bytes, read once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from eyechart.io.progress import Bar
from eyechart.types import Sample

Listed = tuple[bytes, Sample]
"""An image that somebody has to embed: the key of its vector, and where its bytes are."""
LOOKED_UP = 256
"""Images that are looked for in the store at a time, unless they have more bytes than this."""
LOOKED_UP_BYTES = 32 * 1024 * 1024


def missing_as_read(
    samples: Iterable[Listed], missing: Callable[[Iterable[bytes]], set[bytes]], bar: Bar
) -> Iterator[Listed]:
    """Yield the first sample of each image that has no vector, in order, with the bytes that were read for its key.

    Args:
        samples: All samples of a dataset, as they are read.
        missing: Tells which of some keys have no vector.
        bar: Counts the samples that are not yielded.
    """
    seen: set[bytes] = set()
    for some in _groups(samples):
        fresh: dict[bytes, Sample] = {}
        for key, sample in some:
            if sample.image is not None and key not in seen:
                fresh.setdefault(key, sample)
        seen.update(fresh)
        wanted = missing(fresh) if fresh else set()
        bar.advance(len(some) - len(wanted))
        yield from ((key, sample) for key, sample in fresh.items() if key in wanted)


def _groups(samples: Iterable[Listed]) -> Iterator[list[Listed]]:
    """Collect samples until they are many or large."""
    some: list[Listed] = []
    held = 0
    for key, sample in samples:
        some.append((key, sample))
        held += bytes_held(sample)
        if len(some) == LOOKED_UP or held > LOOKED_UP_BYTES:
            yield some
            some, held = [], 0
    yield some


def bytes_held(sample: Sample) -> int:
    """Return how much memory the bytes of a sample's image take."""
    return len(sample.image.data) if sample.image is not None and sample.image.data is not None else 0
