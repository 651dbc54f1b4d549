"""CPU seconds of writing and of reading vectors against their number, and the peak of memory; prints JSON.

They are written in the parts of a run, and read as a run does: open the table, look all keys up, read all. Reading goes
block by block: for 400 MB at once, fresh memory took the kernel between 0.05 and 0.9 s, which is not the store's.
"""

import json
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from vectors import forget_peak, peak_mb

from eyechart.inference.pipeline import FLUSH_ROWS
from eyechart.store.vector_store import VectorTable

SIZES = [int(1000 * thousands * float(sys.argv[1])) for thousands in (10, 25, 50, 100, 200)]
DIM = 512


def write(place: Path, keys: np.ndarray, rows: np.ndarray) -> None:
    """Store a vector for each key."""
    table = VectorTable(place)
    for first in range(0, len(keys), FLUSH_ROWS):
        part = keys[first : first + FLUSH_ROWS]
        table.add(part, rows[: len(part)])


def read(place: Path, keys: np.ndarray) -> None:
    """Read all vectors."""
    table = VectorTable(place)
    if table.missing(keys).any():
        sys.exit("the store has lost something")
    for first in range(0, len(keys), FLUSH_ROWS):
        table.get(keys[first : first + FLUSH_ROWS])


def measure(n: int, folder: Path) -> dict[str, float]:
    """Write and read ``n`` vectors three times; return the least of each."""
    rng = np.random.default_rng(0)
    keys, rows = rng.integers(0, 256, (n, 16), np.uint8), rng.standard_normal((FLUSH_ROWS, DIM), np.float32)
    least, empty = {"write": np.inf, "read": np.inf}, forget_peak()
    for _ in range(3):
        with tempfile.TemporaryDirectory(dir=folder) as place:
            for name, action in (
                ("write", lambda: write(Path(place), keys, rows)),
                ("read", lambda: read(Path(place), keys)),
            ):
                start = time.process_time()
                action()
                least[name] = min(least[name], time.process_time() - start)
    return {**least, "peak": peak_mb() - empty}


measure(1000, Path(sys.argv[2]))
print(json.dumps([[n, measure(n, Path(sys.argv[2]))] for n in SIZES]))
