"""Token and request usage, caps on it, and its cost.

Prices come from a file that the user provides; none are built in, because they change.

    currency = "USD"

    ["gpt-4o"]
    prompt = 2.50       # per million tokens
    completion = 10.00

    ["*"]               # every other model
    prompt = 0
    completion = 0

The same as JSON: {"currency": "USD", "gpt-4o": {"prompt": 2.5, "completion": 10}}.
"""

from __future__ import annotations

import threading
import tomllib
from collections.abc import Mapping
from dataclasses import astuple, dataclass, field
from operator import add
from pathlib import Path
from typing import Any

from eyechart.api.errors import BudgetExceededError
from eyechart.errors import UsageError
from eyechart.io.safe_parse import is_number, parse_json, read_text
from eyechart.messages import UserMessage

MILLION = 1_000_000
_RAISE = UserMessage("Raise the limit and rerun: saved answers are not requested again.")


@dataclass(frozen=True, slots=True)
class Usage:
    """Requests sent (retries included) and tokens as reported by the server."""

    requests: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0

    @property
    def tokens(self) -> int:
        """Prompt and completion tokens together."""
        return self.prompt_tokens + self.completion_tokens

    def __add__(self, other: Usage) -> Usage:
        return Usage(*map(add, astuple(self), astuple(other)))


def read_usage(body: Mapping[str, Any]) -> Usage:
    """Read the `usage` object of a response, or Cohere's or Gemini's; 0 tokens if it is absent or malformed."""
    meta = body.get("meta")
    billed = meta.get("billed_units") if isinstance(meta, Mapping) else None
    usage = body.get("usage") or billed or body.get("usageMetadata")
    if not isinstance(usage, Mapping):
        return Usage()
    prompt = _count(usage.get("prompt_tokens", usage.get("input_tokens", usage.get("promptTokenCount"))))
    completion = _count(usage.get("completion_tokens"))
    if not prompt and not completion:  # embeddings and rerankers often report the total only
        prompt = _count(usage.get("total_tokens"))
    return Usage(0, prompt, completion)


def _count(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


@dataclass(eq=False, repr=False)
class Budget:
    """Counts usage and stops a run at a cap; may be shared by several clients and threads.

    The cap on requests is exact. Token counts are known only once a response arrives, so requests in flight may exceed
    the cap on tokens. A copy in another process counts independently.
    """

    max_requests: int | None = None
    max_tokens: int | None = None
    _used: Usage = field(default_factory=Usage)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __repr__(self) -> str:
        return f"Budget(max_requests={self.max_requests}, max_tokens={self.max_tokens}, used={self.used})"

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_lock": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _lock=threading.Lock())

    @property
    def used(self) -> Usage:
        """Usage so far."""
        return self._used

    def take_request(self) -> None:
        """Count a request that is about to be sent, or raise BudgetExceededError."""
        with self._lock:
            requests, tokens = self._used.requests, self._used.tokens
            if self.max_requests is not None and requests >= self.max_requests:
                raise BudgetExceededError(
                    "Request limit of {max_requests} reached.", advice=_RAISE, max_requests=self.max_requests
                )
            if self.max_tokens is not None and tokens >= self.max_tokens:
                raise BudgetExceededError(
                    "Token limit of {max_tokens} reached ({tokens} used).",
                    advice=_RAISE,
                    max_tokens=self.max_tokens,
                    tokens=tokens,
                )
            self._used += Usage(requests=1)

    def add(self, usage: Usage) -> None:
        """Count the tokens of a response."""
        with self._lock:
            self._used += usage


@dataclass(frozen=True, slots=True)
class Price:
    """Price of a model per million tokens."""

    prompt: float
    completion: float
    currency: str = "USD"

    def cost(self, usage: Mapping[str, float]) -> float:
        """Return the cost of prompt_tokens and completion_tokens."""
        total = self.prompt * usage.get("prompt_tokens", 0) + self.completion * usage.get("completion_tokens", 0)
        return round(total / MILLION, 6)


def find_price(table: str, model: str) -> Price | None:
    """Look a model up in a price file; None without a file or an entry for the model."""
    if not table:
        return None
    prices = _read(Path(table))
    return prices.get(model, prices.get("*"))  # the entry of every model that the table does not list


def _read(path: Path) -> Mapping[str, Price]:
    try:
        text = read_text(path, UsageError)
        content = tomllib.loads(text) if path.suffix.lower() == ".toml" else parse_json(text)
    except ValueError as error:
        raise UsageError(
            "{path} is not a valid price table ({reason}).",
            advice="Write it as TOML (.toml) or JSON.",
            path=path,
            reason=error,
        ) from error
    if not isinstance(content, dict):
        raise UsageError("{path} is not a valid price table.", advice="It must map model names to prices.", path=path)
    currency = str(content.pop("currency", "USD"))
    prices = {}
    for name, entry in content.items():
        parts = {"prompt": 0, "completion": 0, **entry} if isinstance(entry, dict) and entry else {}
        if len(parts) != 2 or not all(is_number(value) and value >= 0 for value in parts.values()):
            raise UsageError(
                "{path}: invalid price for {name!r}.",
                advice="Set prompt and completion to numbers: the price per million tokens.",
                path=path,
                name=name,
            )
        prices[name] = Price(float(parts["prompt"]), float(parts["completion"]), currency)
    return prices
