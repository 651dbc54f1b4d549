"""Long texts compared word by word: BLEU, METEOR, common words, letters; and summaries by ROUGE-L.

METEOR asks NLTK, which asks WordNet for synonyms, and Chinese words are found by jieba (the extra ``ocr``). What needs
one that is not there is left out and named: without synonyms or words the numbers would be others.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from functools import cache
from typing import Any

from eyechart.errors import MissingExtraError, import_extra
from eyechart.metrics.texts.open_answers import edit_distance

EXTRA = "ocr"
WORDNET, JIEBA = "nltk with WordNet", "jieba"
ADVICE = f"pip install 'eyechart[{EXTRA}]'; for WordNet also: python -m nltk.downloader wordnet"
_CHINESE = re.compile(r"[\u4e00-\u9fa5]")
Words = Sequence[str]


def word_scores(said: str, wanted: str) -> tuple[dict[str, float], str]:
    """Return how near two texts are in six respects, from 0 to 1, and which library those that are missing need.

    bleu, meteor; f_measure, precision, recall of the set of words; near: 1 minus the edit distance of letters.
    """
    near = 1 - edit_distance(said, wanted) / max(len(said), len(wanted), 1)
    if not said.strip():
        return dict.fromkeys(("bleu", "meteor", "f_measure", "precision", "recall"), 0.0) | {"near": near}, ""
    try:
        found, right = words_of(said, wanted)
    except MissingExtraError:
        return {"near": near}, JIEBA
    shared = len({*found} & {*right})
    precision, recall = (shared / len({*words}) if words else 0.0 for words in (found, right))
    scores = {
        "bleu": bleu(found, right),
        "f_measure": 2 * precision * recall / (precision + recall) if shared else 0.0,
        "precision": precision,
        "recall": recall,
        "near": near,
    }
    try:
        return {**scores, "meteor": meteor(found, right)}, ""
    except MissingExtraError:
        return scores, WORDNET


def words_of(*texts: str) -> list[list[str]]:
    """Cut texts at spaces, or by jieba if one of them is Chinese.

    Raises:
        MissingExtraError: If jieba is needed and not installed.
    """
    if not any(map(_CHINESE.search, texts)):
        return [text.split() for text in texts]
    cutter = _jieba()
    return [list(cutter.lcut(text)) for text in texts]


@cache
def _jieba() -> Any:
    import logging

    module = import_extra("jieba", EXTRA)
    module.setLogLevel(logging.WARNING)
    return module


def meteor(said: Words, wanted: Words) -> float:
    """Return METEOR as NLTK computes it.

    Raises:
        MissingExtraError: If NLTK is not installed, or WordNet is needed and not there.
    """
    nltk = import_extra("nltk.translate.meteor_score", EXTRA)
    try:
        return float(nltk.meteor_score([list(wanted)], list(said)))
    except (LookupError, OSError) as error:
        raise MissingExtraError("METEOR needs WordNet.", advice=ADVICE) from error


def bleu(said: Words, wanted: Words, longest: int = 4) -> float:
    """Return BLEU of one text without smoothing: 0 unless runs of one to four words are common."""
    logs = 0.0
    for n in range(1, longest + 1):
        runs, right = (Counter(zip(*(words[i:] for i in range(n)), strict=False)) for words in (said, wanted))
        shared = sum((runs & right).values())
        if not shared:
            return 0.0
        logs += math.log(shared / sum(runs.values())) / longest
    return math.exp(logs + min(0.0, 1 - len(wanted) / len(said)))


def rouge_l(said: str, wanted: str) -> dict[str, float]:
    """Return recall, precision and F score of the words that longest common sequences of sentences hold.

    Agrees with the package rouge 1.0.1: sentences end at full stops, and each different word counts once.
    """
    found, right = ([" ".join(part.split()).split(" ") for part in text.split(".") if part] for text in (said, wanted))
    shared = {word for one in right for other in found for word in _common(one, other)}
    recall, precision = (
        len(shared) / len({word for sentence in sentences for word in sentence}) if sentences and shared else 0.0
        for sentences in (right, found)
    )
    both = 2 * precision * recall / (precision + recall + 1e-8)
    return {"rouge_l_r": recall, "rouge_l_p": precision, "rouge_l_f": both}


def _common(one: Words, other: Words) -> list[str]:
    """Return a longest common sequence of words, the one that is found from the end."""
    table = [[0] * (len(other) + 1) for _ in range(len(one) + 1)]
    for i, word in enumerate(one, 1):
        for j, peer in enumerate(other, 1):
            table[i][j] = table[i - 1][j - 1] + 1 if word == peer else max(table[i - 1][j], table[i][j - 1])
    i, j, words = len(one), len(other), []
    while i and j:
        if one[i - 1] == other[j - 1]:
            words.append(one[i - 1])
            i, j = i - 1, j - 1
        elif table[i - 1][j] > table[i][j - 1]:
            i -= 1
        else:
            j -= 1
    return words
