"""POST /rerank: how well each document fits a query (the form of Cohere and Jina, which vLLM and others serve)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from eyechart.api.answers import Json, excerpt, list_of
from eyechart.api.errors import BadAnswerError
from eyechart.api.requests import Request
from eyechart.io.untrusted import is_number


def rerank_request(request_id: str, model: str, query: str, documents: Sequence[str]) -> Request[list[float]]:
    """Make the request for the scores of all documents, which come back in the order of the documents."""
    count = len(documents)
    body = {"model": model, "query": query, "documents": list(documents)}
    return Request(request_id, "rerank", body, lambda answer: parse_rerank(answer, count))


def parse_rerank(body: Json, count: int) -> list[float]:
    """Read `results[{index, relevance_score}]`; older servers call them `data` and `score`.

    Raises:
        BadAnswerError: If not every document has exactly one finite score.
    """
    rows = list_of(body, "results" if "results" in body else "data", "rerank answer")
    scores: list[float | None] = [None] * count
    for row in rows:
        entry = row if isinstance(row, Mapping) else {}
        index, score = entry.get("index"), entry.get("relevance_score", entry.get("score"))
        if not isinstance(index, int) or not is_number(score):
            raise BadAnswerError(f"The answer is no rerank answer: {excerpt(body)}")
        if not 0 <= index < count or scores[index] is not None:
            raise BadAnswerError(f"The server numbers its {count} scores wrongly: {index} twice or too large.")
        scores[index] = float(score)
    missing = scores.count(None)
    if missing:
        raise BadAnswerError(f"Asked for the scores of {count} documents, the server left out {missing}.")
    return [score for score in scores if score is not None]
