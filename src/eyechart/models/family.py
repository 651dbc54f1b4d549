"""What a family must offer, and a model that is loaded only when something is missing from the store."""

from __future__ import annotations

import dataclasses
import json
import threading
import time
from pathlib import Path
from typing import Protocol, runtime_checkable

from eyechart.errors import ModelError
from eyechart.io.files import cache_root, write_cached
from eyechart.types import Encoder, ModelCard, ModelSpec, digest_json


@runtime_checkable
class Family(Protocol):
    """A kind of model that can be loaded by name."""

    def check(self, spec: ModelSpec) -> None:
        """Refuse what cannot be loaded (missing library, unknown name, missing file) without loading anything."""
        ...

    def identity(self, spec: ModelSpec) -> str | None:
        """Return a text that changes whenever the weights would, or None if that is not known without loading."""
        ...

    def load(self, spec: ModelSpec) -> Encoder:
        """Load the model."""
        ...


class LazyEncoder:
    """A model that knows its card from an earlier run and loads its weights only when asked to encode."""

    def __init__(self, spec: ModelSpec, family: Family) -> None:
        self.spec = spec
        self.family = family
        self._encoder: Encoder | None = None
        self._card: ModelCard | None = None
        self._loading = threading.Lock()
        self.load_seconds = 0.0

    @property
    def loaded(self) -> bool:
        """Tell whether the weights are in memory."""
        return self._encoder is not None

    @property
    def device(self) -> str:
        """Name where it computes: the devices of the loaded model, or what was asked for if nothing was computed."""
        return ",".join(getattr(self._encoder, "devices", ())) or self.spec.device

    @property
    def card(self) -> ModelCard:
        """Return the card, from the cache if this very model was loaded before."""
        if self._card is None:
            self._card = known_card(self.spec, self.family) or self.load().card
        return self._card

    def load(self) -> Encoder:
        """Return the loaded model. The threads that prepare images may all ask at once; one of them loads."""
        with self._loading:
            if self._encoder is None:
                start = time.perf_counter()
                self._encoder = self.family.load(self.spec)
                self.load_seconds = time.perf_counter() - start
                self._card = self._encoder.card
                path = _card_path(self.spec, self.family)
                if path is not None:
                    write_cached(path, json.dumps(dataclasses.asdict(self._card)).encode())
            return self._encoder


def known_card(spec: ModelSpec, family: Family) -> ModelCard | None:
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
    return cache_root() / "cards" / f"{digest_json([dataclasses.asdict(spec), identity])}.json"


def path_identity(*texts: str) -> str:
    """Describe the files behind names that are paths, by size and time; a name that is no path stands for itself."""
    parts: list[object] = []
    for text in texts:
        path = Path(text) if text else None
        if path is not None and path.exists():
            files = [path] if path.is_file() else sorted(p for p in path.rglob("*") if p.is_file())
            parts.append([[str(p), p.stat().st_size, p.stat().st_mtime_ns] for p in files])
        else:
            parts.append(text)
    return digest_json(parts)


def check_path(text: str) -> None:
    """Refuse something that is written like a path but does not exist."""
    looks_like_path = text.startswith((".", "/", "~")) or text.endswith(
        (".pt", ".pth", ".bin", ".safetensors", ".onnx")
    )
    if looks_like_path and not Path(text).expanduser().exists():
        raise ModelError(f"There is no checkpoint {text}.", advice="Check the path after --pretrained.")
