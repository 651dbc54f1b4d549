"""Vectors that you have already: the metrics, intervals and chance levels of the tasks."""

import numpy as np

import eyechart

random = np.random.default_rng(0)
texts = random.normal(size=(200, 32))  # yours: np.load("texts.npy")
images = texts + 2 * random.normal(size=(200, 32))
print(eyechart.score(images, texts, pairs=range(200), recall_k=[1, 5]).to_pandas()[["metric", "value", "low", "high"]])
labels = random.integers(0, 10, 200)
print(eyechart.score(texts[labels] + 3 * random.normal(size=(200, 32)), texts[:10], labels=labels))
