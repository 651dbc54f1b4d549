"""Reading the chosen option out of an answer by VLMEvalKit's rules (the extractor named `vlmeval`)."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice

from eyechart.metrics.cells import LETTERS, as_text, is_missing

FAILED = "Failed to obtain answer via API"
"""What VLMEvalKit writes in place of an answer when the request failed."""
CHAT_FAILED = "Chat Mode: Failed with all possible conversation turns."
"""The same where a conversation failed, however short it was cut."""

REFUSALS = (
    "Sorry, I can't help with images of people yet.",
    "I can't process this file.",
    "I'm sorry, but without the image provided",
    "Cannot determine the answer",
)
NO_OPTION = "Z"
"""The letter for an answer that chooses none of the options."""

_TO_SPACE = str.maketrans(dict.fromkeys(".()[],:;!*#{}", " "))
_TAIL = 4
# The original looks for A to D only, also inside a word: "the answer is a dog" chooses A.
_ANSWER_IS = re.compile(r"answer\s+is\s+\**([ABCD])", re.IGNORECASE)


@dataclass(frozen=True)
class Extraction:
    """The option read from an answer (a letter, "Z" for none of them, or None) and the rule that decided."""

    choice: str | None
    rule: str


UNDECIDED = Extraction(None, "undecided")


def clean_options(choices: Mapping[str, object]) -> dict[str, str]:
    """Return the options as text, without the missing ones."""
    return {letter: as_text(text) for letter, text in choices.items() if not is_missing(text)}


def extract_vlmeval(answer: object, choices: Mapping[str, object]) -> Extraction:
    """Read the chosen option as VLMEvalKit's `can_infer` does.

    The rules in order: a refusal phrase; exactly one option letter as a word, among the last four words;
    "answer is X"; exactly one option's text inside the answer. Unlike the original, a missing answer
    chooses nothing.
    """
    if is_missing(answer):
        return Extraction(None, "missing")
    text, options = as_text(answer), clean_options(choices)
    return choice_by_letter(text, options) or choice_by_text(text, options)


def choice_by_letter(text: str, options: Mapping[str, str]) -> Extraction | None:
    """Read a letter or a refusal (VLMEvalKit's `can_infer_option`); None when other words must decide."""
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

    Phrases that introduce an answer are dropped first; a lone small letter counts. Unlike the original, an
    empty answer chooses nothing (there it chooses A).
    """
    text = as_text(answer).strip()
    for phrase in ("The best answer is", "The correct answer is", "The answer is", "The answer"):
        text = text.replace(phrase, "")
    capital = re.search("[A-E]", text)
    if capital:
        return capital[0]
    small = re.fullmatch(r"\(?([a-e])\)?", text)
    return small[1].upper() if small else ""


def final_answer_line(answer: object) -> str:
    """Return what the last line starting with "Answer:" says (MMMU-Pro with chain of thought).

    The letter alone when the line holds exactly one capital, else the rest of that line; without such a
    line the whole answer.
    """
    text = as_text(answer)
    lines = [line.strip() for line in text.strip().split("\n")]
    tails = [line.removeprefix("Answer:").strip() for line in lines if line.startswith("Answer:")]
    if not tails:
        return text
    capitals = set(tails[-1]) & set(LETTERS)
    return capitals.pop() if len(capitals) == 1 else tails[-1]


_LONE_LETTER = re.compile(r"[\W_]*([A-Za-z])[\W_]*")


def key_letter(answer: str, options: Mapping[str, str]) -> str | None:
    """Return the option that a key names: A, a, (A), "A. cat" or cat; None if it names none, or two."""
    if answer in options:
        return answer
    wanted = answer.strip().casefold()
    lone = _LONE_LETTER.fullmatch(answer)
    found = {letter for letter, text in options.items() if text.strip().casefold() == wanted and wanted}
    found |= {lone[1].upper()} & options.keys() if lone else set()
    found |= {letter for letter, text in options.items() if _labels(answer.strip(), letter, text)}
    return found.pop() if len(found) == 1 else None


def _labels(key: str, letter: str, text: str) -> bool:
    """Tell whether a key is an option with its letter before it: "(A) cat", "A. cat"."""
    label = re.match(rf"\(?{letter}[).:]\s*", key)
    return bool(label and text) and key[label.end() if label else 0 :].strip() == text.strip()
