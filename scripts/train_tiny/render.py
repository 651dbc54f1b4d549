"""Composition of the evaluation images: garments at their native size, tinted, on a black canvas."""

from __future__ import annotations

import random

import numpy as np
from PIL import Image

from scenes import COLOURS, LEFT, Scene

CANVAS = 64
GARMENT_SIZE = 28
GAMMA = 0.7
"""Dark garments are lifted a little before tinting: their colour would be invisible otherwise."""


def tint(garment: np.ndarray, colour: int) -> Image.Image:
    """Colour a grayscale garment [28, 28] uint8."""
    bright = (garment / 255.0) ** GAMMA
    return Image.fromarray(np.rint(bright[..., None] * list(COLOURS.values())[colour]).astype(np.uint8))


def compose(scene: Scene, first: np.ndarray, second: np.ndarray, rng: random.Random) -> Image.Image:
    """Place two garments side by side or one above the other, with some freedom of position."""
    half, slack = CANVAS // 2, CANVAS // 2 - GARMENT_SIZE
    along = (rng.randint(0, slack), half + rng.randint(0, slack))
    across = [CANVAS // 2 - GARMENT_SIZE // 2 + rng.randint(-half // 2, half // 2) for _ in along]
    canvas = Image.new("RGB", (CANVAS, CANVAS))
    for garment, colour, main, cross in zip(
        (first, second), (scene.colour, scene.other_colour), along, across, strict=True
    ):
        canvas.paste(tint(garment, colour), (main, cross) if scene.relation == LEFT else (cross, main))
    return canvas
