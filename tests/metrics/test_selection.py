import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from eyechart.metrics.selection import chance_choice, chance_jaccard, choose, jaccard, pair_scores

PAIR = np.eye(2, dtype=bool)
small_scores = st.integers(0, 3).map(float)


def answer(scores, right=PAIR):
    return choose(np.array(scores, np.float32), right)


class TestChoose:
    def test_every_row_must_be_right(self):
        assert answer([[2, 1], [1, 2]]).correct
        assert not answer([[2, 1], [2, 1]]).correct

    def test_a_tie_is_wrong_and_known_as_such(self):
        found = answer([[2, 1], [2, 2]])

        assert (found.correct, found.tied) == (False, True)

    def test_a_wrong_row_is_not_excused_by_a_tie_elsewhere(self):
        assert not answer([[1, 2], [2, 2]]).tied

    def test_a_row_with_nothing_right_or_nothing_wrong_does_not_ask(self):
        right = np.array([[True, False], [False, False], [True, True]])

        assert answer([[2, 1], [0, 9], [9, 9]], right).correct
        assert choose(np.ones((1, 1), np.float32), np.ones((1, 1), bool)) is None

    @given(arrays(np.float32, (2, 2), elements=small_scores))
    def test_two_by_two_are_winogrounds_definitions(self, scores):
        """s(c0,i0) > s(c1,i0) and s(c1,i1) > s(c0,i1) for the text score, and so on (Thrush et al. 2022)."""
        (c0_i0, c1_i0), (c0_i1, c1_i1) = scores
        text = c0_i0 > c1_i0 and c1_i1 > c0_i1
        image = c0_i0 > c0_i1 and c1_i1 > c1_i0

        assert choose(scores, PAIR).correct == text
        assert choose(scores.T, PAIR.T).correct == image

    @given(arrays(np.float32, (1, 5), elements=small_scores))
    def test_a_constant_or_lower_score_never_wins(self, scores):
        right = np.array([[True, False, False, False, False]])

        assert choose(scores, right).correct == (scores[0, 0] > scores[0, 1:].max())


class TestJaccard:
    @given(st.data())
    def test_it_is_scikit_learns_for_the_best_k_without_ties(self, data):
        from sklearn.metrics import jaccard_score

        n = data.draw(st.integers(2, 12))
        scores = np.array(data.draw(st.permutations(range(n))), np.float32)
        right = np.array(data.draw(st.lists(st.booleans(), min_size=n, max_size=n).filter(any)))
        chosen = np.isin(np.arange(n), np.argsort(scores)[-right.sum() :])

        assert jaccard(scores, right) == pytest.approx(jaccard_score(right, chosen))

    def test_ties_choose_the_wrong_candidates(self):
        assert jaccard(np.ones(6, np.float32), np.array([1, 1, 0, 0, 0, 0], bool)) == 0

    @pytest.mark.parametrize(("candidates", "right"), [(5, 2), (6, 3), (10, 2), (12, 6), (3, 3)])
    def test_chance_is_the_mean_over_random_scores(self, candidates, right):
        rng = np.random.default_rng(0)
        truth = np.arange(candidates) < right
        draws = [jaccard(rng.random(candidates).astype(np.float32), truth) for _ in range(4000)]

        assert chance_jaccard(candidates, right) == pytest.approx(
            np.mean(draws), abs=4 * np.std(draws) / 4000**0.5 + 1e-12
        )


@pytest.mark.parametrize(
    "right", [PAIR, np.eye(1, 5, dtype=bool), np.array([[1, 1, 0, 0]], bool), np.eye(3, dtype=bool)]
)
def test_chance_is_the_share_of_random_scores_that_are_right(right):
    rng = np.random.default_rng(0)
    hits = [choose(rng.random(right.shape).astype(np.float32), right).correct for _ in range(6000)]

    assert chance_choice(right) == pytest.approx(np.mean(hits), abs=0.025)


def test_equal_vectors_score_exactly_alike():
    rng = np.random.default_rng(0)
    images, text = rng.standard_normal((3, 513)).astype(np.float32), rng.standard_normal((1, 513)).astype(np.float32)

    scores = pair_scores(images, np.repeat(text, 7, axis=0))

    assert (scores == scores[:, :1]).all()


def test_what_has_a_zero_vector_is_less_similar_than_anything():
    images, texts = np.array([[1, 0], [0, 0]], np.float32), np.array([[0, 0], [-0.6, 0.8]], np.float32)

    np.testing.assert_array_equal(pair_scores(images, texts), np.array([[-1, -0.6], [-1, -1]], np.float32))
