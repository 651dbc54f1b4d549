"""A model of any kind that is loaded only when something is missing from the store."""

from __future__ import annotations

import threading
import time
from typing import Any

from eyechart.errors import ModelError
from eyechart.models.cards import read_card, write_card
from eyechart.models.family import Family, Remote
from eyechart.types import ModelCard, ModelSpec

_NOT_ASKED = "not asked"


class LazyModel:
    """A model that knows its card from an earlier run and loads its weights only when it has something to do.

    The card of an earlier run is believed as long as nothing is computed. Once the model is loaded, its own card
    counts, and whoever keeps what it computes must take the place that belongs to that card.
    """

    def __init__(self, spec: ModelSpec, family: Family) -> None:
        self.spec = spec
        self.family = family
        self._model: Any = None
        self._card: ModelCard | None = None
        self._identity: str | None = _NOT_ASKED
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
        if self._card is None and self.identity is not None:
            self._card = read_card(self.spec, self.identity)
        return self._card

    @property
    def identity(self) -> str | None:
        """Return a text that changes whenever the model would, or None if that is not known.

        It is that of the model whose card this is: what happens to the files afterwards does not change it.
        """
        if self._identity is _NOT_ASKED:
            self._identity = self.family.identity(self.spec)
        return self._identity

    def load(self, expected: str | None = None) -> Any:
        """Return the loaded model. The threads that prepare images may all ask at once; one of them loads.

        Args:
            expected: The fingerprint under which its answers will be kept.

        Raises:
            ModelError: If that is not the fingerprint of the loaded model.
        """
        with self._loading:
            if self._model is None:
                self._load()
        if expected is not None and self._model.card.fingerprint != expected:
            raise ModelError(
                f"{self.spec.label} is not the model that it was when its card was written.",
                advice="Nothing was stored. Run the same command again: it begins with the card of today.",
            )
        return self._model

    def _load(self) -> None:
        start = time.perf_counter()
        before = self.family.identity(self.spec)
        model = self.family.load(self.spec)
        after = self.family.identity(self.spec)
        # Files that changed while they were read: what was loaded is known, but not what it was loaded from.
        self._identity = after if before in (None, after) else None
        self._card = model.card
        if self._identity is not None:
            write_card(self.spec, self._identity, model.card)
        self._model = model
        self.load_seconds = time.perf_counter() - start
