"""How a model is reached, and within what limits."""

from __future__ import annotations

from dataclasses import dataclass, field

from eyechart.api import Budget, Secret


@dataclass(frozen=True)
class Access:
    """Nothing of this changes what a model answers, so it is in no key."""

    key: Secret | None = field(default=None, repr=False)
    key_variable: str | None = None
    concurrency: int = 8
    timeout: float = 120.0
    """Seconds for one request, from the first byte sent to the last one received."""
    tries: int = 6
    batch_size: int = 4
    """Conversations per forward pass of a local model; texts per request of a remote encoder."""
    budget: Budget = field(default_factory=Budget)
