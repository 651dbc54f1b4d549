"""What a row asks, in which words: one function per form of prompt, chosen by name (`eyechart...benchmarks`)."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from eyechart.datasets.questions.messages import Item
from eyechart.datasets.questions.rows import RowTable
from eyechart.errors import DataError
from eyechart.metrics.cells import Row, as_text, is_missing, options_of, text_list

CAPTION_QUESTION = (
    "Please describe this image in general. Directly provide the description, "
    'do not include prefix like "This image depicts". '
)
PromptMaker = Callable[[Row, Sequence[Item], str], list[Any]]
"""Makes the prompt of a row from its cells and images; the text names the row in errors."""


def suffixed(row: Row, images: Sequence[Item], where: str, suffix: str = "") -> list[Any]:  # noqa: ARG001 - no error
    """Ask the images' question as it is, with a request after it."""
    return [*images, _text(as_text(row.get("question")) + suffix)]


_WANTED = {
    "yes_no": " Please answer Yes or No.",
    "multiple_choice": " Please output the letter corresponding to the correct option.",
}


def by_type(row: Row, images: Sequence[Item], where: str) -> list[Any]:
    """Ask with the request that fits the row's ``type`` (NaturalBench)."""
    kind = as_text(row.get("type"))
    if kind not in _WANTED:
        raise DataError(f"{where} has the type {kind!r}, not {' or '.join(_WANTED)}.")
    return suffixed(row, images, where, _WANTED[kind])


def choice(row: Row, images: Sequence[Item], where: str) -> list[Any]:  # noqa: ARG001 - no error
    """Ask with a hint, the options A, B, ... and the request to choose one."""
    options = "".join(f"{letter}. {text}\n" for letter, text in options_of(row).items())
    hint = "" if is_missing(row.get("hint")) else f"Hint: {as_text(row['hint'])}\n"
    request = "Please select the correct answer from the options above. \n"
    wanted = f"Options:\n{options}{request}" if options else ""
    return [*images, _text(f"{hint}Question: {as_text(row.get('question'))}\n{wanted}")]


def numbered_images(row: Row, images: Sequence[Item], where: str) -> list[Any]:
    """Ask like `choice`, with the images where the text names them: ``<image 1>`` (MMMU)."""
    [text] = choice(row, (), where)
    first, *rest = re.split(r"<image (\d)>", text["value"])
    if not rest:
        return [*images, text]
    message = [_text(first)]
    for number, after in zip(rest[::2], rest[1::2], strict=True):
        if not 1 <= int(number) <= len(images):
            raise DataError(f"{where} speaks of <image {number}> but has {len(images)} images.")
        message += [images[int(number) - 1], _text(after)]
    return message


def images_in_place(row: Row, images: Sequence[Item], where: str) -> list[Any]:
    """Ask for a letter, with the images in place of ``<image>``, in their order (MUIRBench)."""
    options = "\n".join(f"{letter}. {text}" for letter, text in options_of(row).items())
    request = "Answer with the option's letter from the given choices directly."
    return interleave(f"{as_text(row.get('question'))}\n{options}\n{request}", "<image>", images, where)


def dialogue(row: Row, images: Sequence[Item], where: str) -> list[Any]:
    """Return the turns, each question with its images (``<ImageHere>``) and each right answer after it."""
    questions, answers = text_list(row.get("question")), text_list(row.get("answer"))
    if len(questions) != len(answers):
        raise DataError(f"{where} has {len(questions)} questions and {len(answers)} answers.")
    turns: list[Any] = []
    for question, answer in zip(questions, answers, strict=True):
        shown = question.count("<ImageHere>")
        content = interleave(question, "<ImageHere>", images[:shown], where)
        images = images[shown:]
        turns.append({"role": "user", "content": [item for item in content if item["value"]]})
        turns.append({"role": "assistant", "content": [_text(answer)]})
    return turns


def interleave(text: str, mark: str, images: Sequence[Item], where: str) -> list[Item]:
    """Put images where a text has a mark; as many as there are marks. Without any mark they come first."""
    first, *rest = text.split(mark)
    if not rest:
        return [*images, _text(text)]
    if len(rest) != len(images):
        raise DataError(f"{where}: {len(rest)} times {mark} in the text, but {len(images)} images.")
    message = [_text(first)]
    for image, after in zip(images, rest, strict=True):
        message += [image, _text(after)]
    return message


def _text(value: str) -> Item:
    return {"type": "text", "value": value}


PROMPTS: dict[str, PromptMaker] = {
    "question": suffixed,
    "choice": choice,
    "numbered_images": numbered_images,
    "images_in_place": images_in_place,
    "yes_or_no": partial(suffixed, suffix="\nPlease answer yes or no."),
    "short_answer": partial(suffixed, suffix="\nAnswer the question using a single word or phrase."),
    "own_language": partial(
        suffixed, suffix="\nAnswer the question using a word or phrase in the language of the question."
    ),
    "by_type": by_type,
    "dialogue": dialogue,
}
"""Forms of prompts by name."""


def fill_questions(table: RowTable) -> None:
    """Ask for a caption where the table of a caption benchmark has no questions of its own."""
    if "question" not in table:
        table["question"] = [CAPTION_QUESTION] * len(table)
