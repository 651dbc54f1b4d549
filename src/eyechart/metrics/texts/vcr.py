"""Visual caption restoration (VCR): how well the covered words of an image were written down.

The original tokenises with spaCy's English and Chinese models; here English words and marks, and single Chinese
characters, are tokens, so numbers differ from the original's where spaCy cuts words elsewhere.
"""

import re
from collections.abc import Callable
from difflib import SequenceMatcher

from eyechart.metrics.cells import as_text

_REFUSALS = ("I can't", "I cannot", "\u65e0\u6cd5", "\u62b1\u6b49")
_ENGLISH = re.compile(r"\w+(?:[-'.]\w+)*|[^\w\s]")


def vcr_answers(text: object) -> bool:
    """Tell whether an answer is an attempt; one that refuses or apologises scores 0."""
    answer = as_text(text)
    return not any(phrase in answer for phrase in _REFUSALS) and "sorry" not in answer.lower()


def _characters(text: str) -> list[str]:
    return [letter for letter in text if not letter.isspace()]


TOKENIZERS: dict[str, tuple[Callable[[str], list[str]], str]] = {"en": (_ENGLISH.findall, " "), "zh": (_characters, "")}
"""How each language is cut into tokens, and what joins them again."""


def best_span(covered: str, answer: str, language: str = "en") -> list[str]:
    """Return the run of as many tokens in an answer as the covered text has that is most like it (difflib's ratio).

    Runs that share no token with the covered text are not looked at; without one the result is empty.
    """
    cut, joint = TOKENIZERS[language]
    wanted, tokens = cut(covered), cut(answer)
    runs = (tokens[i : i + len(wanted)] for i in range(len(tokens) - len(wanted) + 1))
    best, most, matcher = list[str](), -1.0, SequenceMatcher(None, "", covered)
    seen = set[str]()
    for run in runs:
        text = joint.join(run)
        if text in seen or set(run).isdisjoint(wanted):
            continue
        seen.add(text)  # an answer that repeats itself has few different runs, and they are the slow ones
        matcher.set_seq1(text)
        # Both quick ratios are never below the real one, and take a small part of its time.
        if matcher.real_quick_ratio() > most and matcher.quick_ratio() > most and (ratio := matcher.ratio()) > most:
            best, most = run, ratio
    return best
