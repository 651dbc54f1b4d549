"""Vectors of images and texts: what is said of a model that does not look."""

import numpy as np
import pytest

from eyechart.tasks.base import encode_images, encode_texts
from support.data import write_classification
from support.encoders import DIM, SmallEncoder, constant_encoder, random_encoder
from support.tasks import make_context


@pytest.fixture
def root(tmp_path):
    return write_classification(tmp_path / "data", n=6)


def kinds(notices):
    return {notice.kind: notice.count for notice in notices}


def test_vectors_have_unit_length_and_stand_in_the_order_of_the_samples(root, tmp_path):
    context = make_context(root, random_encoder(), tmp_path)

    found = encode_images(context)

    assert [entry.id for entry in found.entries] == [entry.id for entry in context.manifest.entries]
    np.testing.assert_allclose(np.linalg.norm(found.vectors, axis=1), 1, rtol=1e-6)
    assert found.notices == ()


def test_raw_vectors_are_those_of_the_model(root, tmp_path):
    context = make_context(root, random_encoder(), tmp_path)

    np.testing.assert_array_equal(
        encode_images(context, normalize=False).vectors, context.encoder.images(context.manifest).vectors
    )


def test_a_constant_is_made_zero_and_counted(root, tmp_path):
    context = make_context(root, constant_encoder(), tmp_path)

    images, (texts, about_texts) = encode_images(context), encode_texts(context, ["a", "b", "c"])

    assert not images.vectors.any()
    assert not texts.any()
    assert (kinds(images.notices), kinds(about_texts)) == ({"constant_vectors": 6}, {"constant_vectors": 3})


def test_equal_contents_may_have_equal_vectors(root, tmp_path):
    texts, notices = encode_texts(make_context(root, random_encoder(), tmp_path), ["a"] * 5)

    assert texts.any(axis=1).all()
    assert notices == ()


def test_two_texts_that_a_model_reads_alike_are_no_proof(root, tmp_path):
    texts, notices = encode_texts(make_context(root, constant_encoder(), tmp_path), ["a", "b", "a"])

    assert texts.any(axis=1).all()
    assert notices == ()


def test_zero_vectors_are_counted(root, tmp_path):
    encoder = SmallEncoder(
        "sometimes zero",
        lambda content: np.full(DIM, content == b"enb") + np.eye(DIM)[len(content)] * (content != b"ena"),
    )

    texts, notices = encode_texts(make_context(root, encoder, tmp_path), ["a", "b", "longer"])

    assert texts.any(axis=1).tolist() == [False, True, True]
    assert kinds(notices) == {"zero_vectors": 1}
    assert "1 texts have a zero vector" in notices[0].message
