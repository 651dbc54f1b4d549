"""MaxSim of 200 queries with 2,000 pages of 1,030 vectors: time beside the bare matrix products, peak memory, error.

Run with one thread, in which the two sides alternate:

    OMP_NUM_THREADS=1 python benchmarks/maxsim.py [--queries 200] [--pages 2000] [--rounds 3] [--dtype float32]
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Callable

import numpy as np

from eyechart.metrics.maxsim import CELLS, WIDTH, maxsim
from eyechart.metrics.vectors import MultiVectors

DIM, TOKENS, PATCHES = 128, 20, 1030
SLICE = 50
"""Pages after which the other side is measured."""


def made(items: int, size: int, dtype: str, seed: int) -> MultiVectors:
    """Make items of about ``size`` unit vectors, page by page to bound the memory."""
    draw = np.random.default_rng(seed)
    vectors = MultiVectors.empty(np.array([size - i % 3 for i in range(items)]), DIM, dtype)
    for first, last in zip(vectors.starts[:-1], vectors.starts[1:], strict=True):
        rows = draw.standard_normal((last - first, DIM), np.float32)
        vectors.rows[first:last] = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return vectors


def bare_products(queries: MultiVectors, pages: MultiVectors) -> None:
    """Multiply all vectors in tiles of the same size, in float32, and do nothing with the products."""
    height = CELLS // WIDTH
    products = np.empty((height, WIDTH), np.float32)
    for left in range(0, len(pages.rows), WIDTH):
        columns = np.asarray(pages.rows[left : left + WIDTH], np.float32).T
        for top in range(0, len(queries.rows), height):
            rows = np.asarray(queries.rows[top : top + height], np.float32)
            np.matmul(rows, columns, out=products[: len(rows), : columns.shape[1]])


def seconds(run: Callable[[], object]) -> tuple[float, float]:
    """Return wall and processor time."""
    wall, processor = time.perf_counter(), time.process_time()
    run()
    return time.perf_counter() - wall, time.process_time() - processor


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--pages", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--dtype", choices=("float32", "float16"), default="float32")
    given = parser.parse_args()
    queries, pages = made(given.queries, TOKENS, given.dtype, 1), made(given.pages, PATCHES, given.dtype, 2)
    times = np.zeros((2, 2))
    for _ in range(given.rounds):
        for start in range(0, len(pages), SLICE):  # alternating, so that other load slows down both sides
            some = pages[start : start + SLICE]
            times[0] += seconds(lambda some=some: bare_products(queries, some))
            times[1] += seconds(lambda some=some: maxsim(queries, some))
    for name, (wall, processor) in zip(("bare products", "maxsim"), times / given.rounds, strict=True):
        print(f"{name}: {wall:.1f} s, processor {processor:.1f} s")
    print("maxsim / bare products: {:.3f} (wall), {:.3f} (processor)".format(*times[1] / times[0]))
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GB, vectors included")
    found = maxsim(queries[:5], pages)
    worst = 0.0
    for number in range(len(pages)):
        page = pages[number : number + 1].rows.astype(np.float64)
        for row in range(5):
            exact = (queries[row : row + 1].rows.astype(np.float64) @ page.T).max(axis=1).sum()
            worst = max(worst, abs(exact - found[row, number]))
    print(f"largest difference from a float64 loop over 5 x {len(pages)} pairs: {worst:.2e}")


if __name__ == "__main__":
    main()
