"""Multiple choice: rules that extract the chosen option, often in a benchmark's own way, and compare it with the key.

`choice_rule` makes a rule from a function that takes the answer's text, the options by letter and the row, and returns
the choice (one letter, several, or the right answer itself if the function searches for it) or None. Where VLMEvalKit
guesses, or reads an empty text as A, nothing is chosen here. Options of such a rule: ``columns`` (the option columns,
if not A, B, ...), ``keys`` ("numbers": the key is a 0-based option number; "text": it is not an option) and
``close_open`` (an open question becomes a choice between its answer and any other).
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from statistics import fmean
from typing import Any, Literal

from eyechart.datasets.questions.prompt_templates import options_in
from eyechart.messages import UserMessage
from eyechart.metrics import benchmark_letters
from eyechart.metrics.answers import EXTRACTORS
from eyechart.metrics.benchmark_letters import mean_relative_accuracy, spatial_letter, spatial_number
from eyechart.metrics.cell_values import LETTERS, Row, as_text, is_missing, literal_list, options_of
from eyechart.metrics.choices import (
    FAILED,
    NO_OPTION,
    PHRASES,
    choice_by_text,
    extract_first_letter,
    extract_sequence,
    extract_vlmeval,
    final_answer_line,
    key_letter,
    without_marks,
)
from eyechart.scorers.rule import JUDGE, UNDECIDED, UNREADABLE, BoundRule, Read, Rows, RuleResult, rule
from eyechart.types import Notice

Options = Mapping[str, str]
Reader = Callable[[str, Options, Row], str | None]
Several = Literal["", "set", "order"]
"""Whether answers and keys may be several letters, and whether their order counts."""
OTHER_ANSWERS = "Other Answers"
VLMEVAL = "vlmeval"


def close_open(row: Row) -> dict[str, object]:
    """Convert a row without options to the choice A = its answer, B = "Other Answers", answer A (MMMU's convention).

    The model did not see these options, so a prediction is right if it contains the answer's text.
    """
    if not is_missing(row.get("A")):
        return dict(row)
    return {**row, "A": as_text(row.get("answer")), "B": OTHER_ANSWERS, "answer": "A"}


def _prepare(several: Several, bound: BoundRule, row: Row) -> list[dict[str, object]]:
    """Move the options to the columns A, B, ... and convert the key to a letter.

    Raise if the key of a user's table is not one of its options: no answer could be right. Published rows are kept.
    """
    columns = bound.options.get("columns", "")
    made = close_open(row) if bound.options.get("close_open") else dict(row)
    made |= options_in(made, columns) if columns else {}
    options, key = options_of(made), _key(several, bound, made)
    if not bound.benchmark.url and (key is None or not options):
        letters = ", ".join(options) or "none"
        answer = as_text(made.get("answer"))
        raise ValueError(f"the answer {answer!r} of index {row.get('index')} is none of its letters: {letters}")
    return [made if key is None else {**made, "answer": key}]


def _key(several: Several, bound: BoundRule, row: Row) -> str | None:
    """Return the key as a letter (or several), None if it is not one of the options."""
    answer, options = as_text(row.get("answer")).strip(), options_of(row)
    keys = bound.options.get("keys")
    if keys == "text" or as_text(row.get("question_type")) in bound.options.get("numeric", ()):
        return as_text(row.get("answer"))
    if keys == "numbers" and answer.isdecimal() and int(answer) < len(LETTERS):
        answer = LETTERS[int(answer)]
    if several and len(letters := re.sub(r"[^A-Z]", "", answer)) > 1:
        order = letters if several == "order" else in_order(letters)
        return order if set(order) <= set(options or LETTERS) else None
    if not options:  # they are in the question or in the image
        return key_letter(answer, dict.fromkeys(LETTERS, "")) or answer
    return key_letter(answer, options)


def _chance(several: Several, bound: BoundRule, rows: Rows) -> float | None:
    counts = [len(options_of(row)) for row in rows]
    many = several and any(len(as_text(row.get("answer"))) > 1 for row in rows)
    return fmean(1 / count for count in counts) if counts and all(counts) and not many else None


def _notices(several: Several, bound: BoundRule, rows: Rows) -> list[Notice]:
    """Count the keys of a published table that are not among the options: no answer can be right there."""
    lost = sum(bool(options_of(row)) and _key(several, bound, row) is None for row in rows)
    text = UserMessage(
        "{lost} rows have an answer key that is not one of their options: only that key itself is right.", lost=lost
    )
    return [Notice("keys_without_option", lost, text)] if lost else []


def _hooks(several: Several = "", **other: Any) -> dict[str, Any]:
    return {
        "prepare": partial(_prepare, several),
        "prepare_options": ("columns", "keys", "close_open"),
        "assume": lambda _, row, right: RuleResult(as_text(row.get("answer")) if right else None, float(right)),
        "judged": lambda _, row, verdict: _chosen(row, verdict, JUDGE),
        # The letter; Z, which is never right, if there is none.
        "columns": lambda result: {"choice": result.extracted or NO_OPTION, "hit": result.score},
        "chance": partial(_chance, several),
        "notices": partial(_notices, several),
        "judge_form": "choice",
        "aggregate": "aggregates.choices:report_acc",
        "extractors": tuple(EXTRACTORS),
        "binary": True,
    } | other


def choice_rule(several: Several = "") -> Callable[[Reader], Read]:
    """Make a rule from a function that extracts the chosen option."""

    def make(reader: Reader) -> Read:
        @rule(**_hooks(several))
        def read(row: Row, text: str, *, extractor: str = VLMEVAL) -> RuleResult:
            options = options_of(row)
            if extractor != VLMEVAL and options and not several:  # the extractor needs options
                found = EXTRACTORS[extractor](text, options)
                chosen, name = found.choice, found.rule
            else:
                chosen, name = None if FAILED in text else reader(text, options, row), reader.__name__
            return _chosen(row, chosen, name)

        read.__name__, read.__doc__ = reader.__name__, reader.__doc__
        read.reader = reader  # type: ignore[attr-defined]
        return read

    return make


def _chosen(row: Row, choice: str | None, name: str) -> RuleResult:
    score = float(choice == as_text(row.get("answer")))
    return RuleResult(choice, score, rule=UNDECIDED if choice is None else name)


@rule(**_hooks())
def letter(row: Row, text: str, *, extractor: str = VLMEVAL) -> RuleResult:
    """Extract the letter, or the text, of an option by the general rules."""
    found = EXTRACTORS[extractor](text, options_of(row))
    return _chosen(row, found.choice, found.rule)


@rule(**_hooks(binary=False, chance=lambda _bound, _rows: None))
def number_or_letter(row: Row, text: str, *, numeric: Sequence[str], extractor: str = VLMEVAL) -> RuleResult:
    """Extract a letter, or the final number of the answer for the question types in ``numeric`` (SPBench).

    Numbers are scored by closeness.
    """
    if as_text(row.get("question_type")) not in numeric:
        return spatial(row, text, extractor=extractor)
    found = spatial_number(text)
    if found is None:
        return RuleResult(None, 0.0, rule="no number")
    return RuleResult(str(found), mean_relative_accuracy(found, float(as_text(row["answer"]))), rule="number")


def _keys_in_order(bound: BoundRule, row: Row) -> list[dict[str, object]]:
    """Sort the letters of the key: "A, C" is AC."""
    return [{**row, "answer": in_order(filter(str.isalpha, as_text(row.get("answer")).upper()))}]


def _judged_letters(bound: BoundRule, row: Row, verdict: str) -> RuleResult:
    """The judge's letters; anything else is not a verdict."""
    if not (verdict.isalpha() and verdict.isupper()):
        return bound.assume(row, UNREADABLE)
    return _chosen(row, in_order(verdict), JUDGE)


@rule(**_hooks(prepare=_keys_in_order, judged=_judged_letters, judge_form="letters"))
def judged_letters(row: Row, text: str, *, extractor: str = VLMEVAL) -> RuleResult:
    """Leave the answer to the judge, which extracts one or several letters for options in the image (LogicVista)."""
    return RuleResult(None, 0.0, rule=UNDECIDED)


_TAGGED = re.compile(r"<answer>(.*?)</answer>", re.DOTALL)
_BOXED_LETTER = re.compile(r"\\boxed\{\s{0,9}([A-Z])\s{0,9}\}")
_ANSWER_LINE = re.compile(r"\banswer\s*:\s*([A-Z])\b", re.IGNORECASE)


@choice_rule()
def first_letter(text: str, options: Options, row: Row) -> str | None:
    """Take the first capital A to E, inside answer tags if there are any (MME-RealWorld, TreeBench)."""
    tagged = _TAGGED.search(text)
    return extract_first_letter(tagged[1].strip().upper() if tagged else text) or None


@choice_rule("set")
def letter_set(text: str, options: Options, row: Row) -> str | None:
    """Take all letters in brackets, else all letters up to E, also inside words (XLRS-Bench)."""
    return _letters_among("ABCDE", text)


@choice_rule("set")
def letter_set_to_g(text: str, options: Options, row: Row) -> str | None:
    """Take all letters in brackets, else all letters up to G, also inside words (OmniEarth-Bench)."""
    return _letters_among("ABCDEFG", text)


def _letters_among(letters: str, text: str) -> str | None:
    for phrase in PHRASES:
        text = text.replace(phrase, "")
    if not set(text) & set(letters):
        return None
    every = f"{letters}{letters.lower()}"
    found = re.findall(rf"\(([{every}])\)", text) or [letter for letter in text if letter in every]
    return in_order("".join(found).upper())


def in_order(letters: Iterable[str]) -> str:
    """Return letters once each, in alphabetical order."""
    return "".join(sorted(set(letters)))


@choice_rule()
def last_letter(text: str, options: Options, row: Row) -> str | None:
    """Take the last boxed letter, else the last in brackets, else the last word that is one of A to G (SIUO)."""
    words = re.findall(r"\b[A-G]\b", text.upper())
    found = _BOXED_LETTER.findall(text) or re.findall(r"\(([A-Z])\)", text) or words
    return found[-1] if found else None


@choice_rule()
def answer_line(text: str, options: Options, row: Row) -> str | None:
    """Take the letter after the last "Answer:" (VisualPuzzles, PuzzleVQA)."""
    found = _ANSWER_LINE.findall(text)
    return found[-1].upper() if found else None


@choice_rule()
def boxed_letter(text: str, options: Options, row: Row) -> str | None:
    """Take the first boxed letter, in either case (SGI-Bench)."""
    found = re.search(r"\\boxed\{([A-Za-z])\}", text)
    return found[1].upper() if found else None


_BOX_ENDS = re.compile(r"\\boxed\{|[^\\]\}")
_LATEX = re.compile(r"\\text\{|\\rm\{|\\mathbf\{|\$|\}")
_STATEMENTS = (
    "the final answer is", "the answer is option", "the answer is", "the correct answer is option",
    "the correct answer is", "the answer should be",
)  # fmt: skip
_STATED = ("answer:", *(f"{words}:" for words in _STATEMENTS), *_STATEMENTS)


@choice_rule()
def boxed_or_stated(text: str, options: Options, row: Row) -> str | None:
    """Take the last box with one of A to D, else a letter at either end, else the one stated in a sentence."""
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
    """Return the content of the last outer box, if short; else the text."""
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


@choice_rule()
def labelled(text: str, options: Options, row: Row) -> str | None:
    """Take the last option written as (A) or "A. ", else as a word, else by its text in a longer answer (VMCBench)."""
    text = f" {without_marks(text)} "
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


@choice_rule()
def first_labelled(text: str, options: Options, row: Row) -> str | None:
    """Take the first option written as (A), else as a word, else by its text (MMOral)."""
    text = f" {without_marks(text)} "
    named = [letter for letter in options if f"({letter})" in text]
    named = named or [letter for letter in options if any(f" {letter}{end}" in text for end in " .,")]
    named = named or [letter for letter, option in options.items() if option in text]
    places: dict[str, int] = {}
    for letter in named:
        form = next((form for form in (f" {letter} ", f"({letter})", options[letter]) if form in text), None)
        if form is not None:
            places[letter] = text.find(form)
    return min(places, key=lambda letter: places[letter]) if places else None


@choice_rule()
def stated_letter(text: str, options: Options, row: Row) -> str | None:
    """Take the first of A to E that is not part of a word, in either case, also the article "a" (MedQ-DEG)."""
    return _first_isolated("ABCDE", text)


@choice_rule()
def stated_letter_to_d(text: str, options: Options, row: Row) -> str | None:
    """Take the same among A to D (MedQ-Bench)."""
    return _first_isolated("ABCD", text)


def _first_isolated(letters: str, text: str) -> str | None:
    # VLMEvalKit's further rule for "answer is C" searches lower-case words in upper-case text and never applies.
    found = re.search(rf"(?<![A-Z])([{letters}])(?![A-Z])", text.strip().upper())
    return found[1] if found else None


@choice_rule()
def after_answer(text: str, options: Options, row: Row) -> str | None:
    """Take the letter after the last word "Answer", ignoring punctuation around it (WeMath)."""
    said = re.sub(r"[<>:.]", "", text.rpartition("Answer")[2].strip()).strip()
    return said[0] if said[:1] in {*"ABCDEFGH"} else None


@choice_rule()
def answer_last_line(text: str, options: Options, row: Row) -> str | None:
    """Read the line "Answer: ..." by the general rules (MMMU-Pro with reasoning)."""
    return extract_vlmeval(final_answer_line(text), options).choice


@choice_rule("order")
def letter_or_order(text: str, options: Options, row: Row) -> str | None:
    """Extract an order of all options if the question requires one, else a letter (LEGO-Puzzles)."""
    if as_text(row.get("question_type")) != "sort":
        return extract_vlmeval(text, options).choice
    return extract_sequence(text) or choice_by_text(text, options).choice


@choice_rule()
def first_character(text: str, options: Options, row: Row) -> str | None:
    """Take a letter in brackets at the start, else a leading capital (M4Bench)."""
    found = re.match(r"\s*\(([A-Z])\)|([A-Z])", text)
    return (found[1] or found[2]) if found else None


@choice_rule("set")
def listed(text: str, options: Options, row: Row) -> str | None:
    """Extract a list of letters: ['A', 'C'] (A4Bench)."""
    values = literal_list(text)
    return in_order(map(as_text, values)) if values else None


@choice_rule()
def spatial(text: str, options: Options, row: Row) -> str | None:
    """Take the letter with the extractor of the spatial benchmarks."""
    return spatial_letter(text)


vlmblind = choice_rule()(benchmark_letters.vlmblind)
