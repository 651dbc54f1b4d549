"""Intervals, paired tests, ranks and chance levels: pure functions over small numpy arrays.

Every interval has a confidence `level` (0.95), every random one a `seed`, so that a report is the same each
time it is made. Values are fractions in [0, 1], never per cent.
"""

from eyechart.stats.bootstrap import (
    PairedDifference,
    bootstrap,
    bootstrap_ratio,
    paired_bootstrap,
)
from eyechart.stats.chance import chance_accuracy, chance_hit_rate, chance_normalised
from eyechart.stats.intervals import Interval, clustered_proportion, mean_recall_interval, wilson
from eyechart.stats.precision import (
    average_precision_interval,
    mean_average_precision,
    paired_average_precision,
)
from eyechart.stats.quantiles import normal_quantile, student_quantile
from eyechart.stats.ranks import RankInterval, not_separable_from_best, rank_intervals
from eyechart.stats.significance import (
    discordant,
    holm,
    mcnemar_exact,
    mcnemar_mid_p,
    smallest_detectable_difference,
)

__all__ = [
    "Interval",
    "PairedDifference",
    "RankInterval",
    "average_precision_interval",
    "bootstrap",
    "bootstrap_ratio",
    "chance_accuracy",
    "chance_hit_rate",
    "chance_normalised",
    "clustered_proportion",
    "discordant",
    "holm",
    "mcnemar_exact",
    "mcnemar_mid_p",
    "mean_average_precision",
    "mean_recall_interval",
    "normal_quantile",
    "not_separable_from_best",
    "paired_average_precision",
    "paired_bootstrap",
    "rank_intervals",
    "smallest_detectable_difference",
    "student_quantile",
    "wilson",
]
