"""The chosen option of a multiple-choice answer: VLMEvalKit's rules, and strict ones that never guess."""

import re
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice

from eyechart.metrics.cell_values import LETTERS, as_text, is_missing

FAILED = "Failed to obtain answer via API"
"""VLMEvalKit's placeholder for the answer of a failed request."""
CHAT_FAILED = "Chat Mode: Failed with all possible conversation turns."
"""VLMEvalKit's placeholder for a conversation that failed at any length."""

REFUSALS = (
    "Sorry, I can't help with images of people yet.",
    "I can't process this file.",
    "I'm sorry, but without the image provided",
    "Cannot determine the answer",
)
NO_OPTION = "Z"
"""Letter for an answer that rejects all options."""

PHRASES = ("The best answer is", "The correct answer is", "The answer is", "The answer")
"""Introductions that are dropped before letters are searched."""
_TO_SPACE = str.maketrans(dict.fromkeys(".()[],:;!*#{}", " "))
_TAIL = 4
# The original searches for A to D only, also inside a word: "the answer is a dog" chooses A.
_ANSWER_IS = re.compile(r"answer\s+is\s+\**([ABCD])", re.IGNORECASE)


@dataclass(frozen=True)
class Extraction:
    """The option read from an answer (a letter, "Z" for none of them, or None) and the deciding rule."""

    choice: str | None
    rule: str


UNDECIDED = Extraction(None, "undecided")


def clean_options(choices: Mapping[str, object]) -> dict[str, str]:
    """Return the options as text, without the missing ones."""
    return {letter: as_text(text) for letter, text in choices.items() if not is_missing(text)}


def extract_vlmeval(answer: object, choices: Mapping[str, object]) -> Extraction:
    """Read the chosen option like VLMEvalKit's `can_infer`.

    The rules in order: a refusal phrase; exactly one option letter as a word, among the last four words; "answer is X";
    exactly one option's text inside the answer. Unlike the original, a missing answer chooses nothing.
    """
    if is_missing(answer):
        return Extraction(None, "missing")
    text, options = as_text(answer), clean_options(choices)
    return choice_by_letter(text, options) or choice_by_text(text, options)


def without_marks(text: str) -> str:
    """Strip punctuation marks from both ends, each kind once."""
    for mark in ",.!?;:'":
        text = text.strip(mark)
    return text


_TAG = re.compile(r"<(/?)answer>", re.IGNORECASE)


def tagged_answer(text: str) -> str:
    """Return the content of the last ``<answer>...</answer>``; empty if there is none."""
    content, start = "", None
    for tag in _TAG.finditer(text):
        if not tag[1]:
            start = tag.end()
        elif start is not None:
            content, start = text[start : tag.start()].strip(), None
    return content


def choice_by_letter(text: str, options: Mapping[str, str]) -> Extraction | None:
    """Read a letter or a refusal (VLMEvalKit's `can_infer_option`); None if the text must decide."""
    if FAILED in text:
        return None
    if any(phrase in text for phrase in REFUSALS):
        return Extraction(NO_OPTION, "refusal")
    words = text.translate(_TO_SPACE).split()
    named = [letter for letter in options if letter in words]
    if len(named) == 1 and words.index(named[0]) >= len(words) - _TAIL:
        return Extraction(named[0], "letter")
    if not named and NO_OPTION in words:
        return Extraction(NO_OPTION, "letter")
    statement = _ANSWER_IS.search(text)
    if statement and statement[1].upper() in options:
        return Extraction(statement[1].upper(), "answer-is")
    return None


def choice_by_text(text: str, options: Mapping[str, str]) -> Extraction:
    """Read the one option whose text occurs in an answer that is not much longer (`can_infer_text`)."""
    lowered = text.lower()
    if len(lowered) > 2 * sum(map(len, options.values())):
        return UNDECIDED
    found = [letter for letter, option in options.items() if option.lower() in lowered]
    return Extraction(found[0], "text") if len(found) == 1 else UNDECIDED


_ORDINALS = (
    "FIRST|1ST|首先|第一步",
    "SECOND|2ND|其次|第二步",
    "THIRD|3RD|再次|第三步",
    "FOURTH|4TH|最后|第四步",
)
_STEPS = r"STEP\s*[\d一二三四]+|步骤\s*[\d一二三四]+|第\s*[\d一二三四]\s*步"
_OPTION_OR_LINE_END = re.compile(r"[A-D\n]")


def extract_sequence(answer: object) -> str | None:
    """Read an order of the options A to D, such as "BACD" (VLMEvalKit's rule for LEGO sorting questions)."""
    text = as_text(answer).upper()
    word = re.search(r"\b[A-D]{4}\b", text)
    if word and len(set(word[0])) == 4:
        return word[0]
    by_ordinals = "".join(letter for names in _ORDINALS for letter in islice(_letters_after(names, text), 1))
    by_steps = "".join(islice(_letters_after(_STEPS, text), 4))
    return next((order for order in (by_ordinals, by_steps) if len(set(order)) == 4), None)


def _letters_after(names: str, text: str) -> Iterator[str]:
    """Yield the next option letter on the same line after each of the names, in one pass over the text."""
    pattern, position = re.compile(names), 0
    while (name := pattern.search(text, position)) and (stop := _OPTION_OR_LINE_END.search(text, name.end())):
        if stop[0] != "\n":
            yield stop[0]
        position = stop.end()


def extract_first_letter(answer: object) -> str:
    """Return the first capital A to E of an answer, or "" (MME-RealWorld's rule, as VLMEvalKit applies it).

    Introductory phrases are dropped first; a lone lower-case letter counts. Unlike the original, an empty answer
    chooses nothing (there it chooses A).
    """
    text = as_text(answer).strip()
    for phrase in PHRASES:
        text = text.replace(phrase, "")
    capital = re.search("[A-E]", text)
    if capital:
        return capital[0]
    small = re.fullmatch(r"\(?([a-e])\)?", text)
    return small[1].upper() if small else ""


def final_answer_line(answer: object) -> str:
    """Return the content of the last line starting with "Answer:" (MMMU-Pro with chain of thought).

    The letter alone if the line holds exactly one capital, else the rest of that line; without such a line the whole
    answer.
    """
    text = as_text(answer)
    lines = [line.strip() for line in text.strip().split("\n")]
    tails = [line.removeprefix("Answer:").strip() for line in lines if line.startswith("Answer:")]
    if not tails:
        return text
    capitals = set(tails[-1]) & set(LETTERS)
    return capitals.pop() if len(capitals) == 1 else tails[-1]


_BARE = re.compile(r"[\W_]*([A-Za-z])[\W_]*")


def key_letter(answer: str, options: Mapping[str, str]) -> str | None:
    """Return the option that an answer key names: A, a, (A), "A. cat" or cat; None if it is ambiguous or names none."""
    if answer in options:
        return answer
    wanted = answer.strip().casefold()
    lone = _BARE.fullmatch(answer)
    found = {lone[1].upper()} & options.keys() if lone else set()
    for letter, text in options.items():
        label = re.match(rf"\(?{letter}[).:]\s*", answer.strip())  # "(A) cat", "A. cat"
        labelled = bool(label and text) and answer.strip()[label.end() if label else 0 :].strip() == text.strip()
        if labelled or (wanted and text.strip().casefold() == wanted):
            found.add(letter)
    return found.pop() if len(found) == 1 else None


# The extractor `strict` prefers no answer over a guess. The rules in order: a refusal; the last `\boxed{}`; the last
# `<answer>`; only a letter; the last sentence that commits to a letter, or to exactly an option's text; a single "B.
# ..." label at the start of a line; an option's exact words. A letter inside a word, an article ("the answer is a
# dog"), a negated letter ("not B") and a choice between two letters decide nothing. Full-width letters and punctuation
# count as their plain forms.

# Quotation marks and East Asian stops that NFKC leaves unchanged.
_TYPOGRAPHY = str.maketrans("\u2018\u2019\u201c\u201d\u3002\u3001\u300c\u300d", '\'\'"".,""')
_BOXED = re.compile(r"\\boxed\s{0,9}\{([^{}]*(?:\{[^{}]*\}[^{}]*)?)\}")
_LATEX_TEXT = re.compile(r"\\(?:text|mathrm|mathbf|textbf)\s{0,9}\{([^{}]*)\}")
_LABEL = re.compile(r"^[ \t*#>(\[]{0,9}([A-Z])(?:[.):\]]|\*\*)(?=\s|$|\*|\w)", re.MULTILINE)

# A standalone capital letter, or a lower-case one that cannot be an article because nothing follows it.
_LETTER = r"[\"'(\[{*_\s:$]{0,9}(?:([A-Z])(?![A-Za-z0-9])|([a-z])(?=[\"')\]}*_.!,;\s]{0,9}(?:\n|$)))"
_COMMITMENTS = re.compile(
    r"(?:\b(?:[Aa]nswer|ANSWER|[Cc]hoice|[Oo]ption|[Ss]olution)\s{0,9}(?:is|was|would\s{1,9}be|must\s{1,9}be|:|=)"
    r"|\b[Ii]s\s{1,9}(?:therefore\s{1,9})?[Oo]ption"
    r"|\b(?:I|We|we)\s{1,9}(?:choose|chose|pick|select|would\s{1,9}choose|go\s{1,9}with)(?:\s{1,9}[Oo]ption)?"
    r"|(?:答案|选项|选择|选)\s{0,9}(?:是|为|:|应该是|应为)?)" + _LETTER
)
_VERDICT = re.compile(r"(?<![A-Za-z0-9])([A-Z])[)\]*.\"']{0,4}\s{1,9}is\s{1,9}(?:the\s{1,9})?(?:correct|right)\b")
_ALTERNATIVE = re.compile(
    r"[)\]*\"']{0,4}\s{0,9}(?:\b(?:or|and)\b|/|,|&|或|和)\s{0,9}[(\[*\"']{0,4}[A-Z](?![A-Za-z0-9])"
)
_DENIAL = re.compile(
    r"\b(?:not|no|never|neither|nor|without|isn't|aren't|wasn't|doesn't|don't|cannot|can't)\b", re.IGNORECASE
)

_STATED = re.compile(r"(?:\b[Aa]nswer\s{0,9}(?:is|:)|答案\s{0,9}(?:是|为|:))")

Options = Mapping[str, str]


def extract_strict(answer: object, choices: Mapping[str, object]) -> Extraction:
    """Read the chosen option by this module's rules, with the deciding rule."""
    if is_missing(answer):
        return Extraction(None, "missing")
    text = unicodedata.normalize("NFKC", as_text(answer)).translate(_TYPOGRAPHY)
    text = text.rpartition("</think>")[2].strip()
    if FAILED in text:
        return Extraction(None, "failed")
    if any(phrase in text for phrase in REFUSALS):
        return Extraction(NO_OPTION, "refusal")
    found = _strict_choices(text, clean_options(choices))
    return next((Extraction(choice, rule) for rule, choice in found if choice is not None), UNDECIDED)


def _strict_choices(text: str, options: Options) -> Iterator[tuple[str, str | None]]:
    """Yield the rules in order, each with the option that it reads."""
    boxes = _BOXED.findall(text)
    if boxes:
        inner = _LATEX_TEXT.sub(r"\1", boxes[-1])
        yield "boxed", _bare(inner, options) or _exact_words(inner, options)
    tagged = tagged_answer(text)
    if tagged:
        yield "tagged", next((choice for _, choice in _strict_choices(tagged, options) if choice), None)
    yield "bare", _bare(text, options)
    found = sorted([*_COMMITMENTS.finditer(text), *_VERDICT.finditer(text)], key=lambda match: match.end())
    if found and not _ALTERNATIVE.match(text, found[-1].end()):
        yield "commitment", _known(found[-1][found[-1].lastindex or 0], options)
    # "The answer is dog", if the rest of that line is exactly an option.
    stated = [match.end() for match in _STATED.finditer(text)]
    if stated:
        yield "statement", _exact_words(text[stated[-1] :].strip().partition("\n")[0], options)
    # "B. dog", if it is the only labelled line: several lines would be the repeated options.
    labels = set(_LABEL.findall(text))
    if len(labels) == 1:
        yield "label", _known(labels.pop(), options)
    yield "text", _words(text, options)


def _bare(text: str, options: Options) -> str | None:
    letter = _BARE.fullmatch(text)
    return _known(letter[1], options) if letter else None


def _words(text: str, options: Options) -> str | None:
    """Accept the only option whose words occur, whole and not negated; a longer option hides one inside it."""
    exact = _exact_words(text, options)
    if exact or len(text) > 2 * sum(map(len, options.values())):
        return exact
    # The options' own words may contain a "no".
    rest = outside = text.casefold()
    found = []
    for letter, option in sorted(options.items(), key=lambda item: -len(item[1])):
        words = option.casefold().strip()
        outside = outside.replace(words or "\0", " ")
        if words and words.isascii():
            rest, count = re.subn(rf"(?<!\w){re.escape(words)}(?!\w)", "\0", rest)
            found += [letter] * bool(count)
    return found[0] if len(found) == 1 and not _DENIAL.search(outside) else None


def _exact_words(text: str, options: Options) -> str | None:
    bare = _plain(text)
    same = [letter for letter, option in options.items() if _plain(option) == bare]
    return same[0] if bare and len(same) == 1 else None


def _plain(text: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split()).strip(" .,!*\"'`:;")


def _known(letter: str, options: Options) -> str | None:
    upper = letter.upper()
    return upper if upper in options or upper == NO_OPTION else None
