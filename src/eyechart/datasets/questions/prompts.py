"""What a row asks: the forms of prompts that several benchmarks share, by name; others are worded in the catalogue."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from eyechart.datasets.questions.asking import Asking, in_place, text_item
from eyechart.datasets.questions.benchmarks import PART, QuestionBenchmark, known_benchmarks
from eyechart.datasets.questions.messages import Item
from eyechart.datasets.questions.rows import RowTable
from eyechart.datasets.questions.views import VIEWS
from eyechart.errors import DataError
from eyechart.metrics.cells import Row, as_text, text_list

CAPTION_QUESTION = (
    "Please describe this image in general. Directly provide the description, "
    'do not include prefix like "This image depicts". '
)
CHOICE = (
    "[[Hint: ${hint}\n]]Question: ${question}\n"
    "[[Options:\n${options}Please select the correct answer from the options above. \n]]"
)
DIALOGUE = "dialogue"

PROMPTS: dict[str, Asking] = {
    "question": Asking(),
    "choice": Asking(CHOICE),
    "numbered_images": Asking(CHOICE, images="numbered"),
    "yes_or_no": Asking("${question}\nPlease answer yes or no."),
    "short_answer": Asking("${question}\nAnswer the question using a single word or phrase."),
    "own_language": Asking("${question}\nAnswer the question using a word or phrase in the language of the question."),
}
"""Forms of prompts by name."""


def build_prompt(benchmark: QuestionBenchmark, row: Row, images: Sequence[Item], where: str) -> list[Any]:
    """Return what a row asks, as items or as turns; the text names the row in errors."""
    if benchmark.parts:
        benchmark = known_benchmarks()[as_text(row[PART])]
    if benchmark.prompt == DIALOGUE:
        return turns(row, images, where)
    asking = benchmark.asking or PROMPTS[benchmark.prompt]
    view = VIEWS[benchmark.parameters["view"]](row) if "view" in benchmark.parameters else {}
    return asking.items({**row, **view}, images, where)


def turns(row: Row, images: Sequence[Item], where: str) -> list[Any]:
    """Return the turns, each question with its images (``<ImageHere>``) and each right answer after it."""
    questions, answers = text_list(row.get("question")), text_list(row.get("answer"))
    if len(questions) != len(answers):
        raise DataError(f"{where} has {len(questions)} questions and {len(answers)} answers.")
    made: list[Any] = []
    for question, answer in zip(questions, answers, strict=True):
        shown = question.count("<ImageHere>")
        content = in_place(question, images[:shown], where, "<ImageHere>")
        images = images[shown:]
        made.append({"role": "user", "content": [item for item in content if item["value"]]})
        made.append({"role": "assistant", "content": [text_item(answer)]})
    return made


def fill_questions(table: RowTable) -> None:
    """Ask for a caption where the table of a caption benchmark has no questions of its own."""
    if "question" not in table:
        table["question"] = [CAPTION_QUESTION] * len(table)
