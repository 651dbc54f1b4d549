"""Measure how many images a core decodes and prepares in a second: what a fast device could be fed with.

    make feed

Photographs of 500 x 375 pixels, as JPEG, through what a decoding thread does: digest, decode, transform, into the
memory of a batch. Three ways in turn, each in one and in two processes at a time, in CPU seconds: the transform as the
library has it, Eyechart's default (the same bits) and ``decoder=fast`` (at most one level of 255 apart). The table goes
to benchmarks/results/feed.md.
"""

from __future__ import annotations

import argparse
import io
import math
import multiprocessing
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from eyechart.inference.rows import BatchRows
from eyechart.io.media import ImageRef, to_rgb

SIZE = (500, 375)
QUALITY = 90
BATCH = 64
WANTED = 5000
"""Images a second that a device shall get."""
RESULT = Path(__file__).parent / "results" / "feed.md"
HEAD = f"""\
`make feed`: decode and prepare JPEGs of {SIZE[0]} x {SIZE[1]} (real photographs, quality {QUALITY}) for a tower of 224
pixels; medians of rounds in which all ways take turns. Rates are images per CPU second of one process. Scaling is what
two processes at a time do together, by that clock: below 2 where they take each other's caches and memory.

| way | images/s, one process | images/s each, two processes | scaling | cores for {WANTED} images/s |
|---|---|---|---|---|
"""


@cache
def photographs() -> list[bytes]:
    """Encode the photographs that scikit-image and scikit-learn carry, all at one size."""
    folders = [Path(find_spec(name).origin).parent for name in ("skimage", "sklearn")]  # type: ignore[union-attr, arg-type]
    files = [path for folder in folders for kind in ("*.jpg", "*.png") for path in sorted(folder.rglob(kind))]
    found = []
    for path in files:
        image = Image.open(path).convert("RGB")
        if min(image.size) < 300:
            continue
        scale = max(SIZE[0] / image.width, SIZE[1] / image.height)
        width, height = (max(least, round(side * scale)) for least, side in zip(SIZE, image.size, strict=True))
        stream = io.BytesIO()
        image.resize((width, height), Image.Resampling.LANCZOS).crop((0, 0, *SIZE)).save(
            stream, "JPEG", quality=QUALITY
        )
        found.append(stream.getvalue())
    return found


@cache
def ways() -> dict[str, Callable[[ImageRef], Any]]:
    """Return each way from encoded bytes to pixels, with the transform of most CLIP models."""
    import torch
    from open_clip.constants import OPENAI_DATASET_MEAN, OPENAI_DATASET_STD
    from open_clip.transform import image_transform

    from eyechart.models.towers.fast_images import FastImages
    from eyechart.models.towers.pixel_table import PixelTable

    torch.set_num_threads(1)
    transform = image_transform(224, is_train=False, mean=OPENAI_DATASET_MEAN, std=OPENAI_DATASET_STD)
    exact, fast = PixelTable(transform), FastImages(transform)
    return {
        "the library's transform": lambda ref: transform(to_rgb(ref.decode())).numpy(),
        "default": lambda ref: exact.prepare(to_rgb(ref.decode())),
        "decoder=fast": lambda ref: fast.prepare(fast.decode(ref)),
    }


def work(way: str, passes: int) -> float:
    """Prepare all photographs some times; return CPU seconds per image."""
    prepare, listed, rows = ways()[way], photographs(), BatchRows(BATCH)
    plain = way == "the library's transform"  # as it was: each image in memory of its own, then a stack
    images: list[Any] = []
    numbers: list[int | None] = []
    start = 0.0
    for turn in range(passes + 1):
        if turn == 1:  # the first one fills the caches
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
    """Return the mean of CPU seconds per image with so many processes at a time."""
    return statistics.mean(job.result() for job in [pool.submit(work, way, passes) for _ in range(processes)])


def main() -> None:
    """Measure all ways in turn and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--passes", type=int, default=4, help="how often each photograph is prepared in a round")
    args = parser.parse_args()
    costs: dict[tuple[str, int], list[float]] = {(way, n): [] for way in ways() for n in (1, 2)}
    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool:
        for way in ways():
            measure(pool, way, 2, 1)  # both import and encode the photographs
        for _ in range(args.rounds):
            for (way, processes), found in costs.items():
                found.append(measure(pool, way, processes, args.passes))
    lines = []
    for way in ways():
        one, two = (1 / statistics.median(costs[way, n]) for n in (1, 2))
        lines.append(f"| {way} | {one:.0f} | {two:.0f} | {2 * two / one:.2f} | {math.ceil(WANTED / two)} |")
    RESULT.write_text(HEAD + "\n".join(lines) + "\n")
    print(RESULT.read_text())


if __name__ == "__main__":
    main()
