"""What a scorer that knows nothing would get."""


def chance_accuracy(n_classes: int, k: int = 1) -> float:
    """Expected top-k accuracy of a random order of the classes: k of n, at most 1."""
    if n_classes < 1 or k < 1:
        raise ValueError(f"need at least one class and k >= 1, not {n_classes} classes and k = {k}")
    return min(1.0, k / n_classes)


def chance_normalised(score: float, chance: float) -> float:
    """Rescale a score so that chance is 0 and perfect is 1; below chance it is negative."""
    if not 0 <= chance < 1:
        raise ValueError(f"chance must lie in [0, 1), not {chance}")
    return (score - chance) / (1 - chance)
