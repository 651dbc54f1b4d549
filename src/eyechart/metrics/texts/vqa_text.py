"""Text normalisation of the VQA challenge as VLMEvalKit applies it, agreed with it case by case."""

import re

from eyechart.metrics.cells import as_text

_PUNCTUATION = ';/[]"{}()=+\\_-><@`,?!'
_COMMA_IN_NUMBER = re.compile(r"\d,\d")
_LONE_PERIOD = re.compile(r"(?<!\d)\.(?!\d)")
# Only so many periods go: the original passes a regex flag (of value 32) where the count belongs.
_MAX_PERIODS = 32

_NUMBERS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_NUMBER_WORDS = {word: str(number) for number, word in enumerate(_NUMBERS)} | {"none": "0"}
_ARTICLES = frozenset({"a", "an", "the"})

# Every contraction that is repaired when exactly one of its apostrophes was left out. Words whose bare form
# is another word (she'd, we'd, he'll, I'll ...) are not in the challenge's table.
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


def _without_one_apostrophe(word: str) -> list[str]:
    return [word[:i] + word[i + 1 :] for i, letter in enumerate(word) if letter == "'"]


# The last entry runs the other way in the published table; answers are compared with it, so it stays.
_REPAIRS = {bare: word for word in _CONTRACTIONS.split() for bare in _without_one_apostrophe(word)} | {
    "somebody'd": "somebodyd"
}


def clean_punctuation(text: object) -> str:
    """Remove punctuation the VQA way.

    A mark is deleted where it touches a space anywhere in the text, or when the text holds a number like
    1,000; otherwise it becomes a space. Periods away from digits are deleted. Agrees with VLMEvalKit's
    `process_punctuation`.
    """
    source = as_text(text)
    has_number_comma = _COMMA_IN_NUMBER.search(source) is not None
    table = {
        ord(mark): "" if has_number_comma or f"{mark} " in source or f" {mark}" in source else " "
        for mark in _PUNCTUATION
    }
    return _LONE_PERIOD.sub("", source.translate(table), count=_MAX_PERIODS)


def clean_digits_and_articles(text: object) -> str:
    """Lower-case, write numbers up to ten as digits, drop articles, repair contractions, join by one space.

    Agrees with VLMEvalKit's `_process_digit_article`.
    """
    words = (_NUMBER_WORDS.get(word, word) for word in as_text(text).lower().split())
    return " ".join(_REPAIRS.get(word, word) for word in words if word not in _ARTICLES)


def vqa_normalize(text: object) -> str:
    """Normalise an answer for comparison, as VLMEvalKit's `process_answer` does (TextVQA, VizWiz)."""
    flat = as_text(text).replace("\n", " ").replace("\t", " ").strip()
    return clean_digits_and_articles(clean_punctuation(flat))
