"""How answers become numbers: one file per family of benchmarks, chosen by the name that the catalogue gives."""

from __future__ import annotations

from eyechart.datasets.questions.benchmarks import QuestionBenchmark
from eyechart.plugins import Registry
from eyechart.scorers.scorer import Scorer

SCORERS = Registry(
    "scorers",
    "scorer",
    {
        "amber": "eyechart.scorers.yes_no:AmberScorer",
        "caption": "eyechart.scorers.corpus:CaptionScorer",
        "choice": "eyechart.scorers.choice:ChoiceScorer",
        "circular": "eyechart.scorers.circular:CircularScorer",
        "dialogue": "eyechart.scorers.dialogue:DialogueScorer",
        "graded": "eyechart.scorers.graded:GradedScorer",
        "hallusion": "eyechart.scorers.yes_no:HallusionScorer",
        "hrbench": "eyechart.scorers.choice:HrbenchScorer",
        "llavabench": "eyechart.scorers.llavabench:LlavabenchScorer",
        "mathvision": "eyechart.scorers.mathematics:MathvisionScorer",
        "mathvista": "eyechart.scorers.mathematics:MathvistaScorer",
        "mme": "eyechart.scorers.yes_no:MmeScorer",
        "mmmu": "eyechart.scorers.choice:MmmuScorer",
        "mmt": "eyechart.scorers.choice:MmtScorer",
        "mmvet": "eyechart.scorers.graded:MmvetScorer",
        "mmvp": "eyechart.scorers.choice:MmvpScorer",
        "mtvqa": "eyechart.scorers.contains:MtvqaScorer",
        "naturalbench": "eyechart.scorers.naturalbench:NaturalbenchScorer",
        "ocrbench": "eyechart.scorers.contains:OcrbenchScorer",
        "open": "eyechart.scorers.open:OpenScorer",
        "pope": "eyechart.scorers.yes_no:PopeScorer",
        "vcr": "eyechart.scorers.corpus:VcrScorer",
        "vcr_zh": "eyechart.scorers.corpus:ChineseVcrScorer",
        "vsr": "eyechart.scorers.yes_no:VsrScorer",
        "yes_no": "eyechart.scorers.yes_no:YesNoScorer",
    },
)
"""Scorers by the name that ``benchmarks.toml`` or a dataset class gives."""


def scorer_of(benchmark: QuestionBenchmark, extractor: str = "vlmeval") -> Scorer:
    """Return how a benchmark's answers become numbers."""
    scorer: Scorer = SCORERS.load(benchmark.scorer)(benchmark, extractor)
    return scorer
