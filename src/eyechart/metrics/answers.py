"""Reading and comparing the answers of generative models: the public names.

Each function agrees with VLMEvalKit unless its docstring states otherwise. None of them evaluates text or raises on any
text, and all run in roughly linear time.
"""

import re
import unicodedata
from collections.abc import Callable, Mapping

from eyechart.metrics.cell_values import as_text
from eyechart.metrics.choices import (
    Extraction,
    extract_first_letter,
    extract_sequence,
    extract_strict,
    extract_vlmeval,
    final_answer_line,
)
from eyechart.metrics.open_answers import (
    OPEN_METRICS,
    anls,
    anls_distance,
    clean_digits_and_articles,
    clean_punctuation,
    edit_distance,
    open_matches,
    open_score,
    relaxed_match,
    vqa_accuracy,
    vqa_normalize,
)

__all__ = [
    "EXTRACTORS",
    "OPEN_METRICS",
    "YES_NO_EXTRACTORS",
    "Extraction",
    "anls",
    "anls_distance",
    "clean_digits_and_articles",
    "clean_punctuation",
    "edit_distance",
    "extract_first_letter",
    "extract_sequence",
    "final_answer_line",
    "infer_choice",
    "open_matches",
    "open_score",
    "relaxed_match",
    "split_thinking",
    "vqa_accuracy",
    "vqa_normalize",
    "yes_or_no",
    "yes_or_no_strict",
]

Extractor = Callable[[object, Mapping[str, object]], Extraction]

EXTRACTORS: dict[str, Extractor] = {"vlmeval": extract_vlmeval, "strict": extract_strict}
"""Readers of the chosen option, by name."""


def infer_choice(answer: object, choices: Mapping[str, object]) -> str | None:
    """Return the chosen letter, "Z" for none of the options, None if undecided (VLMEvalKit's `can_infer`)."""
    return extract_vlmeval(answer, choices).choice


def yes_or_no(answer: object) -> str:
    """Return "Yes" or "No" when one of the words occurs, else "Unknown" (VLMEvalKit's `YOrN_Extraction`).

    Words are what remains between spaces after `clean_punctuation`, so `**No**` and `Yes:` are Unknown.
    """
    return _verdict(clean_punctuation(as_text(answer).lower()).split())


def yes_or_no_strict(answer: object) -> str:
    """Return "Yes" or "No" like `yes_or_no`, but ignore all punctuation and let the first word decide.

    `**No**`, `Yes:` and full-width punctuation are read; "No. Explanation: yes is wrong" is No.
    """
    text = unicodedata.normalize("NFKC", as_text(answer)).rpartition("</think>")[2].lower()
    words = re.findall(r"[^\W_]+", text)
    first = _verdict(words[:1])
    contradicted = re.match(r"\W*(?:yes|no)\b[\s*]{0,9}(?:/|and\b|or\b)[\s*]{0,9}(?:yes|no)\b", text)
    return _verdict(words) if first == "Unknown" or contradicted else first


def _verdict(words: list[str]) -> str:
    yes, no = "yes" in words, "no" in words
    return "Unknown" if yes == no else "Yes" if yes else "No"


YES_NO_EXTRACTORS: dict[str, Callable[[object], str]] = {"vlmeval": yes_or_no, "strict": yes_or_no_strict}
"""Readers of a yes-or-no answer, by name."""


def split_thinking(text: object) -> tuple[str, str]:
    """Split the reasoning in <think> tags off an answer: (answer, thinking).

    The answer is what follows the last closing tag. With exactly one closing tag after an opening one, the thinking is
    the text between them; otherwise it is everything up to and including the last closing tag. Without a closing tag
    nothing is split, so a truncated thought stays visible as the answer. Agrees with VLMEvalKit's SPLIT_THINK.
    """
    source = as_text(text)
    before, closing, answer = source.rpartition("</think>")
    if not closing:
        return source, ""
    if "<think>" in before and closing not in before:
        return answer.strip(), before.split("<think>")[1].strip()
    return answer.strip(), before + closing
