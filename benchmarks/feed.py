"""Measure how many images a core decodes and prepares in a second: what a fast device could be fed with.

    make feed

Photographs of 500 x 375 pixels, as JPEG, through what a decoding thread does: digest, decode, transform, into the
memory of a batch. Three ways in turn, each in one and in two processes at a time, in CPU seconds: the transform as the
library has it, Eyechart's default (the same bits) and ``decoder=fast`` (at most one level of 255 apart). Then a run's
pipeline with two threads and with two loader workers. The tables go to benchmarks/results/feed.md; ``--json`` prints
rows for `make bench` instead.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from feed_data import QUALITY, SIZE, exact_transform, library_transform, photographs
from feed_pipeline import PIPELINES, pipelines

from eyechart.inference.image_batches import BatchRows
from eyechart.io.images import ImageRef, to_rgb

BATCH = 64
WANTED = 5000
"""Target images per second of a device."""
RESULT = Path(__file__).parent / "results" / "feed.md"
HEAD = f"""\
`make feed`: decode and prepare JPEGs of {SIZE[0]} x {SIZE[1]} (real photographs, quality {QUALITY}) for a tower of 224
pixels; medians of rounds in which all ways take turns. Rates are images per CPU second of one process. Scaling is what
two processes at a time do together, by that clock: below 2 where they take each other's caches and memory.

| way | images/s, one process | images/s each, two processes | scaling | cores for {WANTED} images/s |
|---|---|---|---|---|
"""


PIPELINE_HEAD = """
The pipeline of a run with a model that costs nothing, bytes for a GPU, two decoding threads or two workers of torch's
DataLoader. The last column is where Python's lock would stop one process if there were cores and disks enough.

| who decodes | main process, CPU ms an image | all processes, CPU ms an image | limit of the main process, images/s |
|---|---|---|---|"""


@cache
def ways() -> dict[str, Callable[[ImageRef], Any]]:
    """Return each way from encoded bytes to pixels, with the transform of most CLIP models."""
    from eyechart.models.speedups.transforms import FastImages

    transform, exact = library_transform(), exact_transform()
    fast = FastImages(transform)
    return {
        "the library's transform": lambda ref: transform(to_rgb(ref.decode())).numpy(),
        "default": lambda ref: exact.prepare(to_rgb(ref.decode())),
        "decoder=fast": lambda ref: fast.prepare(fast.decode(ref)),
    }


def work(way: str, passes: int) -> float:
    """Prepare all photographs several times; return CPU seconds per image."""
    prepare, listed, rows = ways()[way], photographs(), BatchRows(BATCH)
    plain = way == "the library's transform"  # the former way: a separate buffer per image, then a stack
    images: list[Any] = []
    numbers: list[int | None] = []
    start = 0.0
    for turn in range(passes + 1):
        if turn == 1:  # warm-up
            start = time.process_time()
        for data in listed:
            ref = ImageRef("photograph.jpg", data)
            ref.digest()
            number = None if plain else rows.take()
            images.append(rows.fill(number, prepare(ref)))
            numbers.append(number)
            if len(images) == BATCH:
                np.asarray(rows.batch(numbers, images))
                rows.give_back(numbers)
                images, numbers = [], []
    return (time.process_time() - start) / (passes * len(listed))


def measure(pool: ProcessPoolExecutor, way: str, processes: int, passes: int) -> float:
    """Return the mean CPU seconds per image with this many parallel processes."""
    return statistics.mean(job.result() for job in [pool.submit(work, way, passes) for _ in range(processes)])


def measure_all(rounds: int, passes: int) -> dict[tuple[str, int], float]:
    """Return the median CPU seconds per image by way and number of processes."""
    costs: dict[tuple[str, int], list[float]] = {(way, n): [] for way in ways() for n in (1, 2)}
    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool:
        for way in ways():
            measure(pool, way, 2, 1)  # both import and encode the photographs
        for _ in range(rounds):
            for (way, processes), found in costs.items():
                found.append(measure(pool, way, processes, passes))
    return {key: statistics.median(found) for key, found in costs.items()}


def compared(rounds: int, passes: int) -> list[dict[str, Any]]:
    """Return rows of `make bench`: CPU seconds per thousand images of both sides, and the target."""

    def row(what: str, other: float, ours: float, wanted: float, times: int = 1) -> dict[str, Any]:
        return {
            "what": f"feed, 1000 images: {what}",
            "other": 1000 * other,
            "ours": 1000 * ours,
            "ratio": times * other / ours,
            "wanted": round(wanted, 2),
        }

    costs, clocks = measure_all(rounds, passes), pipelines(rounds, passes)
    library, default, fast = ways()
    rows = [
        row(f"{way} against {library}", costs[library, 1], costs[way, 1], wanted)
        for way, wanted in ((default, 320 / 225), (fast, 430 / 225))
    ]
    rows += [row(f"{way}, two processes against one", costs[way, 1], costs[way, 2], 1.85, 2) for way in ways()]
    threads, processes = (clocks[name] for name in PIPELINES)
    return [
        *rows,
        row("the main process, two loader workers against threads", threads.main, processes.main, 10),
        row("all of it, two loader workers against threads", threads.all, processes.all, 0.9),
    ]


def main() -> None:
    """Measure all ways in turn and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--passes", type=int, default=4, help="how often each photograph is prepared in a round")
    parser.add_argument("--json", action="store_true", help="print rows for make bench")
    args = parser.parse_args()
    if args.json:
        print(json.dumps(compared(args.rounds, args.passes)))
        return
    costs = measure_all(args.rounds, args.passes)
    lines = []
    for way in ways():
        one, two = (1 / costs[way, n] for n in (1, 2))
        lines.append(f"| {way} | {one:.0f} | {two:.0f} | {2 * two / one:.2f} | {math.ceil(WANTED / two)} |")
    lines.append(PIPELINE_HEAD)
    for name, cost in pipelines(args.rounds, args.passes).items():
        lines.append(f"| {name} | {1000 * cost.main:.2f} | {1000 * cost.all:.2f} | {1 / cost.main:.0f} |")
    RESULT.write_text(HEAD + "\n".join(lines) + "\n")
    print(RESULT.read_text())


if __name__ == "__main__":
    main()
