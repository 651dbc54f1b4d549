"""What is put in front of a query or of a document before it is embedded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from eyechart.tasks.base import Material

ROLES = ("query", "document")
UNIT = "normalize_embeddings"
"""The setting by which also a model that compares by dot product is compared by cosine."""


def given_prompts(family: str) -> dict[str, Any]:
    """Return the option by which a family leaves prompts to those who give it texts: they are part of the texts."""
    return {"prompts": "given"} if family == "sentence-transformers" else {}


def prompt_settings(options: Mapping[str, Any]) -> dict[str, Any]:
    """Pick ``query_prompt`` and ``document_prompt`` (an empty one is a choice, too), and `UNIT` if it is set."""
    given = {f"{role}_prompt": options.get(f"{role}_prompt") for role in ROLES}
    unit = {UNIT: True} if options.get(UNIT) else {}
    return {key: str(text) for key, text in given.items() if text is not None} | unit


def prompts_of(material: Material, settings: Mapping[str, Any]) -> dict[str, str]:
    """Return the prompts by role: those of the settings if there are any, else those of the model's authors."""
    given = {role: settings[f"{role}_prompt"] for role in ROLES if f"{role}_prompt" in settings}
    return given or dict(material.encoder.card.prompts)


def with_prompt(prompts: Mapping[str, str], role: str, texts: Sequence[str]) -> list[str]:
    """Put the prompt of a role in front of texts."""
    return [prompts.get(role, "") + text for text in texts]
