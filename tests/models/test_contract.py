"""What every family promises, whatever is inside."""

import numpy as np
import pytest

from eyechart.inference.image_batches import stack
from eyechart.metrics.vectors import unit
from eyechart.types import Encoder
from support.zoo import LONG, TEXTS, photos


def prepared(encoder):
    return stack([encoder.prepare_image(ref) for ref in photos()])


@pytest.fixture
def encoder(zoo, name):
    return zoo.encoder(name)


@pytest.fixture
def case(zoo, name):
    return zoo.case(name)


def test_it_is_an_encoder_with_a_filled_card(encoder):
    card = encoder.card

    assert isinstance(encoder, Encoder)
    assert card.family
    assert card.embedding_dim > 0
    assert len(card.weights_digest) >= 16
    assert card.transform


def test_vectors_have_one_row_per_input_and_one_size(encoder, case):
    texts = encoder.encode_texts(TEXTS)

    assert (texts.dtype, texts.shape) == (np.float32, (len(TEXTS), encoder.card.embedding_dim))
    if case.images:
        images = encoder.encode_images(prepared(encoder))
        assert (images.dtype, images.shape) == (np.float32, (len(photos()), encoder.card.embedding_dim))


def test_every_vector_can_be_scaled_to_unit_length(encoder, case):
    rows = [encoder.encode_texts(TEXTS)]
    if case.images:
        rows.append(encoder.encode_images(prepared(encoder)))

    np.testing.assert_allclose(np.linalg.norm(unit(np.concatenate(rows)), axis=1), 1, atol=1e-6)


def test_an_empty_batch_gives_no_vectors(encoder, case):
    assert encoder.encode_texts([]).shape == (0, encoder.card.embedding_dim)
    assert encoder.truncated([]) == []
    if case.images:
        assert encoder.encode_images(prepared(encoder)[:0]).shape == (0, encoder.card.embedding_dim)


def test_the_order_is_kept_and_neighbours_do_not_matter(encoder, case):
    texts = encoder.encode_texts(TEXTS)

    np.testing.assert_allclose(encoder.encode_texts(TEXTS[::-1])[::-1], texts, atol=1e-5)
    np.testing.assert_allclose(np.concatenate([encoder.encode_texts([text]) for text in TEXTS]), texts, atol=1e-5)
    if case.images:
        pixels = prepared(encoder)
        images = encoder.encode_images(pixels)
        np.testing.assert_allclose(encoder.encode_images(pixels[::-1])[::-1], images, atol=1e-5)
        np.testing.assert_allclose(
            np.concatenate([encoder.encode_images(stack([p])) for p in pixels]), images, atol=1e-5
        )


def test_the_same_input_gives_the_same_vector(encoder, case):
    np.testing.assert_array_equal(encoder.encode_texts(TEXTS), encoder.encode_texts(TEXTS))
    if case.images:
        pixels = prepared(encoder)
        np.testing.assert_array_equal(encoder.encode_images(pixels), encoder.encode_images(pixels))


def test_only_the_long_text_is_reported_as_cut(encoder, case):
    expected = [i == LONG and case.cuts_long_text for i in range(len(TEXTS))]

    assert encoder.truncated(TEXTS) == expected


def test_vectors_equal_those_of_the_library(encoder, case):
    np.testing.assert_allclose(encoder.encode_texts(TEXTS), case.texts(TEXTS), atol=1e-5)
    if case.images:
        np.testing.assert_allclose(encoder.encode_images(prepared(encoder)), case.images(photos()), atol=1e-5)
