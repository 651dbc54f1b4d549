"""Training batches: random scenes rendered on the fly, their captions, and which caption is true of which."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from captions import LANGUAGES, caption
from fashion import Garments
from render import GAMMA
from scenes import ABOVE, CLASSES, COLOURS, LEFT, NOTHING, WHITE, Scene, arrangements
from towers import IMAGE_SIZE

if TYPE_CHECKING:
    from tokenizers import Tokenizer

SINGLES = 112
PAIR_GROUPS = 36
GROUP_SIZE = 4
MEAN, STD = 0.2, 0.3
"""Pixel statistics used for normalisation, the same for the three channels."""


@dataclass(frozen=True)
class Batch:
    """Images, texts, and `matches[i, j]`: text j is true of image i."""

    pixels: Tensor
    input_ids: Tensor
    attention_mask: Tensor
    matches: Tensor


def draw_scenes(rng: random.Random) -> list[Scene]:
    """The scenes of one batch: single garments, and groups of pairs that differ only in their composition."""
    scenes = [
        Scene(rng.randrange(CLASSES), WHITE if rng.random() < 0.5 else rng.randrange(len(COLOURS)))
        for _ in range(SINGLES)
    ]
    for _ in range(PAIR_GROUPS):
        g, c = rng.sample(range(CLASSES), 2), rng.sample(range(len(COLOURS)), 2)
        scenes += rng.sample(arrangements((g[0], g[1]), (c[0], c[1])), GROUP_SIZE)
    return scenes


class BatchMaker:
    """An endless, seeded source of batches made of the given garments."""

    def __init__(self, garments: Garments, tokenizer: Tokenizer, seed: int) -> None:
        self._by_class = [torch.from_numpy(garments.images[garments.labels == c]) for c in range(CLASSES)]
        self._tokenizer = tokenizer
        self._rng = random.Random(seed)
        self._generator = torch.Generator().manual_seed(seed)
        self._palette = torch.tensor(list(COLOURS.values())) / 255

    def next(self) -> Batch:
        """Draw, render and describe one batch."""
        scenes = draw_scenes(self._rng)
        with_colours = torch.tensor([self._rng.random() < 0.7 for _ in scenes])
        texts = [
            caption(self._rng.choice(LANGUAGES), scene, self._rng, colours=bool(named))
            for scene, named in zip(scenes, with_colours, strict=True)
        ]
        encodings = self._tokenizer.encode_batch(texts)
        return Batch(
            pixels=self._render(np.array(scenes)),
            input_ids=torch.tensor([e.ids for e in encodings]),
            attention_mask=torch.tensor([e.attention_mask for e in encodings]),
            matches=_matches(torch.tensor(scenes), with_colours),
        )

    def _uniform(self, count: int, low: float, high: float) -> Tensor:
        return low + (high - low) * torch.rand(count, generator=self._generator)

    def _render(self, scenes: np.ndarray) -> Tensor:
        count = len(scenes)
        relation, pair = torch.from_numpy(scenes[:, 2]), torch.from_numpy(scenes[:, 2] != NOTHING)
        size = torch.where(pair, self._uniform(count, 24, 32), self._single_sizes(count))
        room = (IMAGE_SIZE - size).clamp(min=2) / 2
        # Along the axis of the relation the centres lie half a garment from the middle; across it, anywhere.
        x, y = (self._uniform(count, -1, 1) * room for _ in range(2))
        apart = self._uniform(count, 14, 18)
        x, y = torch.where(relation == LEFT, -apart, x), torch.where(relation == ABOVE, -apart, y)
        canvas = self._paint(scenes[:, 0], scenes[:, 1], size, x, y)
        others = scenes[pair.numpy()]
        x2, y2 = (self._uniform(count, -1, 1) * room for _ in range(2))
        x2, y2 = torch.where(relation == LEFT, -x, x2), torch.where(relation == ABOVE, -y, y2)
        second = self._paint(others[:, 3], others[:, 4], size[pair], x2[pair], y2[pair])
        canvas[pair] = torch.maximum(canvas[pair], second)
        return ((canvas - MEAN) / STD).contiguous(memory_format=torch.channels_last)

    def _single_sizes(self, count: int) -> Tensor:
        """Half the single garments fill the canvas, as a 28x28 image does after resizing."""
        full = torch.rand(count, generator=self._generator) < 0.5
        return torch.where(full, self._uniform(count, 60, 66), self._uniform(count, 26, 62))

    def _paint(self, labels: np.ndarray, colours: np.ndarray, size: Tensor, x: Tensor, y: Tensor) -> Tensor:
        """A random garment of each class, tinted, scaled to `size` pixels, (x, y) away from the centre."""
        count = len(labels)
        images = torch.stack([self._pick(label) for label in labels]).unsqueeze(1).float() / 255
        mirror = torch.where(torch.rand(count, generator=self._generator) < 0.5, -1.0, 1.0)
        zoom, zero = IMAGE_SIZE / size, torch.zeros(count)
        unit = IMAGE_SIZE / 2
        rows = [mirror * zoom, zero, -mirror * zoom * x / unit, zero, zoom, -zoom * y / unit]
        theta = torch.stack(rows, dim=1).view(count, 2, 3)
        grid = functional.affine_grid(theta, [count, 1, IMAGE_SIZE, IMAGE_SIZE], align_corners=False)
        gray = functional.grid_sample(images, grid, mode="bicubic", align_corners=False).clamp(0, 1)
        # Untouched brightness and lifted brightness both occur in the evaluation data, so both are trained.
        lifted = torch.rand(count, generator=self._generator) < 0.7
        gray = torch.where(lifted.view(-1, 1, 1, 1), gray**GAMMA, gray)
        shade = self._palette[torch.from_numpy(colours)]
        shade = shade * (1 + self._uniform(3 * count, -0.08, 0.08).view(count, 3))
        shade = torch.where(torch.from_numpy(colours == WHITE).unsqueeze(1), torch.ones(3), shade)
        return gray * shade.clamp(0, 1).view(count, 3, 1, 1)

    def _pick(self, label: int) -> Tensor:
        choices = self._by_class[label]
        return choices[self._rng.randrange(len(choices))]


def _matches(scenes: Tensor, with_colours: Tensor) -> Tensor:
    """A text without colours is true of every image with its garments and relation."""
    equal = scenes[:, None, :] == scenes[None, :, :]
    shapes, colours = equal[..., [0, 2, 3]].all(-1), equal[..., [1, 4]].all(-1)
    return shapes & (colours | ~with_colours[None, :])
