"""Generators and rerankers with a response cache: stored answers are read, missing ones are generated and stored."""

import json
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

from eyechart.errors import DataError, EyechartError
from eyechart.inference.image_batches import trait_notices
from eyechart.io.images import ImageRef
from eyechart.io.stopwatch import timestamp
from eyechart.messages import UserMessage
from eyechart.models.access import access_of, used_by
from eyechart.models.lazy_model import LazyModel
from eyechart.models.local_generators import LocalGenerator
from eyechart.models.rerankers import Reranker, Shortlist
from eyechart.store.answer_store import Responses, ResponseStore, prompt_key
from eyechart.types import UNREAD, Answer, BatchGenerator, ModelCard, Notice, Prompt, digest_json

ORIGINS = {
    "stored_answers": "{n} of {count} answers of {name} are stored ones, from {first} to {last} (UTC): the model "
    "behind the server may have changed since. {--max_age=0} requests them again.",
    "served_model": "The server reports another model than {name}: {others}.",
    "served_versions": "The answers of {name} come from several versions of the model: {versions}.",
    "refused_parameters": "The server of {name} refused request parameters, which {n} answers were generated without "
    "or under another name: {refused}.",
}
"""Notices about the answers of a server."""


@dataclass
class AnswerOrigins:
    """Counts where the answers of a model come from: the store or the model, and what its server reports."""

    model: LazyModel
    stored: int = 0
    """Answers from the store."""
    generated: int = 0
    """Distinct prompts sent to the model."""
    times: list[str] = field(default_factory=list)
    """When the oldest and the newest stored answer were generated; empty text: unknown."""
    served: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Answers by the model and the system fingerprint that the server reports."""
    refused: Counter[str] = field(default_factory=Counter)
    """Answers by the request parameters that the server refused."""
    tokens: Counter[str] = field(default_factory=Counter)
    """Usage of all answers, stored ones included, each counted once: what generating all of them takes."""
    keys: set[str] = field(default_factory=set)
    """The cache keys of these answers."""

    def find(self, table: Responses, key: str) -> Answer | None:
        """Return a stored answer, unless its server may have another model by now (``--max_age``)."""
        answer, since = table.get(key), access_of(self.model.spec).since
        if answer is None or since is None or not self.model.remote:
            return answer
        return answer if answer.origin.get("time", "") >= timestamp(since) else None

    def see(self, key: str, answer: Answer, *, stored: bool) -> None:
        """Count an answer."""
        origin, self.stored = answer.origin, self.stored + stored
        self.tokens.update({} if key in self.keys else answer.usage)
        self.keys.add(key)
        if stored:
            self.times = [place([*self.times, origin.get("time", "")]) for place in (min, max)]
        served = origin.get("model", ""), origin.get("system_fingerprint", "")
        self.served.update([served] if any(served) else [])
        self.refused.update([origin["refused"]] if "refused" in origin else [])

    def details(self) -> dict[str, Any]:
        """Return the effective parameters of the model, and what is known of its server's answers."""
        parameters = getattr(self.model.family, "parameters", None)
        found = {
            "parameters": parameters(self.model.spec) if parameters else {},
            "refused_parameters": dict(self.refused),
            "served_by": {_version(*served): n for served, n in self.served.items()},
            "stored": {"answers": self.stored, "from": self.times} if self.stored else {},
        }
        return {name: value for name, value in found.items() if value}

    def notices(self) -> list[Notice]:
        """Report stored answers of a server, another model than the requested one, and refused parameters."""
        name = self.model.spec.name
        others = {served: n for (served, _), n in self.served.items() if served not in ("", name)}
        changed = self.served.total() - max(self.served.values(), default=0)
        first, last = (time[:16].replace("T", " ") or "?" for time in self.times or ["", ""])
        fields = {
            "name": name,
            "count": self.stored + self.generated,
            "first": first,
            "last": last,
            "others": ", ".join(sorted(others)),
            "versions": ", ".join(sorted(_version(*served) for served in self.served)),
            "refused": "; ".join(sorted(self.refused)),
        }
        counts = (self.stored, sum(others.values()), changed, self.refused.total()) if self.model.remote else ()
        found = zip(ORIGINS.items(), counts, strict=False)
        return [Notice(kind, n, UserMessage(text, n=n, **fields)) for (kind, text), n in found if n]


def _version(model: str, mark: str) -> str:
    return f"{model} ({mark})" if mark else model


@dataclass
class _CachedModel:
    """A model and the store of its answers."""

    model: LazyModel
    store: ResponseStore
    origins: AnswerOrigins = field(init=False)

    def __post_init__(self) -> None:
        self.origins = AnswerOrigins(self.model)

    @property
    def card(self) -> ModelCard:
        """Card of the model."""
        return self.model.card


@dataclass
class CachedGenerator(_CachedModel):
    """Generates answers with one model, reusing stored ones."""

    traits: dict[str, int] = field(default_factory=dict, init=False)
    """Traits of the images that have any, by digest."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.before = used_by(self.model.spec)

    def spent(self) -> dict[str, Any]:
        """Return the usage of this run, retries included, and that of all answers, stored ones included.

        With a price table, adds the ``cost`` of this run and that of all answers, ``cost_of_answers``.
        """
        used = {name: count - self.before[name] for name, count in used_by(self.model.spec).items()}
        price, every = access_of(self.model.spec).price, self.origins.tokens
        known = {
            "from_store": self.origins.stored,
            "asked": self.origins.generated,
            **used,
            "answers": len(self.origins.keys),
            "tokens_of_answers": dict(every),
        }
        if price is None:
            return known | ({"unpriced": True} if self.model.remote else {})
        return known | {"cost": price.cost(used), "cost_of_answers": price.cost(every), "currency": price.currency}

    def unanswered(self, prompts: Iterable[Prompt]) -> list[str]:
        """Return the ids of prompts without a stored answer, without loading the generator."""
        if self.model.known_card is None and not self.model.remote:
            return [prompt.id for prompt in prompts]
        missing = []
        self.table.refresh()
        for prompt in prompts:
            with suppress(DataError):  # an unreadable image is never sent
                if self.find(prompt, prompt_key(prompt.messages, temperature=prompt.temperature)) is None:
                    missing.append(prompt.id)
        return missing

    def notices(self) -> list[Notice]:
        """Return the notes of the model, the number of damaged answers, and where the answers come from."""
        card = self.model.known_card
        found = [Notice("model_note", 1, note) for note in card.notes] if card else []
        found += self.origins.notices()
        if self.model.loaded and isinstance(generator := self.model.load(), LocalGenerator):
            found += generator.notices()
        if card and self.table.damaged:
            text = UserMessage(
                "{damaged} stored answers in {folder} are damaged and were generated again.",
                damaged=self.table.damaged,
                folder=self.table.folder,
            )
            found.append(Notice("damaged_answers", self.table.damaged, text))
        return found + trait_notices(self.traits)

    @property
    def table(self) -> Responses:
        """The stored answers of this generator."""
        return self.store.table(self.card.fingerprint)

    def find(self, prompt: Prompt, key: str) -> Answer | None:
        """Return the stored answer to a prompt; None if there is none that is young enough and usable."""
        answer = self.origins.find(self.table, key)
        return answer if answer is None or prompt.usable is None or prompt.usable(answer) else None

    def generate(self, prompts: Iterable[Prompt], repeat: int = 0) -> Iterator[tuple[str, Answer]]:
        """Yield an answer for each prompt, in any order; equal prompts are answered once.

        A different ``repeat`` generates separate answers to the same prompts. The generator is loaded only if an answer
        is missing.

        A prompt that cannot be answered yields an answer with an error. An error that ends the run (server down, key
        refused, cap reached, disk full) is raised after every answer received before it is stored.
        """
        self.table.refresh()
        sorter = _Sorter(self, prompts, repeat)
        missing = sorter.missing()
        first = next(missing, None)
        if first is not None:
            for key, answer in self._generate(chain([first], missing), sorter.keep):
                if sorter.lost:
                    raise sorter.lost[0]  # answers can no longer be stored: stop spending
                sorter.answers[key] = answer
                if not answer.error:
                    self.origins.see(key, answer, stored=False)
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


def _traits_key(key: str) -> str:
    return digest_json(["image traits", key])


class _Sorter:
    """Splits prompts into cached, duplicate and missing ones.

    `missing` and `keep` may run in a different thread than the consumer: containers only grow, and entries are written
    before they are looked up.
    """

    def __init__(self, owner: CachedGenerator, prompts: Iterable[Prompt], repeat: int) -> None:
        self.owner, self.prompts, self.repeat = owner, prompts, repeat
        self.names: dict[str, list[str]] = {}
        self.answers: dict[str, Answer] = {}
        self.sent: dict[str, tuple[list[str], Callable[[Answer], bool] | None]] = {}
        """The images of each prompt that was sent, and which answers to it are cached."""
        self.lost: list[EyechartError] = []
        self._ready: deque[tuple[str, str, Answer]] = deque()

    def missing(self) -> Iterator[Prompt]:
        for prompt in self.prompts:
            messages = prompt.messages
            try:
                key = prompt_key(messages, self.repeat, prompt.temperature)
                if key not in self.names and self.owner.find(prompt, key) is None:
                    # The key of a new prompt is computed from the bytes that are sent.
                    messages = tuple(
                        replace(
                            turn, parts=tuple(part if isinstance(part, str) else part.load() for part in turn.parts)
                        )
                        for turn in messages
                    )
                    key = prompt_key(messages, self.repeat, prompt.temperature)
            except DataError as error:
                self._ready.append((prompt.id, "", Answer("", error=error.message, finish_reason=UNREAD)))
                continue
            if key in self.names:
                self.names[key].append(prompt.id)
            elif (answer := self.owner.find(prompt, key)) is not None:
                if (stored := self.owner.table.get(_traits_key(key))) is not None:
                    self.owner.traits |= json.loads(stored.text)
                self._ready.append((prompt.id, key, answer))
            else:
                self.owner.origins.generated += 1
                self.names[key] = [prompt.id]
                parts = chain.from_iterable(turn.parts for turn in messages)
                self.sent[key] = [p.digest().hex() for p in parts if isinstance(p, ImageRef)], prompt.usable
                yield replace(prompt, id=key, messages=messages)

    def keep(self, key: str, answer: Answer) -> None:
        images, usable = self.sent.pop(key)
        try:
            # The traits of its images come before the answer, which is complete once both are stored.
            known: Mapping[str, int] = getattr(self.owner.model.load(), "traits", {})
            if seen := {name: known[name] for name in images if name in known}:
                self.owner.table.add(_traits_key(key), Answer(json.dumps(seen)))
                self.owner.traits |= seen
            if not answer.error and (usable is None or usable(answer)):  # failed requests are sent again
                self.owner.table.add(key, answer)
        except EyechartError as error:
            self.lost.append(error)
            raise

    def at_once(self) -> Iterator[tuple[str, Answer]]:
        while self._ready:
            name, key, answer = self._ready.popleft()
            if not answer.error:
                self.owner.origins.see(key, answer, stored=True)
            yield name, answer


class CachedReranker(_CachedModel):
    """Scores shortlists with one reranker, reusing stored scores."""

    def notices(self) -> list[Notice]:
        """Return the notes of the model, and where the scores come from."""
        return [*(Notice("model_note", 1, note) for note in self.card.notes), *self.origins.notices()]

    def score(self, shortlists: Iterable[Shortlist]) -> Iterator[tuple[str, list[float]]]:
        """Yield the id of each shortlist with the scores of its documents, in any order of shortlists."""
        fingerprint = self.card.fingerprint
        table = self.store.table(fingerprint)
        missing: dict[str, Shortlist] = {}
        for shortlist in shortlists:
            known = self.origins.find(table, key := _shortlist_key(shortlist))
            if known is not None:
                self.origins.see(key, known, stored=True)
                yield shortlist.id, json.loads(known.text)
            else:
                self.origins.generated += 1
                missing[shortlist.id] = shortlist
        if missing:
            reranker: Reranker = self.model.load(fingerprint)

            def keep(name: str, scores: list[float]) -> None:
                answer = Answer(json.dumps(scores), origin={"time": timestamp()})
                table.add(_shortlist_key(missing[name]), answer)

            yield from reranker.score(missing.values(), keep)


def _shortlist_key(shortlist: Shortlist) -> str:
    items = [shortlist.query, *shortlist.documents]
    keys = [
        item if isinstance(item, str) else [part if isinstance(part, str) else [part.digest().hex()] for part in item]
        for item in items
    ]
    return digest_json(["rerank", keys[0], keys[1:]])
