"""Penn Treebank tokens for captions, in the manner of the COCO caption evaluation, without Java.

COCO's evaluation runs Stanford's PTBTokenizer (CoreNLP 3.4.1, lower-casing) and drops punctuation marks.
This module follows its output on English captions: clitics are split (is n't, cat 's), hyphenated words and
fractions stay whole, "cannot" and "gonna" become two words, and what the evaluation forgets to drop (-lrb-,
"!!", %) stays too.

Limits: Stanford's lists of abbreviations, emoticons and file names are far longer, its quotation marks look at their
surroundings, and unusual mixes of symbols may be cut elsewhere. The captions recorded in the tests agree; of sentences
from software documentation one in a hundred differs. For text full of web addresses or code use the Java tool.
"""

import re
from collections.abc import Sequence
from itertools import pairwise

DROPPED = frozenset({"''", "'", "``", "`", ".", "?", "!", ",", ":", "-", "--", "...", ";"})
"""The marks that COCO's evaluation removes; -LRB- and the like are on its list too but are lower case by then."""

_ABBREVIATIONS = (
    "Mr|Mrs|Ms|Dr|Prof|St|Jr|Sr|vs|etc|e\\.g|i\\.e|a\\.m|p\\.m|ft|Co|Corp|Inc|Ltd|Bros|Ave|Blvd|Rd|Mt|Capt|Col|Gen|Gov"
    "|Lt|Maj|Pres|Rep|Rev|Sen|Sgt|Adm|Cmdr|Hon|Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sept?|Oct|Nov|Dec|Ph\\.D"
)
_STARTS = (
    "a|about|according|additionally|after|an|as|at|but|earlier|he|her|here|however|if|in|it|last|many|more|mr\\.|ms\\.|now"
    "|once|one|other|our|she|since|so|some|such|that|the|their|then|there|these|they|this|we|what|when|while|yet|you"
)
"""Words that, with a capital and between spaces, begin a sentence: the full stop before them is one."""
_SPLIT_WORDS = {
    "cannot": "can not",
    "dunno": "du n no",
    "gimme": "gim me",
    "gonna": "gon na",
    "gotta": "got ta",
    "lemme": "lem me",
    "wanna": "wan na",
    "'tis": "'t is",
    "'twas": "'t was",
    "more'n": "more 'n",
    "y'all": "y' all",
}
_RENAMED = {
    "(": "-lrb-",
    ")": "-rrb-",
    "[": "-lsb-",
    "]": "-rsb-",
    "{": "-lcb-",
    "}": "-rcb-",
    "\u2026": "...",
    "\u2013": "--",
    "\u2014": "--",
    "\u00a3": "#",
    "\u20ac": "$",
    "\u00bc": "1/4",
    "\u00bd": "1/2",
    "\u00be": "3/4",
}

_LONGEST_START = 20
"""Characters of the next caption that are looked at; the longest of `_STARTS` has fewer."""

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

    Args:
        text: The caption.
        following: The caption on the next line, which decides about a full stop behind a last single letter.
    """
    quotes = text.translate({0x2018: "`", 0x2019: "'", 0x201C: '"', 0x201D: '"'})
    tokens = _TOKEN.finditer(f"{quotes}\n{following.lstrip()[:_LONGEST_START]}\n")
    found = (_named(token[0].lower()) for token in tokens if token.start() < len(quotes))
    return [word for token in found for word in token.split(" ") if word not in DROPPED and word != '"']


def ptb_captions(captions: Sequence[str]) -> list[list[str]]:
    """Return the tokens of captions that follow each other, as COCO's evaluation gives them to its tokenizer."""
    return [ptb_tokens(text, following) for text, following in pairwise((*captions, ""))]


def ptb_references(references: Sequence[Sequence[str]]) -> list[list[list[str]]]:
    """Return the tokens of the captions of each image."""
    tokens = iter(ptb_captions([text for texts in references for text in texts]))
    return [[next(tokens) for _ in texts] for texts in references]


def _named(token: str) -> str:
    if token in {"---", "----"}:
        return "--"
    if set(token) <= {"."} and len(token) > 2:
        return "..."
    return _RENAMED.get(token) or _SPLIT_WORDS.get(token) or token
