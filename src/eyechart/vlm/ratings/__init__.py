"""How answers become numbers, by name.

The arithmetic is in `eyechart.metrics`; here it gets a common shape, so that the runner needs to know no benchmark.
"""

from __future__ import annotations

from eyechart.vlm.benchmarks import Benchmark
from eyechart.vlm.ratings.base import IGNORE_CASE, UNDECIDED, UNREADABLE, Rating, Reading
from eyechart.vlm.ratings.choice import Choice, Circular, Mmmu
from eyechart.vlm.ratings.judged import Dialogue, Graded, Mathematics
from eyechart.vlm.ratings.open import Contains, Corpus, Open
from eyechart.vlm.ratings.yes_no import YES_NO_TABLES, YesNo

__all__ = ["IGNORE_CASE", "RATINGS", "UNDECIDED", "UNREADABLE", "Rating", "Reading", "rating_of"]

RATINGS: dict[str, type[Rating]] = {
    "choice": Choice,
    "circular": Circular,
    "mmmu": Mmmu,
    **dict.fromkeys(YES_NO_TABLES, YesNo),
    "open": Open,
    **dict.fromkeys(Contains.KINDS, Contains),
    "caption": Corpus,
    "vcr": Corpus,
    "vcr_zh": Corpus,
    **dict.fromkeys(Mathematics.KINDS, Mathematics),
    "mmvet": Graded,
    "graded": Graded,
    "dialogue": Dialogue,
}
"""Ratings by name."""


def rating_of(benchmark: Benchmark) -> Rating:
    """Return how a benchmark's answers become numbers."""
    return RATINGS[benchmark.rating](benchmark)
