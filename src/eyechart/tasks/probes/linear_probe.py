"""The linear probe of CLIP_benchmark: a layer trained by AdamW, its weight decay chosen on a validation set."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from math import inf
from typing import Any

from eyechart.errors import UsageError, missing_extra
from eyechart.learn.adamw import Schedule, fit_adamw
from eyechart.learn.linear import Linear, accuracy
from eyechart.learn.search import find_peak, log_grid
from eyechart.tasks.probes.probe import Probe, ProbePrediction
from eyechart.tasks.probes.training import Features, Learned
from eyechart.types import DatasetInfo, Fact

WEIGHT_DECAYS = log_grid(-6, 2)


class LinearProbe(Probe):
    """lp_acc1, lp_acc5 and lp_mean_per_class_recall as CLIP_benchmark computes them, on any device.

    With a validation set, weight decay is searched on it; without one it is 0, as in the original. The last fit is on
    training and validation data together, except with few shots, which would then no longer be few.
    """

    name = "linear_probe"
    prefix = "lp_"

    def settings(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Add how the layer is trained."""
        epochs, rate = options.get("fewshot_epochs", 10), options.get("fewshot_lr", 0.1)
        if epochs < 1 or not 0 < rate < inf:
            raise UsageError(f"--fewshot_epochs and --fewshot_lr must be positive, not {epochs} and {rate}.")
        return super().settings(options) | {
            "fewshot_epochs": epochs,
            "fewshot_lr": rate,
            "batch_size": options.get("batch_size", 64),
        }

    def check(self, info: DatasetInfo, settings: Mapping[str, Any]) -> None:
        """Refuse to start without torch."""
        super().check(info, settings)
        if find_spec("torch") is None:
            raise missing_extra("torch", "open-clip")

    def learn(self, train: Features, val: Features | None, settings: Mapping[str, Any], device: str) -> Learned:
        """Search weight decay if there is something to search on, then train the layer that is scored."""
        schedule = Schedule(
            settings["fewshot_epochs"], settings["fewshot_lr"], settings["batch_size"], settings["seed"]
        )
        everything = train + val if val else train
        classes = int(everything.labels.max()) + 1
        place = _device(device)

        def fit(data: Features, weight_decay: float) -> Linear:
            return fit_adamw(data.vectors, data.labels, classes, weight_decay, schedule, place)

        if val is None:
            decay, data = 0.0, train
        else:
            peak = find_peak(lambda i: accuracy(fit(train, float(WEIGHT_DECAYS[i])).scores(val.vectors), val.labels))
            decay, data = float(WEIGHT_DECAYS[peak]), everything if settings["fewshot_k"] < 0 else train
        return Learned(fit(data, decay).scores, {"weight_decay": decay, "epochs": schedule.epochs, "device": place})

    def facts(self, prediction: ProbePrediction, settings: Mapping[str, Any]) -> dict[str, Fact]:
        """Name how it was trained where CLIP_benchmark does; in folds, weight decay may differ from one to another."""
        chosen = {
            key: prediction.details["probe"][key] for key in ("weight_decay",) if key in prediction.details["probe"]
        }
        return {
            **chosen,
            "epochs": settings["fewshot_epochs"],
            "seed": settings["seed"],
            "fewshot_k": settings["fewshot_k"],
            "normalized": settings["normalize"],
        }


def _device(wanted: str) -> str:
    import torch

    if wanted != "auto":
        return wanted
    return "cuda" if torch.cuda.is_available() else "cpu"
