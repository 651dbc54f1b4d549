"""Our ranking in both directions."""

import json
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import numpy as np
from vectors import forget_peak, make, peak_mb

from eyechart.metrics.retrieval import rank_both_ways

n = int(sys.argv[1])
images, texts = make(n)
owner = np.repeat(np.arange(n), 5)
before = forget_peak()
start, cpu = time.perf_counter(), time.process_time()
to_images, to_texts = (found.ranks for found in rank_both_ways(images, texts, owner))
out = {"wall": time.perf_counter() - start, "cpu": time.process_time() - cpu}
peak = peak_mb()
out |= {f"image_recall@{k}": float(np.mean(to_images <= k)) for k in (1, 5, 10)}
out |= {f"text_recall@{k}": float(np.mean(to_texts <= k)) for k in (1, 5, 10)}
print(json.dumps(out | {"extra_mb": peak - before, "peak_mb": peak}))
