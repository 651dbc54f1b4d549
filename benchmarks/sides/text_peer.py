"""The peer's text side: its own zero_shot_classifier."""

import json
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import open_clip
import torch
from clip_benchmark.metrics.zeroshot_classification import zero_shot_classifier
from speed_data import CLASSES, TEMPLATES

model, _, _ = open_clip.create_model_and_transforms("ViT-B-32", pretrained=sys.argv[1])
model.eval()
tokenizer = open_clip.get_tokenizer("ViT-B-32")
start, cpu = time.perf_counter(), time.process_time()
with torch.no_grad():
    zero_shot_classifier(model, tokenizer, CLASSES[: int(sys.argv[2])], TEMPLATES, "cpu", amp=False)
print(json.dumps({"wall": time.perf_counter() - start, "cpu": time.process_time() - cpu}))
