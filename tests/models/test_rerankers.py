"""Rerankers that see images: a cross-encoder saved by its library, and the request forms of two services."""

import base64
import json

import numpy as np
import pytest
from PIL import Image

from eyechart.api import ApiClient, rerank_request
from eyechart.api.errors import RequestRefusedError
from eyechart.errors import ModelError
from eyechart.inference.answers import CachedReranker
from eyechart.io.images import ImageRef
from eyechart.models.registry import open_model
from eyechart.models.rerankers import Shortlist
from eyechart.store.answer_store import ResponseStore
from eyechart.types import ModelSpec
from support.data import noise_image
from support.openai_server import OpenAIServer
from support.text_models import save_seeing_cross_encoder, save_tiny_cross_encoder


@pytest.fixture(scope="module")
def seeing(tmp_path_factory):
    return save_seeing_cross_encoder(tmp_path_factory.mktemp("reranker") / "seeing")


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("images")
    for seed in range(3):
        noise_image(seed).save(folder / f"{seed}.png")
    return [ImageRef.from_path(folder / f"{seed}.png") for seed in range(3)]


def load_reranker(folder, **more):
    return open_model(ModelSpec("cross-encoder", folder, **more), "reranker").load()


def scores_of(model, query, documents):
    [(_, scores)] = model.score([Shortlist("q", query, tuple(documents))], lambda name, scores: None)
    return scores


def picture(ref):
    return Image.open(ref.path).convert("RGB")


def test_scores_of_texts_images_and_both_are_those_of_the_library(seeing, files):
    import torch
    from sentence_transformers import CrossEncoder

    library = CrossEncoder(seeing, device="cpu")
    one, two, three = files
    documents = ["a red cat", (one,), ("the dog", two), (three,)]
    pairs = [
        ("a cat", "a red cat"),
        ("a cat", picture(one)),
        ("a cat", {"text": "the dog", "image": picture(two)}),
        ("a cat", picture(three)),
    ]
    plain = torch.nn.Identity()
    expected = [float(library.predict([pair], activation_fn=plain, show_progress_bar=False)[0]) for pair in pairs]
    model = load_reranker(seeing)

    assert model.card.inputs == ("image", "text", "image+text")
    np.testing.assert_allclose(scores_of(model, "a cat", documents), expected, atol=1e-5)
    assert np.ptp(expected) > 0.01
    # No score depends on the other documents of the list.
    alone = [scores_of(model, "a cat", [document])[0] for document in documents]
    np.testing.assert_allclose(alone, expected, atol=1e-5)


def test_an_image_can_be_the_query(seeing, files):
    import torch
    from sentence_transformers import CrossEncoder

    pair = (picture(files[0]), "a dog")
    expected = CrossEncoder(seeing, device="cpu").predict([pair], activation_fn=torch.nn.Identity())
    found = scores_of(load_reranker(seeing), (files[0],), ["a dog"])
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_a_text_that_names_a_file_stays_a_text(seeing, files, monkeypatch):
    model = load_reranker(seeing)
    before = scores_of(model, "0.png", [(files[1],)])
    monkeypatch.chdir(files[0].path.parent)  # where it names an image

    assert scores_of(model, "0.png", [(files[1],)]) == before


def test_a_reranker_of_texts_says_so(tmp_path):
    assert load_reranker(save_tiny_cross_encoder(tmp_path / "cross")).card.inputs == ("text",)


def test_a_chat_template_without_the_document_is_refused(tmp_path, files):
    chat = "{% for message in messages %}{% if message['role'] == 'query' %}query{% endif %}{% endfor %}"
    model = load_reranker(save_seeing_cross_encoder(tmp_path / "deaf", chat=chat))

    with pytest.raises(ModelError, match="cannot score the pairs: The chat template"):
        scores_of(model, "a cat", [(files[0],)])


def test_pixels_and_words_of_the_score_are_part_of_the_fingerprint(tmp_path, seeing):
    folders = [
        seeing,
        save_seeing_cross_encoder(tmp_path / "pixels", pixels=28 * 28),
        save_seeing_cross_encoder(tmp_path / "words", yes="query"),
    ]
    cards = [load_reranker(folder).card for folder in folders]

    assert len({card.weights_digest for card in cards}) == 1
    assert len({card.fingerprint for card in cards}) == 3


def test_stored_scores_belong_to_the_content_of_the_images(tmp_path, seeing, files):
    store = ResponseStore(tmp_path / "answers")

    def ask(ref):
        model = CachedReranker(open_model(ModelSpec("cross-encoder", seeing), "reranker"), store)
        list(model.score([Shortlist("q", "a cat", ((ref,), "a dog"))]))
        return model.origins.generated

    (tmp_path / "copy.png").write_bytes(files[0].path.read_bytes())
    copy = ImageRef.from_path(tmp_path / "copy.png")
    assert [ask(files[0]), ask(files[0]), ask(copy), ask(files[1])] == [1, 0, 0, 1]


# Services


class RerankServer(OpenAIServer):
    """Accepts exactly the documented documents with images, and scores them by their length."""

    def __init__(self, form):
        super().__init__()
        self.form = form

    def reply(self, path, body):
        if path != "/v1/rerank" or set(body) != {"model", "query", "documents"}:
            return 400, {"message": f"deviation: {path} {sorted(body)}"}
        try:
            sizes = [self.size(document) for document in body["documents"]]
        except (KeyError, ValueError, TypeError) as error:
            return 400, {"message": f"deviation: {error!r}"}
        rows = [{"index": i, "relevance_score": size} for i, size in enumerate(sizes)]
        return 200, {"model": body["model"], "results": rows[::-1], "usage": {"total_tokens": 3}}

    def size(self, document):
        if isinstance(document, str):
            return len(document)
        if self.form == "jina":
            if not document or not document.keys() <= {"text", "image"}:
                raise ValueError(json.dumps(document)[:80])
            return len(document.get("text", "")) + len(base64.b64decode(document.get("image", ""), validate=True))
        if list(document) != ["content"]:
            raise ValueError(json.dumps(document)[:80])
        total = 0
        for part in document["content"]:
            if part["type"] == "text":
                total += len(part["text"])
            else:
                head, _, data = part["image_url"]["url"].partition(",")
                if part["type"] != "image_url" or head != "data:image/png;base64":
                    raise ValueError(head)
                total += len(base64.b64decode(data, validate=True))
        return total


@pytest.mark.parametrize("form", ["jina", "vllm"])
def test_a_service_gets_images_in_its_documented_form(form, files):
    sizes = [ref.path.stat().st_size for ref in files]
    with RerankServer(form) as server:
        spec = ModelSpec("api", "jina-reranker-m0", server.api_base, options={"rerank_form": form})
        model = open_model(spec, "reranker").load()
        found = scores_of(model, "a cat", ["a red cat", (files[0],), ("dog", files[1]), (files[2],)])

    assert model.card.inputs == ("image", "text", "image+text")
    assert found == [9, sizes[0], 3 + sizes[1], sizes[2]]


def test_images_are_downscaled_if_asked(files, tmp_path):
    with RerankServer("jina") as server:
        small = [
            ApiClient(server.api_base).call(rerank_request("1", "m", "q", [(files[0],)], "jina", edge))[0]
            for edge in (None, 8)
        ]
    assert small[1] < small[0]


def test_a_service_that_takes_another_form_is_an_error_with_its_reason(files):
    with RerankServer("vllm") as server, pytest.raises(RequestRefusedError, match="deviation"):
        ApiClient(server.api_base).call(rerank_request("1", "m", "q", [(files[0], "a", "b")], "jina"))
