"""How a model is reached, and within what limits."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from functools import partial
from typing import Any

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

    def __reduce__(self) -> tuple[object, ...]:
        """Travel to another process, which counts anew. A cap stays here: nobody could count for all of them."""
        if self.budget.max_requests is not None or self.budget.max_tokens is not None:
            raise TypeError("a cap on requests or tokens holds in one process only")
        kept: dict[str, Any] = {part.name: getattr(self, part.name) for part in fields(self) if part.name != "budget"}
        return (partial(Access, **kept), ())
