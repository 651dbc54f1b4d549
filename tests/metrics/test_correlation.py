import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from eyechart.metrics.agreement import mean_ranks, pearson, spearman

pairs = st.integers(3, 30).flatmap(
    lambda n: st.tuples(*(st.lists(st.integers(-5, 5).map(float), min_size=n, max_size=n) for _ in range(2)))
)


@given(pairs)
def test_spearman_is_scipys(pair):
    from scipy.stats import spearmanr

    assume(all(len(set(side)) > 1 for side in pair))

    assert spearman(*pair) == pytest.approx(spearmanr(*pair).statistic, abs=1e-12)


@given(pairs)
def test_pearson_is_scipys(pair):
    from scipy.stats import pearsonr

    assume(all(len(set(side)) > 1 for side in pair))

    assert pearson(*pair) == pytest.approx(pearsonr(*pair).statistic, abs=1e-12)


@given(st.lists(st.integers(-5, 5).map(float), min_size=1, max_size=30))
def test_equal_values_share_their_rank(values):
    from scipy.stats import rankdata

    np.testing.assert_allclose(mean_ranks(values), rankdata(values))


def test_a_constant_is_correlated_with_nothing():
    assert spearman([0.1] * 7, [1, 2, 3, 4, 5, 6, 7]) == 0
    assert pearson([0.1] * 7, [1, 2, 3, 4, 5, 6, 7]) == 0
