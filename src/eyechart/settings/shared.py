"""Settings that belong to a run and are read by several tasks, and the sections of the help."""

from __future__ import annotations

from typing import Literal

from eyechart.settings.declare import PathText, Settings, setting

TOP = "options"
DATA = "data"
MODELS = "models"
HOW = "run"
PROMPTS = "class names and prompts"
RESULTS = "results"
PROBES = "probes (tasks with a training split)"
QUESTIONS = "generative benchmarks"
"""Sections of the help."""
OnError = Literal["fail", "skip"]


class RecallSettings(Settings):
    """Retrieval: cutoffs, and the rankings of another tool."""

    recall_k: list[int] = setting([5], "k of retrieval recall@k (default: 5)", group=HOW)
    predictions: PathText = setting(
        "", "MMEB: score VLM2Vec's NAME_pred.jsonl, or a folder of them, without a model", group=HOW, record="changed"
    )


class MetricSettings(Settings):
    """Selection of metrics."""

    metrics: Literal["default", "full"] = setting("default", "full adds less common metrics", group=HOW)


class RerankerSettings(Settings):
    """Reranking in retrieval."""

    reranker: str = setting(
        "",
        "text retrieval and collections: cross-encoder that reranks the retrieved documents",
        group=HOW,
        record="never",
    )


class BatchSettings(Settings):
    """Batch size."""

    batch_size: int = setting(64, "images or texts per forward pass (default: 64)", group=HOW, common=True, ge=1)


class SeedSettings(Settings):
    """Random seed."""

    seed: int = setting(0, "random seed", group=HOW)


class ClassifierFileSettings(Settings):
    """Files of zero-shot classifiers."""

    save_clf: PathText | None = setting(
        None, "save the zero-shot classifier to this file", group=PROMPTS, record="changed"
    )
    load_clfs: list[PathText] = setting(
        [], "load and average these classifiers instead of encoding prompts", group=PROMPTS, record="changed"
    )
