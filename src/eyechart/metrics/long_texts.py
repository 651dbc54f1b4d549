"""Long texts compared word by word: BLEU, METEOR, ROUGE-L, common words, and restored captions (VCR)."""

import math
import re
from collections.abc import Callable, Sequence
from difflib import SequenceMatcher

from eyechart.errors import MissingExtraError, import_extra
from eyechart.metrics.answers import likeness
from eyechart.metrics.captions import ngrams
from eyechart.metrics.cell_values import as_text

EXTRA = "ocr"
WORDNET, JIEBA = "nltk with WordNet", "jieba"
ADVICE = f"pip install 'eyechart[{EXTRA}]'; for WordNet also: python -m nltk.downloader wordnet"
_CHINESE = re.compile(r"[\u4e00-\u9fa5]")
Words = Sequence[str]


def word_scores(said: str, wanted: str) -> tuple[dict[str, float], str]:
    """Return six similarities of two texts, from 0 to 1, and the library that the missing ones need.

    bleu, meteor; f_measure, precision, recall of the set of words; near: 1 minus the edit distance of characters.
    """
    near = likeness(said, wanted)
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
    """Split texts at white space, or with jieba, which has to be installed, if one of them is Chinese."""
    if not any(map(_CHINESE.search, texts)):
        return [text.split() for text in texts]
    jieba = import_extra("jieba", EXTRA)
    jieba.setLogLevel("WARNING")
    return [list(jieba.lcut(text)) for text in texts]


def meteor(said: Words, wanted: Words) -> float:
    """Return METEOR as computed by NLTK, which has to be installed, with WordNet if needed."""
    nltk = import_extra("nltk.translate.meteor_score", EXTRA)
    try:
        return float(nltk.meteor_score([list(wanted)], list(said)))
    except (LookupError, OSError) as error:
        raise MissingExtraError("METEOR needs WordNet.", advice=ADVICE) from error


def bleu(said: Words, wanted: Words) -> float:
    """Return BLEU of one text without smoothing: 0 unless n-grams of every length up to four are shared."""
    logs = 0.0
    for n in range(1, 5):
        runs, right = ngrams(said, n), ngrams(wanted, n)
        shared = (runs & right).total()
        if not shared:
            return 0.0
        logs += math.log(shared / runs.total()) / 4
    return math.exp(logs + min(0.0, 1 - len(wanted) / len(said)))


def rouge_l(said: str, wanted: str) -> dict[str, float]:
    """Return recall, precision and F score of the words in longest common subsequences of sentences.

    Agrees with the package rouge 1.0.1: sentences end at full stops, and each distinct word counts once.
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
    """Return a longest common subsequence of words, the one found by backtracking from the end."""
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


# Visual caption restoration (VCR): the original tokenises with spaCy's English and Chinese models; here tokens are
# English words and punctuation marks, and single Chinese characters, so scores differ from the original's where spaCy
# splits differently.

_REFUSALS = ("I can't", "I cannot", "\u65e0\u6cd5", "\u62b1\u6b49")


def vcr_answers(text: object) -> bool:
    """Whether an answer is an attempt; a refusal or an apology scores 0."""
    answer = as_text(text)
    return not any(phrase in answer for phrase in _REFUSALS) and "sorry" not in answer.lower()


TOKENIZERS: dict[str, tuple[Callable[[str], list[str]], str]] = {
    "en": (re.compile(r"\w+(?:[-'.]\w+)*|[^\w\s]").findall, " "),
    "zh": (re.compile(r"\S").findall, ""),
}
"""Tokenizer and joining text by language."""


def best_span(covered: str, answer: str, language: str = "en") -> list[str]:
    """Return the token span of an answer, as long as the covered text, that is most similar to it (difflib's ratio).

    Spans that share no token with the covered text are skipped; without any other the result is empty.
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
        # Both quick ratios are upper bounds of the real one, at a small part of its cost.
        if matcher.real_quick_ratio() > most and matcher.quick_ratio() > most and (ratio := matcher.ratio()) > most:
            best, most = run, ratio
    return best
