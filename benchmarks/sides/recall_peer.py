"""The peer's ranking in both directions, as its evaluate() does it on given vectors."""

import json
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import torch
from clip_benchmark.metrics.zeroshot_retrieval import batchify, recall_at_k
from vectors import forget_peak, make, peak_mb

n = int(sys.argv[1])
images, texts = (torch.from_numpy(rows) for rows in make(n))
owner = torch.arange(n).repeat_interleave(5)
before = forget_peak()
start, cpu = time.perf_counter(), time.process_time()
scores = texts @ images.t()
positive = torch.zeros_like(scores, dtype=bool)
positive[torch.arange(len(scores)), owner] = True
out = {}
for k in (1, 5, 10):
    out[f"image_recall@{k}"] = (batchify(recall_at_k, scores, positive, 64, "cpu", k=k) > 0).float().mean().item()
    out[f"text_recall@{k}"] = (batchify(recall_at_k, scores.T, positive.T, 64, "cpu", k=k) > 0).float().mean().item()
out |= {"wall": time.perf_counter() - start, "cpu": time.process_time() - cpu}
peak = peak_mb()
print(json.dumps(out | {"extra_mb": peak - before, "peak_mb": peak}))
