"""Answering in batches: what every generator that runs on this machine does alike."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import TypeVar

from eyechart.errors import DataError
from eyechart.types import UNREAD, Answer, Message, Prompt

T = TypeVar("T")


class ManyAtOnce(ABC):
    """A generator that answers many conversations at once, and so one as well."""

    @abstractmethod
    def generate_many(self, prompts: Iterable[Prompt]) -> Iterator[tuple[str, Answer]]:
        """Answer prompts in any order, each with its id."""

    def generate(self, messages: Sequence[Message]) -> Answer:
        """Answer one conversation."""
        [(_, answer)] = self.generate_many([Prompt("", tuple(messages))])
        return answer


def drop(name: str, answer: Answer) -> None:
    """Keep nothing: for those who take answers only as they are yielded."""


def answer_in_batches(
    prompts: Iterable[Prompt],
    size: int,
    prepare: Callable[[Prompt], T],
    answer: Callable[[list[T]], Iterable[Answer]],
    keep: Callable[[str, Answer], None],
) -> Iterator[tuple[str, Answer]]:
    """Answer prompts batch by batch; one whose image cannot be read gets an answer with an error.

    Args:
        prompts: What is asked, read only as far as the next batch needs.
        size: Prompts per forward pass.
        prepare: Makes the model's input of one prompt.
        answer: Runs the model on inputs, at least one; gives an answer for each, in order.
        keep: Told each answer before it is given on.
    """
    stream = iter(prompts)
    while batch := list(islice(stream, size)):
        inputs: dict[str, T] = {}
        for prompt in batch:
            try:
                inputs[prompt.id] = prepare(prompt)
            except DataError as error:
                yield prompt.id, Answer("", error=error.message, finish_reason=UNREAD)
        answers = answer(list(inputs.values())) if inputs else ()
        for name, found in zip(inputs, answers, strict=True):
            keep(name, found)
            yield name, found
