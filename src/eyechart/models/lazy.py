"""A model of any kind that is loaded only when something is missing from the store."""

from __future__ import annotations

import dataclasses
import json
import threading
import time
from functools import cached_property
from pathlib import Path
from typing import Any

from eyechart.io.files import cache_root, write_cached
from eyechart.models.family import Family, Remote
from eyechart.types import ModelCard, ModelSpec, digest_json


class LazyModel:
    """A model that knows its card from an earlier run and loads its weights only when it has something to do."""

    def __init__(self, spec: ModelSpec, family: Family) -> None:
        self.spec = spec
        self.family = family
        self._model: Any = None
        self._card: ModelCard | None = None
        self._loading = threading.Lock()
        self.load_seconds = 0.0

    @property
    def loaded(self) -> bool:
        """Tell whether the weights are in memory."""
        return self._model is not None

    @property
    def remote(self) -> bool:
        """Tell whether the model runs elsewhere, so that a key and a budget count."""
        return isinstance(self.family, Remote)

    @property
    def device(self) -> str:
        """Name where it computes: the devices of the loaded model, or what was asked for if nothing was computed."""
        return ",".join(getattr(self._model, "devices", ())) or self.spec.device

    @property
    def card(self) -> ModelCard:
        """Return the card, from the cache if this very model was loaded before."""
        card: ModelCard = self.known_card or self.load().card
        return card

    @property
    def known_card(self) -> ModelCard | None:
        """Return the card if it is known without loading the model."""
        if self._card is None:
            self._card = read_card(self.spec, self.family)
        return self._card

    @cached_property
    def identity(self) -> str | None:
        """Return a text that changes whenever the model would, or None if that is not known; looked up once."""
        return self.family.identity(self.spec)

    def load(self) -> Any:
        """Return the loaded model. The threads that prepare images may all ask at once; one of them loads."""
        with self._loading:
            if self._model is None:
                start = time.perf_counter()
                self._model = self.family.load(self.spec)
                self.load_seconds = time.perf_counter() - start
                self._card = self._model.card
                path = _card_path(self.spec, self.family)
                if path is not None:
                    write_cached(path, json.dumps(dataclasses.asdict(self._model.card)).encode())
            return self._model


def read_card(spec: ModelSpec, family: Family) -> ModelCard | None:
    """Return the card of a model that was loaded before, unless its weights may have changed since."""
    path = _card_path(spec, family)
    if path is None or not path.is_file():
        return None
    fields = json.loads(path.read_text(encoding="utf-8"))
    return ModelCard(**{**fields, "notes": tuple(fields["notes"])})


def _card_path(spec: ModelSpec, family: Family) -> Path | None:
    identity = family.identity(spec)
    if identity is None:
        return None
    return cache_root() / "cards" / f"{digest_json([spec.what, identity])}.json"
