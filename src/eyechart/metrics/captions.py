"""Caption metrics over a corpus: BLEU, ROUGE-L and CIDEr-D, in agreement with pycocoevalcap to rounding."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from statistics import fmean

from eyechart.metrics.cells import as_text
from eyechart.metrics.ptb import ptb_captions, ptb_references

Ngram = tuple[str, ...]
Tokens = Sequence[str]

MAX_N = 4
ROUGE_BETA = 1.2
CIDER_SIGMA = 6.0
# pycocoevalcap's guards against division by zero; they show in the eighth digit of a perfect score.
_TINY, _SMALL = 1e-15, 1e-9


TOKENIZERS = ("whitespace", "ptb")
"""How captions become words: they are taken as they are (VLMEvalKit), or as in COCO's evaluation."""


def score_captions(
    predictions: Sequence[object], references: Sequence[Sequence[object]], tokenizer: str = "whitespace"
) -> dict[str, float]:
    """Score one predicted caption per image against its reference captions, times 100 as VLMEvalKit reports.

    `whitespace` takes the captions as they are, capitals and punctuation included, like VLMEvalKit; `ptb`
    lower-cases and tokenises as COCO's evaluation does. CIDEr compares with the other images, so it is 0
    for a single one.
    """
    if tokenizer not in TOKENIZERS:
        raise ValueError(f"unknown tokenizer {tokenizer!r}: choose one of {', '.join(TOKENIZERS)}")
    if len(predictions) != len(references):
        raise ValueError(f"{len(predictions)} predictions but references for {len(references)} images")
    if not predictions or not all(references):
        raise ValueError("captions need at least one image, and at least one reference for each image")
    hypotheses = [as_text(text) for text in predictions]
    truths = [[as_text(text) for text in texts] for texts in references]
    if tokenizer == "ptb":
        hypotheses = [" ".join(tokens) for tokens in ptb_captions(hypotheses)]
        truths = [[" ".join(tokens) for tokens in texts] for texts in ptb_references(truths)]
    words, true_words = [text.split() for text in hypotheses], [[text.split() for text in texts] for texts in truths]
    scores = {f"Bleu_{n}": score for n, score in enumerate(bleu(words, true_words), 1)}
    scores["ROUGE_L"] = fmean(map(rouge_l, hypotheses, truths))
    scores["CIDEr"] = fmean(cider(words, true_words))
    return {name: 100 * score for name, score in scores.items()}


def _ngrams(tokens: Tokens, n: int) -> Counter[Ngram]:
    return Counter(zip(*(tokens[i:] for i in range(n)), strict=False))


def bleu(hypotheses: Sequence[Tokens], references: Sequence[Sequence[Tokens]]) -> list[float]:
    """Return corpus BLEU-1 to BLEU-4: clipped by the most generous reference, closest reference length."""
    guessed, correct = [0] * MAX_N, [0] * MAX_N
    for hypothesis, truths in zip(hypotheses, references, strict=True):
        for n in range(MAX_N):
            counts, allowed = _ngrams(hypothesis, n + 1), Counter[Ngram]()
            for truth in truths:
                allowed |= _ngrams(truth, n + 1)
            guessed[n] += counts.total()
            correct[n] += (counts & allowed).total()
    length = sum(map(len, hypotheses))
    wanted = sum(_closest_length(len(words), truths) for words, truths in zip(hypotheses, references, strict=True))
    ratio = (length + _TINY) / (wanted + _SMALL)
    brevity = math.exp(1 - 1 / ratio) if ratio < 1 else 1.0
    precisions = [(hit + _TINY) / (total + _SMALL) for hit, total in zip(correct, guessed, strict=True)]
    return [math.prod(precisions[: n + 1]) ** (1 / (n + 1)) * brevity for n in range(MAX_N)]


def _closest_length(length: int, truths: Iterable[Tokens]) -> int:
    return min((abs(len(truth) - length), len(truth)) for truth in truths)[1]


def rouge_l(hypothesis: str, references: Sequence[str]) -> float:
    """Return ROUGE-L of one caption: the best precision and the best recall over the references, beta 1.2.

    Words are split at single spaces, as pycocoevalcap does, so a double space makes an empty word.
    """
    words = hypothesis.split(" ")
    splits = [reference.split(" ") for reference in references]
    common = [_common_length(words, truth) for truth in splits]
    precision = max(common) / len(words)
    recall = max(length / len(truth) for length, truth in zip(common, splits, strict=True))
    if not precision or not recall:
        return 0.0
    return (1 + ROUGE_BETA**2) * precision * recall / (recall + ROUGE_BETA**2 * precision)


def _common_length(first: Tokens, second: Tokens) -> int:
    """Return the length of the longest common subsequence; a row of the table is one integer (Hyyro, 2004)."""
    where: dict[str, int] = {}
    for i, word in enumerate(first):
        where[word] = where.get(word, 0) | (1 << i)
    mask = (1 << len(first)) - 1
    row = mask
    for word in second:
        kept = row & where.get(word, 0)
        row = ((row + kept) | (row - kept)) & mask
    return len(first) - row.bit_count()


def cider(hypotheses: Sequence[Tokens], references: Sequence[Sequence[Tokens]]) -> list[float]:
    """Return CIDEr-D of each caption, with document frequencies over the references of these images."""
    seen: Counter[Ngram] = Counter()
    for truths in references:
        seen.update({ngram for truth in truths for n in range(MAX_N) for ngram in _ngrams(truth, n + 1)})
    images = math.log(len(references))

    def weigh(tokens: Tokens) -> list[dict[Ngram, float]]:
        return [
            {ngram: count * (images - math.log(max(1, seen[ngram]))) for ngram, count in _ngrams(tokens, n + 1).items()}
            for n in range(MAX_N)
        ]

    scores = []
    for hypothesis, truths in zip(hypotheses, references, strict=True):
        own = weigh(hypothesis)
        total = math.fsum(_similarity(own, weigh(truth), _bigrams(hypothesis) - _bigrams(truth)) for truth in truths)
        scores.append(10 * total / len(truths))
    return scores


def _bigrams(tokens: Tokens) -> int:
    return max(0, len(tokens) - 1)


def _similarity(own: list[dict[Ngram, float]], true: list[dict[Ngram, float]], longer: int) -> float:
    """Return the mean clipped cosine over n, damped by the difference in length."""
    cosines = []
    for left, right in zip(own, true, strict=True):
        shared = left.keys() & right.keys()
        overlap = math.fsum(min(left[ngram], right[ngram]) * right[ngram] for ngram in shared)
        norms = math.hypot(*left.values()) * math.hypot(*right.values())
        cosines.append(overlap / norms if norms else overlap)
    return fmean(cosines) * math.exp(-(longer**2) / (2 * CIDER_SIGMA**2))
