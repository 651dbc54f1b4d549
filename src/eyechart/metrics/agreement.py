"""Agreement of two descriptions of the same items: clusters with classes, and correlation of values or ranks."""

import numpy as np
from numpy.typing import ArrayLike

from eyechart.metrics.vectors import Floats, Ints


def contingency(clusters: Ints, labels: Ints) -> Ints:
    """Count samples by occurring cluster (rows) and class (columns)."""
    _, row = np.unique(clusters, return_inverse=True)
    _, column = np.unique(labels, return_inverse=True)
    table = np.zeros((row.max() + 1, column.max() + 1), np.int64)
    np.add.at(table, (row, column), 1)
    return table


def normalised_mutual_information(table: Ints) -> float:
    """Mutual information over the mean of the two entropies: scikit-learn's default, MIEB's ``nmi``.

    A single cluster or class is uninformative: 0, but 1 if there is one of each, as in scikit-learn.
    """
    if table.shape == (1, 1):
        return 1.0
    n = table.sum()
    rows, columns = table.sum(axis=1) / n, table.sum(axis=0) / n
    joint = table[table > 0] / n
    information = float(np.sum(joint * np.log(joint / np.outer(rows, columns)[table > 0])))
    entropies = -float(np.sum(rows * np.log(rows))) - float(np.sum(columns * np.log(columns)))
    return max(0.0, 2 * information / entropies)


def adjusted_rand_index(table: Ints) -> float:
    """Share of pairs that both partitions treat alike, corrected for chance: 0 for random, 1 for equal partitions."""
    together = _pairs(table)
    rows, columns, everything = _pairs(table.sum(axis=1)), _pairs(table.sum(axis=0)), _pairs(table.sum())
    expected = rows * columns / everything if everything else 0.0
    most = (rows + columns) / 2
    return 1.0 if most == expected else (together - expected) / (most - expected)


def cluster_accuracy(table: Ints) -> float:
    """Share of samples whose class is matched to their cluster, under the best one-to-one matching."""
    rows, columns = best_matching(table)
    return float(table[rows, columns].sum() / table.sum())


def best_matching(gain: Ints) -> tuple[Ints, Ints]:
    """Match rows to columns one to one with the largest total gain (the Hungarian method, O(n^3)).

    Rows are added one by one along a cheapest augmenting path; potentials keep the reduced costs non-negative.
    """
    wide = gain.shape[0] <= gain.shape[1]
    cost = -(gain if wide else gain.T).astype(np.float64)
    n, m = cost.shape
    row_price, column_price = np.zeros(n), np.zeros(m)
    owner = np.full(m, -1)
    for row in range(n):
        distance, before = np.full(m, np.inf), np.full(m, -1)
        done = np.zeros(m, bool)
        current, column, reached = row, -1, 0.0
        while True:
            through = reached + cost[current] - row_price[current] - column_price
            better = ~done & (through < distance)
            distance[better], before[better] = through[better], column
            column = int(np.argmin(np.where(done, np.inf, distance)))
            reached = float(distance[column])
            done[column] = True
            if owner[column] < 0:
                break
            current = int(owner[column])
        settled = np.flatnonzero(done & (owner >= 0))
        row_price[row] += reached
        row_price[owner[settled]] += reached - distance[settled]
        column_price[done] -= reached - distance[done]
        while column >= 0:
            previous = int(before[column])
            owner[column] = row if previous < 0 else owner[previous]
            column = previous
    rows, chosen = np.arange(n), np.empty(n, np.int64)
    chosen[owner[owner >= 0]] = np.flatnonzero(owner >= 0)
    return (rows, chosen) if wide else (chosen, rows)


def _pairs(counts: Ints | np.int64) -> float:
    return float(np.sum(np.asarray(counts, np.float64) * (np.asarray(counts, np.float64) - 1)) / 2)


def pearson(first: ArrayLike, second: ArrayLike) -> float:
    """Linear correlation; 0 if one side is constant (scipy returns NaN)."""
    arrays = [np.asarray(values, np.float64) for values in (first, second)]
    # Subtracting the mean of equal numbers may leave a rounding error that correlates with something.
    if any(np.ptp(array) == 0 for array in arrays):
        return 0.0
    a, b = (array - array.mean() for array in arrays)
    scale = float(np.sqrt(np.sum(a**2) * np.sum(b**2)))
    return float(np.clip(np.sum(a * b) / scale, -1, 1)) if scale > 0 else 0.0


def spearman(first: ArrayLike, second: ArrayLike) -> float:
    """Linear correlation of the ranks, with tied values sharing their mean rank: MIEB's ``cosine_spearman``."""
    return pearson(mean_ranks(first), mean_ranks(second))


def mean_ranks(values: ArrayLike) -> Floats:
    """Return ranks from 1; tied values share the mean of their ranks."""
    _, inverse, counts = np.unique(np.asarray(values, np.float64), return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return np.asarray((last - (counts - 1) / 2)[inverse], np.float64)
