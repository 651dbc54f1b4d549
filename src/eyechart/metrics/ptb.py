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

DROPPED = frozenset({"''", "'", "``", "`", ".", "?", "!", ",", ":", "-", "--", "...", ";"})
"""The marks that COCO's evaluation removes; -LRB- and the like are on its list too but are lower case by then."""

_ABBREVIATIONS = (
    "Mr|Mrs|Ms|Dr|Prof|St|Jr|Sr|vs|etc|e\\.g|i\\.e|a\\.m|p\\.m|ft|Co|Corp|Inc|Ltd|Bros|Ave|Blvd|Rd|Mt|Capt|Col|Gen|Gov"
    "|Lt|Maj|Pres|Rep|Rev|Sen|Sgt|Adm|Cmdr|Hon|Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sept?|Oct|Nov|Dec|Ph\\.D"
)
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

# Tried in this order. No two unbounded parts can share characters, so time stays linear.
_TOKEN = re.compile(
    rf"""
      https?://[^\s"<>()]+[^\s"<>().,;:!?'] | [\w.+-]{{1,64}}@[\w-]+(?:\.[\w-]+)+
    | </?[A-Za-z][^<>\s]{{0,40}}>
    | (?:{_ABBREVIATIONS})\.(?=\s|$|[,;:?!)])  | No\.(?=\s*\d)
    | (?:[a-z]\.){{2,}} | [a-z]\.(?=\s|$)
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


def ptb_tokens(text: str) -> list[str]:
    """Return the lower-case tokens of a caption without the punctuation that COCO's evaluation drops."""
    quotes = text.translate({0x2018: "`", 0x2019: "'", 0x201C: '"', 0x201D: '"'})
    found = (_named(token.lower()) for token in _TOKEN.findall(quotes))
    return [word for token in found for word in token.split(" ") if word not in DROPPED and word != '"']


def ptb_text(text: str) -> str:
    """Return the `ptb_tokens` of a caption between single spaces."""
    return " ".join(ptb_tokens(text))


def _named(token: str) -> str:
    if token in {"---", "----"}:
        return "--"
    if set(token) <= {"."} and len(token) > 2:
        return "..."
    return _RENAMED.get(token) or _SPLIT_WORDS.get(token) or token
