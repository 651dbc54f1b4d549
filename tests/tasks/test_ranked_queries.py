"""Rankings of queries: the units of intervals and the counts in notices."""

import numpy as np

from eyechart.tasks.ranked_queries import (
    JudgedQuery,
    MtebValues,
    judged_queries,
    rank_all,
    rank_lists,
    score,
    score_lists,
)
from eyechart.types import Document, TextCollection


def outcome_of(relevance, n_documents=24):
    """Score random vectors of documents d0, d1, ... and of one query for each entry."""
    documents = tuple(Document(f"d{i}", f"text {i}") for i in range(n_documents))
    queries = tuple(Document(name, name) for name in relevance)
    collection = TextCollection(documents, queries, relevance)
    judged, left_out = judged_queries(collection)
    rng = np.random.default_rng(0)
    vectors = [rng.standard_normal((n, 8)).astype(np.float32) for n in (len(judged), n_documents)]
    return score(rank_all(judged, *vectors), collection, len(left_out))


def test_queries_with_the_same_relevant_documents_are_one_unit_in_any_order():
    pairs = [(f"d{2 * i}", f"d{2 * i + 1}") for i in range(10)]
    same = {f"q{i}{side}": dict.fromkeys(pair, 1.0) for i, pair in enumerate(pairs) for side in "ab"}
    turned = {name: dict(reversed(one.items())) if name.endswith("b") else one for name, one in same.items()}
    apart = {name: {list(one)[name.endswith("b")]: 1.0} for name, one in same.items()}

    expected, found = (outcome_of(relevance).metrics["recall_at_10"] for relevance in (same, turned))

    assert (found.value, found.low, found.high) == (expected.value, expected.low, expected.high)
    assert (found.n, outcome_of(apart).metrics["recall_at_10"].n) == (10, 20)


def test_every_relevant_document_that_is_not_there_is_counted():
    relevance = {"q0": {"d0": 1.0, "gone": 1.0, "lost": 2.0}, "q1": {"gone": 1.0}, "q2": {"d1": 1.0, "lost": 0.0}}

    notices = {notice.kind: notice.count for notice in outcome_of(relevance).notices}

    assert notices["absent_documents"] == 3


def test_mtebs_values_of_some_queries_keep_their_order():
    values = MtebValues(("q0", "q1", "q2"), {("ndcg", 10): np.array([0.1, 0.2, 0.3])}, np.arange(9.0).reshape(3, 3))

    some = values.only({"q2", "q0", "other"})

    assert some.ids == ("q0", "q2")
    assert some.values["ndcg", 10].tolist() == [0.1, 0.3]
    assert some.confidence.tolist() == [[0, 1, 2], [6, 7, 8]]


def test_a_zero_vector_is_not_right_in_a_list_where_all_others_score_below_zero():
    judged = [JudgedQuery(Document("q", ""), {0: 1.0}, (), 3)]
    queries, documents = np.array([[1, 0]], np.float32), np.array([[0, 0], [-1, 0], [-1, 1]], np.float32)
    lists = np.array([[0, 1, 2]])
    scores = score_lists(lists, queries, documents)
    found = rank_lists(judged, lists, scores, (queries, documents))
    assert found.relevant.ranks.tolist() == [3]
    assert found.top[0].tolist() == [0, 1, 2]  # as other tools order them
