"""How fast a server embeds or reranks: throughput and latency, measured with a bounded number of requests."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np

from eyechart.api import ApiClient, Request, parse_embeddings, rerank_request
from eyechart.api.rerank import RerankForm
from eyechart.errors import EyechartError

SpeedKind = Literal["embeddings", "rerank"]
PERCENTILES = (50, 90, 95, 99)
FOR_THE_LAST = 100
"""With fewer requests the last percentile is the slowest one, and not shown as more."""
WORDS = (
    "time",
    "river",
    "stone",
    "light",
    "paper",
    "green",
    "engine",
    "winter",
    "market",
    "circle",
    "silver",
    "garden",
)


@dataclass(frozen=True)
class ApiSpeed:
    """What was measured."""

    kind: SpeedKind
    items: int
    """Texts, or pairs of a query and a document, in the requests that succeeded."""
    seconds: float
    """From the first request to the last answer."""
    latencies: tuple[float, ...]
    """Of each request that succeeded: what its sender waits, tries that failed included."""
    retried: int
    """Requests that needed more than one try."""
    errors: tuple[str, ...]
    """Of each request that failed."""
    tokens: int

    def as_json(self) -> dict[str, Any]:
        """Return the figures as plain values."""
        done = len(self.latencies)
        return {
            "kind": self.kind,
            "requests": done + len(self.errors),
            "failed": len(self.errors),
            "retried": self.retried,
            "seconds": round(self.seconds, 4),
            "requests_per_second": round(done / self.seconds, 3),
            "items_per_second": round(self.items / self.seconds, 3),
            "tokens_per_second": round(self.tokens / self.seconds, 3) if self.tokens else None,
            "latency_seconds": _points(self.latencies) if done else {},
            "first_error": self.errors[0] if self.errors else None,
        }


def _points(latencies: Sequence[float]) -> dict[str, float]:
    """Return percentiles, each a latency that was observed, not one between two."""
    shown = [p for p in PERCENTILES if p < PERCENTILES[-1] or len(latencies) >= FOR_THE_LAST]
    points = np.percentile(latencies, shown, method="inverted_cdf")
    named = {f"p{p}": round(float(x), 4) for p, x in zip(shown, points, strict=True)}
    return {**named, "max": round(max(latencies), 4)}


def measure_speed(
    client: ApiClient, requests: Iterator[Request[Any]], *, kind: SpeedKind, items: int, longest: float
) -> ApiSpeed:
    """Send requests until there are none, or the time is over; what is under way then is waited for.

    Args:
        client: The server, with so many requests at a time; it is asked once before the clock starts.
        requests: What to send; the first one only warms the server up.
        kind: What is asked for.
        items: Texts or pairs in each request.
        longest: Seconds after which nothing more is sent.

    Raises:
        ApiError: If the server cannot be used at all: not there, wrong key, unknown model.
    """
    client.call(next(requests))
    before = client.budget.used.tokens
    start = time.monotonic()

    def until_over() -> Iterator[Request[Any]]:
        for request in requests:
            if time.monotonic() - start >= longest:
                return
            yield request

    replies = list(client.map(until_over()))
    seconds = time.monotonic() - start
    good = [reply for reply in replies if reply.error is None]
    return ApiSpeed(
        kind=kind,
        items=items * len(good),
        seconds=seconds,
        latencies=tuple(reply.seconds for reply in good),
        retried=sum(reply.tries > 1 for reply in replies),
        errors=tuple(_said(reply.error) for reply in replies if reply.error is not None),
        tokens=client.budget.used.tokens - before,
    )


def speed_requests(
    kind: SpeedKind, model: str, count: int, items: int, text: Callable[[], str], form: RerankForm = "jina"
) -> Iterator[Request[Any]]:
    """Make ``count`` requests and one to warm up, each with new texts: a server's cache must not answer."""
    for number in range(count + 1):
        texts = [text() for _ in range(items)]
        if kind == "rerank":
            yield rerank_request(str(number), model, text(), texts, form)
        else:
            body = {"model": model, "input": texts, "encoding_format": "float"}
            yield Request(str(number), "embeddings", body, partial(parse_embeddings, count=items))


def made_up_texts(words: int, seed: int = 0) -> Callable[[], str]:
    """Return a source of texts of so many words; the same ones every time."""
    generator = random.Random(seed)  # noqa: S311 - no secrets
    return lambda: " ".join([*generator.choices(WORDS, k=max(0, words - 1)), str(generator.randrange(10**9))])


def repeated_texts(lines: Sequence[str]) -> Callable[[], str]:
    """Return a source of the texts of a file, over and over."""
    numbers = iter(range(10**12))
    return lambda: lines[next(numbers) % len(lines)]


def _said(error: EyechartError) -> str:
    return error.message
