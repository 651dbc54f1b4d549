"""Embeddings and rerank answers: right order, right count, right numbers, or an error."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eyechart.api import (
    ApiClient,
    EncodedImage,
    Retry,
    embed,
    parse_embeddings,
    parse_rerank,
    rerank_request,
)
from eyechart.api import errors as api_errors
from eyechart.api.embedding_forms import FORMS, OPENAI, Asked
from support.openai_server import OpenAIServer, Raw, Status, random_faults

MODEL = Asked("test-model")
PICTURES = [EncodedImage("image/jpeg", bytes([i] * 4)) for i in range(7)]


def rows(*vectors, indices=None):
    indices = range(len(vectors)) if indices is None else indices
    return {"data": [{"index": i, "embedding": list(v)} for i, v in zip(indices, vectors, strict=True)]}


def test_texts_come_back_in_order_whatever_fails():
    texts = [f"text {i}" for i in range(100)]
    with OpenAIServer(fault=random_faults(0.2, Status(500), Status(429))) as server:
        client = ApiClient(server.api_base, concurrency=8, retry=Retry(first_wait=0.01))
        vectors = embed(client, OPENAI, MODEL, [(text,) for text in texts], batch_size=7, dimension=8)
    expected = np.array([server.vector(text) for text in texts], dtype=np.float32)
    assert vectors.dtype == np.float32
    np.testing.assert_array_equal(vectors, expected)


def test_no_texts_are_no_request():
    assert embed(ApiClient("http://localhost:1/v1"), OPENAI, MODEL, [], dimension=8).shape == (0, 8)


@pytest.mark.parametrize(
    ("form", "inputs"),
    [
        ("infinity", [image.data_url for image in PICTURES]),
        ("jina", [{"image": image.base64} for image in PICTURES]),
        (
            "vllm",
            [
                [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": image.data_url}}]}]
                for image in PICTURES
            ],
        ),
    ],
)
def test_images_in_the_form_of_each_server(form, inputs):
    with OpenAIServer() as server:
        inputs_sent = [(image,) for image in PICTURES]
        vectors = embed(ApiClient(server.api_base), FORMS[form], MODEL, inputs_sent, batch_size=3)
    np.testing.assert_array_equal(vectors, np.array([server.vector(i) for i in inputs], dtype=np.float32))
    bodies = [request.body for request in server.requests]
    assert len(bodies) == (7 if form == "vllm" else 3)
    assert all(("modality" in body) == (form == "infinity") for body in bodies)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (rows([1, 2]), "Expected 2 embeddings, the server returned 1"),
        (rows([1], [2], [3]), "returned 3"),
        (rows([1, 2], [1]), "different sizes"),
        (rows([1, 2, 3], [1, 2, 3]), "size 3, expected 2"),
        (rows([1, 2], [1, 2], indices=[0, 0]), "repeated or out of range"),
        (rows([1, 2], [1, 2], indices=[0, 5]), "repeated or out of range"),
        (rows([1, 2], [1, float("nan")]), "NaN"),
        (rows([1, 2], [1, float("inf")]), "NaN or infinite"),
        (rows([1, 2], [1, 1e300]), "NaN or infinite"),
        (rows([1, 2], ["a", "b"]), "not a list of numbers"),
        (rows([1, 2], []), "not a list of numbers"),
        (rows([[1, 2], [3, 4]], [[1, 2], [3, 4]]), "several vectors"),
        ({"data": [{"index": 0, "embedding": "AAAA"}, {"index": 1, "embedding": "AAAA"}]}, "not a list of numbers"),
        ({"data": ["x", "y"]}, "not a list of embeddings"),
        ({"data": None}, "not a list of embeddings"),
        ({"error": "oops"}, "oops"),
    ],
)
@pytest.mark.filterwarnings("ignore:overflow encountered in cast:RuntimeWarning")
def test_wrong_embeddings_are_refused(body, words):
    with pytest.raises(api_errors.BadAnswerError, match=words):
        parse_embeddings(body, 2, dimension=2)


def test_another_size_in_a_later_batch_is_refused():
    def fault(path, body, attempt):
        return Raw(b'{"data": [{"index": 0, "embedding": [1, 2]}]}') if body["input"] == ["c"] else None

    with OpenAIServer(fault=fault) as server, pytest.raises(api_errors.BadAnswerError, match=r"\[2, 8\]"):
        embed(ApiClient(server.api_base), OPENAI, MODEL, [("a",), ("b",), ("c",)], batch_size=1)


def test_a_failing_batch_is_an_error_not_a_hole():
    with OpenAIServer(fault=Status(400)) as server, pytest.raises(api_errors.RequestRefusedError):
        embed(ApiClient(server.api_base), OPENAI, MODEL, [("a",), ("b",)])


@given(st.permutations(range(6)))
def test_the_index_decides_the_order(order):
    body = rows(*([float(i), 0.0] for i in order), indices=order)
    assert parse_embeddings(body, 6)[:, 0].tolist() == [0, 1, 2, 3, 4, 5]


def test_rerank_scores_are_in_the_order_of_the_documents():
    documents = ["a red bus", "a cat on a mat", "the red cat"]
    with OpenAIServer() as server:
        client = ApiClient(server.api_base)
        scores = client.call(rerank_request("1", "test-model", "red cat", documents))
    assert scores == [0.5, 0.5, 1.0]
    assert server.requests[0].body == {"model": "test-model", "query": "red cat", "documents": documents}
    assert client.budget.used.prompt_tokens == 15


def test_the_older_names_are_read_too():
    assert parse_rerank({"data": [{"index": 1, "score": 2}, {"index": 0, "score": -1.5}]}, 2) == [-1.5, 2.0]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"results": [{"index": 0, "relevance_score": 1}]}, "omitted 1"),
        ({"results": [{"index": 0, "relevance_score": 1}] * 2}, "repeated or out of range"),
        ({"results": [{"index": 2, "relevance_score": 1}]}, "repeated or out of range"),
        ({"results": [{"index": 0, "relevance_score": "1"}]}, "not a rerank response"),
        ({"results": [{"index": 0, "relevance_score": float("nan")}]}, "not a rerank response"),
        ({"results": [{"index": 0, "relevance_score": 10**400}]}, "not a rerank response"),
        ({"results": [7]}, "not a rerank response"),
        ({"results": {}}, "not a rerank response"),
        ({}, "not a rerank response"),
    ],
)
def test_wrong_rerank_answers_are_refused(body, words):
    with pytest.raises(api_errors.BadAnswerError, match=words):
        parse_rerank(body, 2)
