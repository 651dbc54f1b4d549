"""Caption metrics over a corpus: BLEU, ROUGE-L and CIDEr-D on Penn Treebank tokens; METEOR and SPICE through Java."""

import math
import re
import shutil
from collections import Counter
from collections.abc import Sequence
from importlib.util import find_spec
from itertools import pairwise
from statistics import fmean

from eyechart.metrics.cell_values import as_text

DROPPED = frozenset({"''", "'", "``", "`", ".", "?", "!", ",", ":", "-", "--", "...", ";"})
"""Marks that COCO's evaluation removes; -LRB- and the like are on its list too but are already lower-case by then."""

_ABBREVIATIONS = (
    "Mr|Mrs|Ms|Dr|Prof|St|Jr|Sr|vs|etc|e\\.g|i\\.e|a\\.m|p\\.m|ft|Co|Corp|Inc|Ltd|Bros|Ave|Blvd|Rd|Mt|Capt|Col|Gen|Gov"
    "|Lt|Maj|Pres|Rep|Rev|Sen|Sgt|Adm|Cmdr|Hon|Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sept?|Oct|Nov|Dec|Ph\\.D"
)
_STARTS = (
    "a|about|according|additionally|after|an|as|at|but|earlier|he|her|here|however|if|in|it|last|many|more|mr\\.|ms\\.|now"
    "|once|one|other|our|she|since|so|some|such|that|the|their|then|there|these|they|this|we|what|when|while|yet|you"
)
"""Capitalised words that begin a sentence, which makes the period before them a full stop."""
_RENAMED = {
    "cannot": "can not", "dunno": "du n no", "gimme": "gim me", "gonna": "gon na", "gotta": "got ta", "lemme": "lem me",
    "wanna": "wan na", "'tis": "'t is", "'twas": "'t was", "more'n": "more 'n", "y'all": "y' all",
    "(": "-lrb-", ")": "-rrb-", "[": "-lsb-", "]": "-rsb-", "{": "-lcb-", "}": "-rcb-",
    "\u2026": "...", "\u2013": "--", "\u2014": "--", "---": "--", "----": "--",
    "\u00a3": "#", "\u20ac": "$", "\u00bc": "1/4", "\u00bd": "1/2", "\u00be": "3/4",
}  # fmt: skip
"""Words that are split, and marks that are renamed."""

_LONGEST_START = 20
"""Characters of the next caption that are examined; the longest of `_STARTS` is shorter."""

# Tried in this order. No two unbounded parts can share characters, so time stays linear.
_TOKEN = re.compile(
    rf"""
      https?://[^\s"<>()]+[^\s"<>().,;:!?'] | [\w.+-]{{1,64}}@[\w-]+(?:\.[\w-]+)+
    | </?[A-Za-z][^<>\s]{{0,40}}>
    | (?:{_ABBREVIATIONS})\.(?=\s|$|[,;:?!)])  | No\.(?=\s*\d)
    | (?:[a-z]\.){{2,}} | [a-z]\.(?![^\W\d_]|\s+(?=(?-i:[A-Z]))(?:{_STARTS})\s)
    | '(?:tis|twas)\b | 'n' | '\d\ds?\b
    | '(?:s|m|d|ll|re|ve)\b
    | \d+(?::\d\d)+(?=[ap]m\b) | [ap]m\b
    | [-+]?\d+(?:[.,:/]\d+)*(?![\w-])
    | [^\W_]+?(?=n't\b) | n't\b
    | (?:cannot|dunno|gimme|gonna|gotta|lemme|wanna|more'n|y'all)\b
    | (?:o|d)'[^\W_]+
    | @\w+
    | (?-i:[A-Z]+(?:&[A-Z]+)+)\b
    | \w+(?:-\w+)*(?:(?<=[a-z])\.[a-z]+)*(?:/\w+(?:-\w+)*){{0,2}} | \.\d+(?:[.,]\d+)*
    | \.{{3,}} | -{{2,}} | [?!]+ | '' | ``
    | \S
    """,
    re.VERBOSE | re.IGNORECASE,
)


def ptb_tokens(text: str, following: str = "") -> list[str]:
    """Return the lower-case tokens of a caption without the punctuation that COCO's evaluation drops.

    ``following``, the caption on the next line, decides whether a period after a final single letter is a full stop.
    """
    quotes = text.translate({0x2018: "`", 0x2019: "'", 0x201C: '"', 0x201D: '"'})
    tokens = _TOKEN.finditer(f"{quotes}\n{following.lstrip()[:_LONGEST_START]}\n")
    lower = (token[0].lower() for token in tokens if token.start() < len(quotes))
    found = ("..." if len(token) > 2 and not token.strip(".") else _RENAMED.get(token, token) for token in lower)
    return [word for token in found for word in token.split(" ") if word not in DROPPED and word != '"']


def ptb_captions(captions: Sequence[str]) -> list[list[str]]:
    """Return the tokens of consecutive captions, as COCO's evaluation passes them to its tokenizer."""
    return [ptb_tokens(text, following) for text, following in pairwise((*captions, ""))]


def ptb_references(references: Sequence[Sequence[str]]) -> list[list[list[str]]]:
    """Return the tokens of the captions of each image."""
    tokens = iter(ptb_captions([text for texts in references for text in texts]))
    return [[next(tokens) for _ in texts] for texts in references]


# BLEU, ROUGE-L and CIDEr-D agree with pycocoevalcap to rounding.

Ngram = tuple[str, ...]
Tokens = Sequence[str]

MAX_N = 4
ROUGE_BETA = 1.2
CIDER_SIGMA = 6.0
# pycocoevalcap's guards against division by zero; they affect the eighth digit of a perfect score.
_TINY, _SMALL = 1e-15, 1e-9
TOKENIZERS = ("whitespace", "ptb")
"""Caption tokenizers: split at white space (VLMEvalKit), or Penn Treebank as in COCO's evaluation."""


def score_captions(
    predictions: Sequence[object], references: Sequence[Sequence[object]], tokenizer: str = "whitespace"
) -> dict[str, float]:
    """Score one predicted caption per image against its reference captions, times 100 as VLMEvalKit reports.

    `whitespace` keeps case and punctuation, like VLMEvalKit; `ptb` lower-cases and tokenises like COCO's evaluation.
    CIDEr weighs words by their frequency across images, so it is 0 for a single image.
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


def ngrams(tokens: Tokens, n: int) -> Counter[Ngram]:
    """Count the runs of n tokens."""
    return Counter(zip(*(tokens[i:] for i in range(n)), strict=False))


def bleu(hypotheses: Sequence[Tokens], references: Sequence[Sequence[Tokens]]) -> list[float]:
    """Return corpus BLEU-1 to BLEU-4: counts clipped by the most generous reference, closest reference length."""
    guessed, correct = [0] * MAX_N, [0] * MAX_N
    for hypothesis, truths in zip(hypotheses, references, strict=True):
        for n in range(MAX_N):
            counts, allowed = ngrams(hypothesis, n + 1), Counter[Ngram]()
            for truth in truths:
                allowed |= ngrams(truth, n + 1)
            guessed[n] += counts.total()
            correct[n] += (counts & allowed).total()
    length = sum(map(len, hypotheses))
    wanted = sum(
        min((abs(len(truth) - len(words)), len(truth)) for truth in truths)[1]
        for words, truths in zip(hypotheses, references, strict=True)
    )
    ratio = (length + _TINY) / (wanted + _SMALL)
    brevity = math.exp(1 - 1 / ratio) if ratio < 1 else 1.0
    precisions = [(hit + _TINY) / (total + _SMALL) for hit, total in zip(correct, guessed, strict=True)]
    return [math.prod(precisions[: n + 1]) ** (1 / (n + 1)) * brevity for n in range(MAX_N)]


def rouge_l(hypothesis: str, references: Sequence[str]) -> float:
    """Return ROUGE-L of one caption: the best precision and the best recall over the references, beta 1.2.

    Words are split at single spaces, as in pycocoevalcap, so a double space yields an empty word.
    """
    words = hypothesis.split(" ")
    splits = [reference.split(" ") for reference in references]
    common = [common_length(words, truth) for truth in splits]
    precision = max(common) / len(words)
    recall = max(length / len(truth) for length, truth in zip(common, splits, strict=True))
    if not precision or not recall:
        return 0.0
    return (1 + ROUGE_BETA**2) * precision * recall / (recall + ROUGE_BETA**2 * precision)


def common_length(first: Tokens, second: Tokens) -> int:
    """Return the length of the longest common subsequence, bit-parallel: one integer per table row (Hyyro, 2004)."""
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
        seen.update({ngram for truth in truths for n in range(MAX_N) for ngram in ngrams(truth, n + 1)})
    images = math.log(len(references))

    def weigh(tokens: Tokens) -> list[dict[Ngram, float]]:
        return [
            {ngram: count * (images - math.log(max(1, seen[ngram]))) for ngram, count in ngrams(tokens, n + 1).items()}
            for n in range(MAX_N)
        ]

    scores = []
    for hypothesis, truths in zip(hypotheses, references, strict=True):
        own = weigh(hypothesis)
        likes = []
        for truth in truths:
            longer = max(1, len(hypothesis)) - max(1, len(truth))  # in bigrams
            cosines = []
            for mine, true in zip(own, weigh(truth), strict=True):
                shared = math.fsum(min(mine[ngram], true[ngram]) * true[ngram] for ngram in mine.keys() & true.keys())
                norms = math.hypot(*mine.values()) * math.hypot(*true.values())
                cosines.append(shared / norms if norms else shared)
            likes.append(fmean(cosines) * math.exp(-(longer**2) / (2 * CIDER_SIGMA**2)))
        scores.append(10 * math.fsum(likes) / len(truths))
    return scores


def why_not() -> str:
    """Name the missing dependency of METEOR and SPICE; "" if both are available."""
    if find_spec("pycocoevalcap") is None:
        return "pycocoevalcap is not installed"
    return "" if shutil.which("java") else "Java is not installed"


def score_with_java(
    predictions: Sequence[str], references: Sequence[Sequence[str]]
) -> tuple[dict[str, float], list[str]]:
    """Return METEOR and SPICE as fractions, and the reasons why one of them could not be computed.

    Their jars are part of pycocoevalcap; SPICE also downloads a parser on first use, so it may fail offline.
    """
    from pycocoevalcap.meteor.meteor import Meteor
    from pycocoevalcap.spice.spice import Spice

    results = {i: [" ".join(tokens)] for i, tokens in enumerate(ptb_captions(predictions))}
    truths = {i: [" ".join(tokens) for tokens in texts] for i, texts in enumerate(ptb_references(references))}
    scores: dict[str, float] = {}
    problems: list[str] = []
    for name, make in (("METEOR", Meteor), ("SPICE", Spice)):
        scorer = None
        try:
            scorer = make()
            scores[name] = float(scorer.compute_score(truths, results)[0])
        except Exception as error:  # noqa: BLE001 - a Java program failed somewhere inside a third party's wrapper
            problems.append(f"{name}: {error!r}"[:200])
        finally:
            process = getattr(scorer, "meteor_p", None)
            if process is not None:  # METEOR leaves it running; its context manager closes the pipes
                with process:
                    process.kill()
    return scores, problems
