"""Encoders with known behaviour: constant, random, and one that counts what it is asked."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import numpy as np

from eyechart.models.lazy_model import LazyModel
from eyechart.types import ModelCard, ModelSpec

DIM = 16


class SmallEncoder:
    """A real encoder of the public protocol whose vectors come from a function of the content."""

    def __init__(self, name: str, vector: Callable[[bytes], np.ndarray], longest_text: int = 1000) -> None:
        self.card = ModelCard("test", name, name, "8x8", embedding_dim=DIM, context_length=longest_text)
        self.vector = vector
        self.encoded_images = 0
        self.encoded_texts: list[str] = []

    def prepare_image(self, image):
        return np.asarray(image.convert("RGB").resize((8, 8)), np.float32)

    def encode_images(self, batch):
        self.encoded_images += len(batch)
        return np.stack([self.vector(pixels.tobytes()) for pixels in batch])

    def encode_texts(self, texts, *, language="en"):
        self.encoded_texts += texts
        return np.stack([self.vector(f"{language}{text}".encode()) for text in texts])

    def truncated(self, texts):
        return [len(text) > self.card.context_length for text in texts]


def constant_encoder() -> SmallEncoder:
    return SmallEncoder("constant", lambda _: np.ones(DIM, np.float32))


def random_encoder(seed: int = 0) -> SmallEncoder:
    """Return an encoder whose vectors are random, but the same for the same content."""

    def vector(content: bytes) -> np.ndarray:
        key = hashlib.blake2b(content, digest_size=8, salt=str(seed).encode()).digest()
        return np.random.default_rng(int.from_bytes(key, "big")).standard_normal(DIM).astype(np.float32)

    return SmallEncoder(f"random{seed}", vector)


class OneModelFamily:
    """A family that knows one model, already loaded."""

    def __init__(self, encoder: SmallEncoder) -> None:
        self.encoder = encoder
        self.loads = 0

    def check(self, spec):
        pass

    def identity(self, spec):
        return None

    def load(self, spec):
        self.loads += 1
        return self.encoder


def lazy(encoder: SmallEncoder) -> LazyModel:
    return LazyModel(ModelSpec("test", encoder.card.name), OneModelFamily(encoder))


def no_other_split(name: str):
    """Stand for the other splits of a dataset that has none."""
    raise KeyError(name)


def literal_encoder() -> SmallEncoder:
    """Return an encoder that can be read: an image's vector is its colour, a text's the three numbers in it."""
    encoder = SmallEncoder("literal", lambda _: np.zeros(3, np.float32))
    encoder.encode_images = lambda batch: np.stack([pixels[0, 0] for pixels in batch])
    encoder.encode_texts = lambda texts, *, language="en": np.array(
        [[float(number) for number in text.split()[-3:]] for text in texts], np.float32
    )
    return encoder
