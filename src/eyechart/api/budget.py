"""What a run has used, and what it may use."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from eyechart.api.errors import BudgetExceededError


@dataclass(frozen=True, slots=True)
class Usage:
    """Requests sent (each try counts) and tokens as the server reports them."""

    requests: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0

    @property
    def tokens(self) -> int:
        """All tokens, asked and answered."""
        return self.prompt_tokens + self.completion_tokens

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.requests + other.requests,
            self.prompt_tokens + other.prompt_tokens,
            self.completion_tokens + other.completion_tokens,
        )


def read_usage(body: Mapping[str, Any]) -> Usage:
    """Read the `usage` object of an answer; servers without one, or with nonsense in it, count as 0 tokens."""
    usage = body.get("usage")
    if not isinstance(usage, Mapping):
        return Usage()
    prompt = _count(usage.get("prompt_tokens"))
    completion = _count(usage.get("completion_tokens"))
    if not prompt and not completion:  # embeddings and rerankers often give the total only
        prompt = _count(usage.get("total_tokens"))
    return Usage(0, prompt, completion)


def _count(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


class Budget:
    """Counts usage and stops a run at a cap. One budget may be shared by several clients and threads.

    The cap on requests is exact. Tokens are known only when an answer is there, so the requests in flight
    at that moment may go beyond the cap on tokens. A copy in another process counts for itself.
    """

    def __init__(self, max_requests: int | None = None, max_tokens: int | None = None) -> None:
        self.max_requests = max_requests
        self.max_tokens = max_tokens
        self._used = Usage()
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"Budget(max_requests={self.max_requests}, max_tokens={self.max_tokens}, used={self.used})"

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_lock": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _lock=threading.Lock())

    @property
    def used(self) -> Usage:
        """What was used up to now."""
        return self._used

    def take_request(self) -> None:
        """Count a request that is about to be sent, or refuse it."""
        with self._lock:
            if self.max_requests is not None and self._used.requests >= self.max_requests:
                raise _exceeded(f"The cap of {self.max_requests} requests is reached.")
            if self.max_tokens is not None and self._used.tokens >= self.max_tokens:
                raise _exceeded(f"The cap of {self.max_tokens} tokens is reached ({self._used.tokens} used).")
            self._used += Usage(requests=1)

    def add(self, usage: Usage) -> None:
        """Count the tokens of an answer."""
        with self._lock:
            self._used += usage


def _exceeded(message: str) -> BudgetExceededError:
    return BudgetExceededError(message, advice="Raise the cap and run again: answers already saved are not paid twice.")
