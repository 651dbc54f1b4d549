"""A model behind an API that misbehaves, and one that does not."""

import dataclasses
import json
import threading

import numpy as np
import pytest

from eyechart import evaluate
from eyechart.errors import ModelError, UnknownNameError, UsageError
from eyechart.inference.embeddings import CachedEncoder
from eyechart.models.access import Access
from eyechart.models.registry import open_model
from eyechart.store.vector_store import EmbeddingStore
from eyechart.types import ModelSpec
from support.data import noise_image, write_classification
from support.openai_server import OpenAIServer, Raw, Stall, Status, first_attempts
from support.zoo import load, photos

QUICK = Access(timeout=5)
SECRET = "sk-very-secret-1234567890"


def spec_of(server, access=QUICK, **options):
    return ModelSpec("api", "test-model", server.api_base, options={"image_form": "jina", **options}, access=access)


def after_loading(fault):
    """Let the model load, then misbehave: the question with which its dimension is found out is answered well."""
    return lambda path, body, attempt: fault if body and body.get("input") not in (None, ["a"]) else None


def vectors(*rows):
    data = [{"index": i, "embedding": list(row)} for i, row in enumerate(rows)]
    return Raw(json.dumps({"data": data}).encode())


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (vectors([1.0] * 8), "Expected 2 embeddings, the server returned 1"),
        (vectors([1.0] * 8, [1.0] * 8, [1.0] * 8), "Expected 2 embeddings, the server returned 3"),
        (vectors([1.0] * 5, [1.0] * 5), "embeddings of size 5, expected 8"),
        (Raw(b"<html>502 Bad Gateway</html>"), "did not return JSON"),
        (Raw(b'{"data": [{"embedding": "AAAA"}, {"embedding": "AAAA"}]}'), "not a list of numbers"),
        (Status(401), "rejected the API key"),
        (Status(429), "status 429"),
        (Status(500), "status 500"),
        (Stall(3.0), "no complete response within"),
    ],
    ids=["too few", "too many", "another dimension", "garbage", "no numbers", "401", "429", "500", "never"],
)
def test_a_server_that_misbehaves_gives_one_clear_error(fault, message):
    with OpenAIServer(fault=after_loading(fault)) as server:
        encoder = load(spec_of(server, Access(tries=2, timeout=0.5 if isinstance(fault, Stall) else 5)))

        with pytest.raises(ModelError, match=message):
            encoder.encode_texts(["two", "texts"])


@pytest.mark.parametrize("code", [429, 500, 503])
def test_a_server_that_recovers_is_asked_again(code):
    with OpenAIServer(fault=first_attempts(1, Status(code))) as server:
        encoder = load(spec_of(server, Access(tries=3)))

        np.testing.assert_array_equal(encoder.encode_texts(["x"]), np.array([server.vector("x")], np.float32))


def test_a_model_that_is_not_served_names_those_that_are():
    with OpenAIServer(models=("embedding-tiny",)) as server, pytest.raises(ModelError) as error:
        load(dataclasses.replace(spec_of(server), name="embedding-tinny"))

    assert "does not serve the model 'embedding-tinny' (it serves: embedding-tiny)" in str(error.value)


def test_a_server_that_is_not_there():
    with pytest.raises(ModelError, match="Cannot connect to"):
        load(ModelSpec("api", "m", "http://127.0.0.1:9/v1", access=Access(tries=1)))


def test_another_dimension_than_asked_for():
    with OpenAIServer(dimension=8) as server:
        encoder = load(spec_of(server, dimension=16))

        with pytest.raises(ModelError, match="size 8, expected 16"):
            encoder.encode_texts(["a"])


def test_a_dimension_that_is_given_costs_no_request_and_makes_no_other_model():
    with OpenAIServer(dimension=8) as server:
        given = load(spec_of(server, dimension=8, image_form="infinity"))
        assert not server.paid
        found = load(spec_of(server, image_form="infinity"))

    assert given.card == found.card


def test_eval_and_run_task_reach_one_model_that_is_stored_once(tmp_path):
    store = EmbeddingStore(tmp_path / "store")
    with OpenAIServer(dimension=8) as server:
        like_eval = ModelSpec("api", "test-model", server.api_base, access=Access(batch_size=64))
        like_run_task = ModelSpec(
            "api", "test-model", options={"api_base": server.api_base, "dimension": 8}, access=Access(batch_size=3)
        )
        first, second = (CachedEncoder(open_model(spec), store) for spec in (like_eval, like_run_task))
        assert first.card.fingerprint == second.card.fingerprint
        texts = [str(i) for i in range(10)]
        np.testing.assert_array_equal(first.texts(texts), second.texts(texts))
        sent = [text for request in server.requests if request.body for text in request.body["input"] if text != "a"]

    assert sorted(sent) == sorted(texts)


def test_the_access_says_how_many_texts_go_into_a_request():
    with OpenAIServer() as server:
        load(spec_of(server, Access(batch_size=4))).encode_texts([str(i) for i in range(10)])

    first, *batches = [len(request.body["input"]) for request in server.requests if request.body]
    assert first == 1  # the model is asked once what it is
    assert sorted(batches) == [2, 4, 4]  # several are under way at once: they arrive in any order


def test_images_need_to_know_the_servers_dialect():
    with OpenAIServer() as server:
        encoder = load(dataclasses.replace(spec_of(server), options={}))

        with pytest.raises(ModelError, match=r"image_form=vllm\|infinity\|jina"):
            encoder.prepare_image(photos()[0])


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"image_form": "jinna"}, UnknownNameError, "Did you mean jina"),
        ({"dimensions": 3}, UnknownNameError, "Did you mean dimension"),
        ({"api_base": "localhost:8000"}, UsageError, "not an http"),
        ({}, UsageError, "needs the address"),
    ],
)
def test_wrong_options_are_refused_before_anything_is_sent(options, error, message):
    with pytest.raises(error, match=message):
        load(
            ModelSpec(
                "api", "m", "" if not options or "api_base" in options else "http://localhost:1/v1", options=options
            )
        )


def test_the_server_decides_how_it_computes():
    with pytest.raises(UsageError, match="does not apply to a model behind an API"):
        load(ModelSpec("api", "m", "http://localhost:1/v1", precision="fp16"))


def test_requests_run_side_by_side():
    rounds = []
    together = threading.Barrier(8, action=lambda: rounds.append(1), timeout=30)

    def wait_for_eight(path, body, attempt):
        if body is not None and len(body["input"]) == 4:  # not the single text that the size is asked with
            together.wait()

    with OpenAIServer(fault=wait_for_eight) as server:
        load(spec_of(server, Access(concurrency=8, batch_size=4))).encode_texts([str(i) for i in range(64)])

    assert (server.most_in_flight, len(rounds)) == (8, 2)


def test_an_evaluation_sends_each_image_once_and_keeps_the_key_secret(tmp_path, monkeypatch, capsys):
    write_classification(tmp_path / "data", n=10)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MY_KEY", SECRET)
    with OpenAIServer(key=SECRET) as server:
        for output in ("one.json", "two.json"):
            (result,) = evaluate(
                model_type="api",
                model=["test-model"],
                pretrained=[server.api_base],
                model_options={"image_form": "infinity", "api_key_variable": "MY_KEY"},
                dataset=["data"],
                output=output,
            )

    images_sent = [request.body["input"] for request in server.requests if "modality" in (request.body or {})]
    sent = [image for batch in images_sent for image in batch]
    assert len(sent) == len(set(sent)) == 10
    assert result.counts["scored"] == 10
    assert "cannot be verified" in " ".join(notice["message"] for notice in result.notices)
    for file in tmp_path.rglob("*"):
        assert not file.is_file() or SECRET.encode() not in file.read_bytes()
    assert SECRET not in "".join(capsys.readouterr())


def test_another_model_that_the_server_reports_is_another_model_and_the_two_never_mix(tmp_path):
    with OpenAIServer(report={"model": "test-model"}) as server:
        store, spec = EmbeddingStore(tmp_path), spec_of(server, image_form="infinity")
        first = CachedEncoder(open_model(spec, "encoder"), store)
        first.texts(["a cat"])
        plain = load(spec).card.fingerprint
        server.report = {"model": "test-model-v2"}
        changed = CachedEncoder(open_model(spec, "encoder"), store)  # its card is known from before
        changed.texts(["a cat", "a dog"])
        assert server.requests[-1].body["input"] == ["a cat", "a dog"]  # not only the missing one
        assert changed.card.fingerprint == load(spec).card.fingerprint != plain == first.card.fingerprint
        given = spec_of(server, image_form="infinity", dimension=8)
        assert load(given).card.fingerprint == plain  # nothing was asked


def test_vectors_of_a_server_are_requested_again_on_demand(tmp_path):
    for seed, name in enumerate(("cat", "dog")):
        (tmp_path / "photos" / name).mkdir(parents=True)
        noise_image(seed).save(tmp_path / "photos" / name / "1.png")

    def run(**more):
        before = len(server.requests)
        chosen = {"model": ["test-model"], "pretrained": [server.api_base], "model_type": "api"}
        evaluate(
            dataset=[str(tmp_path / "photos")],
            output=str(tmp_path / "r.json"),
            model_options={"image_form": "jina"},
            **chosen,
            **more,
        )
        return sum(request.path.endswith("embeddings") for request in server.requests[before:]) > 0

    with OpenAIServer() as server:
        assert [run(), run(), run(max_age="0"), run(max_age="30d"), run()] == [True, False, True, True, False]
