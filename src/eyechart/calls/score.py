"""``eyechart.score``: the numbers of a task from vectors that somebody has already."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from eyechart import __version__
from eyechart.calls.settings import ARGUMENTS, collect
from eyechart.calls.vectors import class_prediction, pair_prediction
from eyechart.config import make_config
from eyechart.errors import UsageError
from eyechart.results.build import Done, make_result
from eyechart.results.done import check_owner
from eyechart.results.files import write_result
from eyechart.results.result import Result
from eyechart.results.unsaved import unsaved_folder
from eyechart.tasks.base import Prediction, Task
from eyechart.tasks.registry import TASK_OF_KIND, load_task
from eyechart.types import DatasetSpec, Job, ModelSpec, digest_json

VECTORS = "vectors"


def score(
    image_vectors: Any,
    text_vectors: Any,
    *,
    labels: Any = None,
    pairs: Any = None,
    classnames: Sequence[str] | None = None,
    captions: Sequence[str] | None = None,
    ids: Sequence[str] | None = None,
    recall_k: int | Sequence[int] = 5,
    metrics: Literal["default", "full"] = "default",
    logit_scale: float | None = None,
    logit_bias: float | None = None,
    model: str = VECTORS,
    dataset: str = VECTORS,
    output: str | Path | None = None,
) -> Result:
    """Score vectors: zero-shot classification with ``labels``, retrieval with ``pairs``.

    Metrics, intervals, chance levels and the rule for ties are those of the tasks, by the same code. Vectors are
    scaled to unit length first.

    Args:
        image_vectors: One row per image: an array, a tensor, or a list of lists.
        text_vectors: With ``labels``, one row per class, or an array (classes, prompts, dimensions) whose prompts are
            averaged as the task does; with ``pairs``, one row per text.
        labels: For each image the number of its class; or a list of several, for images of several classes.
        pairs: For each text the number of its image; or pairs (image, text), each text once.
        classnames: Names of the classes, for the records.
        captions: The texts themselves, for the records; equal ones are then known to be equal.
        ids: Names of the images; by default their numbers. Results are compared by them.
        recall_k: The k of recall@k.
        metrics: ``full`` adds the less common ones.
        logit_scale: The model's factor between cosine and logit; with it, its probabilities are scored, too.
        logit_bias: The summand of a model with a sigmoid.
        model: What the result calls the model.
        dataset: What the result calls the data.
        output: Where the result goes; by default it is gone with the process.

    Returns:
        A result like those of `evaluate`, records included.

    Raises:
        EyechartError: If shapes do not fit, or a vector holds NaN or infinity.

    Example:
        ```python
        import eyechart

        images, classes = [[0.9, 0.1], [0.2, 0.8], [0.6, 0.5]], [[1, 0], [0, 1]]
        eyechart.score(images, classes, labels=[0, 1, 1], classnames=["cat", "dog"]).metrics["acc1"]
        ```
    """
    start = time.perf_counter()
    with ARGUMENTS.spoken():
        if (labels is None) == (pairs is None):
            raise UsageError(
                "score needs either labels or pairs.",
                advice="labels=[...] says which class each image has, pairs=[...] which image each text has.",
            )
        others = (
            {"captions": captions}
            if pairs is None
            else {"classnames": classnames, "logit_scale": logit_scale, "logit_bias": logit_bias}
        )
        for name, value in others.items():
            if value is not None:
                raise UsageError(f"{name} has no meaning with {'labels' if pairs is None else 'pairs'}.")
        prediction: Prediction
        if pairs is None:
            own = (logit_scale, logit_bias)
            prediction = class_prediction(dataset, image_vectors, text_vectors, labels, classnames, ids, own)
        else:
            prediction = pair_prediction(dataset, image_vectors, text_vectors, pairs, captions, ids)
        config = make_config(collect({"recall_k": recall_k, "metrics": metrics}, {}))
        return _result(prediction, {"recall_k": config.recall_k, "metrics": config.metrics}, model, output, start)


def _result(
    prediction: Prediction, options: dict[str, Any], model: str, output: str | Path | None, start: float
) -> Result:
    """Run the scoring step of the task, and save what it gives."""
    info = prediction.info
    task: Task = load_task(TASK_OF_KIND[info.kind])
    prompts = digest_json([info.classnames, info.templates, {}])
    job = Job(
        ModelSpec(VECTORS, model),
        DatasetSpec(info.name, VECTORS, ""),
        task.name,
        {**task.settings(options), "task_version": task.version, "prompts": prompts},
        Path(output) if output is not None else unsaved_folder() / "vectors.json",
    )
    check_owner(job)
    outcome = task.score(prediction, job.settings)
    targets = [(entry.id, entry.label, entry.labels, entry.texts) for entry in prediction.entries]
    fingerprint = digest_json([info.kind, targets])
    total = round(time.perf_counter() - start, 4)
    result = make_result(
        Done(
            job=job,
            info=info,
            fingerprint=fingerprint,
            other_splits={},
            card=None,
            outcome=outcome,
            counts={"listed": len(targets), "scored": len(targets), "failed": 0},
            notices=outcome.notices,
            failures=(),
            profile={"score": total, "total": total},
            measures=task.measures,
            records=task.form_of(info),
            # Whose vectors these are, nobody can find out again.
            identity={
                "settings": job.digest,
                "model": None,
                "data": fingerprint,
                "code": digest_json([__version__, task.name, task.version, ""]),
            },
        )
    )
    return write_result(result, outcome.records, job.output)
