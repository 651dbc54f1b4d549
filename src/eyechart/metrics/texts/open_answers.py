"""Comparing a free-form answer with its reference answers: VQA accuracy, ANLS, relaxed and exact matching."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean

from eyechart.metrics.cells import as_text, finite_number, text_list
from eyechart.metrics.texts.vqa_text import vqa_normalize

ANLS_THRESHOLD = 0.5
RELAXED_TOLERANCE = 0.05
_NEGATIVE = re.compile(r"- ?\.?\d")


def edit_distance(first: Sequence[str], second: Sequence[str]) -> int:
    """Return the Levenshtein distance, by Myers' bit-parallel algorithm: a table column is one integer."""
    pattern, text = sorted((first, second), key=len)
    if not pattern:
        return len(text)
    where: dict[str, int] = {}
    for i, letter in enumerate(pattern):
        where[letter] = where.get(letter, 0) | (1 << i)
    mask, last = (1 << len(pattern)) - 1, 1 << (len(pattern) - 1)
    plus, minus, distance = mask, 0, len(pattern)
    for letter in text:
        match = where.get(letter, 0)
        vertical = match | minus
        diagonal = (((match & plus) + plus) ^ plus) | match
        up, down = minus | (~(diagonal | plus) & mask), plus & diagonal
        distance += bool(up & last) - bool(down & last)
        up = (up << 1) | 1
        plus, minus = ((down << 1) & mask) | (~(vertical | up) & mask), up & vertical & mask
    return distance


def anls_distance(prediction: object, answer: object) -> float:
    """Return DocVQA's normalised edit distance: of lower-cased texts with single spaces, over the raw length.

    Agrees with VLMEvalKit's `anls_compute`, whose length is that of the upper-cased raw text.
    """
    left, right = as_text(answer), as_text(prediction)
    length = max(len(left.upper()), len(right.upper()))
    return edit_distance(_flat(left), _flat(right)) / length if length else 0.0


def _flat(text: str) -> str:
    return " ".join(text.lower().split())


def relaxed_match(prediction: object, target: object) -> bool:
    """Compare as ChartQA does: numbers within 5 % of the target, anything else equal up to case.

    A text with a trailing % is a hundredth; "1,000" and "$5" are not numbers. A target of zero has no 5 %,
    so it is compared as text. Agrees with VLMEvalKit's `relaxed_correctness`, except that "nan" and "inf"
    are texts here.
    """
    left, right = as_text(prediction), as_text(target)
    value, wanted = _number(left), _number(right)
    if value is not None and wanted:
        return abs(value - wanted) / abs(wanted) <= RELAXED_TOLERANCE
    return left.lower() == right.lower()


def _number(text: str) -> float | None:
    number = finite_number(text.rstrip("%"))
    return number / 100.0 if number is not None and text.endswith("%") else number


def _vqa_matches(prediction: str, answers: Sequence[str]) -> list[float]:
    wanted = vqa_normalize(prediction)
    same = [vqa_normalize(answer) == wanted for answer in answers]
    return [min(1.0, (sum(same) - own) / 3) for own in same]


def _anls_matches(prediction: str, answers: Sequence[str]) -> list[float]:
    return [anls_distance(prediction, answer) for answer in answers]


def _relaxed_matches(prediction: str, answers: Sequence[str]) -> list[float]:
    return [float(relaxed_match(prediction.strip(), answer)) for answer in answers]


def _equal_matches(prediction: str, answers: Sequence[str]) -> list[float]:
    return [float(prediction.strip().lower() == answer.strip().lower()) for answer in answers]


def _normalized_matches(prediction: str, answers: Sequence[str]) -> list[float]:
    said = _normalized(prediction)
    return [float(_normalized(answer) == said) for answer in answers]


def _normalized(text: str) -> tuple[bool, str]:
    """Normalise as VQA does, but keep the sign of a number, and a text of which nothing would be left ("A", "?")."""
    plain = " ".join(text.lower().split())
    return bool(_NEGATIVE.match(plain)), vqa_normalize(text) or plain


def _best_anls(distances: Sequence[float]) -> float:
    best = 1 - min(distances)
    return best if best >= ANLS_THRESHOLD else 0.0


@dataclass(frozen=True)
class OpenMetric:
    """How a prediction is compared with each reference answer, and how these comparisons become one score."""

    matches: Callable[[str, Sequence[str]], list[float]]
    combine: Callable[[Sequence[float]], float]


OPEN_METRICS: dict[str, OpenMetric] = {
    "vqa_score": OpenMetric(_vqa_matches, fmean),  # TextVQA, VizWiz
    "anls": OpenMetric(_anls_matches, _best_anls),  # DocVQA, InfoVQA
    "relaxed_accuracy": OpenMetric(_relaxed_matches, max),  # ChartQA
    "accuracy": OpenMetric(_equal_matches, max),  # OCRVQA
    "mean_accuracy": OpenMetric(_equal_matches, fmean),  # GQA
    "normalized_exact": OpenMetric(_normalized_matches, max),
}
"""Metrics for open questions, by name; any of them can score a table of one's own."""


def open_matches(prediction: object, answers: object, metric: str) -> list[float]:
    """Compare a prediction with each answer (a list, its literal or one text); `anls` gives distances."""
    return OPEN_METRICS[metric].matches(as_text(prediction), text_list(answers))


def open_score(prediction: object, answers: object, metric: str) -> float:
    """Score a prediction against its answers (a list, its literal or one text) by one of `OPEN_METRICS`."""
    matches = open_matches(prediction, answers, metric)
    if not matches:
        raise ValueError("there is no reference answer to compare with: this row cannot be scored")
    return OPEN_METRICS[metric].combine(matches)


def vqa_accuracy(prediction: object, answers: object) -> float:
    """Return the VQA challenge's accuracy: the mean, over annotators, of min(1, others who agree / 3).

    Agrees with VLMEvalKit's `vqa_score`. One annotator alone leaves nobody to agree with, which gives 0:
    use another metric of `OPEN_METRICS` for such data.
    """
    return open_score(prediction, answers, "vqa_score")


def anls(prediction: object, answers: object) -> float:
    """Return DocVQA's ANLS: 1 - the smallest `anls_distance` to an answer, and 0 when that is below 0.5."""
    return open_score(prediction, answers, "anls")
