"""Judges: a second generator that reads or grades answers. One object owns a question's words and how replies are read.

A reply that cannot be read is asked for again, a few times; after that the answer stays unscored and is counted.
"""

from __future__ import annotations

import json
import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from eyechart.errors import ModelError
from eyechart.metrics.answers import infer_choice, yes_or_no
from eyechart.metrics.cells import Row, as_text, options_of, text_list
from eyechart.types import Answer, Message, Prompt

Ask = Callable[[Iterable[Prompt], int], Iterable[tuple[str, Answer]]]
"""Answers prompts; the number tells repeated tries of the same prompt apart."""
JUDGE_SETTINGS = {"temperature": 0, "max_tokens": 2048}
"""How a judge writes its replies."""
NO_ANSWER = "NONE"
"""What a judge replies where a solution gives no answer."""


class JudgeForm(ABC):
    """How a judge is asked about one answer, and how its reply is read."""

    tries = 3

    @abstractmethod
    def question(self, row: Row) -> str:
        """Write the whole question to the judge."""

    @abstractmethod
    def parse(self, reply: str, row: Row) -> Any:
        """Return the verdict, or None if the reply cannot be read."""


def option_block(options: Mapping[str, str]) -> str:
    """List options as VLMEvalKit does for its judge."""
    return "There are several options: \n" + "".join(f"{letter}. {text}\n" for letter, text in options.items())


class ChoiceForm(JudgeForm):
    """Which option does this answer mean?"""

    HEAD = (
        "Below are a single-choice question, its options and somebody's answer. Decide which option the answer means. "
        "Reply with the option's letter alone. If the answer means none of the options or several of them, reply Z. "
        "Do not solve the question yourself: what matters is what the answer says.\n"
        "Example:\nQuestion: What is the main object in the image?\n"
        "Options: There are several options: \nA. teddy bear\nB. rabbit\nC. cat\nD. dog\n\n"
        "Answer: a cute teddy\nYour output: A\n\n"
        "Example:\nQuestion: What is the main object in the image?\n"
        "Options: There are several options: \nA. teddy bear\nB. rabbit\nC. cat\nD. dog\n\n"
        "Answer: a spider\nYour output: Z\n\n"
    )

    def question(self, row: Row) -> str:
        """Write question, options and answer."""
        options = option_block(options_of(row))
        return (
            f"{self.HEAD}Question: {as_text(row.get('question'))}?\nOptions: {options}\n"
            f"Answer: {as_text(row.get('prediction'))}\nYour output: "
        )

    def parse(self, reply: str, row: Row) -> str | None:
        """Return the letter, or Z for none of the options."""
        return infer_choice(reply, options_of(row))


class YesNoForm(JudgeForm):
    """Does this answer mean yes or no?"""

    tries = 5

    def question(self, row: Row) -> str:
        """Write question and answer."""
        return (
            "Below are a yes/no question and somebody's answer. Say whether the answer means yes or no. "
            "Reply with Yes or No alone; if it means neither, reply Unknown.\n"
            f"Question: {as_text(row.get('question'))}\nAnswer: {as_text(row.get('prediction'))}\nYour output: "
        )

    def parse(self, reply: str, row: Row) -> str | None:
        """Return Yes or No; Unknown is a verdict only when the judge says so and nothing else."""
        found = yes_or_no(reply)
        if found == "Unknown":
            return "Unknown" if reply.strip().strip(".").lower() == "unknown" else None
        return found


class GradeForm(JudgeForm):
    """How right is this answer, from 0 to 1?"""

    tries = 5

    def question(self, row: Row) -> str:
        """Write question, right answer and answer, in MM-Vet's form."""
        return (
            "Grade a prediction for a question about an image against the ground truth, from 0.0 (wrong) to 1.0 "
            "(right), in steps of 0.1. <AND> joins parts that must all be there, <OR> alternatives of which one is "
            "enough. Reply with the number alone.\n"
            "Question | Ground truth | Prediction | Correctness\n"
            "What is on the table? | a cup <AND> a plate | a cup | 0.5\n"
            f"{self.tail(row)}"
        )

    @staticmethod
    def tail(row: Row) -> str:
        """Return the line that is to be completed."""
        truth = as_text(row.get("answer")).replace("<AND>", " <AND> ").replace("<OR>", " <OR> ")
        return f"{as_text(row.get('question'))} | {truth} | {as_text(row.get('prediction'))} | "

    def parse(self, reply: str, row: Row) -> float | None:
        """Return the grade; only a number between 0 and 1 is one."""
        try:
            grade = float(reply.strip())
        except ValueError:
            return None
        return grade if math.isfinite(grade) and 0 <= grade <= 1 else None


class ExtractForm(JudgeForm):
    """Which final answer does this solution give?"""

    tries = 5

    def question(self, row: Row) -> str:
        """Write question, options and solution."""
        choices = text_list(row.get("choices"))
        options = "Options: " + ", ".join(choices) + "\n" if choices else ""
        return (
            "Below are a question and somebody's solution. Reply with the final answer that the solution gives, and "
            "nothing else: the option's letter where there are options, else the number or words. Do not solve the "
            f"question yourself. If the solution gives no answer, reply {NO_ANSWER}.\n"
            f"Question: {as_text(row.get('question'))}\n{options}"
            f"Solution: {as_text(row.get('prediction'))}\nFinal answer: "
        )

    def parse(self, reply: str, row: Row) -> str | None:
        """Return the answer as written; a long reply is not an answer."""
        text = reply.strip()
        return text if 0 < len(text) <= 500 else None


class DialogueForm(JudgeForm):
    """How good is this turn of a dialogue, in several respects?"""

    DIMENSIONS = (
        "Creativity",
        "Richness",
        "Visual Perception",
        "Logical Coherence",
        "Answer Accuracy",
        "Image Relationship Understanding",
        "Overall Score",
    )
    tries = 5

    def question(self, row: Row) -> str:
        """Write question, right answer and answer of one turn."""
        names = ", ".join(f'"{name}"' for name in self.DIMENSIONS)
        return (
            "Grade an assistant's reply about images against the reference, each respect from 0 to 10. "
            f"Reply with one JSON object with the keys {names} and nothing else.\n"
            f"Question: {as_text(row.get('question'))}\nReference: {as_text(row.get('answer'))}\n"
            f"Reply: {as_text(row.get('prediction'))}\n"
        )

    def parse(self, reply: str, row: Row) -> dict[str, float] | None:
        """Return the grades by respect; all of them must be there."""
        found = re.search(r"\{[^{}]{0,2000}\}", reply)
        try:
            grades = json.loads(found[0]) if found else None
            values = {name: float(grades[name]) for name in self.DIMENSIONS} if isinstance(grades, dict) else {}
        except (ValueError, TypeError, KeyError):
            return None
        return values if values and all(0 <= value <= 10 for value in values.values()) else None


@dataclass(frozen=True)
class Judge:
    """A generator that judges, under its own name."""

    name: str
    ask: Ask

    def verdicts(self, form: JudgeForm, rows: Sequence[tuple[str, Row]]) -> dict[str, Any]:
        """Return a verdict for each row by its id; None where no reply could be read.

        Raises:
            ModelError: If the judge gives no reply at all: that is no verdict, and must not pass for one.
        """
        verdicts: dict[str, Any] = {name: None for name, _ in rows}
        left = dict(rows)
        for attempt in range(form.tries):
            if not left:
                break
            prompts = [Prompt(name, (Message("user", (form.question(row),)),)) for name, row in left.items()]
            for name, answer in list(self.ask(prompts, attempt)):
                if answer.error:
                    raise ModelError(
                        f"The judge {self.name} did not answer: {answer.error}",
                        advice="Its verdicts so far are kept: run the same command when it answers again.",
                    )
                verdicts[name] = form.parse(answer.text, left[name])
            left = {name: row for name, row in left.items() if verdicts[name] is None}
        return verdicts
