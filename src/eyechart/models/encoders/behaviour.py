"""The fingerprint of a model of somebody's own: its code, its arguments, its weights, and a few of its answers."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from PIL import Image

from eyechart.io.code import code_digest, is_own
from eyechart.models.identity import place_digest
from eyechart.types import ModelSpec, digest_json

TEXTS = ("a photo of a cat", "TWO Dogs, a tree & 1 house.", "ein Käfer auf der Wiese", "一只猫", "😀")


class Probed(Protocol):
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


def made_of(spec: ModelSpec, factory: Any, *parts: Any) -> str:
    """Digest what is known of a model before it is asked: code, arguments, and the state of its torch modules."""
    code = [code_digest(part) for part in (factory, *(part for part in parts if is_own(part)))]
    digests = [*code, *map(state_of, parts)]
    files = place_digest(Path(spec.pretrained)) if spec.pretrained and Path(spec.pretrained).exists() else ""
    return digest_json([digests, spec.what, files])


def state_of(model: Any) -> str:
    """Digest the weights of a torch module, or of the modules among the attributes of an object."""
    modules = [model] if _is_module(model) else [part for _, part in sorted(_attributes(model)) if _is_module(part)]
    if not modules:
        return ""
    from eyechart.models.towers.torch_tools import weights_digest

    return digest_json([weights_digest(module) for module in modules])


def behaviour(encoder: Probed) -> tuple[str, int | None, list[str]]:
    """Return a digest of the model's answers, their size, and notes.

    A model that cannot answer these questions gets a digest that is never seen again, so that nothing stored is
    taken for its vectors.
    """
    try:
        texts = encoder.encode_texts(list(TEXTS))
        images = encoder.encode_images(np.stack([encoder.prepare_image(example) for example in _examples()]))
    except Exception as error:  # noqa: BLE001 - somebody else's code may raise anything at questions it does not expect
        note = f"The model cannot be recognised again ({type(error).__name__}: {error}): its vectors are not reused."
        return secrets.token_hex(16), None, [note]
    state = hashlib.blake2b(digest_size=16)
    for vectors in (texts, images):
        state.update(np.ascontiguousarray(vectors, np.float32).tobytes())
    return state.hexdigest(), int(texts.shape[1]), []


def _is_module(part: Any) -> bool:
    return callable(getattr(part, "state_dict", None)) and callable(getattr(part, "parameters", None))


def _attributes(model: Any) -> list[tuple[str, Any]]:
    return list(vars(model).items()) if hasattr(model, "__dict__") else []


def _examples() -> list[Image.Image]:
    """Make two images with edges, gradients and colours."""
    y, x = np.mgrid[0:96, 0:128]
    smooth = np.stack([x * 2, y * 2, (x + y) % 256], axis=-1).astype(np.uint8)
    rough = ((x[..., None] * (3, 5, 7) + y[..., None] * (11, 2, 13)) % 256).astype(np.uint8)
    return [Image.fromarray(smooth), Image.fromarray(rough)]
