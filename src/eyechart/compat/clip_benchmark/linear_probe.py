"""``clip_benchmark.metrics.linear_probe``: a layer trained on the features of a script's own model, on any device."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from eyechart.compat.clip_benchmark.encode import array_of, mixed
from eyechart.compat.clip_benchmark.zeroshot_classification import accuracy
from eyechart.errors import DataError, UsageError
from eyechart.learn.adamw import Schedule, cosine_rate, train_layer
from eyechart.metrics.classification import per_class_recall, rank_scores
from eyechart.tasks.probes.linear_probe import LinearProbe
from eyechart.tasks.probes.shots import few_per_class
from eyechart.tasks.probes.training import Features

if TYPE_CHECKING:
    import torch

__all__ = ["FeatureDataset", "assign_learning_rate", "cosine_lr", "evaluate", "find_peak", "infer", "train"]


class FeatureDataset:
    """Features and targets by place."""

    def __init__(self, features: Any, targets: Any) -> None:
        self.features, self.targets = features, targets

    def __len__(self) -> int:
        return len(self.features)

    def __getitem__(self, i: Any) -> tuple[Any, Any]:
        return self.features[i], self.targets[i]


def evaluate(
    model: Any,
    train_dataloader: Iterable[Any] | None,
    dataloader: Iterable[Any] | None,
    fewshot_k: int,
    batch_size: int,
    num_workers: int,  # features are in memory
    lr: float,
    epochs: int,
    model_id: str,
    seed: int,
    feature_root: str,
    device: Any,
    val_dataloader: Iterable[Any] | None = None,
    normalize: bool = True,
    amp: bool = True,
    verbose: bool = False,  # nothing is printed here
) -> dict[str, Any]:
    """Return lp_acc1, lp_acc5 and lp_mean_per_class_recall as our task linear_probe computes them.

    The features of each loader are left in ``feature_root/model_id`` as the original does. They are read instead of
    encoding only if there is no model: a file does not say what it was made from.
    """
    folder = Path(feature_root) / model_id
    loaders = {"train": train_dataloader, "val": val_dataloader, "test": dataloader}
    parts = {
        name: _features(model, loader, folder, name, device, normalize=normalize, amp=amp)
        for name, loader in loaders.items()
        if loader is not None or (model is None and (folder / f"features_{name}.pt").is_file())
    }
    if "train" not in parts or "test" not in parts:
        raise UsageError("A probe needs something to learn from and something to score.", advice="Give both loaders.")
    pool, test = parts["train"], parts["test"]
    few = pool.take(few_per_class(pool.labels, fewshot_k, seed))
    probe = LinearProbe()
    options = {"fewshot_k": fewshot_k, "fewshot_epochs": epochs, "fewshot_lr": lr, "batch_size": batch_size}
    learned = probe.learn(few, parts.get("val"), probe.settings({**options, "seed": seed}), str(device))
    ranks = rank_scores(learned.judge(test.vectors), test.labels).ranks
    classes = int(max(pool.labels.max(), test.labels.max())) + 1
    recalls = per_class_recall(ranks == 1, test.labels, classes)
    return {
        "lp_acc1": float(np.mean(ranks <= 1)),
        "lp_acc5": float(np.mean(ranks <= 5)) if classes >= 5 else float("nan"),
        "lp_mean_per_class_recall": float(np.mean(list(recalls.values()))),
        "weight_decay": learned.details["weight_decay"],
        "epochs": epochs,
        "seed": seed,
        "fewshot_k": fewshot_k,
        "normalized": normalize,
    }


def _features(
    model: Any, loader: Iterable[Any] | None, folder: Path, name: str, device: Any, *, normalize: bool, amp: bool
) -> Features:
    """Encode a loader and leave its features in files; without a model, read them."""
    import torch

    files = folder / f"features_{name}.pt", folder / f"targets_{name}.pt"
    if model is None:
        missing = [file for file in files if not file.is_file()]
        if missing:
            raise UsageError(f"There is no model, and no {missing[0]}.", advice="Run once with a model.")
        vectors, targets = (torch.load(file, map_location="cpu", weights_only=True) for file in files)
        return Features(array_of(vectors), targets.numpy().astype(np.int64))
    from eyechart.compat.clip_benchmark.featurizer import Featurizer

    vectors, targets = infer(Featurizer(model, normalize), () if loader is None else loader, amp, device)
    folder.mkdir(parents=True, exist_ok=True)
    for tensor, file in zip((vectors, targets), files, strict=True):
        torch.save(tensor, file)
    return Features(array_of(vectors), targets.numpy().astype(np.int64))


def train(
    dataloader: Any,
    input_shape: int,
    output_shape: int,
    weight_decay: float,
    lr: float,
    epochs: int,
    amp: bool,  # a layer is trained in float32
    device: Any,
    seed: int,
) -> torch.nn.Linear:
    """Train a linear layer with AdamW and a cosine schedule."""
    schedule = Schedule(epochs, lr, 0, seed)  # the loader has its own batches
    return train_layer(dataloader, input_shape, output_shape, weight_decay, schedule, str(device))


def infer(model: Any, dataloader: Iterable[Any], amp: bool, device: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """Return what a model gives for all batches, and their targets, on the CPU."""
    import torch

    found, targets = [], []
    with torch.no_grad(), mixed(device, amp=amp):
        for x, y in dataloader:
            found.append(model(x.to(device)).float().cpu())
            targets.append(torch.as_tensor(y).cpu())
    if not found:
        raise DataError("The loader has no batches.", advice="Check the dataset: it is empty.")
    return torch.cat(found), torch.cat(targets)


def find_peak(
    wd_list: Sequence[float],
    idxs: Iterable[int],
    train_loader: Any,
    val_loader: Iterable[Any],
    input_shape: int,
    output_shape: int,
    lr: float,
    epochs: int,
    amp: bool,
    device: Any,
    verbose: bool,  # nothing is printed here
    seed: int,
) -> int:
    """Return which of the places ``idxs`` in ``wd_list`` is best on the validation data; the first of equals."""
    best, top = 0, 0.0
    for place in idxs:
        layer = train(train_loader, input_shape, output_shape, wd_list[place], lr, epochs, amp, device, seed)
        (found,) = accuracy(*infer(layer, val_loader, amp, device))
        if found > top:
            best, top = place, found
    return best


def cosine_lr(optimizer: Any, base_lrs: Any, warmup_length: int, steps: int) -> Callable[[int], None]:
    """Return a function that sets the learning rate of a step: linear while warming up, then half a cosine."""
    bases = base_lrs if isinstance(base_lrs, list) else [base_lrs] * len(optimizer.param_groups)

    def adjust(step: int) -> None:
        for group, base in zip(optimizer.param_groups, bases, strict=True):
            warming = step < warmup_length
            rate = base * (step + 1) / warmup_length if warming else _after(base, step - warmup_length)
            assign_learning_rate(group, rate)

    def _after(base: float, step: int) -> float:
        return cosine_rate(base, step, steps - warmup_length)

    return adjust


def assign_learning_rate(param_group: dict[str, Any], new_lr: float) -> None:
    """Set the learning rate of a group of parameters."""
    param_group["lr"] = new_lr
