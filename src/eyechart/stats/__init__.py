"""Intervals, paired tests, ranks and chance levels: pure functions over small numpy arrays.

Every interval has a confidence `level` (0.95); one that cannot hold is None: "too few". Values are fractions in
[0, 1], never per cent.
"""

from eyechart.metrics.ranking_chance import chance_hit_rate
from eyechart.stats.agreement import Agreement, cohen_kappa, krippendorff_alpha
from eyechart.stats.chance import chance_accuracy, chance_normalised
from eyechart.stats.correlation import correlation_interval
from eyechart.stats.intervals import Interval, mean_interval, mean_recall_interval, proportion
from eyechart.stats.paired import PairedTest, paired_test
from eyechart.stats.panels import between_judges, widen_for_judges
from eyechart.stats.precision import average_precision_interval, mean_average_precision, paired_average_precision
from eyechart.stats.quantiles import normal_quantile, student_quantile
from eyechart.stats.ranks import RankInterval, not_separable_from_best, rank_intervals
from eyechart.stats.significance import discordant, holm, smallest_detectable_difference

__all__ = [
    "Agreement",
    "Interval",
    "PairedTest",
    "RankInterval",
    "average_precision_interval",
    "between_judges",
    "chance_accuracy",
    "chance_hit_rate",
    "chance_normalised",
    "cohen_kappa",
    "correlation_interval",
    "discordant",
    "holm",
    "krippendorff_alpha",
    "mean_average_precision",
    "mean_interval",
    "mean_recall_interval",
    "normal_quantile",
    "not_separable_from_best",
    "paired_average_precision",
    "paired_test",
    "proportion",
    "rank_intervals",
    "smallest_detectable_difference",
    "student_quantile",
    "widen_for_judges",
]
