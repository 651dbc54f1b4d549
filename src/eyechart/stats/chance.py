"""What a scorer that knows nothing would get."""

import math


def chance_accuracy(n_classes: int, k: int = 1) -> float:
    """Expected top-k accuracy of a random order of the classes: k of n, at most 1."""
    if n_classes < 1 or k < 1:
        raise ValueError(f"need at least one class and k >= 1, not {n_classes} classes and k = {k}")
    return min(1.0, k / n_classes)


def chance_hit_rate(gallery: int, positives: int, k: int) -> float:
    """Probability that one of `positives` right items is among the top k of a randomly ordered gallery.

    1 - C(N - p, k) / C(N, k), summed as logarithms because the binomials overflow. This is the chance level
    of what CLIP papers call recall@k (a hit rate). A k beyond the gallery means the whole gallery.
    """
    if not 0 <= positives <= gallery or k < 0:
        raise ValueError(f"need 0 <= positives <= gallery and k >= 0, not {positives}, {gallery} and {k}")
    k = min(k, gallery)
    if positives + k > gallery:
        return 1.0
    few, many = sorted((positives, k))  # the ratio is symmetric in the two: walk along the smaller
    log_miss = math.fsum(math.log1p(-many / (gallery - i)) for i in range(few))
    return -math.expm1(log_miss)


def chance_normalised(score: float, chance: float) -> float:
    """Rescale a score so that chance is 0 and perfect is 1; below chance it is negative."""
    if not 0 <= chance < 1:
        raise ValueError(f"chance must lie in [0, 1), not {chance}")
    return (score - chance) / (1 - chance)
