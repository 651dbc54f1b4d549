"""MTEB's numbers where scores tie: what trec_eval, its evaluator, says of the same scores."""

import numpy as np
import pytest
import pytrec_eval

from eyechart.tasks.ranked_queries import of_vectors
from eyechart.types import Document, TextCollection

PEER = {"ndcg": "ndcg_cut", "map": "map_cut", "recall": "recall", "precision": "P"}


@pytest.mark.parametrize("seed", range(5))
def test_ties_are_broken_by_document_ids_as_in_trec_eval(seed):
    rng = np.random.default_rng(seed)
    # Small whole numbers: their dot products are exact, and most of them occur many times.
    queries, documents = (rng.integers(0, 2, (n, 4)).astype(np.float32) for n in (30, 80))
    ids = [f"d{name}" for name in rng.permutation(200)[:80]]
    relevance = {
        f"q{i}": {ids[j]: float(rng.integers(1, 3)) for j in rng.choice(80, rng.integers(1, 5), replace=False)}
        for i in range(30)
    }
    asked = tuple(Document(f"q{i}", "") for i in range(30))
    collection = TextCollection(tuple(Document(name, "") for name in ids), asked, relevance)
    scores = queries @ documents.T
    run = {f"q{i}": dict(zip(ids, map(float, scores[i]), strict=True)) for i in range(30)}
    cuts = "1,3,5,10,20,100,1000"
    wanted = {f"{name}.{cuts}" for name in ("ndcg_cut", "map_cut", "recall", "P")}
    theirs = pytrec_eval.RelevanceEvaluator(
        {query: {name: int(gain) for name, gain in own.items()} for query, own in relevance.items()}, wanted
    ).evaluate(run)

    ours = of_vectors(collection, asked, queries, documents)

    for (name, k), column in ours.values.items():
        if name in PEER:
            assert column == pytest.approx([theirs[query.id][f"{PEER[name]}_{k}"] for query in asked]), (name, k)
