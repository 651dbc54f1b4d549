r"""Reading the chosen option as single benchmarks of VLMEvalKit do, each by its own rule.

A rule takes the answer's text, the options by letter and the row, and returns what was chosen (one letter, several in
order, or the right answer itself where the rule looks for it in the text) or None. Where the original then guesses, or
takes an empty text for A, nothing is chosen here.
"""

import re
from collections.abc import Callable, Iterable, Mapping

from eyechart.metrics.cells import LETTERS, Row, as_text, literal_list
from eyechart.metrics.texts.blind import vlmblind
from eyechart.metrics.texts.choices import (
    choice_by_text,
    extract_first_letter,
    extract_sequence,
    extract_vlmeval,
    final_answer_line,
)
from eyechart.metrics.texts.spatial import spatial_letter

Options = Mapping[str, str]
Reader = Callable[[str, Options, Row], str | None]

_TAGGED = re.compile(r"<answer>(.*?)</answer>", re.DOTALL)
_BOXED_LETTER = re.compile(r"\\boxed\{\s{0,9}([A-Z])\s{0,9}\}")
_ANSWER_LINE = re.compile(r"\banswer\s*:\s*([A-Z])\b", re.IGNORECASE)
_PHRASES = ("The best answer is", "The correct answer is", "The answer is", "The answer")


def vlmeval(text: str, options: Options, row: Row) -> str | None:  # noqa: ARG001 - as all readers
    """Read the letter by the general rules."""
    return extract_vlmeval(text, options).choice


def first_letter(text: str, options: Options, row: Row) -> str | None:  # noqa: ARG001 - as all readers
    """Take the first capital A to E, of what stands in answer tags if there are such (MME-RealWorld, TreeBench)."""
    tagged = _TAGGED.search(text)
    return extract_first_letter(tagged[1].strip().upper() if tagged else text) or None


def letter_set(text: str, options: Options, row: Row, last: str = "E") -> str | None:  # noqa: ARG001 - as all readers
    """Take all letters in brackets, else all letters up to the last option, also inside words (XLRS-Bench)."""
    letters = LETTERS[: LETTERS.index(last) + 1]
    for phrase in _PHRASES:
        text = text.replace(phrase, "")
    if not set(text) & set(letters):
        return None
    every = f"{letters}{letters.lower()}"
    found = re.findall(rf"\(([{every}])\)", text) or [letter for letter in text if letter in every]
    return in_order("".join(found).upper())


def in_order(letters: Iterable[str]) -> str:
    """Return letters once each, in the order of the alphabet."""
    return "".join(sorted(set(letters)))


def last_letter(text: str, options: Options, row: Row) -> str | None:  # noqa: ARG001 - as all readers
    """Take the last boxed letter, else the last in brackets, else the last word that is one of A to G (SIUO)."""
    words = re.findall(r"\b[A-G]\b", text.upper())
    found = _BOXED_LETTER.findall(text) or re.findall(r"\(([A-Z])\)", text) or words
    return found[-1] if found else None


def answer_line(text: str, options: Options, row: Row) -> str | None:  # noqa: ARG001 - as all readers
    """Take the letter after the last "Answer:" (VisualPuzzles, PuzzleVQA)."""
    found = _ANSWER_LINE.findall(text)
    return found[-1].upper() if found else None


def boxed_letter(text: str, options: Options, row: Row) -> str | None:  # noqa: ARG001 - as all readers
    """Take the first boxed letter, also a small one (SGI-Bench)."""
    found = re.search(r"\\boxed\{([A-Za-z])\}", text)
    return found[1].upper() if found else None


_BOX_ENDS = re.compile(r"\\boxed\{|[^\\]\}")
_LATEX = re.compile(r"\\text\{|\\rm\{|\\mathbf\{|\$|\}")
_STATED = (
    "answer:",
    "the final answer is:",
    "the answer is option:",
    "the answer is:",
    "the correct answer is option:",
    "the correct answer is:",
    "the answer should be:",
    "the final answer is",
    "the answer is option",
    "the answer is",
    "the correct answer is option",
    "the correct answer is",
    "the answer should be",
)


def boxed_or_stated(text: str, options: Options, row: Row) -> str | None:  # noqa: ARG001 - as all readers
    """Take the last box with one of A to D, else a letter at either end, else the one that a sentence states."""
    boxed = _last_box(text)
    if boxed.strip() in {*"ABCD"}:
        return boxed.strip()
    text = text.replace("<|endoftext|>", "")
    for letter in "ABCD":
        if text.endswith((f" {letter}.", f" ({letter}).")) or text.startswith(
            (f"{letter}\n", f"({letter})\n", f"({letter}) {letter}\n")
        ):
            return letter
    lowered = text.lower()
    for phrase in _STATED:
        if phrase in lowered:
            lowered = lowered.rpartition(phrase)[2].strip().partition("\n")[0].partition(".")[0]
            if lowered.upper() in {*"ABCD"}:
                return lowered.upper()
    return None


def _last_box(text: str) -> str:
    """Return what the last outer box holds, if that is short; else the text."""
    if len(text) < 3:
        return text
    starts, content = list[int](), ""
    for end in _BOX_ENDS.finditer(text):
        if end[0].endswith("{"):
            starts.append(end.end())
        elif starts:
            start = starts.pop()
            content = text[start : end.start() + 1] if not starts else content
    content = _LATEX.sub("", content)
    return content if content and "or" not in content and len(content) <= 2 else text


def labelled(text: str, options: Options, row: Row) -> str | None:  # noqa: ARG001 - as all readers
    """Take the last option named as (A) or "A. ", else as a word, else by its text in a longer answer (VMCBench)."""
    text = f" {_bare(text)} "
    named = [letter for letter in options if f"({letter})" in text or f"{letter}. " in text]
    places = {letter: text.rfind(f"({letter})") for letter in named}
    if not named:
        places = {letter: text.rfind(f" {letter} ") for letter in options if f" {letter} " in text}
    if not places and len(text.split()) > 5:
        lowered = text.lower()
        places = {
            letter: lowered.rfind(option.lower()) for letter, option in options.items() if option.lower() in lowered
        }
    return max(places, key=lambda letter: places[letter]) if places else None


def first_labelled(text: str, options: Options, row: Row) -> str | None:  # noqa: ARG001 - as all readers
    """Take the first option named as (A), else as a word, else by its text (MMOral)."""
    text = f" {_bare(text)} "
    named = [letter for letter in options if f"({letter})" in text]
    named = named or [letter for letter in options if any(f" {letter}{end}" in text for end in " .,")]
    named = named or [letter for letter, option in options.items() if option in text]
    places = {letter: _first_place(text, f" {letter} ", f"({letter})", options[letter]) for letter in named}
    found = {letter: place for letter, place in places.items() if place >= 0}
    return min(found, key=lambda letter: found[letter]) if found else None


def _first_place(text: str, *forms: str) -> int:
    return next((place for form in forms if (place := text.find(form)) >= 0), -1)


def _bare(text: str) -> str:
    for mark in ",.!?;:'":
        text = text.strip(mark)
    return text


def stated_letter(text: str, options: Options, row: Row, letters: str = "ABCDE") -> str | None:  # noqa: ARG001 - as all
    """Take a lone letter, one at the start, after "answer is" or "option", else the first that stands alone (MedQ)."""
    text = text.strip().upper()
    rules = (
        rf"([{letters}])(?:[.)\s].*)?",
        rf".*?(?:ANSWER\s{{1,9}}IS\s{{1,9}}|OPTION\s{{1,9}})([{letters}])(?![A-Z]).*",
        rf"([{letters}])\s{{0,9}}[-:].*",
        rf"(?:.*?[^A-Z])?([{letters}])(?:[^A-Z].*)?",
    )
    found = (re.fullmatch(rule, text, re.DOTALL) for rule in rules)
    return next((match[1] for match in found if match), None)


def after_answer(text: str, options: Options, row: Row) -> str | None:  # noqa: ARG001 - as all readers
    """Take the letter that follows the last word "Answer", whatever marks stand around it (WeMath)."""
    said = re.sub(r"[<>:.]", "", text.rpartition("Answer")[2].strip()).strip()
    return said[0] if said[:1] in {*"ABCDEFGH"} else None


def answer_last_line(text: str, options: Options, row: Row) -> str | None:
    """Read the line "Answer: ..." by the general rules (MMMU-Pro with reasoning)."""
    return vlmeval(final_answer_line(text), options, row)


def letter_or_order(text: str, options: Options, row: Row) -> str | None:
    """Read an order of all options where one is asked for, else a letter (LEGO-Puzzles)."""
    if as_text(row.get("question_type")) != "sort":
        return vlmeval(text, options, row)
    return extract_sequence(text) or choice_by_text(text, options).choice


def first_character(text: str, options: Options, row: Row) -> str | None:  # noqa: ARG001 - as all readers
    """Take a letter in brackets at the start, else a capital that the answer starts with (M4Bench)."""
    found = re.match(r"\s*\(([A-Z])\)|([A-Z])", text)
    return (found[1] or found[2]) if found else None


def listed(text: str, options: Options, row: Row) -> str | None:  # noqa: ARG001 - as all readers
    """Read a list of letters: ['A', 'C'] (A4Bench)."""
    values = literal_list(text)
    return in_order(map(as_text, values)) if values else None


READERS: dict[str, Reader] = {
    "vlmeval": vlmeval,
    "first_letter": first_letter,
    "letter_set": letter_set,
    "letter_set_to_g": lambda text, options, row: letter_set(text, options, row, "G"),
    "last_letter": last_letter,
    "answer_line": answer_line,
    "answer_last_line": answer_last_line,
    "boxed_letter": boxed_letter,
    "boxed_or_stated": boxed_or_stated,
    "labelled": labelled,
    "first_labelled": first_labelled,
    "stated_letter": stated_letter,
    "stated_letter_to_d": lambda text, options, row: stated_letter(text, options, row, "ABCD"),
    "after_answer": after_answer,
    "letter_or_order": letter_or_order,
    "first_character": first_character,
    "listed": listed,
    "vlmblind": vlmblind,
    "spatial": lambda text, options, row: spatial_letter(text),  # noqa: ARG005 - as all readers
}
"""Rules by the name that the catalogue gives."""
