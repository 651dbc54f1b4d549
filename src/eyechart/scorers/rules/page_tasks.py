"""FoxBench: regions of pages that are read, translated, summarised or asked about."""

from __future__ import annotations

from eyechart.metrics.cells import Row, as_text
from eyechart.metrics.texts.page_words import rouge_l, word_scores
from eyechart.scorers.rules import Reading

_KINDS = {
    "which page's box contains more characters": "qa",
    "what is this in the box": "qa",
    "summarize": "summary",
    "translate": "translation",
}
"""What the last line of a question says, and what kind of task it is then; else it is to be read."""


def page_task(row: Row, text: str) -> Reading:
    """Compare by the kind of the question: as it stands, by ROUGE-L, or word by word (the score is that of letters)."""
    lines = [line.strip() for line in as_text(row["question"]).split("\n") if line.strip()]
    asked, target = (lines[-1] if lines else "").lower(), as_text(row["answer"])
    kind = next((kind for words, kind in _KINDS.items() if words in asked), "ocr")
    if kind == "qa":
        grades, needs = {"accuracy": float(text == target)}, ""
    elif kind == "summary":
        grades, needs = rouge_l(text, target), ""
    else:
        grades, needs = word_scores(text, target)
    score = grades[{"qa": "accuracy", "summary": "rouge_l_f"}.get(kind, "near")]
    return Reading(text, score, grades, {"kind": kind, "needs": needs})
