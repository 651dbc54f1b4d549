"""`eyechart bench-api`: throughput and latency of an embedding or rerank server."""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import cycle, takewhile
from pathlib import Path
from typing import Any

import numpy as np

from eyechart.api import ApiClient, Request, Retry, parse_embeddings, rerank_request
from eyechart.errors import UsageError
from eyechart.io.files import write_atomic
from eyechart.io.terminal import write_message

PERCENTILES = (50, 90, 95, 99)
FOR_THE_LAST = 100
"""With fewer requests the last percentile equals the maximum and is omitted."""
WORDS = (
    "time", "river", "stone", "light", "paper", "green",
    "engine", "winter", "market", "circle", "silver", "garden",
)  # fmt: skip
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
    found = _measure(client, args)
    write_message(_as_text(found, args), sys.stdout)
    if args.output:
        sent = {name: getattr(args, name) for name in ("model", "concurrency", "batch_size")}
        body = {"api_base": client.api_base, **sent, **found}
        write_atomic(Path(args.output), (json.dumps(body, indent=1) + "\n").encode())
    return 1 if found["failed"] else 0


def _measure(client: ApiClient, args: argparse.Namespace) -> dict[str, Any]:
    """Send requests until they are used up or the time is over; requests in flight are awaited.

    Raises:
        ApiError: If the server cannot be used at all: unreachable, wrong key, unknown model.
    """
    requests = _requests(args)
    client.call(next(requests))  # to warm up
    before = client.budget.used.tokens
    start = time.monotonic()
    replies = list(client.map(takewhile(lambda _: time.monotonic() - start < args.seconds, requests)))
    return speed_figures(
        args.kind,
        args.batch_size,
        seconds=time.monotonic() - start,
        latencies=[reply.seconds for reply in replies if reply.error is None],
        retried=sum(reply.tries > 1 for reply in replies),
        errors=[reply.error.message for reply in replies if reply.error is not None],
        tokens=client.budget.used.tokens - before,
    )


def _requests(args: argparse.Namespace) -> Iterator[Request[Any]]:
    """Make the requests and one to warm up, each with new texts to defeat server caches."""
    text = _texts(args)
    for number in range(args.requests + 1):
        texts = [text() for _ in range(args.batch_size)]
        if args.kind == "rerank":
            yield rerank_request(str(number), args.model, text(), texts, args.rerank_form)
        else:
            body = {"model": args.model, "input": texts, "encoding_format": "float"}
            yield Request(str(number), "embeddings", body, partial(parse_embeddings, count=args.batch_size))


def _texts(args: argparse.Namespace) -> Callable[[], str]:
    """Return a source of texts: the lines of a file, or reproducible random words."""
    if not args.texts:
        generator = random.Random(0)  # noqa: S311 - no secrets
        return lambda: " ".join([*generator.choices(WORDS, k=args.words - 1), str(generator.randrange(10**9))])
    try:
        lines = [line for line in Path(args.texts).read_text("utf-8").splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            "Cannot read the texts in {path} ({reason}).",
            advice="It must be UTF-8 text.",
            path=args.texts,
            reason=error,
        ) from error
    if not lines:
        raise UsageError("{path} is empty.", path=args.texts)
    return cycle(lines).__next__


def speed_figures(
    kind: str,
    items: int,
    *,
    seconds: float,
    latencies: Sequence[float],
    retried: int,
    errors: Sequence[str],
    tokens: int,
) -> dict[str, Any]:
    """Return throughput and latency as plain values.

    Args:
        kind: Measured endpoint.
        items: Texts, or query-document pairs, per request.
        seconds: From the first request to the last response.
        latencies: Per successful request, failed attempts included.
        retried: Requests that needed more than one attempt.
        errors: Per failed request.
        tokens: Tokens of all requests.
    """
    done = len(latencies)
    points = {}
    if done:
        # Percentiles without interpolation: each is an observed latency.
        shown = [p for p in PERCENTILES if p < PERCENTILES[-1] or done >= FOR_THE_LAST]
        observed = np.percentile(latencies, shown, method="inverted_cdf")
        points = {f"p{p}": round(float(x), 4) for p, x in zip(shown, observed, strict=True)}
        points["max"] = round(max(latencies), 4)
    return {
        "kind": kind,
        "requests": done + len(errors),
        "failed": len(errors),
        "retried": retried,
        "seconds": round(seconds, 4),
        "requests_per_second": round(done / seconds, 3),
        "items_per_second": round(items * done / seconds, 3),
        "tokens_per_second": round(tokens / seconds, 3) if tokens else None,
        "latency_seconds": points,
        "first_error": errors[0] if errors else None,
    }


def _as_text(found: dict[str, Any], args: argparse.Namespace) -> str:
    what = "texts" if args.kind == "embeddings" else "documents"
    sent = f"{found['requests']} requests of {args.batch_size} {what}, {args.concurrency} concurrent"
    tokens = f", {found['tokens_per_second']:.0f} tokens/s" if found["tokens_per_second"] else ""
    latencies = ", ".join(f"{name} {value * 1000:.1f} ms" for name, value in found["latency_seconds"].items())
    lines = [
        f"{sent}: {found['seconds']:.2f} s, {found['failed']} failed, {found['retried']} retried",
        f"throughput  {found['requests_per_second']:.2f} requests/s, {found['items_per_second']:.1f} {what}/s{tokens}",
        f"latency     {latencies}",
    ]
    if found["first_error"]:
        lines.append(f"first error {found['first_error']}")
    return "\n".join(lines) + "\n"
