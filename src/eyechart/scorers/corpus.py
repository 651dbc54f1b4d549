"""Scores that only a whole set has: captions and restored words."""

from collections.abc import Iterable
from functools import partial
from statistics import fmean

from eyechart.metrics.captions import score_captions
from eyechart.metrics.cells import Row, as_text, text_list
from eyechart.metrics.texts.vcr import TOKENIZERS, best_span, vcr_answers
from eyechart.scorers.scorer import Score, Scorer
from eyechart.scorers.tables import need


def vcr(rows: Iterable[Row], language: str = "en") -> dict[str, float]:
    """Return VCR's `Exact_Match` and `Jaccard` over every covered text, as fractions.

    `answer` lists the covered texts of an image. A refusal, or nothing in common, scores 0.
    """
    exact, jaccard = [], []
    for row in need(rows, "answer"):
        answer = as_text(row.get("prediction"))
        for covered in text_list(row["answer"]):
            span = best_span(covered, answer, language) if vcr_answers(answer) else []
            wanted = TOKENIZERS[language][0](covered)
            exact.append(float(bool(span) and span == wanted))
            jaccard.append(len({*span} & {*wanted}) / len({*span} | {*wanted}) if span else 0.0)
    return {"Exact_Match": fmean(exact), "Jaccard": fmean(jaccard)}


def captions(rows: Iterable[Row]) -> dict[str, float]:
    """Return BLEU, ROUGE-L and CIDEr of all captions, times 100."""
    found = need(rows, "answer")
    return score_captions([row.get("prediction") for row in found], [text_list(row["answer"]) for row in found])


class CorpusScorer(Scorer):
    """Takes all answers together."""

    binary = False
    per_answer = False

    def score(self, row: Row, answer: object) -> Score:
        """Take the text; a single one has no score."""
        return Score(as_text(answer), "text", None)


CAPTION = partial(CorpusScorer, arrange=captions, numbers=dict, points=True, primary="CIDEr")
VCR = partial(CorpusScorer, arrange=vcr, numbers=dict, primary="Exact_Match")
VCR_ZH = partial(VCR, arrange=partial(vcr, language="zh"))
