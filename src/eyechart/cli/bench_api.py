"""`eyechart bench-api`: throughput and latency of an embedding or rerank server."""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np

from eyechart.api import ApiClient, Request, parse_embeddings, rerank_request
from eyechart.api.endpoints import RerankForm
from eyechart.errors import UsageError
from eyechart.io.terminal import write_message

SpeedKind = Literal["embeddings", "rerank"]
PERCENTILES = (50, 90, 95, 99)
FOR_THE_LAST = 100
"""With fewer requests the last percentile equals the maximum and is omitted."""
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
    """Measured throughput and latency."""

    kind: SpeedKind
    items: int
    """Texts, or query-document pairs, in successful requests."""
    seconds: float
    """From the first request to the last response."""
    latencies: tuple[float, ...]
    """Per successful request, failed attempts included."""
    retried: int
    """Requests that needed more than one attempt."""
    errors: tuple[str, ...]
    """Per failed request."""
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
    """Return percentiles without interpolation: each is an observed latency."""
    shown = [p for p in PERCENTILES if p < PERCENTILES[-1] or len(latencies) >= FOR_THE_LAST]
    points = np.percentile(latencies, shown, method="inverted_cdf")
    named = {f"p{p}": round(float(x), 4) for p, x in zip(shown, points, strict=True)}
    return {**named, "max": round(max(latencies), 4)}


def measure_speed(
    client: ApiClient, requests: Iterator[Request[Any]], *, kind: SpeedKind, items: int, longest: float
) -> ApiSpeed:
    """Send requests until they are used up or the time is over; requests in flight are awaited.

    Args:
        client: The server and the concurrency.
        requests: What to send; the first one is a warm-up and not measured.
        kind: Endpoint to measure.
        items: Texts or pairs per request.
        longest: Seconds after which no new request is sent.

    Raises:
        ApiError: If the server cannot be used at all: unreachable, wrong key, unknown model.
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
        errors=tuple(reply.error.message for reply in replies if reply.error is not None),
        tokens=client.budget.used.tokens - before,
    )


def speed_requests(
    kind: SpeedKind, model: str, count: int, items: int, text: Callable[[], str], form: RerankForm = "jina"
) -> Iterator[Request[Any]]:
    """Make ``count`` requests and one to warm up, each with new texts to defeat server caches."""
    for number in range(count + 1):
        texts = [text() for _ in range(items)]
        if kind == "rerank":
            yield rerank_request(str(number), model, text(), texts, form)
        else:
            body = {"model": model, "input": texts, "encoding_format": "float"}
            yield Request(str(number), "embeddings", body, partial(parse_embeddings, count=items))


def made_up_texts(words: int, seed: int = 0) -> Callable[[], str]:
    """Return a reproducible source of random texts with this many words."""
    generator = random.Random(seed)  # noqa: S311 - no secrets
    return lambda: " ".join([*generator.choices(WORDS, k=max(0, words - 1)), str(generator.randrange(10**9))])


def repeated_texts(lines: Sequence[str]) -> Callable[[], str]:
    """Return a source that cycles through the lines of a file."""
    numbers = iter(range(10**12))
    return lambda: lines[next(numbers) % len(lines)]


# ``eyechart bench-api``: throughput and latency of an embedding or rerank server.


MOST = 100_000
"""Maximum number of requests."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    add = parser.add_argument
    add("--api-base", required=True, help="base URL of the server, up to /v1")
    add("--model", default="", help="name of the model on the server; optional if it serves one model")
    add("--kind", choices=["embeddings", "rerank"], default="embeddings", help="endpoint to measure")
    add("--rerank-form", choices=["jina", "tei"], default="jina", help="request format of the rerank endpoint")
    add("--requests", type=int, default=100, help="number of requests")
    add("--concurrency", type=int, default=8, help="concurrent requests")
    add("--batch-size", type=int, default=16, help="texts (or documents) per request")
    add("--words", type=int, default=64, help="words per generated text")
    add("--texts", metavar="FILE", help="send the lines of this file instead of generated texts")
    add("--seconds", type=float, default=60.0, help="stop sending after this many seconds")
    add("--timeout", type=float, default=60.0, help="seconds to wait for a response")
    add("--tries", type=int, default=1, help="attempts per request; retries count towards latency")
    add("--api-key-variable", help="environment variable that holds the API key")
    add("--output", metavar="FILE", help="also write the measurements as JSON")


def run(args: argparse.Namespace) -> int:
    """Measure and print."""
    from eyechart.api import Retry

    for name in ("requests", "concurrency", "batch_size", "words", "tries"):
        if getattr(args, name) < 1:
            raise UsageError("{--{name}} must be 1 or more.", name=name)
    if args.requests > MOST or args.seconds <= 0 or args.timeout <= 0:
        raise UsageError("--requests must be at most {n}; --seconds and {--timeout} must be positive.", n=MOST)
    client = ApiClient(
        args.api_base,
        api_key_variable=args.api_key_variable,
        concurrency=args.concurrency,
        timeout=args.timeout,
        retry=Retry(tries=args.tries),
    )
    text = repeated_texts(_lines(Path(args.texts))) if args.texts else made_up_texts(args.words)
    requests = speed_requests(args.kind, args.model, args.requests, args.batch_size, text, args.rerank_form)
    found = measure_speed(client, requests, kind=args.kind, items=args.batch_size, longest=args.seconds).as_json()
    sent = {"api_base": client.api_base, "model": args.model, "concurrency": args.concurrency}
    write_message(as_text(found, args), sys.stdout)
    if args.output:
        _write(Path(args.output), {**sent, "batch_size": args.batch_size, **found})
    return 1 if found["failed"] else 0


def as_text(found: dict[str, Any], args: argparse.Namespace) -> str:
    """Format the measurements."""
    what = "texts" if args.kind == "embeddings" else "documents"
    sent = f"{found['requests']} requests of {args.batch_size} {what}, {args.concurrency} concurrent"
    lines = [
        f"{sent}: {found['seconds']:.2f} s, {found['failed']} failed, {found['retried']} retried",
        f"throughput  {found['requests_per_second']:.2f} requests/s, {found['items_per_second']:.1f} {what}/s"
        + (f", {found['tokens_per_second']:.0f} tokens/s" if found["tokens_per_second"] else ""),
        "latency     " + ", ".join(f"{name} {value * 1000:.1f} ms" for name, value in found["latency_seconds"].items()),
    ]
    if found["first_error"]:
        lines.append(f"first error {found['first_error']}")
    return "\n".join(lines) + "\n"


def _lines(path: Path) -> list[str]:
    try:
        lines = [line for line in path.read_text("utf-8").splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            "Cannot read the texts in {path} ({reason}).", advice="It must be UTF-8 text.", path=path, reason=error
        ) from error
    if not lines:
        raise UsageError("{path} is empty.", path=path)
    return lines


def _write(path: Path, found: dict[str, Any]) -> None:
    import json

    from eyechart.io.files import write_atomic

    write_atomic(path, (json.dumps(found, indent=1) + "\n").encode())
