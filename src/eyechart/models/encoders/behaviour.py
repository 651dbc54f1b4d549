"""The fingerprint of a model that does not say what it is made of: what it answers to a few fixed questions."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from PIL import Image

TEXTS = ("a photo of a cat", "TWO Dogs, a tree & 1 house.", "ein Käfer auf der Wiese", "一只猫", "😀")


class Asked(Protocol):
    """What is probed."""

    def prepare_image(self, image: Image.Image) -> Any:
        """Transform an image."""
        ...

    def encode_images(self, batch: Any) -> Any:
        """Encode images."""
        ...

    def encode_texts(self, texts: Sequence[str]) -> Any:
        """Encode texts."""
        ...


def behaviour(encoder: Asked, model: Any) -> tuple[str, int | None, list[str]]:
    """Return a digest of the model's answers (and of its weights, if it is a torch module), their size, and notes.

    A model that cannot answer these questions gets a digest that is never seen again, so that nothing stored is
    taken for its vectors.
    """
    state = hashlib.blake2b(digest_size=16)
    if hasattr(model, "state_dict"):
        from eyechart.models.towers.torch_tools import weights_digest

        state.update(weights_digest(model).encode())
    try:
        texts = encoder.encode_texts(list(TEXTS))
        images = encoder.encode_images(np.stack([encoder.prepare_image(example) for example in _examples()]))
    except Exception as error:  # noqa: BLE001 - somebody else's code may raise anything at questions it does not expect
        note = f"The model cannot be recognised again ({type(error).__name__}: {error}): its vectors are not reused."
        return secrets.token_hex(16), None, [note]
    for vectors in (texts, images):
        state.update(np.ascontiguousarray(vectors, np.float32).tobytes())
    return state.hexdigest(), int(texts.shape[1]), []


def _examples() -> list[Image.Image]:
    """Make two images with edges, gradients and colours."""
    y, x = np.mgrid[0:96, 0:128]
    smooth = np.stack([x * 2, y * 2, (x + y) % 256], axis=-1).astype(np.uint8)
    rough = ((x[..., None] * (3, 5, 7) + y[..., None] * (11, 2, 13)) % 256).astype(np.uint8)
    return [Image.fromarray(smooth), Image.fromarray(rough)]
