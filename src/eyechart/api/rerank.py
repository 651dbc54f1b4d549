"""POST /rerank: how well each document fits a query, in the two forms that servers have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from eyechart.api.answers import Json, excerpt, list_of
from eyechart.api.errors import BadAnswerError
from eyechart.api.requests import Request
from eyechart.io.untrusted import is_number

RerankForm = Literal["jina", "tei"]
FIELDS: dict[RerankForm, str] = {"jina": "documents", "tei": "texts"}
"""What the documents are called: by Cohere and Jina, which vLLM and others follow; by Text Embeddings Inference."""


def rerank_request(
    request_id: str, model: str, query: str, documents: Sequence[str], form: RerankForm = "jina"
) -> Request[list[float]]:
    """Make the request for the scores of all documents, which come back in the order of the documents.

    TEI serves one model, whose name it does not take, and is asked for raw scores: between 0 and 1, good ones tie.
    """
    count = len(documents)
    others = {"raw_scores": True} if form == "tei" else {"model": model}
    body = {**others, "query": query, FIELDS[form]: list(documents)}
    return Request(request_id, "rerank", body, lambda answer: parse_rerank(answer, count))


def parse_rerank(body: Json, count: int) -> list[float]:
    """Read `results[{index, relevance_score}]`; older servers and TEI (a bare list) call them `data` and `score`.

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
