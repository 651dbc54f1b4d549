"""A small random model of every family, saved by the family's own library, with the library's documented usage.

`Case.images` and `Case.texts` are written against the library alone: nothing in them goes through Eyechart.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from eyechart.models.registry import ENCODERS
from eyechart.types import ModelSpec

WORDS = "dog cat house tree river cloud street lamp"
TEXTS = [
    "a photo of a cat",
    "A PHOTO OF A CAT",
    'Hello, world! (really?) #1: "quotes"; it\'s',
    "a happy face 😀 and a rocket 🚀",
    "一只猫坐在草地上",
    " ".join((WORDS.split() * 25)[:200]),
    "",
]
"""Upper case, punctuation, emoji, Chinese, 200 words, the empty string."""
LONG = 5
"""Which of the texts has 200 words."""


@dataclass(frozen=True)
class Case:
    """A saved model and how its own library uses it."""

    spec: ModelSpec
    images: Callable[[list[Image.Image]], np.ndarray] | None
    """None for a model that only reads."""
    texts: Callable[[list[str]], np.ndarray]
    cuts_long_text: bool = True
    parts: tuple[Path, ...] = ()
    """Weights files, for the test that changes one."""


def photos() -> list[Image.Image]:
    """Return real images from scikit-image: colour, grey, wide, tall."""
    from skimage import data

    return [
        Image.fromarray(data.astronaut()),
        Image.fromarray(data.chelsea()),
        Image.fromarray(data.camera()),
        Image.fromarray(data.coffee()).resize((150, 100)),
        Image.fromarray(data.rocket()).rotate(90, expand=True),
    ]


def seeded(seed: int = 0) -> None:
    """Make the random weights the same every time."""
    import torch

    torch.manual_seed(seed)


def as_array(tensor) -> np.ndarray:
    return tensor.detach().float().cpu().numpy()


def load(spec):
    """Check and load a model as a run does."""
    family = ENCODERS.load(spec.family)()
    family.check(spec)
    return family.load(spec)
