"""Our text side: the same prompts through the pipeline, with an empty store."""

import json
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from speed_data import CLASSES, TEMPLATES

from eyechart.inference.embeddings import CachedEncoder
from eyechart.metrics.vectors import unit
from eyechart.models.registry import open_model
from eyechart.store.vector_store import EmbeddingStore
from eyechart.tasks.text_classifiers import class_texts, class_vectors
from eyechart.types import DatasetInfo, ModelSpec

model = open_model(ModelSpec("open_clip", "ViT-B-32", sys.argv[1]))
model.load()
names = tuple(CLASSES[: int(sys.argv[2])])
with tempfile.TemporaryDirectory() as folder:
    embeddings = CachedEncoder(model, EmbeddingStore(Path(folder)))
    start, cpu = time.perf_counter(), time.process_time()
    texts = class_texts(DatasetInfo("x", "classification", classnames=names, templates=tuple(TEMPLATES)))
    class_vectors(unit(embeddings.texts([text for group in texts for text in group])), texts)
    print(json.dumps({"wall": time.perf_counter() - start, "cpu": time.process_time() - cpu}))
