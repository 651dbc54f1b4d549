"""What a generator family must offer, and how a generator is reached."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, runtime_checkable

from eyechart.api import Budget, Secret
from eyechart.io.files import cache_root, write_cached
from eyechart.types import Answer, BatchGenerator, Generator, ModelCard, ModelSpec, Prompt, digest_json


@dataclass(frozen=True)
class Access:
    """How a model is reached and within what limits: nothing of this changes its answers, so it is in no key."""

    key: Secret | None = field(default=None, repr=False)
    key_variable: str | None = None
    concurrency: int = 8
    timeout: float = 120.0
    """Seconds for one request, from the first byte sent to the last one received."""
    tries: int = 6
    batch_size: int = 4
    """Conversations per forward pass of a local model."""
    budget: Budget = field(default_factory=Budget)


@runtime_checkable
class GeneratorFamily(Protocol):
    """A kind of generator that can be made from a spec."""

    def check(self, spec: ModelSpec) -> None:
        """Refuse what cannot work (missing library, wrong kind of model, bad address) without loading or asking."""
        ...

    def probe(self, spec: ModelSpec, access: Access) -> None:
        """See that the model can be reached, before a long run begins: is the server up, does it take the key?"""
        ...

    def identity(self, spec: ModelSpec) -> str | None:
        """Return a text that changes whenever the weights would, or None if that is not known without loading."""
        ...

    def load(self, spec: ModelSpec, access: Access) -> Generator:
        """Make the generator."""
        ...


class LazyGenerator:
    """A generator that knows its card from an earlier run and is loaded only when there is something to answer."""

    def __init__(self, spec: ModelSpec, family: GeneratorFamily, access: Access) -> None:
        self.spec, self.family, self.access = spec, family, access
        self._generator: Generator | None = None
        self._card: ModelCard | None = None

    @property
    def card(self) -> ModelCard:
        """Return the card, from the cache if this very model was loaded before."""
        if self._card is None:
            self._card = self._read_card() or self.load().card
        return self._card

    def load(self) -> Generator:
        """Return the loaded generator."""
        if self._generator is None:
            self._generator = self.family.load(self.spec, self.access)
            self._card = self._generator.card
            path = self._card_path()
            if path is not None:
                write_cached(path, json.dumps(dataclasses.asdict(self._card)).encode())
        return self._generator

    def generate_many(
        self, prompts: Iterable[Prompt], keep: Callable[[str, Answer], None]
    ) -> Iterator[tuple[str, Answer]]:
        """Answer prompts with whatever the generator does best."""
        generator = self.load()
        if isinstance(generator, BatchGenerator):
            yield from generator.generate_many(prompts, keep)
            return
        for prompt in prompts:
            answer = generator.generate(prompt.messages)
            if not answer.error:
                keep(prompt.id, answer)
            yield prompt.id, answer

    def _card_path(self) -> Path | None:
        identity = self.family.identity(self.spec)
        if identity is None:
            return None
        return cache_root() / "cards" / f"{digest_json(['generator', dataclasses.asdict(self.spec), identity])}.json"

    def _read_card(self) -> ModelCard | None:
        path = self._card_path()
        if path is None or not path.is_file():
            return None
        fields = json.loads(path.read_text(encoding="utf-8"))
        return ModelCard(**{**fields, "notes": tuple(fields["notes"])})


def drop(name: str, answer: Answer) -> None:
    """Keep nothing: for those who take answers only as they are yielded."""
