"""Logistic regression on frozen features, solved to the optimum: the linear probe as CLIP's paper defines it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from eyechart.learn.linear import log_likelihood
from eyechart.learn.logistic import Fit, fit_logistic
from eyechart.learn.search import find_peak, log_grid
from eyechart.tasks.probes.probe import Probe
from eyechart.tasks.probes.shots import hold_out_per_class
from eyechart.tasks.probes.training import Features, Learned
from eyechart.types import Notice

STRENGTHS = log_grid(-6, 6)
"""Candidates for the inverse regularisation (scikit-learn's C), those of Radford et al. 2021."""
HELD_OUT = 0.2
"""Share of the training data to choose the strength on if no validation set is given."""
SEARCH_TOLERANCE, SEARCH_ITERATIONS = 1e-4, 100


class LogisticProbe(Probe):
    """lp_acc1, lp_acc5 and lp_mean_per_class_recall of L2-regularised multinomial logistic regression.

    The fit is convex and solved by L-BFGS, so there is no learning rate, no epoch count and no luck. The strength
    of the regularisation is chosen on the validation set or, without one, on a fifth of the training data; the last
    fit is on all of it.
    """

    name = "logistic_probe"
    prefix = "lp_"

    def learn(self, train: Features, val: Features | None, settings: Mapping[str, Any], device: str) -> Learned:  # noqa: ARG002 - numpy has one device
        """Choose the strength, then fit on everything."""
        whole = train + val if val and settings["fewshot_k"] < 0 else train
        strength = _choose(train, val, settings["seed"])
        fit = fit_logistic(whole.vectors, whole.labels, strength)
        slow = Notice("not_converged", 1, f"The probe did not converge in {fit.iterations} iterations.")
        return Learned(
            fit.model.scores,
            {"C": strength, "iterations": fit.iterations, "converged": fit.converged},
            () if fit.converged else (slow,),
        )


def _choose(train: Features, val: Features | None, seed: int) -> float:
    """Search the strength with the best validation likelihood; with too few images to hold some out, do not search.

    Likelihood and not accuracy: it tells apart strengths that make the same number of mistakes, which on small
    validation sets are most of them.
    """
    if val is None:
        parts = hold_out_per_class(train.labels, HELD_OUT, seed)
        if parts is None:
            # As strong as C = 1 is for features of variance one, which is where scikit-learn's default is meant for.
            return float(1 / max(train.vectors.var(axis=0).mean(), np.finfo(np.float32).tiny))
        train, val = train.take(parts[0]), train.take(parts[1])
    fits: dict[int, Fit] = {}

    def score(point: int) -> float:
        near = min(fits, key=lambda known: abs(known - point), default=None)
        fits[point] = fit_logistic(
            train.vectors,
            train.labels,
            float(STRENGTHS[point]),
            start=fits[near].model if near is not None else None,
            tolerance=SEARCH_TOLERANCE,
            max_iterations=SEARCH_ITERATIONS,
        )
        return log_likelihood(fits[point].model.scores(val.vectors), val.labels)

    return float(STRENGTHS[find_peak(score)])
