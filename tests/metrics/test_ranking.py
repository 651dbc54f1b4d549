"""The ranking metrics against trec_eval (through pytrec_eval) on random answers, ties and graded relevance included."""

import numpy as np
import pytest
import pytrec_eval
from hypothesis import given
from hypothesis import strategies as st

from eyechart.errors import ModelError
from eyechart.metrics import retrieval
from eyechart.metrics.retrieval import rank_positives
from eyechart.metrics.search import Positives

KS = (1, 3, 5, 10, 20, 100)
TREC = {
    "ndcg": "ndcg_cut",
    "map": "map_cut",
    "recall": "recall",
    "precision": "P",
    "hit_rate": "success",
}


@st.composite
def problems(draw, grades=3):
    """Scores of a few levels (so that ties are common) and a relevance for each document, 0 for most."""
    n_queries, n_items = draw(st.integers(1, 4)), draw(st.integers(1, 30))
    seed = draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    scores = rng.integers(0, draw(st.sampled_from([1, 3, 1000])) + 1, (n_queries, n_items)).astype(np.float32)
    relevance = rng.integers(1, grades + 1, scores.shape) * (rng.random(scores.shape) < 0.3)
    relevance[np.arange(n_queries), rng.integers(0, n_items, n_queries)] = 1  # no query without a relevant item
    return scores, relevance


def positives_of(relevance):
    rows, items = np.nonzero(relevance)
    starts = np.searchsorted(rows, np.arange(len(relevance)))
    return Positives(items, starts), relevance[rows, items].astype(float)


def as_vectors(scores):
    """Queries and a gallery whose dot products are exactly the scores plus one; no vector is zero."""
    queries, gallery = np.eye(len(scores)), scores.T
    return tuple(np.hstack([rows, np.ones((len(rows), 1))]).astype(np.float32) for rows in (queries, gallery))


def trec(scores, relevance, measures):
    """Ask trec_eval. It breaks ties by the greater document id, so the less relevant get the greater ids."""
    name = {(q, i): f"{9 - relevance[q, i]}-{i:03d}" for q, i in np.ndindex(scores.shape)}
    qrels = {
        str(q): {name[q, i]: int(relevance[q, i]) for i in np.flatnonzero(relevance[q])} for q in range(len(scores))
    }
    run = {str(q): {name[q, i]: float(s) for i, s in enumerate(scores[q])} for q in range(len(scores))}
    found = pytrec_eval.RelevanceEvaluator(qrels, measures).evaluate(run)
    return [found[str(q)] for q in range(len(scores))]


@given(problems())
def test_metrics_equal_trec_eval(problem):
    scores, relevance = problem
    relevant = retrieval.rank_relevant(*as_vectors(scores), *positives_of(relevance))
    expected = trec(scores, relevance, {f"{name}.{','.join(map(str, KS))}" for name in TREC.values()})
    for ours, theirs in TREC.items():
        for k in KS:
            want = [query[f"{theirs}_{k}"] for query in expected]
            np.testing.assert_allclose(retrieval.METRICS[ours](relevant, k), want, rtol=0, atol=1e-9)


@given(problems(grades=1))
def test_reciprocal_rank_equals_trec_eval_of_the_cut_answer(problem):
    scores, relevance = problem
    relevant = retrieval.rank_relevant(*as_vectors(scores), *positives_of(relevance))
    whole = [query["recip_rank"] for query in trec(scores, relevance, {"recip_rank"})]
    for k in KS:
        want = [value if value >= 1 / k - 1e-9 else 0.0 for value in whole]
        np.testing.assert_allclose(retrieval.METRICS["mrr"](relevant, k), want, rtol=0, atol=1e-9)


@given(problems(), st.integers(1, 12))
def test_lists_give_what_the_whole_gallery_gives_up_to_their_length(problem, k):
    scores, relevance = problem
    positives, gains = positives_of(relevance)
    order = np.lexsort((relevance, -scores), axis=1)[:, :k]  # pessimistic, as the metrics are
    lists = retrieval.rank_in_lists(order, np.take_along_axis(scores, order, axis=1).astype(float), positives, gains)
    whole = retrieval.rank_relevant(*as_vectors(scores), positives, gains)
    for metric in retrieval.METRICS.values():
        np.testing.assert_allclose(metric(lists, min(k, order.shape[1])), metric(whole, min(k, order.shape[1])))


@given(problems(grades=1))
def test_the_best_rank_is_the_one_of_clip_retrieval(problem):
    scores, relevance = problem
    positives, _ = positives_of(relevance)
    ours = retrieval.rank_relevant(*as_vectors(scores), positives)
    clip = rank_positives(*as_vectors(scores), positives)
    np.testing.assert_array_equal(ours.best, clip.ranks)


@pytest.mark.parametrize("name", retrieval.METRICS)
def test_a_constant_scorer_gets_no_more_than_chance(name):
    rng = np.random.default_rng(0)
    relevance = np.zeros((200, 40), int)
    relevance[np.arange(200), rng.integers(0, 40, 200)] = 1
    positives, gains = positives_of(relevance)
    constant = retrieval.rank_relevant(*as_vectors(np.zeros((200, 40), np.float32)), positives, gains)
    chance = retrieval.rank_relevant(*as_vectors(rng.random((200, 40), np.float32)), positives, gains)
    assert constant.tied.all()
    for k in (1, 5, 10):
        assert retrieval.METRICS[name](constant, k).mean() == 0 < retrieval.METRICS[name](chance, k).mean()


def test_copies_of_a_document_tie_exactly():
    # A matrix product may round two equal columns differently; equal documents must still tie.
    rng = np.random.default_rng(1)
    gallery = rng.standard_normal((500, 384)).astype(np.float32)
    gallery[300:] = gallery[:200]
    queries = gallery[:200] + rng.standard_normal((200, 384)).astype(np.float32)
    relevant = retrieval.rank_relevant(queries, gallery, Positives.one_each(np.arange(200)))
    assert relevant.tied.all()
    assert (relevant.best >= 2).all()


def test_blocks_do_not_change_the_ranks(monkeypatch):
    rng = np.random.default_rng(2)
    queries, gallery = (rng.standard_normal((n, 8)).astype(np.float32) for n in (50, 90))
    positives = Positives(rng.integers(0, 90, 150), np.arange(0, 150, 3))
    whole = retrieval.rank_relevant(queries, gallery, positives)
    monkeypatch.setattr("eyechart.metrics.search.TILE", (7, 11))
    np.testing.assert_array_equal(whole.ranks, retrieval.rank_relevant(queries, gallery, positives).ranks)


@pytest.mark.parametrize("spread", [1.0, 1e-3, 1e-6, 0.0])
def test_ranks_are_those_of_float64_however_near_the_vectors_are(spread):
    rng = np.random.default_rng(3)
    queries, gallery = ((1 + spread * rng.standard_normal((n, 64))).astype(np.float32) for n in (30, 90))
    gallery[50] = gallery[7]
    items = np.array([rng.choice(90, 3, replace=False) for _ in queries])

    relevant = retrieval.rank_relevant(queries, gallery, Positives(items.ravel(), np.arange(0, 90, 3)))

    exact = (queries[:, None, :].astype(np.float64) * gallery[None].astype(np.float64)).sum(axis=2)
    right = np.zeros(exact.shape, bool)
    np.put_along_axis(right, items, values=True, axis=1)
    order = np.lexsort((right, -exact), axis=1)  # among equals the wrong come first
    places = [np.flatnonzero(row[order_of]) + 1 for row, order_of in zip(right, order, strict=True)]
    assert relevant.ranks.tolist() == np.concatenate(places).tolist()


@pytest.mark.parametrize("spread", [1.0, 1e-3, 1e-6, 0.0])
@pytest.mark.parametrize("most", [2, 40])
@pytest.mark.parametrize(("few", "buckets"), [(8, 2048), (8, 1), (0, 1), (0, 5), (0, 16)])
@pytest.mark.parametrize("middle", [0.0, 1.0])
@pytest.mark.parametrize("scale", [1.0, 2.0**-70])
def test_queries_may_have_one_relevant_item_or_many(monkeypatch, spread, most, few, buckets, middle, scale):
    for name, value in {"TILE": (7, 31), "FEW": few, "BUCKETS": buckets}.items():
        monkeypatch.setattr(f"eyechart.metrics.search.{name}", value)
    rng = np.random.default_rng(4)
    drawn = (middle + spread * rng.standard_normal((n, 32)) for n in (40, 90))
    queries, gallery = (scale * vectors.astype(np.float32) for vectors in drawn)
    gallery[60:70] = gallery[5]
    counts = rng.integers(1, most + 1, 40)
    items = [rng.choice(90, count, replace=False) for count in counts]

    positives = Positives(np.concatenate(items), np.cumsum(counts) - counts)
    relevant = retrieval.rank_relevant(queries, gallery, positives)

    exact = (queries[:, None, :].astype(np.float64) * gallery[None].astype(np.float64)).sum(axis=2)
    for query, own in enumerate(items):
        right = np.isin(np.arange(90), own)
        order = np.lexsort((right, -exact[query]))
        begin = positives.starts[query]
        assert relevant.ranks[begin : begin + len(own)].tolist() == (np.flatnonzero(right[order]) + 1).tolist()


def test_a_relevant_item_whose_vector_is_zero_stands_last():
    gallery = np.array([[0, 0], [-1, 0], [-1, 1]], np.float32)

    relevant = retrieval.rank_relevant(
        np.array([[1, 0]], np.float32), gallery, Positives(np.array([0, 1]), np.array([0]))
    )

    assert (relevant.ranks.tolist(), relevant.tied.tolist()) == ([2, 3], [True])


def test_a_reranker_that_gives_no_number_is_not_ranked_first():
    with pytest.raises(ModelError, match="NaN"):
        retrieval.rank_in_lists(np.array([[0, 1]]), np.array([[np.nan, 0.5]]), Positives.one_each(np.array([0])))
