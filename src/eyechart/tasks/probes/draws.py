"""Which training images a probe learns from, draw by draw: at random, a few of each class."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from eyechart.errors import UsageError, import_extra, unknown_name
from eyechart.tasks.probes.shots import Ints, check_shots, few_per_class

Draw = tuple[int, int]
"""How many images of each class, and the number of the draw: the first is 0."""
DEFAULT_REPEATS = 3


def peer_draw(labels: Ints, k: int, seed: int, names: Sequence[str] = ()) -> Ints:
    """Draw as CLIP_benchmark does from stored features: the first ``k`` of each class in one order of torch's.

    They stay in that order, in which its probe learns from them. Run without ``--skip_load``, the original loads a
    model before it draws, and takes other images with every model.
    """
    check_shots(labels, k, names)
    torch = import_extra("torch", "open-clip")
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed)).numpy()
    if k < 1:
        return np.asarray(order)
    seen = np.zeros(int(labels.max(initial=0)) + 1, np.int64)
    drawn = []
    for row in order:
        seen[labels[row]] += 1
        if seen[labels[row]] <= k:
            drawn.append(int(row))
    return np.array(drawn, np.int64)


DRAWS: Mapping[str, Callable[[Ints, int, int, Sequence[str]], Ints]] = {
    "eyechart": few_per_class,
    "clip_benchmark": peer_draw,
}
"""Whose order of the images decides."""


def draw_settings(options: Mapping[str, Any]) -> dict[str, Any]:
    """Pick how many images of each class are drawn, how often, and by whose order; and the points of a curve."""
    shots, curve = options.get("fewshot_k", -1), sorted(set(options.get("fewshot_curve") or []))
    if shots == 0 or shots < -1:
        raise UsageError(f"--fewshot_k must be 1 or more, or -1 for all images, not {shots}.")
    if curve and curve[0] < 1:
        raise UsageError(f"--fewshot_curve: {curve[0]} images per class are none.")
    repeats = options.get("fewshot_repeats", DEFAULT_REPEATS)
    if repeats < 1:
        raise UsageError(f"--fewshot_repeats must be 1 or more, not {repeats}.")
    how = options.get("fewshot_draw", "eyechart")
    if how not in DRAWS:
        raise unknown_name("--fewshot_draw", how, DRAWS)
    return {
        "fewshot_k": shots,
        **({"fewshot_curve": curve} if curve else {}),
        **({"fewshot_repeats": repeats} if curve or shots > 0 else {}),
        **({"fewshot_draw": how} if how != "eyechart" else {}),
    }


def all_draws(labels: Ints, settings: Mapping[str, Any], names: Sequence[str] = ()) -> dict[Draw, Ints]:
    """Return the images of the draw that is scored, of those that show its spread, and of the curve's."""
    shots = settings["fewshot_k"]
    wanted = [(shots, number) for number in range(settings["fewshot_repeats"] if shots > 0 else 1)]
    wanted += [(k, number) for k in settings.get("fewshot_curve", ()) for number in range(settings["fewshot_repeats"])]
    draw = DRAWS[settings.get("fewshot_draw", "eyechart")]
    return {(k, number): draw(labels, k, settings["seed"] + number, names) for k, number in wanted}
