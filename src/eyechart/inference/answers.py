"""Generators and rerankers with a response cache: stored answers are read, missing ones are generated and stored."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

from eyechart.errors import DataError, EyechartError
from eyechart.messages import UserMessage
from eyechart.models.access import access_of, used_by
from eyechart.models.lazy_model import LazyModel
from eyechart.models.rerankers import Reranker, Shortlist
from eyechart.store.answer_store import Responses, ResponseStore, prompt_key
from eyechart.types import UNREAD, Answer, BatchGenerator, Message, ModelCard, Notice, Prompt, digest_json


def is_answer(answer: Answer) -> bool:
    """Cache any reply of the model, even an empty one; failed requests are sent again."""
    return not answer.error


@dataclass
class CachedGenerator:
    """Generates answers with one model, reusing stored ones."""

    model: LazyModel
    store: ResponseStore
    should_cache: Callable[[Answer], bool] = is_answer
    """Selects the answers to store; the others are generated again by the next run."""
    stored: int = field(default=0, init=False)
    """Prompts answered from the store."""
    generated: int = field(default=0, init=False)
    """Distinct prompts sent to the generator."""
    before: Mapping[str, int] = field(init=False)
    """Usage counters of the model at the start."""

    def __post_init__(self) -> None:
        self.before = used_by(self.model.spec)

    @property
    def card(self) -> ModelCard:
        """Card of the generator."""
        return self.model.card

    def spent(self) -> dict[str, Any]:
        """Return the number of cached and generated answers and the resources used, retries included.

        With a price table, adds ``cost`` and ``currency``.
        """
        used = {name: count - self.before[name] for name, count in used_by(self.model.spec).items()}
        price = access_of(self.model.spec).price
        cost = {"cost": price.cost(used), "currency": price.currency} if price is not None else {}
        return {"from_store": self.stored, "asked": self.generated, **used, **cost}

    def unanswered(self, prompts: Iterable[Prompt]) -> list[str]:
        """Return the ids of prompts without a stored answer, without loading the generator."""
        if self.model.known_card is None and not self.model.remote:
            return [prompt.id for prompt in prompts]
        table, missing = self.table, []
        table.refresh()
        for prompt in prompts:
            with suppress(DataError):  # an unreadable image is never sent
                if table.get(prompt_key(prompt.messages, temperature=prompt.temperature)) is None:
                    missing.append(prompt.id)
        return missing

    def notices(self) -> list[Notice]:
        """Return the notes of the model and the number of damaged answers."""
        card = self.model.known_card
        found = [Notice("model_note", 1, note) for note in card.notes] if card else []
        if card and self.table.damaged:
            text = UserMessage(
                "{damaged} stored answers in {folder} are damaged and were generated again.",
                damaged=self.table.damaged,
                folder=self.table.folder,
            )
            found.append(Notice("damaged_answers", self.table.damaged, text))
        return found

    @property
    def table(self) -> Responses:
        """The stored answers of this generator."""
        return self.store.table(self.card.fingerprint)

    def generate(self, prompts: Iterable[Prompt], repeat: int = 0) -> Iterator[tuple[str, Answer]]:
        """Yield an answer for each prompt, in any order; equal prompts are answered once.

        A different ``repeat`` generates separate answers to the same prompts. The generator is loaded only if an answer
        is missing.

        A prompt that cannot be answered yields an answer with an error. An error that ends the run (server down, key
        refused, cap reached, disk full) is raised after every answer received before it is stored.
        """
        table = self.table
        table.refresh()
        sorter = _Sorter(self, table, prompts, repeat)
        missing = sorter.missing()
        first = next(missing, None)
        if first is not None:
            for key, answer in self._generate(chain([first], missing), sorter.keep):
                if sorter.lost:
                    raise sorter.lost[0]  # answers can no longer be stored: stop spending
                sorter.answers[key] = answer
                yield sorter.names[key][0], answer
                yield from sorter.at_once()
        yield from sorter.at_once()
        for key, names in sorter.names.items():
            yield from ((name, sorter.answers[key]) for name in names[1:])

    def _generate(self, prompts: Iterable[Prompt], keep: Callable[[str, Answer], None]) -> Iterator[tuple[str, Answer]]:
        """Generate in batches if the generator supports it, else one prompt after the other."""
        generator = self.model.load(self.card.fingerprint)
        if isinstance(generator, BatchGenerator):
            yield from generator.generate_many(prompts, keep)
            return
        for prompt in prompts:
            answer = generator.generate(prompt.messages)
            if not answer.error:
                keep(prompt.id, answer)
            yield prompt.id, answer


def _with_image_bytes(message: Message) -> Message:
    return replace(message, parts=tuple(part if isinstance(part, str) else part.load() for part in message.parts))


class _Sorter:
    """Splits prompts into cached, duplicate and missing ones.

    `missing` and `keep` may run in a different thread than the consumer: containers only grow, and entries are written
    before they are looked up.
    """

    def __init__(self, owner: CachedGenerator, table: Responses, prompts: Iterable[Prompt], repeat: int) -> None:
        self.owner, self.table, self.prompts, self.repeat = owner, table, prompts, repeat
        self.names: dict[str, list[str]] = {}
        self.answers: dict[str, Answer] = {}
        self.lost: list[EyechartError] = []
        self._ready: deque[tuple[str, Answer]] = deque()

    def missing(self) -> Iterator[Prompt]:
        for prompt in self.prompts:
            messages = prompt.messages
            try:
                key = prompt_key(messages, self.repeat, prompt.temperature)
                if key not in self.names and self.table.get(key) is None:
                    # The key of a new prompt is computed from the bytes that are sent.
                    messages = tuple(map(_with_image_bytes, messages))
                    key = prompt_key(messages, self.repeat, prompt.temperature)
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

    def keep(self, key: str, answer: Answer) -> None:
        try:
            if self.owner.should_cache(answer):
                self.table.add(key, answer)
        except EyechartError as error:
            self.lost.append(error)
            raise

    def at_once(self) -> Iterator[tuple[str, Answer]]:
        while self._ready:
            yield self._ready.popleft()


@dataclass
class CachedReranker:
    """Scores shortlists with one reranker, reusing stored scores."""

    model: LazyModel
    store: ResponseStore

    @property
    def card(self) -> ModelCard:
        """Card of the reranker."""
        return self.model.card

    def notices(self) -> list[Notice]:
        """Return the notes of the model."""
        return [Notice("model_note", 1, note) for note in self.card.notes]

    def score(self, shortlists: Iterable[Shortlist]) -> Iterator[tuple[str, list[float]]]:
        """Yield the id of each shortlist with the scores of its documents, in any order of shortlists."""
        fingerprint = self.card.fingerprint
        table = self.store.table(fingerprint)
        missing: dict[str, Shortlist] = {}
        for shortlist in shortlists:
            known = table.get(_shortlist_key(shortlist))
            if known is not None:
                yield shortlist.id, json.loads(known.text)
            else:
                missing[shortlist.id] = shortlist
        if missing:
            reranker: Reranker = self.model.load(fingerprint)

            def keep(name: str, scores: list[float]) -> None:
                table.add(_shortlist_key(missing[name]), Answer(json.dumps(scores)))

            yield from reranker.score(missing.values(), keep)


def _shortlist_key(shortlist: Shortlist) -> str:
    return digest_json(["rerank", shortlist.query, shortlist.documents])
