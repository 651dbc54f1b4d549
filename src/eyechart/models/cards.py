"""The cards of models that were loaded before, in the cache. One that is not as it was written is made anew."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

from eyechart.io.files import cache_root, write_cached
from eyechart.types import ModelCard, ModelSpec, digest_json

FORM = 5
"""Raised when a card gets other fields, or when what it says means something else."""
MAX_BYTES = 1 << 20


def read_card(spec: ModelSpec, identity: str) -> ModelCard | None:
    """Return the card that a model of this identity had when it was last loaded; None if that is not known."""
    return _read(_path(spec, identity))


def model_names() -> dict[str, str]:
    """Return the names of all models that have a card, by fingerprint."""
    cards = (_read(path) for path in sorted((cache_root() / "cards").glob("*.json")))
    return {card.fingerprint: card.name for card in cards if card is not None}


def _read(path: Path) -> ModelCard | None:
    try:
        with path.open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
        body = json.loads(data.decode()) if len(data) <= MAX_BYTES else None
        if not isinstance(body, dict) or body.get("digest") != digest_json([FORM, body.get("card")]):
            return None
    except (OSError, ValueError, RecursionError):
        return None
    fields = body["card"]
    return ModelCard(**{**fields, "notes": tuple(fields["notes"])})


def write_card(spec: ModelSpec, identity: str, card: ModelCard) -> None:
    """Remember the card of a loaded model."""
    fields = json.loads(json.dumps(dataclasses.asdict(card), default=str))
    body = {"digest": digest_json([FORM, fields]), "card": fields}
    write_cached(_path(spec, identity), json.dumps(body).encode())


def _path(spec: ModelSpec, identity: str) -> Path:
    return cache_root() / "cards" / f"{digest_json([spec.what, identity])}.json"
