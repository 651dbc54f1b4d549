"""Models loaded only when something is missing from the store, and the cached cards of models loaded before."""

import dataclasses
import json
import threading
import time
from functools import cached_property
from pathlib import Path
from typing import Any

from eyechart.errors import ModelError, UsageError
from eyechart.io.files import cache_root, write_cached
from eyechart.io.progress import NoProgress, Progress, announced
from eyechart.messages import UserMessage
from eyechart.models.family import Family, Remote
from eyechart.types import ModelCard, ModelSpec, digest_json

FORM = 8
"""Format version; raised when fields are added or change their meaning."""
MAX_BYTES = 1 << 20


def read_card(spec: ModelSpec, identity: str) -> ModelCard | None:
    """Return the cached card of a model with this identity, or None."""
    return _read(_path(spec, identity))


def model_names() -> dict[str, str]:
    """Return the names of all models with a cached card, by fingerprint."""
    cards = (_read(path) for path in sorted((cache_root() / "cards").glob("*.json")))
    return {card.fingerprint: card.name for card in cards if card is not None}


def _read(path: Path) -> ModelCard | None:
    try:
        with path.open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
        body = json.loads(data.decode()) if len(data) <= MAX_BYTES else None
        if not isinstance(body, dict) or body.get("digest") != digest_json([FORM, path.stem, body.get("card")]):
            return None
    except (OSError, ValueError, RecursionError):
        return None
    fields = body["card"]
    return ModelCard(**{**fields, "notes": tuple(fields["notes"]), "inputs": tuple(fields["inputs"])})


def write_card(spec: ModelSpec, identity: str, card: ModelCard) -> None:
    """Cache the card of a loaded model."""
    path = _path(spec, identity)
    fields = json.loads(json.dumps(dataclasses.asdict(card), default=str))
    body = {"digest": digest_json([FORM, path.stem, fields]), "card": fields}  # a card under another name is not valid
    write_cached(path, json.dumps(body).encode())


def _path(spec: ModelSpec, identity: str) -> Path:
    return cache_root() / "cards" / f"{digest_json([spec.what, identity])}.json"


class LazyModel:
    """A model that reads its card from the cache and loads its weights only when needed.

    A cached card is trusted as long as nothing is computed. Once the model is loaded, its current card replaces it, and
    computed results must be stored under that card.
    """

    def __init__(self, spec: ModelSpec, family: Family) -> None:
        self.spec = spec
        self.family = family
        self._model: Any = None
        self._card: ModelCard | None = None
        self._loading = threading.Lock()
        self.load_seconds = 0.0
        self.progress: Progress = NoProgress()

    @property
    def loaded(self) -> bool:
        """Whether the weights are in memory."""
        return self._model is not None

    @property
    def remote(self) -> bool:
        """Whether the model runs on a server, with a key and a budget."""
        return isinstance(self.family, Remote)

    @property
    def device(self) -> str | None:
        """Devices of the loaded model, else the requested one; None if neither is known, as when all was cached."""
        requested = None if self.remote or self.spec.device == "auto" else self.spec.device
        return ",".join(getattr(self._model, "devices", ())) or requested

    @property
    def card(self) -> ModelCard:
        """The card, from the cache if this exact model was loaded before."""
        card: ModelCard = self.known_card or self.load().card
        return card

    @property
    def known_card(self) -> ModelCard | None:
        """The card if it is known without loading the model."""
        if self._card is None and self.identity is not None:
            self._card = read_card(self.spec, self.identity)
        return self._card

    def check_dim(self, wanted: int, size: int | None = None) -> None:
        """Reject more dimensions than ``size``, by default that of the card, if known."""
        card = self.known_card
        size = size or (card.embedding_dim if card else None)
        if size and wanted > size:
            text = "{label} has {size} dimensions, fewer than {--truncate_dim={wanted}}."
            raise UsageError(text, label=self.spec.label, size=size, wanted=wanted)

    @cached_property
    def identity(self) -> str | None:
        """A text that changes whenever the model does; None if unknown.

        It is determined once: later changes of the files do not affect it.
        """
        return self.family.identity(self.spec)

    def load(self, expected: str | None = None) -> Any:
        """Return the loaded model. Concurrent calls load it once.

        ``expected`` is the fingerprint under which its results will be stored; another one is an error.
        """
        with self._loading:
            if self._model is None:
                start = time.perf_counter()
                with announced(self.progress, UserMessage("loading {name}", name=self.spec.label)):
                    before = self.family.identity(self.spec)
                    model = self.family.load(self.spec)
                    after = self.family.identity(self.spec)
                # If files changed during loading, the identity of the loaded model is unknown.
                self.identity = after if before in (None, after) else None
                self._card = model.card
                if self.identity is not None:
                    write_card(self.spec, self.identity, model.card)
                self._model = model
                self.load_seconds = time.perf_counter() - start
        if expected is not None and self._model.card.fingerprint != expected:
            raise ModelError(
                "{label} has changed since its card was cached.",
                advice="Nothing was stored. Run the same command again; it uses the current card.",
                label=self.spec.label,
            )
        return self._model
