"""The cards of models that were loaded before, in the cache. One that cannot be read is written anew."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any, NoReturn

from eyechart.io.files import cache_root, write_cached
from eyechart.types import ModelCard, ModelSpec, digest_json

FORM = 3
"""Raised when a card gets other fields, or when what it says means something else."""
MAX_BYTES = 1 << 20
TEXT, WHOLE, NUMBER = (str,), (int, type(None)), (int, float, type(None))
TYPES: dict[str, tuple[type, ...]] = {
    "family": TEXT,
    "name": TEXT,
    "weights_digest": TEXT,
    "transform": TEXT,
    "precision": TEXT,
    "embedding_dim": WHOLE,
    "image_size": WHOLE,
    "context_length": WHOLE,
    "parameters": WHOLE,
    "logit_scale": NUMBER,
    "logit_bias": NUMBER,
    "prompts": (dict,),
    "similarity": TEXT,
    "notes": (list,),
}
"""The fields of a card, and what they may hold."""


def read_card(spec: ModelSpec, identity: str) -> ModelCard | None:
    """Return the card that a model of this identity had when it was last loaded; None if that is not known."""
    path = _path(spec, identity)
    try:
        with path.open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
        body = json.loads(data.decode(), parse_constant=_no_number) if len(data) <= MAX_BYTES else None
    except (OSError, ValueError, RecursionError):
        return None
    fields: Any = body.get("card") if isinstance(body, dict) and body.get("form") == FORM else None
    return ModelCard(**{**fields, "notes": tuple(fields["notes"])}) if _is_card(fields) else None


def write_card(spec: ModelSpec, identity: str, card: ModelCard) -> None:
    """Remember the card of a loaded model."""
    body = {"form": FORM, "card": dataclasses.asdict(card)}
    write_cached(_path(spec, identity), json.dumps(body, default=str).encode())


def _is_card(fields: Any) -> bool:
    if not isinstance(fields, dict) or set(fields) != set(TYPES):
        return False
    right = all(isinstance(fields[name], kinds) and not isinstance(fields[name], bool) for name, kinds in TYPES.items())
    return right and all(isinstance(text, str) for text in (*fields["notes"], *fields["prompts"].values()))


def _no_number(text: str) -> NoReturn:
    raise ValueError(text)


def _path(spec: ModelSpec, identity: str) -> Path:
    return cache_root() / "cards" / f"{digest_json([spec.what, identity])}.json"
