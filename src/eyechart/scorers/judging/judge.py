"""A judge: a generator that is asked about answers, several times where its reply cannot be read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from eyechart.errors import ModelError
from eyechart.metrics.cells import Row
from eyechart.scorers.judging.forms import TRIES_APART, JudgeForm
from eyechart.scorers.judging.prompts import JudgePrompts
from eyechart.types import Answer, Message, Prompt

Ask = Callable[[Iterable[Prompt], int], Iterable[tuple[str, Answer]]]
"""Answers prompts; the number tells repeated tries of the same prompt apart."""
JUDGE_SETTINGS = {"temperature": 0, "max_tokens": 2048}
"""How a judge writes its replies."""
CUT = "length"
"""The finish reason of a reply that was cut: what a judge would have ended with is not known."""
WARMER, WARMEST = 0.5, 1.0
"""By how much the temperature rises from try to try, and how far: a repeated request would get the same reply."""


@dataclass(frozen=True)
class Judge:
    """A generator that judges, under its own name."""

    name: str
    ask: Ask
    prompts: JudgePrompts = field(default_factory=JudgePrompts)
    repeats: int = 1
    """How often it judges each answer."""
    on_error: str = "fail"
    """Whether a judge that does not answer ends the run, or its verdict counts as unreadable (``skip``)."""

    def verdicts(self, form: JudgeForm, rows: Sequence[tuple[str, Row]], repeat: int = 0) -> dict[str, Any]:
        """Return a verdict for each row by its id; None where no reply could be read.

        Raises:
            ModelError: If the judge gives no reply at all and ``on_error`` is fail.
        """
        verdicts: dict[str, Any] = {name: None for name, _ in rows}
        left = dict(rows)
        for attempt in range(form.tries):
            if not left:
                break
            warmth = min(WARMEST, WARMER * attempt) or None
            prompts = [Prompt(name, (Message("user", (form.question(row),)),), warmth) for name, row in left.items()]
            for name, answer in list(self.ask(prompts, TRIES_APART * repeat + attempt)):
                if answer.error and self.on_error == "fail":
                    raise ModelError(
                        f"The judge {self.name} did not answer: {answer.error}",
                        advice="Its verdicts so far are kept: run the same command when it answers again, "
                        "or count the others as wrong with --on-error skip.",
                    )
                lost = answer.error or answer.finish_reason == CUT
                verdicts[name] = None if lost else form.parse(answer.text, left[name])
            left = {name: row for name, row in left.items() if verdicts[name] is None}
        return verdicts
