"""``clip_benchmark.metrics.zeroshot_classification``: its functions for a model, a tokenizer and a loader of torch.

Numbers are those of the task of the same name: ties never help, duplicate class names stand in class order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from eyechart.compat.clip_benchmark.encode import array_of, encode_loader, text_units
from eyechart.errors import DataError, UsageError
from eyechart.metrics.classification import average_precision, per_class_recall, rank_labels, rank_logits
from eyechart.metrics.vectors import Floats, Ints, Vectors, distinct_rows
from eyechart.tasks import classifier_files
from eyechart.tasks.prompts import class_texts, class_vectors
from eyechart.types import DatasetInfo

if TYPE_CHECKING:
    import torch

__all__ = ["accuracy", "average_precision_per_class", "evaluate", "run_classification", "tqdm", "zero_shot_classifier"]

SCALE = 100.0
"""Of the logits, whatever the model's own scale is."""


def zero_shot_classifier(
    model: Any, tokenizer: Any, classnames: Sequence[str], templates: Any, device: Any, amp: bool = True
) -> torch.Tensor:
    """Return one unit vector per class as columns, shape (dim, classes), in float32.

    Templates are a list with ``{c}`` where the name goes, or a mapping from class name to its texts.
    """
    import torch

    texts = class_texts(_described(classnames, templates))
    if not texts:
        raise UsageError("There are no classes to choose from.", advice="Give at least one class name.")
    units = text_units(model, tokenizer, [text for group in texts for text in group], device, amp=amp)
    return torch.from_numpy(np.ascontiguousarray(class_vectors(units, texts).T)).to(device)


def _described(classnames: Sequence[str], templates: Any) -> DatasetInfo:
    name = "zero_shot_classifier"
    if isinstance(templates, Mapping):
        prompts = {str(key): tuple(texts) for key, texts in templates.items()}
        return DatasetInfo(name, "classification", classnames=tuple(classnames), class_prompts=prompts)
    if isinstance(templates, str) or not isinstance(templates, Sequence):
        raise UsageError(f"Templates must be a list or a dict, not a {type(templates).__name__}.")
    return DatasetInfo(name, "classification", classnames=tuple(classnames), templates=tuple(templates))


def run_classification(
    model: Any, classifier: torch.Tensor, dataloader: Iterable[Any], device: Any, amp: bool = True
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the logits (100 times the cosine) of all images, shape (n, classes), and their targets."""
    import torch

    images, targets = encode_loader(model, dataloader, device, amp=amp)
    return torch.from_numpy(SCALE * _scores(images, array_of(classifier).T)), targets


def _scores(images: Vectors, classes: Vectors) -> Vectors:
    """Score each distinct class once, so that equal ones tie exactly."""
    first, column, _ = distinct_rows(classes)
    return np.asarray((images @ classes[first].T)[:, column], np.float32)


def accuracy(output: torch.Tensor, target: torch.Tensor, topk: Sequence[int] = (1,)) -> list[float]:
    """Return the share of samples whose class is among the first k, for each k; ties count against it."""
    ranks = rank_logits(array_of(output), _labels(target, output.shape[1]))
    return [float(np.mean(ranks <= k)) for k in topk]


def _labels(target: torch.Tensor, n_classes: int) -> Ints:
    labels: Ints = target.cpu().numpy().astype(np.int64)
    outside = labels[(labels < 0) | (labels >= n_classes)]
    if outside.size:
        raise DataError(
            f"There is a label {outside[0]}, but there are {n_classes} classes.", advice="Check the list of classes."
        )
    return labels


def average_precision_per_class(scores: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Return the average precision of each class, shape (classes,); a class without positives has 0."""
    import torch

    return torch.from_numpy(_precisions(array_of(scores), targets).astype(np.float32))


def _precisions(scores: Vectors, targets: torch.Tensor) -> Floats:
    present = targets.cpu().numpy().astype(bool)
    if present.shape != scores.shape:
        raise DataError(f"Targets have shape {present.shape}, scores {scores.shape}.")
    found = [average_precision(scores[:, i], present[:, i]) for i in range(scores.shape[1])]
    return np.nan_to_num(np.array(found, np.float64))


def evaluate(
    model: Any,
    dataloader: Any,
    tokenizer: Any,
    classnames: Sequence[str],
    templates: Any,
    device: Any,
    amp: bool = True,
    verbose: bool = False,  # nothing is printed here
    save_clf: str | None = None,
    load_clfs: Sequence[str] = (),
) -> dict[str, float]:
    """Return acc1, acc5 (NaN below five classes) and mean_per_class_recall; with several labels, the mean AP.

    Like the original, and unlike our task unless it is told so, the mean AP counts a class without positives as 0.
    """
    if load_clfs:
        classes, _ = classifier_files.load_mean([Path(path) for path in load_clfs], "", tuple(classnames))
    else:
        classes = array_of(zero_shot_classifier(model, tokenizer, classnames, templates, device, amp=amp)).T
    if save_clf is not None:
        classifier_files.save_torch(classes, Path(save_clf))
    images, targets = encode_loader(model, dataloader, device, amp=amp)
    if targets.ndim == 2:
        return {"mean_average_precision": float(_precisions(_scores(images, classes), targets).mean())}
    labels = _labels(targets, len(classes))
    ranks = rank_labels(images, np.ascontiguousarray(classes), labels, tuple(classnames)).ranks
    recalls = per_class_recall(ranks == 1, labels, len(classes))
    return {
        "acc1": float(np.mean(ranks <= 1)),
        "acc5": float(np.mean(ranks <= 5)) if len(classes) >= 5 else float("nan"),
        "mean_per_class_recall": float(np.mean(list(recalls.values()))),
    }


def tqdm(iterable: Iterable[Any], *_: Any, **__: Any) -> Iterable[Any]:
    """Return what is given: scripts take this name to silence it, and here it is silent."""
    return iterable
