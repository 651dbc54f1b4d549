"""``eyechart bench-api``: how fast a server embeds or reranks, before a long run is planned on it."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from eyechart.errors import UsageError
from eyechart.io.terminal import write_message

MOST = 100_000
"""Requests at most: whoever wants more wants another tool."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    add = parser.add_argument
    add("--api-base", required=True, help="address of the server, up to /v1")
    add("--model", default="", help="the model's name there; a server of one model may not need it")
    add("--kind", choices=["embeddings", "rerank"], default="embeddings", help="what is asked for")
    add("--rerank-form", choices=["jina", "tei"], default="jina", help="how the server takes documents to rerank")
    add("--requests", type=int, default=100, help="how many requests are sent")
    add("--concurrency", type=int, default=8, help="how many at a time")
    add("--batch-size", type=int, default=16, help="texts (or documents) in each request")
    add("--words", type=int, default=64, help="words in each made-up text")
    add("--texts", metavar="FILE", help="send the lines of this file instead of made-up texts")
    add("--seconds", type=float, default=60.0, help="send nothing more after this time")
    add("--timeout", type=float, default=60.0, help="seconds for one request")
    add("--tries", type=int, default=1, help="how often a request that fails is sent; its waiting counts as latency")
    add("--api-key-variable", help="environment variable that holds the key")
    add("--output", metavar="FILE", help="write the figures as JSON, too")


def run(args: argparse.Namespace) -> int:
    """Measure and show."""
    from eyechart.api import ApiClient, Retry
    from eyechart.api.speed import made_up_texts, measure_speed, repeated_texts, speed_requests

    for name in ("requests", "concurrency", "batch_size", "words", "tries"):
        if getattr(args, name) < 1:
            raise UsageError(f"--{name} must be 1 or more.")
    if args.requests > MOST or args.seconds <= 0 or args.timeout <= 0:
        raise UsageError(f"--requests can be {MOST} at most; --seconds and --timeout must be above 0.")
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
    """Write the figures for people."""
    what = "texts" if args.kind == "embeddings" else "documents"
    sent = f"{found['requests']} requests of {args.batch_size} {what}, {args.concurrency} at a time"
    lines = [
        f"{sent}: {found['seconds']:.2f} s, {found['failed']} failed, {found['retried']} sent again",
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
        raise UsageError(f"Cannot read the texts in {path} ({error}).", advice="It must be UTF-8 text.") from error
    if not lines:
        raise UsageError(f"{path} has no lines.")
    return lines


def _write(path: Path, found: dict[str, Any]) -> None:
    import json

    from eyechart.io.files import write_atomic

    write_atomic(path, (json.dumps(found, indent=1) + "\n").encode())
