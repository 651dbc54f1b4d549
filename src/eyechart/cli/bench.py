"""`eyechart bench`: throughput and latency of an encoder on this machine, or of a chat, embedding or rerank server."""

import argparse
import io
import json
import random
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import cycle, takewhile
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from eyechart.api import ApiClient, Request, Retry, chat_request, parse_embeddings, rerank_request, user
from eyechart.cli.flags.parser import CommandParser
from eyechart.cli.info import add_model_arguments, model_of
from eyechart.errors import UsageError
from eyechart.io.files import write_atomic
from eyechart.io.images import ImageRef
from eyechart.io.terminal import width_of, write_message
from eyechart.io.text_tables import columns_of, lay_out
from eyechart.messages import UserMessage, join
from eyechart.provenance import compute_facts, reset_peak_memory

PERCENTILES = (50, 90, 95, 99)
FOR_THE_LAST = 100
"""With fewer requests the last percentile equals the maximum and is omitted."""
WORDS = (
    "time", "river", "stone", "light", "paper", "green",
    "engine", "winter", "market", "circle", "silver", "garden",
)  # fmt: skip
MOST = 100_000
"""Maximum number of requests."""
MOST_PIXELS = 8192
"""Maximum side of a generated image."""
ITEMS = {"embeddings": "texts", "rerank": "documents", "chat": "prompt"}
"""What a request of each kind holds."""
EXAMPLES = ("ViT-B-32:openai --device cuda --batch-size 64", "--api-base http://localhost:8080/v1 --model bge-m3")
BATCHES = 3
"""Batches that warm up an encoder."""


def add_arguments(parser: CommandParser) -> None:
    """Add the arguments."""
    parser.alone, parser.examples = True, EXAMPLES
    add = parser.add_argument
    add("name", nargs="?", metavar="MODEL", help="encoder on this machine, measured with one item and a batch")
    add("--requests", type=int, default=100, help="number of requests, or of batches of each size")
    about = "images, texts or documents per batch or request; a chat request has one prompt"
    add("--batch-size", type=int, default=16, help=about)
    add("--words", type=int, default=64, help="words per generated text")
    add("--texts", metavar="FILE", help="use the lines of this file instead of generated texts")
    add("--seconds", type=float, default=60.0, help="stop after this many seconds")
    add("--output", metavar="FILE", help="also write the measurements as JSON")
    add_model_arguments(parser.add_argument_group("for an encoder"))
    add = parser.add_argument_group("for a server").add_argument
    add("--api-base", help="base URL of the server, up to /v1")
    add("--model", default="", help="name of the model on the server; optional if it serves one model")
    add("--kind", choices=list(ITEMS), default="embeddings", help="endpoint to measure")
    add("--rerank-form", choices=["jina", "tei"], default="jina", help="request format of the rerank endpoint")
    add("--concurrency", type=int, default=8, help="concurrent requests")
    add("--max-tokens", type=int, default=128, help="token limit of each chat completion")
    add("--image-size", type=int, default=0, help="side in pixels of a generated image in each chat prompt; 0: none")
    add("--timeout", type=float, default=60.0, help="seconds to wait for a response")
    add("--tries", type=int, default=1, help="attempts per request; retries count towards latency")
    add("--api-key-variable", help="environment variable that holds the API key")


def run(args: argparse.Namespace) -> int:
    """Measure and print."""
    for name in ("requests", "concurrency", "batch_size", "words", "tries", "max_tokens"):
        if getattr(args, name) < 1:
            raise UsageError("{--{name}} must be 1 or more.", name=name)
    if not 0 <= args.image_size <= MOST_PIXELS:
        raise UsageError("--image-size must be from 0 to {n}.", n=MOST_PIXELS)
    args.batch_size = 1 if args.kind == "chat" else args.batch_size
    if args.requests > MOST or args.seconds <= 0 or args.timeout <= 0:
        raise UsageError("--requests must be at most {n}; --seconds and {--timeout} must be positive.", n=MOST)
    args.model, args.name = args.model or args.name or "", args.name or args.model
    if not args.api_base and not args.name:
        raise UsageError("There is no model to measure.", advice="Name one, or a server with {--api_base=URL}.")
    found = _measure_server(args) if args.api_base else _measure_encoder(args)
    if args.output:
        write_atomic(Path(args.output), (json.dumps(found, indent=1) + "\n").encode())
    return 1 if found.get("failed") else 0


def _measure_server(args: argparse.Namespace) -> dict[str, Any]:
    """Send requests until they are used up or the time is over; requests in flight are awaited."""
    client = ApiClient(
        args.api_base,
        api_key_variable=args.api_key_variable,
        concurrency=args.concurrency,
        timeout=args.timeout,
        retry=Retry(tries=args.tries),
    )
    requests = _requests(args)
    client.call(next(requests))  # to warm up
    before = client.budget.used
    start = time.monotonic()
    replies = list(client.map(takewhile(lambda _: time.monotonic() - start < args.seconds, requests)))
    found = speed_figures(
        args.kind,
        args.batch_size,
        seconds=time.monotonic() - start,
        latencies=[reply.seconds for reply in replies if reply.error is None],
        retried=sum(reply.tries > 1 for reply in replies),
        errors=[reply.error.message for reply in replies if reply.error is not None],
        tokens=client.budget.used.tokens - before.tokens,
        written=client.budget.used.completion_tokens - before.completion_tokens if args.kind == "chat" else None,
    )
    write_message(_as_text(found, args), sys.stdout)
    sent = {name: getattr(args, name) for name in ("model", "concurrency", "batch_size")}
    return {"api_base": client.api_base, **sent, **found}


def _measure_encoder(args: argparse.Namespace) -> dict[str, Any]:
    """Time the forward passes of an encoder: prepared images and untokenized texts, alone and in batches."""
    reset_peak_memory()
    model = model_of(args)
    encoder, text = model.load(), _texts(args)
    sizes = sorted({1, args.batch_size})
    measured = []
    for kind in (kind for kind in ("image", "text") if kind in encoder.card.inputs):
        for size in sizes:
            encode = encoder.encode_texts if kind == "text" else encoder.encode_images
            items = [text() for _ in range(size)] if kind == "text" else _images(encoder, size)
            for _ in range(BATCHES):
                encode(items)
            latencies: list[float] = []
            end = time.perf_counter() + args.seconds / len(sizes) / 2
            while not latencies or (len(latencies) < args.requests and time.perf_counter() < end):
                before = time.perf_counter()
                encode(items)
                latencies.append(time.perf_counter() - before)
            figures = speed_figures(kind, size, seconds=sum(latencies), latencies=latencies)
            measured.append({"batch_size": size, **figures})
    card = encoder.card
    facts = {"precision": card.weight_type or card.precision, **compute_facts(model.device)}
    _show_encoder(model.spec.label, facts, measured)
    return {"model": model.spec.label, **facts, "measurements": measured}


def _images(encoder: Any, count: int) -> Any:
    """Return prepared images of noise, in the encoder's size."""
    side = encoder.card.image_size or 224
    pixels = np.random.default_rng(0).integers(0, 256, (count, side, side, 3), np.uint8)
    prepared = [encoder.prepare_image(Image.fromarray(one)) for one in pixels]
    return np.stack(prepared) if len({one.shape for one in prepared}) == 1 else prepared


def _show_encoder(label: str, facts: Mapping[str, Any], measured: Sequence[Mapping[str, Any]]) -> None:
    memory = facts.get("peak_memory")
    parts = [label, facts["precision"], facts["device"], facts.get("device_name")]
    parts += [UserMessage("peak memory {size:,.0f} MB", size=memory / 1e6)] if memory else []
    write_message("{facts}\n", sys.stdout, facts=join(filter(None, parts), ", "))
    points = [*(f"p{p}" for p in PERCENTILES), "max"]
    rows = []
    for one in measured:
        latencies = (one["latency_seconds"].get(point) for point in points)
        shown = ("" if value is None else f"{value * 1000:.2f}" for value in latencies)
        rate = f"{one['items_per_second']:,.1f} {one['kind']}s/s"
        rows.append([one["kind"], str(one["batch_size"]), str(one["requests"]), *shown, rate])
    heads = ["input", "batch", "n", *(f"{point} ms" for point in points), "throughput"]
    lines = lay_out(columns_of(*heads, right=heads[1:]), rows, width_of(sys.stdout))
    write_message("".join(f"{line}\n" for row in lines for line in row), sys.stdout)


def _requests(args: argparse.Namespace) -> Iterator[Request[Any]]:
    """Make the requests and one to warm up, each with new texts to defeat server caches."""
    text, rng = _texts(args), np.random.default_rng(0)
    for number in range(args.requests + 1):
        texts = [text() for _ in range(args.batch_size)]
        if args.kind == "rerank":
            yield rerank_request(str(number), args.model, text(), texts, args.rerank_form)
        elif args.kind == "chat":
            images = []
            if side := args.image_size:  # that no server has seen before: smooth, so that it is encoded quickly
                stream = io.BytesIO()
                Image.fromarray(rng.integers(0, 256, (8, 8, 3), np.uint8)).resize((side, side)).save(stream, "JPEG")
                images.append(ImageRef("generated image", stream.getvalue()))
            options = {"max_tokens": args.max_tokens}
            yield chat_request(str(number), args.model, [user(*images, *texts)], options=options)
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
    retried: int = 0,
    errors: Sequence[str] = (),
    tokens: int = 0,
    written: int | None = None,
) -> dict[str, Any]:
    """Return throughput and latency as plain values.

    ``items`` are texts, or query-document pairs, per request; ``seconds`` span the first request to the last response;
    ``latencies`` are those of successful requests, failed attempts included; ``written`` are tokens of completions.
    """
    done = len(latencies)
    points = {}
    if done:
        # Percentiles without interpolation: each is an observed latency.
        shown = [p for p in PERCENTILES if p < PERCENTILES[-1] or done >= FOR_THE_LAST]
        observed = np.percentile(latencies, shown, method="inverted_cdf")
        points = {f"p{p}": round(float(x), 6) for p, x in zip(shown, observed, strict=True)}
        points["max"] = round(max(latencies), 6)
    return {
        "kind": kind,
        "requests": done + len(errors),
        "failed": len(errors),
        "retried": retried,
        "seconds": round(seconds, 4),
        "requests_per_second": round(done / seconds, 3),
        "items_per_second": round(items * done / seconds, 3),
        "tokens_per_second": round(tokens / seconds, 3) if tokens else None,
        **({} if written is None else {"completion_tokens_per_second": round(written / seconds, 3)}),
        "latency_seconds": points,
        "first_error": errors[0] if errors else None,
    }


def _as_text(found: dict[str, Any], args: argparse.Namespace) -> str:
    what = ITEMS[args.kind]
    sent = f"{found['requests']} requests of {args.batch_size} {what}, {args.concurrency} concurrent"
    tokens = f", {found['tokens_per_second']:.0f} tokens/s" if found["tokens_per_second"] else ""
    items = f", {found['items_per_second']:.1f} {what}/s"
    if args.kind == "chat":
        items, tokens = "", f"{tokens}, {found['completion_tokens_per_second']:.0f} completion tokens/s"
    latencies = ", ".join(f"{name} {value * 1000:.1f} ms" for name, value in found["latency_seconds"].items())
    lines = [
        f"{sent}: {found['seconds']:.2f} s, {found['failed']} failed, {found['retried']} retried",
        f"throughput  {found['requests_per_second']:.2f} requests/s{items}{tokens}",
        f"latency     {latencies}{' (complete answers)' if args.kind == 'chat' else ''}",
    ]
    if found["first_error"]:
        lines.append(f"first error {found['first_error']}")
    return "\n".join(lines) + "\n"
