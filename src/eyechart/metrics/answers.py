# ruff: noqa: RUF001 - this module unifies look-alike quotes and dashes
"""Reading and comparing the answers of generative models: options, yes or no, VQA accuracy, ANLS, answers about tables.

Each function agrees with VLMEvalKit unless its docstring states otherwise. None of them evaluates text or raises on any
text, and all run in roughly linear time.
"""

import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean

from eyechart.metrics.cell_values import SMALL, as_text, finite_number, text_list
from eyechart.metrics.choices import Extraction, extract_strict, extract_vlmeval, tagged_answer

Extractor = Callable[[object, Mapping[str, object]], Extraction]

EXTRACTORS: dict[str, Extractor] = {"vlmeval": extract_vlmeval, "strict": extract_strict}
"""Readers of the chosen option, by name."""


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
    text = tagged_answer(text) or text
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


_PUNCTUATION = ';/[]"{}()=+\\_-><@`,?!'
_LONE_PERIOD = re.compile(r"(?<!\d)\.(?!\d)")
# At most this many periods are removed: the original passes a regex flag (of value 32) as the count.
_MAX_PERIODS = 32

_NUMBER_WORDS = {word: str(number) for number, word in enumerate(SMALL[:11])} | {"none": "0"}
_ARTICLES = frozenset({"a", "an", "the"})

# Contractions that are repaired when exactly one of their apostrophes is missing. Words whose bare form is another word
# (she'd, we'd, he'll, I'll ...) are not in the challenge's table.
_CONTRACTIONS = (
    "ain't aren't can't could've couldn't couldn't've didn't doesn't don't hadn't hadn't've hasn't "
    "haven't he'd he'd've he's how'd how'll how's isn't it'd it'd've it'll ma'am might've mightn't "
    "mightn't've must've mustn't needn't not've o'clock oughtn't 'ow's'at shan't she'd've should've "
    "shouldn't shouldn't've somebody'd've somebody'll somebody's someone'd someone'd've someone'll "
    "someone's something'd something'd've something'll that's there'd there'd've there're there's "
    "they'd they'd've they'll they're they've 'twas wasn't we'd've we've weren't what'll what're what's "
    "what've when's where'd where's where've who'd who'd've who'll who's who've why'll why're why's "
    "won't would've wouldn't wouldn't've y'all y'all'll y'all'd've you'd you'd've you'll you're you've "
)
# The last entry is reversed in the published table; scores are compared with it, so it stays.
_REPAIRS = {
    word[:i] + word[i + 1 :]: word for word in _CONTRACTIONS.split() for i, letter in enumerate(word) if letter == "'"
} | {"somebody'd": "somebodyd"}


def clean_punctuation(text: object) -> str:
    """Remove punctuation the VQA way.

    A mark is deleted if it touches a space anywhere in the text, or if the text holds a number like 1,000; otherwise it
    becomes a space. Periods that touch no digit are deleted. Agrees with VLMEvalKit's `process_punctuation`.
    """
    source = as_text(text)
    has_number_comma = re.search(r"\d,\d", source) is not None
    table = {
        ord(mark): "" if has_number_comma or f"{mark} " in source or f" {mark}" in source else " "
        for mark in _PUNCTUATION
    }
    return _LONE_PERIOD.sub("", source.translate(table), count=_MAX_PERIODS)


def clean_digits_and_articles(text: object) -> str:
    """Lower-case, write numbers up to ten as digits, drop articles, repair contractions, join with single spaces.

    Agrees with VLMEvalKit's `_process_digit_article`.
    """
    words = (_NUMBER_WORDS.get(word, word) for word in as_text(text).lower().split())
    return " ".join(_REPAIRS.get(word, word) for word in words if word not in _ARTICLES)


def vqa_normalize(text: object) -> str:
    """Normalise an answer for comparison, like VLMEvalKit's `process_answer` (TextVQA, VizWiz)."""
    flat = as_text(text).replace("\n", " ").replace("\t", " ").strip()
    return clean_digits_and_articles(clean_punctuation(flat))


RELAXED_TOLERANCE = 0.05
_NEGATIVE = re.compile(r"- ?\.?\d")


def edit_distance(first: Sequence[str], second: Sequence[str]) -> int:
    """Return the Levenshtein distance, by Myers' bit-parallel algorithm: one integer per table column."""
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


def likeness(first: str, second: str) -> float:
    """Return 1 minus the edit distance relative to the longer text."""
    longest = max(len(first), len(second))
    return 1 - edit_distance(first, second) / longest if longest else 1.0


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
    """Compare like ChartQA: numbers within 5 % of the target, anything else equal up to case.

    A trailing % divides by 100; "1,000" and "$5" are not numbers. A target of zero has no 5 %, so it is compared as
    text. Agrees with VLMEvalKit's `relaxed_correctness`, except that "nan" and "inf" are texts here.
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
    """Return min(1, others who agree / 3) for each annotator (VLMEvalKit's `vqa_score`); 0 for a single one."""
    wanted = vqa_normalize(prediction)
    same = [vqa_normalize(answer) == wanted for answer in answers]
    return [min(1.0, (sum(same) - own) / 3) for own in same]


def _normalized(text: str) -> tuple[bool, str]:
    """Normalise like VQA, but keep the sign of a number, and a text that would become empty ("A", "?")."""
    return bool(_NEGATIVE.match(_flat(text))), vqa_normalize(text) or _flat(text)


Compare = Callable[[str, Sequence[str]], list[float]]


def _each(compare: Callable[[str, str], float]) -> Compare:
    return lambda prediction, answers: [float(compare(prediction, answer)) for answer in answers]


_EQUAL = _each(lambda said, answer: said.strip().lower() == answer.strip().lower())


OPEN_METRICS: dict[str, tuple[Compare, Callable[[Sequence[float]], float]]] = {
    "vqa_score": (_vqa_matches, fmean),  # TextVQA, VizWiz
    "anls": (
        _each(anls_distance),
        lambda distances: best if (best := 1 - min(distances)) >= 0.5 else 0.0,
    ),  # DocVQA, InfoVQA
    "relaxed_accuracy": (_each(lambda said, answer: relaxed_match(said.strip(), answer)), max),  # ChartQA
    "accuracy": (_EQUAL, max),  # OCRVQA
    "mean_accuracy": (_EQUAL, fmean),  # GQA
    "normalized_exact": (_each(lambda said, answer: _normalized(said) == _normalized(answer)), max),
}
"""Metrics for open questions, by name: how each answer is compared, and how the results become one score."""


def open_matches(prediction: object, answers: object, metric: str) -> list[float]:
    """Compare a prediction with each answer (a list, its literal or one text); `anls` gives distances."""
    return OPEN_METRICS[metric][0](as_text(prediction), text_list(answers))


def open_score(prediction: object, answers: object, metric: str) -> float:
    """Score a prediction against its answers (a list, its literal or one text) by one of `OPEN_METRICS`."""
    matches = open_matches(prediction, answers, metric)
    if not matches:
        raise ValueError("there is no reference answer to compare with: this row cannot be scored")
    return OPEN_METRICS[metric][1](matches)


# Comparison of answers about tables, like TableVQABench: numbers with units, statements, lists of values and dates.

_UNIT_WORDS = r"\b(?:dollar|gallons|square feet|shares|mbtu|mbpd|mbbls|mmbtu|unit|gwh|year|mmcf|mile|mboe)s?\b"
_SCALES = {r" ?\bthousand\b": "e3", r" ?\bmillion\b": "e6", r" ?\bbillion\b": "e9", r" ?%": "e-2"}
_FOOTNOTES = re.compile(r"((?<!^)\[[^\]]*\]|\[\d+\]|[•♦†‡*#+])*$")
_REMARKS = re.compile(r"(?<!^)( \([^)]*\))*$")


def plain_cell(text: str) -> str:
    """Return a cell's text without accents, footnotes, parenthesised remarks, quotes, final full stop and capitals."""
    found = "".join(c for c in unicodedata.normalize("NFKD", text) if unicodedata.category(c) != "Mn")
    found = re.sub(r"[‐‑‒–—−]", "-", re.sub(r"[“”]", '"', re.sub(r"[‘’´`]", "'", found)))
    before = None
    while before != found:
        before = found
        found = _REMARKS.sub("", _FOOTNOTES.sub("", found.strip()).strip())
        found = re.sub(r'^"([^"]*)"$', r"\1", found.strip())
    found = found.removesuffix(".")
    return " ".join(found.lower().split())


def amounts(text: str) -> tuple[float | str, float | str]:
    """Return a text as a number with its unit applied (3 million, 12 %), and without; other texts stay texts."""
    plain = re.sub(r"[$(),]", "", plain_cell(text))
    plain = re.sub(_UNIT_WORDS, "", plain, flags=re.IGNORECASE)
    scaled = bare = plain
    for pattern, power in _SCALES.items():
        scaled, bare = re.sub(pattern, power, scaled), re.sub(pattern, "", bare)
    try:
        return float(scaled), float(bare)
    except ValueError:
        return scaled, bare


def same_amount(answer: str, target: str) -> tuple[bool, bool]:
    """Whether two amounts agree with or without their units, and whether they agree with them."""
    said, wanted = amounts(answer), amounts(target)
    return any(a == b for a in said for b in wanted), said[0] == wanted[0]


def same_statement(answer: str, target: str) -> bool:
    """Whether an answer contains "true" for 1 or "false" for 0, but not both."""
    said = answer.lower()
    wanted = {"1": "true", "0": "false"}.get(target.strip(), "")
    return bool(wanted) and wanted in said and not ("true" in said and "false" in said)


CellValue = tuple[str, float | tuple[int, int, int] | None]
"""The text of a cell, and its value as a number or date."""


def _date(text: str) -> float | tuple[int, int, int] | None:
    """Read a date such as 2000-06-01 (xx for unknown parts); a year alone is a number."""
    parts = text.lower().split("-")
    if len(parts) != 3:
        return None
    try:
        year = -1 if parts[0] in {"xx", "xxxx"} else int(parts[0])
        month, day = (-1 if part == "xx" else int(part) for part in parts[1:])
    except ValueError:
        return None
    if year == month == day == -1 or not (month == -1 or 1 <= month <= 12) or not (day == -1 or 1 <= day <= 31):
        return None
    return float(year) if month == day == -1 else (year, month, day)


def same_values(answer: str, target: str) -> bool:
    """Whether two lists separated by bars hold the same values, in any order."""
    said, wanted = _values(answer.replace("||", "|")), _values(target)
    return len(said) == len(wanted) and all(any(_same_cell(cell, other) for other in said) for cell in wanted)


def _same_cell(cell: CellValue, other: CellValue) -> bool:
    (text, value), (other_text, other_value) = cell, other
    if isinstance(value, float) and isinstance(other_value, float):
        return text == other_text or abs(value - other_value) < 1e-6
    return text == other_text or (value is not None and value == other_value)


def _values(text: str) -> list[CellValue]:
    """Read each cell as a number, else as a date, else as a text; equal values count once."""
    distinct: dict[object, CellValue] = {}
    for part in text.split("|"):
        cell = part.replace(r"\n", "\n").replace(r"\p", "|").replace("\\\\", "\\")
        number, plain = finite_number(cell), plain_cell(cell)
        value = number if number is not None else _date(cell)
        key = plain if value is None else round(value, 6) if isinstance(value, float) else value
        distinct.setdefault(key, (plain, value))
    return list(distinct.values())
