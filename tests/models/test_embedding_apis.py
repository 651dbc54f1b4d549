"""Embedding services, each a real server that accepts exactly the documented requests."""

import base64
from pathlib import Path

import numpy as np
import pytest

from eyechart import evaluate
from eyechart.api import errors as api_errors
from eyechart.api import parse_embeddings
from eyechart.api.embedding_forms import FORMS, OPENAI, find_form
from eyechart.errors import ModelError, UnknownNameError
from eyechart.models.access import Access
from eyechart.models.api_models import ApiFamily
from eyechart.types import ModelSpec
from support.data import noise_image
from support.embedding_servers import EmbeddingServer
from support.mteb_tasks import write_lines
from support.openai_server import Status, first_attempts
from support.zoo import load, photos

KEY = "key-very-secret-1234567890"
MODELS = {
    "cohere": "embed-v4.0",
    "voyage": "voyage-multimodal-3.5",
    "gemini": "gemini-embedding-2",
    "jina": "jina-embeddings-v4",
    "vllm": "Qwen/Qwen3-VL-Embedding-2B",
    "vllm_pooling": "Qwen/Qwen3-VL-Embedding-2B",
}
SERVICES = list(MODELS)
JOINT = [name for name in SERVICES if name != "jina"]
SIZES = {"cohere": 256, "voyage": 512, "gemini": 768, "jina": 128, "vllm": 32, "vllm_pooling": 16}
ROLES = {
    "cohere": {"": "search_document", "query": "search_query", "document": "search_document"},
    "voyage": {"": None, "query": "query", "document": "document"},
    "jina": {"": None, "query": "retrieval.query", "document": "retrieval.passage"},
}


def spec_of(server, name="", access=None, **options):
    service = server.service
    access = access or Access(timeout=5, batch_size=32)
    return ModelSpec(
        "api", name or MODELS[service], server.api_base, options={"image_form": service, **options}, access=access
    )


def expected(server, rows, role=None, size=None):
    return np.array([server.vector_of(row, role, size or SIZES[server.service]) for row in rows])


def pictures(encoder):
    """Prepared images, and each as the services get it."""
    batch = [encoder.prepare_image(photo) for photo in photos()[:3]]
    return batch, [{"image": base64.b64encode(bytes(data)).decode()} for data in batch]


@pytest.mark.parametrize("service", SERVICES)
def test_texts_and_images_in_the_documented_form(service):
    with EmbeddingServer(service) as server:
        encoder = load(spec_of(server, dimension=SIZES[service]))
        batch, sent = pictures(encoder)
        role = ROLES.get(service, {}).get("")

        np.testing.assert_array_equal(encoder.encode_texts(["a", "b"]), expected(server, [["a"], ["b"]], role))
        np.testing.assert_array_equal(encoder.encode_images(batch), expected(server, [[one] for one in sent], role))


@pytest.mark.parametrize("service", SERVICES)
def test_the_models_own_dimension_is_found_out(service):
    with EmbeddingServer(service) as server:
        encoder = load(spec_of(server))

    own = {"cohere": 1536, "voyage": 1024, "gemini": 3072, "jina": 2048, "vllm": 64, "vllm_pooling": 64}
    assert encoder.card.embedding_dim == own[service]
    assert [request.outcome for request in server.requests if request.body] == ["200"]


@pytest.mark.parametrize("service", JOINT)
def test_an_image_and_a_text_get_one_vector(service):
    with EmbeddingServer(service) as server:
        encoder = load(spec_of(server, dimension=SIZES[service]))
        assert encoder.card.inputs == ("image", "text", "image+text")
        batch, sent = pictures(encoder)
        texts = ["one", "two", "three"]
        found = encoder.encode_joint(batch, texts)
        rows = [[one, text] if "vllm" in service else [text, one] for one, text in zip(sent, texts, strict=True)]

    np.testing.assert_array_equal(found, expected(server, rows, ROLES.get(service, {}).get("")))


@pytest.mark.parametrize("service", list(ROLES))
@pytest.mark.parametrize("role", ["query", "document"])
def test_the_role_is_the_input_type_or_task(service, role):
    with EmbeddingServer(service) as server:
        encoder = load(spec_of(server, dimension=SIZES[service]))
        assert encoder.card.prompting == "role"
        batch, sent = pictures(encoder)
        theirs = ROLES[service][role]

        np.testing.assert_array_equal(encoder.encode_texts(["a"], instruction=role), expected(server, [["a"]], theirs))
        np.testing.assert_array_equal(
            encoder.encode_images(batch, instruction=role), expected(server, [[one] for one in sent], theirs)
        )


def test_gemini_embedding_2_takes_the_role_as_a_prefix_and_its_predecessor_as_a_task_type():
    with EmbeddingServer("gemini") as server:
        new = load(spec_of(server, dimension=768))
        old = load(spec_of(server, "gemini-embedding-001", dimension=768))
        batch, sent = pictures(new)
        prefixed = [["task: search result | query: a"], ["title: none | text: a"]]
        found = [new.encode_texts(["a"], instruction=role)[0] for role in ("query", "document")]
        np.testing.assert_array_equal(found, expected(server, prefixed))
        np.testing.assert_array_equal(
            new.encode_joint(batch[:1], ["a"], instruction="query"), expected(server, [[prefixed[0][0], sent[0]]])
        )
        for role in ("query", "document"):
            np.testing.assert_array_equal(
                old.encode_texts(["a"], instruction=role), expected(server, [["a"]], f"RETRIEVAL_{role.upper()}")
            )


@pytest.mark.parametrize(("service", "name"), [("gemini", "gemini-embedding-001"), ("voyage", "voyage-4")])
def test_a_text_model_refuses_images_that_the_service_would_ignore(service, name):
    with EmbeddingServer(service) as server:
        encoder = load(spec_of(server, name, dimension=SIZES[service]))
        np.testing.assert_array_equal(encoder.encode_texts(["a"]), expected(server, [["a"]]))

        assert encoder.card.inputs == ("text",)
        with pytest.raises(ModelError, match=f"{name} encodes texts only"):
            encoder.prepare_image(photos()[0])


def test_jina_clip_has_a_task_for_queries_only():
    with EmbeddingServer("jina") as server:
        encoder = load(spec_of(server, "jina-clip-v2", dimension=64))
        found = [encoder.encode_texts(["a"], instruction=role)[0] for role in ("", "query", "document")]

    tasks = (None, "retrieval.query", None)
    np.testing.assert_array_equal(found, [server.vector_of(["a"], task, 64) for task in tasks])


@pytest.mark.parametrize(
    ("service", "dtype"),
    [("cohere", "int8"), ("cohere", "binary"), ("voyage", "int8"), ("voyage", "binary"), ("jina", "binary")],
)
@pytest.mark.parametrize("dimension", ["given", "found out"])
def test_quantized_vectors_are_decoded(service, dtype, dimension):
    with EmbeddingServer(service) as server:
        given = {"dimension": SIZES[service]} if dimension == "given" else {}
        encoder = load(spec_of(server, dtype=dtype, **given))
        found = encoder.encode_texts(["a", "b"])

    size = encoder.card.embedding_dim
    plain = expected(server, [["a"], ["b"]], ROLES[service][""], size)
    assert size == (SIZES[service] if given else {"cohere": 1536, "voyage": 1024, "jina": 2048}[service])
    assert found.dtype == np.float32
    wanted = np.sign(plain) if dtype == "binary" else np.clip(np.rint(plain * 40), -128, 127)
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize(("service", "dtype"), [("gemini", "int8"), ("jina", "int8"), ("vllm", "binary")])
def test_a_dtype_that_the_service_lacks_is_refused_before_anything_is_sent(service, dtype):
    with EmbeddingServer(service) as server, pytest.raises(UnknownNameError, match=f"dtype of {service}"):
        load(spec_of(server, dtype=dtype))

    assert not server.requests


@pytest.mark.parametrize(
    ("service", "values", "dtype"),
    [("cohere", [[1, 2.5]], "int8"), ("cohere", [[1, 128]], "int8"), ("cohere", [[-1, 2]], "ubinary")],
)
def test_values_that_the_dtype_cannot_hold_are_refused(service, values, dtype):
    ours = {"int8": "int8", "ubinary": "binary"}[dtype]
    with pytest.raises(api_errors.BadAnswerError, match=f"not {ours}"):
        parse_embeddings({"embeddings": {dtype: values}}, 1, form=FORMS[service], dtype=ours)


@pytest.mark.parametrize(
    ("service", "texts", "images"),
    [("cohere", 96, 16), ("gemini", 100, 6), ("vllm", 200, 1), ("vllm_pooling", 200, 1), ("voyage", 200, 16)],
)
def test_no_request_exceeds_the_limit_of_the_service(service, texts, images):
    with EmbeddingServer(service) as server:
        encoder = load(spec_of(server, dimension=SIZES[service], access=Access(timeout=5, batch_size=500)))
        encoder.encode_texts([str(i) for i in range(200)])
        assert max(server.batches) == texts
        server.batches.clear()
        encoder.encode_images([encoder.prepare_image(photos()[0])] * 20)

    assert (max(server.batches), sum(server.batches)) == (images, 20)


@pytest.mark.parametrize("service", SERVICES)
def test_the_key_goes_into_the_header_of_the_service_and_nowhere_else(service, monkeypatch):
    monkeypatch.setenv("SERVICE_KEY", KEY)
    with EmbeddingServer(service, key=KEY) as server:
        access = Access(timeout=5, key_variable="SERVICE_KEY")
        encoder = load(spec_of(server, access=access))
        assert encoder.encode_texts(["a"]).shape == (1, encoder.card.embedding_dim)
        assert KEY not in repr(encoder.card)
        assert all(KEY not in request.path for request in server.requests)

        monkeypatch.setenv("SERVICE_KEY", "key-that-is-wrong-12345")
        with pytest.raises(api_errors.KeyRefusedError, match="rejected the API key") as error:
            load(spec_of(server, access=access))
    assert "key-that-is-wrong" not in str(error.value)


def test_an_invalid_key_is_recognised_in_geminis_words():
    body = {"error": {"code": 400, "message": "API key not valid. Please pass a valid API key."}}
    with EmbeddingServer("gemini", fault=Status(400, body)) as server, pytest.raises(api_errors.KeyRefusedError):
        load(spec_of(server))


@pytest.mark.parametrize("service", ["cohere", "voyage", "gemini"])
def test_a_busy_service_is_asked_again_and_its_tokens_are_counted(service):
    with EmbeddingServer(service, fault=first_attempts(1, Status(429))) as server:
        access = Access(timeout=5, tries=3)
        encoder = load(spec_of(server, dimension=SIZES[service], access=access))
        found = encoder.encode_texts(["a"])

    np.testing.assert_array_equal(found, expected(server, [["a"]], ROLES.get(service, {}).get("")))
    assert access.budget.used.prompt_tokens == 7


def test_a_refusal_of_the_service_is_an_error_with_its_reason():
    with EmbeddingServer("cohere") as server, pytest.raises(api_errors.RequestRefusedError, match="100 is none of"):
        load(spec_of(server, dimension=100)).encode_texts(["a"])


@pytest.mark.parametrize(
    ("address", "name", "form"),
    [
        ("https://api.cohere.com/v2", "embed-v4.0", FORMS["cohere"]),
        ("https://api.voyageai.com/v1", "voyage-multimodal-3", FORMS["voyage"]),
        ("https://ai.mongodb.com/v1", "voyage-multimodal-3.5", FORMS["voyage"]),
        ("https://generativelanguage.googleapis.com/v1beta", "gemini-embedding-2", FORMS["gemini"]),
        ("https://api.jina.ai/v1", "jina-embeddings-v4", FORMS["jina"]),
        ("https://generativelanguage.googleapis.com/v1beta/openai", "gemini-embedding-2", OPENAI),
        ("https://api.openai.com/v1", "text-embedding-3-large", OPENAI),
    ],
)
def test_a_well_known_address_implies_its_form(address, name, form):
    assert find_form(None, address, name) is form


def test_whatever_is_asked_of_the_service_is_part_of_the_identity():
    with EmbeddingServer("cohere") as server:
        options = [{}, {"dimension": 256}, {"dtype": "int8"}, {"dtype": "binary"}, {"dimension": 1536}]
        specs = [spec_of(server, **one) for one in options]
        cards = [load(spec).card.fingerprint for spec in specs]
        keys = [ApiFamily().identity(spec) for spec in specs]

    assert len(set(cards)) == len(set(keys)) == len(options)


def test_a_collection_is_embedded_by_role_and_an_image_with_its_text_in_one_request(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "g/images").mkdir(parents=True)
    for seed in range(3):
        noise_image(seed).save(tmp_path / f"g/images/{seed}.png")
    write_lines(Path("g/corpus.jsonl"), [
        {"_id": "i", "image": "0.png"}, {"_id": "t", "text": "a text"}, {"_id": "b", "text": "both", "image": "1.png"},
    ])  # fmt: skip
    write_lines(Path("g/queries.jsonl"), [{"_id": "q", "text": "a query"}, {"_id": "p", "image": "2.png"}])
    rows = [{"query-id": "q", "corpus-id": "b", "score": 1}, {"query-id": "p", "corpus-id": "i", "score": 1}]
    write_lines(Path("g/qrels.jsonl"), rows)
    with EmbeddingServer("cohere") as server:
        [result] = evaluate(
            model=[MODELS["cohere"]],
            model_type="api",
            pretrained=[server.api_base],
            model_options={"image_form": "cohere", "dimension": 256},
            dataset=["collection/g"],
            dataset_root="g",
            output="out.json",
        )
        bodies = [request.body for request in server.requests if request.body]

    assert {request.outcome for request in server.requests if request.body} == {"200"}
    sent = [
        (body["input_type"], [part["type"] for part in row["content"]] if isinstance(row, dict) else row)
        for body in bodies
        for row in body.get("texts", body.get("inputs"))
    ]
    assert sorted(sent, key=str) == [
        ("search_document", "a text"),
        ("search_document", ["image_url"]),
        ("search_document", ["text", "image_url"]),
        ("search_query", "a query"),
        ("search_query", ["image_url"]),
    ]
    assert result.counts["failed"] == 0
