"""Intervals, paired tests, ranks and chance levels: pure functions over small numpy arrays.

Every interval has a confidence `level` (0.95 by default); None means that there are too few independent units. Values
are fractions in [0, 1], never per cent.
"""

from eyechart.metrics.retrieval_chance import chance_hit_rate
from eyechart.stats.average_precision import (
    average_precision_interval,
    mean_average_precision,
    paired_average_precision,
)
from eyechart.stats.intervals import (
    Interval,
    chance_accuracy,
    chance_normalised,
    correlation_interval,
    mean_interval,
    mean_of_intervals,
    mean_over_draws_interval,
    mean_recall_interval,
    normal_quantile,
    proportion,
    student_quantile,
    widen_for_draws,
)
from eyechart.stats.judge_agreement import Agreement, between_judges, cohen_kappa, krippendorff_alpha, widen_for_judges
from eyechart.stats.paired_tests import (
    PairedTest,
    RankInterval,
    discordant,
    holm,
    more_units_to_decide,
    p_values_against_best,
    paired_suite_test,
    paired_test,
    paired_test_over_draws,
    rank_intervals,
    smallest_detectable_difference,
)

__all__ = [
    "Agreement", "Interval", "PairedTest", "RankInterval", "average_precision_interval", "between_judges",
    "chance_accuracy", "chance_hit_rate", "chance_normalised", "cohen_kappa", "correlation_interval", "discordant",
    "holm", "krippendorff_alpha", "mean_average_precision", "mean_interval", "mean_of_intervals",
    "mean_over_draws_interval", "mean_recall_interval", "more_units_to_decide", "normal_quantile",
    "p_values_against_best", "paired_average_precision", "paired_suite_test", "paired_test",
    "paired_test_over_draws", "proportion", "rank_intervals", "smallest_detectable_difference", "student_quantile",
    "widen_for_draws", "widen_for_judges",
]  # fmt: skip
