"""Prompts, roles and joint inputs of images and texts reach the model, and their vectors never mix in the store."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

import eyechart
from eyechart.datasets.webdataset import open_webdataset
from eyechart.errors import EyechartError, ModelError, OutOfMemoryError
from eyechart.inference.embeddings import CachedEncoder
from eyechart.manifest import read_manifest
from eyechart.store.vector_store import EmbeddingStore
from eyechart.types import DatasetSpec, EncodeOptions, JointEncoder
from support.data import write_classification
from support.encoders import SmallEncoder, lazy, random_encoder
from support.retrieval_data import write_collection
from support.tasks import make_context, run_task


class Embedder(SmallEncoder):
    """Encodes images, texts and both as one input, with an instruction."""

    def __init__(self, prompting="message", most=1000):
        vector = random_encoder().vector
        super().__init__("joint", vector, longest_text=20)
        self.card = replace(self.card, inputs=("image", "text", "image+text"), prompting=prompting)
        self.most = most
        self.joint: list[tuple[str, str]] = []

    def encode_images(self, batch, *, instruction=""):
        self.encoded_images += len(batch)
        return np.stack([self.vector(instruction.encode() + pixels.tobytes()) for pixels in batch])

    def encode_texts(self, texts, *, language="en", instruction=""):
        self.encoded_texts += texts
        return np.stack([self.vector(f"{instruction}|{text}".encode()) for text in texts])

    def encode_joint(self, batch, texts, *, instruction=""):
        if len(batch) > self.most:
            raise OutOfMemoryError("too many")
        self.joint += [(instruction, text) for text in texts]
        return np.stack([self.of_pair(pixels, text, instruction) for pixels, text in zip(batch, texts, strict=True)])

    def of_pair(self, pixels, text, instruction=""):
        return self.vector(f"{instruction}|{text}|".encode() + pixels.tobytes())


@pytest.fixture
def found(tmp_path):
    return read_manifest(
        open_webdataset(DatasetSpec("wds/x", "wds", str(write_classification(tmp_path / "data", n=6))))
    )


def cached(encoder, tmp_path, **options):
    return CachedEncoder(lazy(encoder), EmbeddingStore(tmp_path / "store"), EncodeOptions(**options))


def expected(encoder, found, texts, instruction=""):
    from eyechart.io.images import decode_rgb

    images = {sample.id: encoder.prepare_image(decode_rgb(sample.image)) for sample in found.samples()}
    return np.stack(
        [encoder.of_pair(images[entry.id], text, instruction) for entry, text in zip(found.entries, texts, strict=True)]
    )


@pytest.mark.parametrize(("batch_size", "most"), [(1, 1000), (4, 1000), (64, 1000), (64, 2)])
def test_a_joint_input_is_one_vector_of_its_image_and_its_text_in_any_batch(tmp_path, found, batch_size, most):
    encoder = Embedder(most=most)
    assert isinstance(encoder, JointEncoder)
    # The same image with several texts, the same pair twice, and a text that is too long.
    rows = np.array([0, 1, 2, 3, 4, 5, 0, 1, 1])
    listed = found.only(rows)
    texts = ["red", "red", "a", "b", "c", "a text of more than twenty characters", "blue", "red", "green"]
    model = cached(encoder, tmp_path, batch_size=batch_size)

    got = model.joint(listed, texts, prompt="Find it.")

    np.testing.assert_array_equal(got.vectors, expected(encoder, listed, texts, "Find it."))
    assert got.kept.tolist() == list(range(9))
    assert len(encoder.joint) == 8  # one pair occurs twice
    kinds = {notice.kind: notice.count for notice in model.notices()}
    assert kinds == {"truncated_texts": 1} | ({"smaller_batches": 1} if most == 2 else {})


def test_stored_joint_vectors_load_no_model_and_keep_their_notices(tmp_path, found):
    texts = ["a text of more than twenty characters", *"abcde"]
    first = cached(Embedder(), tmp_path).joint(found, texts, prompt="p")
    later = cached(Embedder(), tmp_path)
    later.model._card = Embedder().card

    again = later.joint(found, texts, prompt="p")

    assert not later.model.loaded
    np.testing.assert_array_equal(again.vectors, first.vectors)
    assert [notice.kind for notice in later.notices()] == ["truncated_texts"]


@pytest.mark.parametrize("prompting", ["message", "role"])
def test_instructions_have_vectors_of_their_own(tmp_path, found, prompting):
    encoder = Embedder(prompting)
    model = cached(encoder, tmp_path)
    says = {"query": "Find", "document": "Show"} if prompting == "message" else {}
    asked = [{"role": role, "prompt": says.get(role, "")} for role in ("", "query", "document")]

    images = [model.images(found, **one).vectors for one in asked]
    texts = [model.texts(["a", "b"], **one) for one in asked]
    joint = [model.joint(found, list("abcdef"), **one).vectors for one in asked]

    for vectors in (images, texts, joint):
        assert len({array.tobytes() for array in vectors}) == 3
    for one, array in zip(asked, joint, strict=True):
        said = one["prompt"] if prompting == "message" else one["role"]
        np.testing.assert_array_equal(array, expected(encoder, found, "abcdef", said))
    # Nothing is encoded again, and the tables keep them apart in another session, too.
    before = encoder.encoded_images, len(encoder.encoded_texts), len(encoder.joint)
    later = cached(encoder, tmp_path)
    for one, array, rows in zip(asked, images, texts, strict=True):
        np.testing.assert_array_equal(later.images(found, **one).vectors, array)
        np.testing.assert_array_equal(later.texts(["a", "b"], **one), rows)
    assert (encoder.encoded_images, len(encoder.encoded_texts), len(encoder.joint)) == before


def test_a_prefix_is_prepended_to_texts_and_leaves_images_alone(tmp_path, found):
    encoder = random_encoder()
    model = cached(encoder, tmp_path)
    plain = model.images(found).vectors

    np.testing.assert_array_equal(model.images(found, role="query", prompt="query: ").vectors, plain)
    model.texts(["a"], role="query", prompt="query: ")

    assert encoder.encoded_images == len(found)
    assert encoder.encoded_texts == ["query: a"]
    assert [notice.kind for notice in model.notices()] == ["ignored_prompt"]


def test_half_precision_holds_for_every_instruction(tmp_path, found):
    full = cached(Embedder(), tmp_path).images(found, prompt="p").vectors

    later = cached(Embedder(), tmp_path, half=True)
    later.model._card = Embedder().card

    np.testing.assert_array_equal(later.images(found, prompt="p").vectors, full.astype(np.float16).astype(np.float32))
    assert not later.model.loaded


def test_a_model_without_joint_inputs_refuses_them(tmp_path, found):
    with pytest.raises(ModelError, match="random0 encodes images, texts, not an image and a text as one input"):
        cached(random_encoder(), tmp_path).joint(found, list("abcdef"))


class TestCollections:
    """Retrieval in a collection encodes by role, and items with an image and a text as one input if the model can."""

    @pytest.fixture
    def context(self, tmp_path):
        documents = {"a": ("#ff0000", "one"), "b": ("#ff0000", "two"), "c": "#00ff00", "d": "words"}
        queries = {"p": ("#ff0000", "one"), "q": "#00ff00", "r": "words"}
        relevance = [("p", "a", 1), ("q", "c", 1), ("r", "d", 1)]
        root = write_collection(tmp_path / "data", documents, queries, relevance)
        return lambda encoder: make_context(root, encoder, tmp_path, reader="collection")

    def test_items_are_encoded_with_the_prompts_of_their_role(self, context):
        encoder = Embedder()

        run_task("zeroshot_retrieval", context(encoder), query_prompt="Find", document_prompt="Show")

        assert sorted(encoder.joint) == [("Find", "one"), ("Show", "one"), ("Show", "two")]
        assert encoder.encoded_images == 2

    def test_without_prompts_equal_items_find_each_other(self, context):
        outcome = run_task("zeroshot_retrieval", context(Embedder()), recall_k=[1])

        assert outcome.metrics["hit_rate_at_1"].value == 1.0

    def test_the_models_own_prompts_are_used(self, context):
        encoder = Embedder()
        encoder.card = replace(encoder.card, prompts={"query": "own"})

        run_task("zeroshot_retrieval", context(encoder))

        assert ("own", "one") in encoder.joint
        assert ("", "two") in encoder.joint


@pytest.mark.parametrize(
    ("inputs", "task", "missing"),
    [
        (("image",), "zeroshot_classification", "texts"),
        (("image",), "knn", None),
        (("text",), "clustering", "images"),
    ],
)
def test_a_task_that_needs_another_input_is_refused_before_data_are_read(tmp_path, inputs, task, missing):
    data = write_classification(tmp_path / "data", n=6)
    for tar in data.rglob("*.tar"):
        tar.write_bytes(b"broken")  # reading it would be another error
    thing = SimpleNamespace()
    if "image" in inputs:
        thing.encode_images = lambda images: np.stack([np.asarray(image.resize((2, 2)), float)[0] for image in images])
    if "text" in inputs:
        thing.encode_texts = lambda texts: np.stack([np.full(4, len(text), np.float32) for text in texts])

    with pytest.raises(EyechartError, match=rf"not {missing}\." if missing else "tar"):
        eyechart.evaluate(thing, "wds/x", dataset_root=str(data), task=task, folds=2, output=str(tmp_path / "out.json"))
