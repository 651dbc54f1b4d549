"""CPU seconds of scoring against the number of images, and against the number of prompts; prints JSON."""

import json
import sys
import time

import numpy as np

from eyechart.metrics.classification import rank_labels
from eyechart.metrics.vectors import unit

SIZES = [int(1000 * times * float(sys.argv[1])) for times in (1, 2, 4, 8, 16)]
FIXED = 1000


def seconds(images: int, prompts: int) -> float:
    """Rank prompts for images, three times; return the least."""
    rng = np.random.default_rng(0)
    rows, classes = (unit(rng.standard_normal((n, 256)).astype(np.float32)) for n in (images, prompts))
    labels = rng.integers(0, prompts, images)
    found = []
    for _ in range(3):
        start = time.process_time()
        rank_labels(rows, classes, labels)
        found.append(time.process_time() - start)
    return min(found)


seconds(100, 100)
print(
    json.dumps(
        {
            "images": [(n, seconds(n, FIXED)) for n in SIZES],
            "prompts": [(n, seconds(FIXED, n)) for n in SIZES],
        }
    )
)
