"""How answers become numbers: one file per family of benchmarks, chosen by the name that the catalogue gives."""

from __future__ import annotations

from eyechart.datasets.questions.benchmarks import QuestionBenchmark
from eyechart.plugins import Registry
from eyechart.scorers.parts import of_parts
from eyechart.scorers.scorer import Scorer

_FILES = {
    "choice": "choice mmmu mmvp mmt hrbench number_or_choice",
    "circular": "circular",
    "yes_no": "yes_no mme pope hallusion amber vsr",
    "choices.logicvista": "logicvista",
    "naturalbench": "naturalbench",
    "open": "open",
    "contains": "ocrbench mtvqa",
    "corpus": "caption vcr vcr_zh",
    "mathematics": "mathvista mathvision",
    "graded": "graded mmvet",
    "llavabench": "llavabench",
    "dialogue": "dialogue",
    "rule": "rule verdict extracted",
}
"""The scorers of each file of this package; their objects have the same names, in capitals."""
SCORERS = Registry(
    "scorers",
    "scorer",
    {name: f"{__name__}.{file}:{name.upper()}" for file, names in _FILES.items() for name in names.split()},
)
"""Scorers by the name that the catalogue or a dataset class gives."""


def scorer_of(benchmark: QuestionBenchmark, extractor: str = "vlmeval") -> Scorer:
    """Return how a benchmark's answers become numbers."""
    if benchmark.parts:
        return of_parts(benchmark, extractor, scorer_of)
    scorer: Scorer = SCORERS.load(benchmark.scorer)(benchmark, extractor)
    return scorer
