"""Vectors that one has already get the numbers that the tasks give them."""

import dataclasses

import numpy as np
import pytest

import eyechart
from eyechart.errors import EyechartError
from support.data import noise_image

TINY = "eyechart-tiny"
IMAGES = [noise_image(seed) for seed in range(12)]
NAMES = ["cat", "dog", "bird", "fish", "cow", "pig"]
LABELS = [0, 1, 2, 3, 4, 5] * 2
TEMPLATES = ["a photo of a {c}.", "a drawing of a {c}", "one {c}"]
CAPTIONS = [[f"a noisy picture, number {i}", f"noise {i}"] for i in range(12)]


@pytest.fixture
def stored():
    """Gives the very vectors that a run has stored: the last bits of others depend on their batch."""
    return eyechart.load_model(TINY, store=True, normalize=False)


def same(one, other):
    """Compare all that is known of the metrics, and the records."""
    assert {name: dataclasses.asdict(metric) for name, metric in one.values.items()} == {
        name: dataclasses.asdict(metric) for name, metric in other.values.items()
    }
    records = list(other.iter_records())
    shown = [record.pop("digest") for record in records if "digest" in record]  # vectors have no image bytes
    assert len(set(shown)) == len(IMAGES)
    assert list(one.iter_records()) == records


class TestTheTasksNumbers:
    def test_classification_with_several_prompts(self, stored):
        data = {"images": IMAGES, "labels": LABELS, "classnames": NAMES, "templates": TEMPLATES}
        (wanted,) = eyechart.evaluate(TINY, data, metrics="full", prompt_sensitivity="no", thumbnails=0)
        prompts = np.stack([stored.encode_texts([t.format(c=name) for t in TEMPLATES]) for name in NAMES])

        scale = wanted.model_card["logit_scale"]
        found = eyechart.score(
            stored.encode_images(IMAGES), prompts, labels=LABELS, classnames=NAMES, metrics="full", logit_scale=scale
        )

        same(found, wanted)
        assert found.intervals["acc1"] != (0, 1)
        assert found.chance["acc1"] == 1 / 6

    def test_several_labels(self, stored):
        labels = [[label, (label + 1) % 6] for label in LABELS]
        data = {"images": IMAGES, "labels": labels, "classnames": NAMES}
        (wanted,) = eyechart.evaluate(TINY, data, thumbnails=0)
        classes = stored.encode_texts([f"a photo of a {name}." for name in NAMES])

        same(eyechart.score(stored.encode_images(IMAGES), classes, labels=labels, classnames=NAMES), wanted)

    def test_retrieval_in_any_order_of_the_texts(self, stored):
        (wanted,) = eyechart.evaluate(
            TINY, {"images": IMAGES, "captions": CAPTIONS}, recall_k=[1, 3], metrics="full", thumbnails=0
        )
        images = stored.encode_images(IMAGES)
        texts = [(text, image) for image, own in enumerate(CAPTIONS) for text in own]
        settings = {"recall_k": [1, 3], "metrics": "full"}

        plain = [text for text, _ in texts]
        vectors = stored.encode_texts(plain)
        owner = [image for _, image in texts]
        same(eyechart.score(images, vectors, pairs=owner, captions=plain, **settings), wanted)

        turned = np.array([*range(0, 24, 2), *range(1, 24, 2)])  # all first captions, then all second ones
        pairs = [(owner[text], place) for place, text in enumerate(turned)]
        words = [plain[text] for text in turned]
        same(eyechart.score(images, vectors[turned], pairs=pairs, captions=words, **settings), wanted)

    def test_equal_captions_are_seen_as_such_if_they_are_told(self, stored):
        words = ["the same words"] * 2 + [f"noise {i}" for i in range(2, 12)]
        vectors, images = stored.encode_texts(words), stored.encode_images(IMAGES)
        (wanted,) = eyechart.evaluate(TINY, {"images": IMAGES, "captions": words}, recall_k=1, thumbnails=0)

        same(eyechart.score(images, vectors, pairs=range(12), captions=words, recall_k=1), wanted)
        blind = eyechart.score(images, vectors, pairs=range(12), recall_k=1)
        assert "image_retrieval_recall@1_distinct_texts" not in blind.metrics


class TestForms:
    def test_arrays_tensors_lists_and_lengths(self):
        import torch

        images, classes = [[2.0, 0.1], [0.0, 0.3], [5.0, 4.0]], [[7.0, 0.0], [0.0, 0.1]]
        wanted = eyechart.score(images, classes, labels=[0, 1, 1])

        assert wanted.metrics["acc1"] == 2 / 3
        for form in (np.array, torch.tensor, lambda rows: torch.tensor(rows).half(), tuple):
            found = eyechart.score(form(images), form(classes), labels=torch.tensor([0, 1, 1]))
            assert found.metrics == wanted.metrics

    def test_the_result_is_a_result(self, tmp_path):
        settings = {"labels": [0, 1, 1], "ids": ["a", "b", "c"], "dataset": "mine", "model": "m1"}
        kept = eyechart.score(
            [[1, 0], [0, 1], [1, 0.2]], [[1, 0], [0, 1]], **settings, output=tmp_path / "new" / "x.json"
        )

        assert eyechart.read_result(str(tmp_path / "new" / "x.json")) == kept
        assert (kept.model, kept.dataset, kept.task) == ("m1", "mine", "zeroshot_classification")
        assert [record["id"] for record in kept.iter_records()] == ["a", "b", "c"]
        in_folder = eyechart.score(np.eye(2), np.eye(2), labels=[0, 1], model="m1", output=f"{tmp_path}/folder/")
        assert in_folder.path == tmp_path / "folder" / "vectors_m1.json"
        with pytest.raises(EyechartError, match="not overwritten"):
            eyechart.score([[1, 0]], [[1, 0], [0, 1]], labels=[0], model="m2", output=tmp_path / "new" / "x.json")

    def test_numbers_of_numpy_are_numbers(self):
        result = eyechart.score(np.eye(3), np.eye(3), pairs=np.arange(3), recall_k=np.int64(1))
        assert result.metrics == {"image_retrieval_recall@1": 1, "text_retrieval_recall@1": 1}

    def test_constant_and_zero_vectors_win_nothing(self):
        constant = eyechart.score(np.ones((8, 4)), np.eye(4), labels=[0] * 8)
        zero = eyechart.score(np.zeros((8, 4)), np.eye(4), labels=[0] * 8)

        assert (constant.metrics["acc1"], zero.metrics["acc1"]) == (0, 0)
        assert {notice["kind"] for notice in constant.notices} >= {"constant_vectors"}
        assert {notice["kind"] for notice in zero.notices} >= {"zero_vectors"}

    @pytest.mark.parametrize(
        ("images", "texts", "targets", "words"),
        [
            (np.eye(3), np.eye(3), {}, "either labels or pairs"),
            (np.eye(3), np.eye(3), {"labels": [0, 1, 2], "pairs": [0, 1, 2]}, "either labels or pairs"),
            (np.eye(3), np.eye(4), {"labels": [0, 1, 2]}, "3 dimensions, text_vectors 4"),
            (np.eye(3), np.eye(3), {"labels": [0, 1]}, "2 labels for 3 image_vectors"),
            (np.eye(3), np.eye(3), {"labels": [0, 1, 3]}, "image 2: it has label 3, but there are 3 class names"),
            (np.eye(3), np.eye(3), {"labels": [0, 1, -1]}, "label -1"),
            (np.eye(3), np.eye(3), {"labels": [0, 1, 0.5]}, "image 2: 0.5 is not a label"),
            (np.eye(3), np.eye(3), {"labels": "abc"}, "labels must be a list"),
            (np.eye(3), np.eye(3), {"labels": np.eye(3, dtype=int)}, r"`labels` has the shape \(3, 3\)"),
            (np.eye(3), np.eye(3), {"labels": np.eye(3, dtype=int).tolist()}, "contain a class twice"),
            (np.eye(3), np.eye(3), {"labels": [[0], 1, 2]}, "others a list"),
            (np.eye(3), np.eye(3), {"labels": [0, 1, 2], "classnames": {0: "a", 1: "b", 2: "c"}}, "not a dict"),
            (np.eye(3), np.eye(3), {"labels": [0, 1, 2], "classnames": "abc"}, "1 classnames for 3 classes"),
            (np.eye(3), np.eye(3), {"labels": [0, 1, 2], "metrics": "most"}, "'default' or 'full'"),
            (np.eye(3), np.eye(3), {"labels": [0, 1, 2], "captions": ["a"] * 3}, "captions cannot be combined"),
            (np.eye(3), np.eye(3), {"pairs": [0, 1, 2], "logit_scale": 10}, "logit_scale cannot be combined"),
            (np.eye(3), np.eye(3), {"pairs": {0: 0, 1: 1, 2: 2}}, "pairs must be a list"),
            (np.eye(3), np.eye(3), {"pairs": [0, 1, 2], "recall_k": 1.5}, "recall_k"),
            (np.eye(3), np.eye(3), {"labels": [0, 1, 2], "classnames": ["a"]}, "1 classnames for 3 classes"),
            (np.eye(3), np.eye(3), {"labels": [0, 1, 2], "ids": ["a", "b", "a"]}, "'a' occurs twice"),
            (np.eye(3) * np.nan, np.eye(3), {"labels": [0, 1, 2]}, "3 vectors contain NaN"),
            (np.eye(3), np.full((3, 3), np.inf), {"labels": [0, 1, 2]}, "text_vectors: 3 vectors contain NaN"),
            (np.ones(3), np.eye(3), {"labels": [0, 1, 2]}, r"shape \(3,\)"),
            (np.ones((3, 2, 2)), np.eye(2), {"labels": [0, 1, 1]}, r"shape \(3, 2, 2\)"),
            ([[1, 2], [3]], np.eye(2), {"labels": [0, 1]}, "not an array of numbers"),
            (np.empty((0, 3)), np.eye(3), {"labels": []}, r"shape \(0, 3\)"),
            (np.eye(3), np.eye(3), {"pairs": [0, 1]}, "2 pairs for 3 text_vectors"),
            (np.eye(3), np.eye(3), {"pairs": [0, 1, 3]}, "refer to image 3"),
            (np.eye(3), np.eye(3), {"pairs": [0, 1, 1]}, "Image 2 has no text"),
            (np.eye(3), np.eye(3), {"pairs": [(0, 0), (1, 1), (2, 1)]}, "Text 1 is paired with 2 images"),
            (np.eye(3), np.eye(3), {"pairs": [(0, 0), (1, 1)]}, "Text 2 is paired with 0 images"),
            (np.eye(3), np.eye(3), {"pairs": [0.5, 1, 2]}, "must be integers"),
            (np.eye(3), np.eye(3), {"pairs": [0, 1, 2], "recall_k": 0}, "must be 1 or more"),
        ],
    )
    def test_what_does_not_fit_is_said(self, images, texts, targets, words):
        with pytest.raises(EyechartError, match=words):
            eyechart.score(images, texts, **targets)


class TestLoadModel:
    def test_images_of_every_form_and_texts(self, tmp_path):
        model = eyechart.load_model(TINY)
        IMAGES[0].save(tmp_path / "a.png")
        forms = [IMAGES[0], tmp_path / "a.png", str(tmp_path / "a.png"), np.asarray(IMAGES[0])]
        found = model.encode_images(forms)

        assert (found.dtype, found.shape) == (np.float32, (4, model.card.embedding_dim))
        assert all(np.array_equal(found[0], row) for row in found)
        assert np.allclose(np.linalg.norm(found, axis=1), 1)
        assert model.encode_texts("one text").shape == (1, model.card.embedding_dim)
        assert model.encode_images([]).shape == model.encode_texts([]).shape == (0, model.card.embedding_dim)
        assert model.encode_images(image for image in IMAGES[:2]).shape == (2, model.card.embedding_dim)
        for one in ("a.png", IMAGES[0], np.asarray(IMAGES[0]), None):
            with pytest.raises(EyechartError, match="takes a list"):
                model.encode_images(one)
        for strange in (None, 3, ["a", 3]):
            with pytest.raises(EyechartError, match="takes a list of strings"):
                model.encode_texts(strange)

    def test_vectors_are_those_of_the_library(self, tmp_path):
        from support import zoo_open_clip

        case = zoo_open_clip.plain(tmp_path)
        model = eyechart.load_model(case.spec.name, case.spec.pretrained, normalize=False, batch_size=4)

        assert np.allclose(model.encode_images(IMAGES), case.images(IMAGES), atol=1e-5)
        assert np.allclose(model.encode_texts(["a cat", "a dog"]), case.texts(["a cat", "a dog"]), atol=1e-5)

    def test_the_store_is_used_only_if_it_is_wanted(self, own_cache):
        eyechart.load_model(TINY).encode_images(IMAGES)
        assert not list(own_cache.rglob("*.safetensors"))

        first = eyechart.load_model(TINY, store=True)
        vectors = first.encode_images(IMAGES)
        again = eyechart.load_model(TINY, store=True)
        assert np.array_equal(again.encode_images(IMAGES), vectors)
        assert not again._model.loaded

    def test_it_stands_for_its_name_in_evaluate(self, own_cache):
        data = {"images": IMAGES, "labels": LABELS, "classnames": NAMES}
        (result,) = eyechart.evaluate(eyechart.load_model(TINY), data)
        (named,) = eyechart.evaluate(TINY, data)

        assert (result.model, result.model_card) == (named.model, named.model_card)
        assert list(own_cache.rglob("*.safetensors"))

    def test_errors_are_in_pythons_words(self):
        with pytest.raises(EyechartError) as caught:
            eyechart.load_model("eyechart-tni")
        assert "eyechart-tiny" in caught.value.advice
        assert "--" not in caught.value.advice
        with pytest.raises(EyechartError, match="precision"):
            eyechart.load_model(TINY, precision="fp7")
        assert "eyechart-tiny" in repr(eyechart.load_model(TINY))
