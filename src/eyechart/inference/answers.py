"""A generator behind the response store: what was answered once is read, what is missing is generated and kept."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

from eyechart.errors import DataError, EyechartError
from eyechart.models.access import access_of, used_by
from eyechart.models.lazy import LazyModel
from eyechart.store.answers import Responses, ResponseStore, prompt_key
from eyechart.types import UNREAD, Answer, BatchGenerator, Message, ModelCard, Notice, Prompt


def is_answer(answer: Answer) -> bool:
    """Keep whatever the model said, even nothing: it is its answer. Failures are generated again."""
    return not answer.error


@dataclass
class StoredAnswers:
    """Answers prompts with one generator; nothing is paid twice."""

    model: LazyModel
    store: ResponseStore
    good: Callable[[Answer], bool] = is_answer
    """Which answers are worth keeping; the others are not stored, so the next run generates them again."""
    stored: int = field(default=0, init=False)
    """Prompts that were answered from the store."""
    generated: int = field(default=0, init=False)
    """Distinct prompts that were sent to the generator."""
    before: Mapping[str, int] = field(init=False)
    """What the budget had seen when this began."""

    def __post_init__(self) -> None:
        self.before = used_by(self.model.spec)

    @property
    def card(self) -> ModelCard:
        """Describe the generator."""
        return self.model.card

    def spent(self) -> dict[str, Any]:
        """Return how many prompts were answered from the store and anew, and what that took; every try counts.

        With a table of prices, ``cost`` and its ``currency`` too.
        """
        used = {name: count - self.before[name] for name, count in used_by(self.model.spec).items()}
        price = access_of(self.model.spec).price
        cost = {"cost": price.cost(used), "currency": price.currency} if price is not None else {}
        return {"from_store": self.stored, "asked": self.generated, **used, **cost}

    def unanswered(self, prompts: Iterable[Prompt]) -> list[str]:
        """Return the ids of the prompts that have no stored answer, without loading the generator."""
        if self.model.known_card is None and not self.model.remote:
            return [prompt.id for prompt in prompts]
        table = self.table
        table.refresh()
        return [prompt.id for prompt in prompts if not _is_stored(table, prompt)]

    def notices(self) -> list[Notice]:
        """Return what the model had to say, and how many stored answers were damaged."""
        card = self.model.known_card
        found = [Notice("model_note", 1, note) for note in card.notes] if card else []
        if card and self.table.damaged:
            text = f"{self.table.damaged} stored answers in {self.table.folder} are damaged; they are generated again."
            found.append(Notice("damaged_answers", self.table.damaged, text))
        return found

    @property
    def table(self) -> Responses:
        """Return what this generator has answered so far."""
        return self.store.table(self.card.fingerprint)

    def generate(self, prompts: Iterable[Prompt], repeat: int = 0) -> Iterator[tuple[str, Answer]]:
        """Yield an answer for each prompt, in any order; equal prompts are answered once.

        Another ``repeat`` answers the same prompts once more. The generator is loaded only if an answer is missing.

        A prompt that cannot be answered gets an answer with an error. An error that ends the whole run (server down,
        key refused, cap reached, disk full) is raised after all that arrived before it has been stored.
        """
        table = self.table
        table.refresh()
        sorter = _Sorter(self, table, prompts, repeat)
        missing = sorter.missing()
        first = next(missing, None)
        asked = chain([first], missing) if first is not None else ()
        expected = self.card.fingerprint
        for key, answer in _generate(self.model, expected, asked, sorter.keep) if asked else ():
            if sorter.lost:
                raise sorter.lost[0]  # answers can no longer be kept: stop paying
            sorter.answers[key] = answer
            yield sorter.names[key][0], answer
            yield from sorter.at_once()
        yield from sorter.at_once()
        for key, names in sorter.names.items():
            yield from ((name, sorter.answers[key]) for name in names[1:])


def _is_stored(table: Responses, prompt: Prompt) -> bool:
    try:
        return table.get(prompt_key(prompt.messages, temperature=prompt.temperature)) is not None
    except DataError:  # an image that cannot be read will not be sent
        return True


def _generate(
    model: LazyModel, expected: str, prompts: Iterable[Prompt], keep: Callable[[str, Answer], None]
) -> Iterator[tuple[str, Answer]]:
    """Answer prompts with whatever the generator does best: many at a time, or one after the other."""
    generator = model.load(expected)
    if isinstance(generator, BatchGenerator):
        yield from generator.generate_many(prompts, keep)
        return
    for prompt in prompts:
        answer = generator.generate(prompt.messages)
        if not answer.error:
            keep(prompt.id, answer)
        yield prompt.id, answer


def _loaded(message: Message) -> Message:
    return replace(message, parts=tuple(part if isinstance(part, str) else part.load() for part in message.parts))


class _Sorter:
    """Parts the prompts into those that are answered already, copies of others, and those to generate.

    `missing` and `keep` may run in another thread than the consumer: lists only grow, and nothing is looked up before
    it was put in place.
    """

    def __init__(self, owner: StoredAnswers, table: Responses, prompts: Iterable[Prompt], repeat: int) -> None:
        self.owner, self.table, self.prompts, self.repeat = owner, table, prompts, repeat
        self.names: dict[str, list[str]] = {}
        self.answers: dict[str, Answer] = {}
        self.lost: list[EyechartError] = []
        self._ready: deque[tuple[str, Answer]] = deque()

    def missing(self) -> Iterator[Prompt]:
        for prompt in self.prompts:
            try:
                key, messages = self._looked_up(prompt)
            except DataError as error:
                self._ready.append((prompt.id, Answer("", error=error.message, finish_reason=UNREAD)))
                continue
            if key in self.names:
                self.names[key].append(prompt.id)
            elif (answer := self.table.get(key)) is not None:
                self.owner.stored += 1
                self._ready.append((prompt.id, answer))
            else:
                self.owner.generated += 1
                self.names[key] = [prompt.id]
                yield replace(prompt, id=key, messages=messages)

    def _looked_up(self, prompt: Prompt) -> tuple[str, tuple[Message, ...]]:
        """Return the key of a prompt and what is sent: the key of a new one is that of the very bytes that are sent."""
        key = prompt_key(prompt.messages, self.repeat, prompt.temperature)
        if key in self.names or self.table.get(key) is not None:
            return key, prompt.messages
        messages = tuple(_loaded(message) for message in prompt.messages)
        return prompt_key(messages, self.repeat, prompt.temperature), messages

    def keep(self, key: str, answer: Answer) -> None:
        try:
            if self.owner.good(answer):
                self.table.add(key, answer)
        except EyechartError as error:
            self.lost.append(error)
            raise

    def at_once(self) -> Iterator[tuple[str, Answer]]:
        while self._ready:
            yield self._ready.popleft()
