"""``clip_benchmark.metrics.linear_probe``: a linear layer trained on the features of a script's model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from eyechart.compat.clip_benchmark.metrics import NAME, accuracy, inference, label_entries, over_loader, task_metrics
from eyechart.errors import UsageError
from eyechart.learn.linear_classifiers import Schedule, cosine_rate, train_layer
from eyechart.metrics.vectors import float_array
from eyechart.tasks.probe_data import Features, few_per_class
from eyechart.tasks.probes import LinearProbe, ProbePrediction
from eyechart.types import DatasetInfo

if TYPE_CHECKING:
    import torch

__all__ = [
    "FeatureDataset",
    "Featurizer",  # noqa: F822 - defined on first use: it needs torch
    "assign_learning_rate", "cosine_lr", "evaluate", "find_peak", "infer", "train",
]  # fmt: skip


class FeatureDataset:
    """Features and targets by position."""

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
    """Return lp_acc1, lp_acc5 and lp_mean_per_class_recall, computed by the task linear_probe.

    The features of each loader are saved in ``feature_root/model_id``, as in the original. They are read only if there
    is no model: a file does not record what it was computed from.
    """
    folder = Path(feature_root) / model_id
    loaders = {"train": train_dataloader, "val": val_dataloader, "test": dataloader}
    parts = {
        name: _features(model, loader, folder, name, device, normalize=normalize, amp=amp)
        for name, loader in loaders.items()
        if loader is not None or (model is None and (folder / f"features_{name}.pt").is_file())
    }
    if "train" not in parts or "test" not in parts:
        raise UsageError("A probe needs training and test data.", advice="Pass both loaders.")
    pool, test = parts["train"], parts["test"]
    few = pool.take(few_per_class(pool.labels, fewshot_k, seed))
    probe = LinearProbe()
    settings = probe.Settings(
        fewshot_k=fewshot_k, fewshot_epochs=epochs, fewshot_lr=lr, batch_size=batch_size, normalize=normalize, seed=seed
    )
    learned = probe.learn(few, parts.get("val"), settings, str(device))
    classes = int(max(pool.labels.max(), test.labels.max())) + 1
    prediction = ProbePrediction(
        DatasetInfo(NAME, "classification", classnames=tuple(map(str, range(classes)))),
        entries=label_entries(test.labels),
        failures=(),
        scores=learned.judge(test.vectors),
        ranks=np.zeros((len(test), 0), np.int64),
        train_counts=np.bincount(few.labels),
        details={"probe": learned.details},
        notices=(),
    )
    return task_metrics(probe, prediction, settings)


def _features(
    model: Any, loader: Iterable[Any] | None, folder: Path, name: str, device: Any, *, normalize: bool, amp: bool
) -> Features:
    """Encode a loader and save its features; without a model, read them."""
    import torch

    files = folder / f"features_{name}.pt", folder / f"targets_{name}.pt"
    if model is None:
        missing = [file for file in files if not file.is_file()]
        if missing:
            raise UsageError(
                "No model given, and {path} does not exist.", advice="Run once with a model.", path=missing[0]
            )
        vectors, targets = (torch.load(file, map_location="cpu", weights_only=True) for file in files)
    else:
        vectors, targets = infer(_featurizer()(model, normalize), () if loader is None else loader, amp, device)
        folder.mkdir(parents=True, exist_ok=True)
        for tensor, file in zip((vectors, targets), files, strict=True):
            torch.save(tensor, file)
    return Features(float_array(vectors), targets.numpy().astype(np.int64))


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
    schedule = Schedule(epochs, lr, 0, seed)  # the loader makes the batches
    return train_layer(dataloader, input_shape, output_shape, weight_decay, schedule, str(device))


def infer(model: Any, dataloader: Iterable[Any], amp: bool, device: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the outputs of a model and the targets of all batches, on the CPU."""
    import torch

    with inference(device, amp=amp):
        found, targets = over_loader(lambda batch: model(batch.to(device)).float().cpu(), dataloader)
    return torch.cat(found), targets


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
    """Return the position among ``idxs`` in ``wd_list`` that is best on the validation data; ties go to the first."""
    best, top = 0, 0.0
    for place in idxs:
        layer = train(train_loader, input_shape, output_shape, wd_list[place], lr, epochs, amp, device, seed)
        (found,) = accuracy(*infer(layer, val_loader, amp, device))
        if found > top:
            best, top = place, found
    return best


def cosine_lr(optimizer: Any, base_lrs: Any, warmup_length: int, steps: int) -> Callable[[int], None]:
    """Return a function that sets the learning rate of a step: linear warm-up, then half a cosine."""
    bases = base_lrs if isinstance(base_lrs, list) else [base_lrs] * len(optimizer.param_groups)

    def adjust(step: int) -> None:
        for group, base in zip(optimizer.param_groups, bases, strict=True):
            if step < warmup_length:
                rate = base * (step + 1) / warmup_length
            else:
                rate = cosine_rate(base, step - warmup_length, steps - warmup_length)
            assign_learning_rate(group, rate)

    return adjust


def assign_learning_rate(param_group: dict[str, Any], new_lr: float) -> None:
    """Set the learning rate of a parameter group."""
    param_group["lr"] = new_lr


@cache
def _featurizer() -> Any:
    import torch

    class Featurizer(torch.nn.Module):  # type: ignore[misc]  # torch is optional, so untyped
        """``model.encode_image``, scaled to unit length by default."""

        def __init__(self, model: Any, normalize: bool = True) -> None:
            super().__init__()
            self.model, self.normalize = model, normalize

        def forward(self, input: torch.Tensor) -> torch.Tensor:  # noqa: A002 - scripts may name it
            """Encode a batch of images."""
            features: torch.Tensor = self.model.encode_image(input)
            return torch.nn.functional.normalize(features, dim=-1) if self.normalize else features

    Featurizer.__qualname__ = "Featurizer"  # so that pickle finds it in this module
    return Featurizer


def __getattr__(name: str) -> Any:
    if name == "Featurizer":
        return _featurizer()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
