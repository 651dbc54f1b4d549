"""Scores that only a whole set has: captions and restored words."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from statistics import fmean
from typing import Any

from eyechart.metrics.captions import score_captions
from eyechart.metrics.cells import Row, as_text, text_list
from eyechart.metrics.texts.vcr import TOKENIZERS, best_span, vcr_answers
from eyechart.scorers.scorer import CUT, FAILED, UNDECIDED, Score, Scorer
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


def captions(rows: Iterable[Row]) -> dict[str, Any]:
    """Return BLEU for one to four words, ROUGE-L and CIDEr of all captions, times 100.

    A caption that is ``lost`` is empty and scores 0 in ROUGE-L and CIDEr, which are means. BLEU is none: it would
    hardly notice that a long caption is missing, so it is multiplied by the share that is not lost.
    """
    found = need(rows, "answer")
    said = [as_text(row.get("prediction")) for row in found]
    scores = score_captions(said, [text_list(row["answer"]) for row in found])
    share = fmean(not row.get("lost") for row in found)
    bleu = [share * scores.pop(f"Bleu_{i}") for i in range(1, 5)]
    return {"Bleu": bleu, **scores}


def caption_numbers(table: Mapping[str, Any]) -> dict[str, float]:
    """Give each BLEU a name of its own."""
    bleu = {f"Bleu_{i}": value for i, value in enumerate(table["Bleu"], 1)}
    return bleu | {name: value for name, value in table.items() if name != "Bleu"}


@dataclass(frozen=True)
class CorpusScorer(Scorer):
    """Takes all answers together."""

    perfect: Callable[[list[str]], str] = " ".join
    """Makes a perfect answer of what is wanted."""

    binary = False
    per_answer = False

    def score(self, row: Row, answer: object) -> Score:
        """Take the text; a single one has no score."""
        return Score(as_text(answer), "text" if as_text(answer).strip() else UNDECIDED, None)

    def assume(self, row: Row, rule: str, *, right: bool = False) -> Score:
        """Assume nothing at all, or what is wanted."""
        return Score(self.perfect(text_list(row.get("answer"))) if right else "", rule, None)

    def columns(self, score: Score) -> dict[str, object]:
        """Give the text that counts."""
        return {"prediction": score.extracted, "lost": score.rule in (CUT, FAILED) and not score.extracted}


CAPTION = partial(
    CorpusScorer, perfect=itemgetter(0), arrange=captions, numbers=caption_numbers, points=True, primary="CIDEr"
)
VCR = partial(CorpusScorer, arrange=vcr, numbers=dict, primary="Exact_Match")
VCR_ZH = partial(VCR, arrange=partial(vcr, language="zh"))
