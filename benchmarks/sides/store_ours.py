"""Our store with many vectors: write them in the parts of a run, then open it anew, look all keys up and read all."""

import json
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from eyechart.store.vector_store import EmbeddingStore

n, dim, part = int(sys.argv[1]), 512, 4096
rng = np.random.default_rng(0)
keys = rng.integers(0, 256, (n, 16), np.uint8)
out = {}


def timed(name: str, start: float) -> None:
    """Keep the seconds since ``start``."""
    out[name] = time.perf_counter() - start


with tempfile.TemporaryDirectory(dir=sys.argv[2]) as folder:
    table = EmbeddingStore(Path(folder)).table("model", "image")
    start = time.perf_counter()
    for first in range(0, n, part):
        rows = keys[first : first + part]
        table.add(rows, np.full((len(rows), dim), first, np.float32))
    timed("write", start)
    start = time.perf_counter()
    again = EmbeddingStore(Path(folder)).table("model", "image")
    timed("open", start)
    start = time.perf_counter()
    missing = int(again.missing(keys).sum())
    timed("look up", start)
    start = time.perf_counter()
    vectors = again.get(keys)
    timed("read", start)
    if missing or (vectors[:, 0] != np.arange(n) // part * part).any():
        sys.exit("the store gave back something else")
print(json.dumps(out))
