"""Vectors to store, one per item or several, and their exact comparison."""

import numpy as np

from eyechart.metrics.vectors import MultiVectors


def make_rows(n, seed=0, dim=8, *, several=False):
    """Make vectors of n items; with ``several``, between none and three each."""
    sizes = [(i + seed + 1) % 4 for i in range(n)] if several else [1] * n
    flat = np.random.default_rng(seed).standard_normal((sum(sizes), dim)).astype(np.float32)
    return MultiVectors.of(np.split(flat, np.cumsum(sizes)[:-1])) if several else flat


def filled(value, *, several=False):
    """Make one item of equal numbers; with ``several``, one to three vectors."""
    numbers = np.full((1 + value % 3 if several else 1, 4), value, np.float32)
    return MultiVectors.of([numbers]) if several else numbers


def values_of(vectors):
    """Return the number of each item that `filled` made."""
    if isinstance(vectors, MultiVectors):
        assert vectors.sizes.tolist() == [1 + int(vectors.rows[start, 0]) % 3 for start in vectors.starts[:-1]]
        return vectors.rows[vectors.starts[:-1], 0].tolist()
    return vectors[:, 0].tolist()


def same(found, expected):
    """Compare vectors exactly."""
    if isinstance(expected, MultiVectors):
        np.testing.assert_array_equal(found.starts, expected.starts)
        found, expected = found.rows, expected.rows
    np.testing.assert_array_equal(found, expected)
