"""Compressed vectors: truncated, int8 and binary, against sentence-transformers and plain arithmetic."""

import numpy as np
import pytest

from eyechart.metrics import compression
from eyechart.metrics.compression import Compression, binary_codes, decode_int8, int8_codes
from eyechart.metrics.vectors import unit


def vectors(n=300, dim=48, seed=0):
    rng = np.random.default_rng(seed)
    return (rng.standard_normal((n, dim)) * rng.uniform(0.1, 3, dim) + rng.normal(size=dim)).astype(np.float32)


def ranges_of(rows):
    return np.stack([rows.min(axis=0), rows.max(axis=0)])


class TestTruncation:
    def test_keeps_the_first_dimensions_and_the_length(self):
        full = vectors()

        found = Compression(dim=10).apply(full)

        assert found.shape == (300, 10)
        np.testing.assert_allclose(np.linalg.norm(found, axis=1), np.linalg.norm(full, axis=1), rtol=1e-6)
        cut = full[:, :10].astype(np.float64)
        np.testing.assert_allclose(unit(found), cut / np.linalg.norm(cut, axis=1, keepdims=True), atol=1e-6)

    @pytest.mark.parametrize("length", [1e25, 1e-30])
    def test_any_length_is_kept(self, length):
        found = Compression(dim=10).apply(unit(vectors()) * np.float32(length))

        np.testing.assert_allclose(unit(found), unit(vectors()[:, :10]), atol=1e-6)

    def test_without_compression_vectors_are_returned_as_they_are(self):
        full = vectors()

        assert Compression().apply(full) is full
        assert Compression("float16", calibrates=True).apply(full) is full


class TestInt8:
    @pytest.mark.parametrize("own", ["of the rows", "narrower"])
    def test_codes_are_those_of_sentence_transformers(self, own):
        quantize = pytest.importorskip("sentence_transformers.util").quantize_embeddings
        rows = unit(vectors())
        rows[:, 7] = 0.25
        ranges = ranges_of(rows if own == "of the rows" else rows[:50])

        np.testing.assert_array_equal(int8_codes(rows, ranges), quantize(rows, "int8", ranges=ranges))

    def test_decoded_values_are_within_half_a_level(self):
        rows = unit(vectors())
        rows[:, 7] = 0.25  # a constant dimension is exact
        ranges = ranges_of(rows)

        error = np.abs(decode_int8(int8_codes(rows, ranges), ranges) - rows)

        assert (error <= (ranges[1] - ranges[0]) / 255 / 2 * 1.001 + 1e-7).all()

    def test_ranges_cover_every_vector_that_passed(self):
        parts = [vectors(seed=1), vectors(seed=2)]
        full = Compression(calibrates=True)
        for part in parts:
            full.apply(part)
        (int8,) = full.variants((), ["int8"])

        np.testing.assert_array_equal(int8.ranges, ranges_of(unit(np.concatenate(parts))))
        rows = unit(parts[0])
        expected = decode_int8(int8_codes(rows, int8.ranges), int8.ranges)
        np.testing.assert_allclose(unit(int8.apply(parts[0])), unit(expected), atol=1e-6)

    def test_each_dimension_has_ranges_of_its_own(self):
        full = Compression(calibrates=True)
        full.apply(vectors())
        found = []
        for variant in full.variants([10], ["int8", "binary"]):
            variant.apply(vectors())
            found.append(variant)

        assert [(one.dim, one.precision) for one in found] == [
            (None, "int8"), (None, "binary"), (10, "float32"), (10, "int8"), (10, "binary"),
        ]  # fmt: skip
        np.testing.assert_array_equal(found[3].ranges, ranges_of(unit(vectors()[:, :10])))


class TestBinary:
    def test_bits_are_those_of_sentence_transformers(self):
        quantize = pytest.importorskip("sentence_transformers.util").quantize_embeddings
        rows = vectors()

        np.testing.assert_array_equal(np.packbits(binary_codes(rows) > 0, axis=1), quantize(rows, "ubinary"))

    @pytest.mark.parametrize("dim", [1, 2, 3, 100, 512, 768, 1000])
    def test_products_are_exactly_those_of_the_hamming_distance(self, dim):
        a, b = vectors(40, dim, 1), vectors(50, dim, 2)
        hamming = ((a > 0)[:, None] != (b > 0)[None]).sum(axis=2)

        found = Compression("binary").unit(a) @ Compression("binary").apply(b).T

        assert len(np.unique(found)) == len(np.unique(hamming))
        value = float(np.abs(binary_codes(a)).max())
        np.testing.assert_array_equal(found, (dim - 2 * hamming) * value**2)
        assert 0.25 <= value**2 * dim <= 1


@pytest.mark.parametrize("precision", ["float32", "int8", "binary"])
def test_a_zero_vector_stays_zero(precision):
    rows = vectors()
    rows[3] = 0
    rows[5, :10] = 0  # the first dimensions are zero

    found = Compression(precision, dim=10, ranges=ranges_of(unit(rows[:, :10]))).apply(rows)

    assert np.flatnonzero(~found.any(axis=1)).tolist() == [3, 5]


@pytest.mark.parametrize("precision", ["float32", "int8", "binary"])
def test_parts_give_the_same_vectors(precision, monkeypatch):
    whole = Compression(precision, 10, ranges=ranges_of(unit(vectors()[:, :10]))).apply(vectors())
    monkeypatch.setattr(compression, "ROWS", 7)

    found = Compression(precision, 10, ranges=ranges_of(unit(vectors()[:, :10]))).apply(vectors())

    np.testing.assert_array_equal(found, whole)
