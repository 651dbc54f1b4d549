"""What can be listed and looked up by name, room by room."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from eyechart.plugins import Registry


def registries() -> dict[str, Registry]:
    """Return the registries by the word under which ``eyechart list`` shows them."""
    from eyechart.models.registry import ENCODERS, GENERATORS, RERANKERS
    from eyechart.tasks.registry import TASKS

    return {"tasks": TASKS, "models": ENCODERS, "generators": GENERATORS, "rerankers": RERANKERS}
