"""``clip_benchmark.metrics.image_caption_selection``: Winoground and SugarCrepe for a model and a loader of torch."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from eyechart.compat.clip_benchmark.encode import image_units, text_units
from eyechart.errors import DataError
from eyechart.metrics.selection import choose, pair_scores
from eyechart.metrics.vectors import Vectors

__all__ = ["evaluate"]


def evaluate(model: Any, dataloader: Iterable[Any], tokenizer: Any, device: Any, amp: bool = True) -> dict[str, float]:
    """Return image_acc, text_acc and acc over questions; image i of a question belongs to its text i.

    A right candidate must score higher than every wrong one; a tie is wrong. Where there is nothing to choose (the
    one image of SugarCrepe), the answer counts as right.
    """
    answers = []
    for images, texts in dataloader:
        pixels = images[:, None] if images.ndim == 4 else images
        flat = pixels.reshape(-1, *pixels.shape[2:])
        units = image_units(model, flat, device, amp=amp).reshape(*pixels.shape[:2], -1)
        captions = [caption for group in texts for caption in group]
        ends = np.cumsum([len(group) for group in texts])[:-1]
        words = np.split(text_units(model, tokenizer, captions, device, amp=amp), ends)
        answers += [_answer(*pair) for pair in zip(units, words, strict=True)]
    if not answers:
        raise DataError("The loader has no batches.", advice="Check the dataset: it is empty.")
    image_acc, text_acc, acc = np.mean(answers, axis=0)
    return {"image_acc": float(image_acc), "text_acc": float(text_acc), "acc": float(acc)}


def _answer(images: Vectors, texts: Vectors) -> tuple[bool, bool, bool]:
    """Judge the choice of images, that of texts, and both."""
    scores, right = pair_scores(images, texts), np.eye(len(images), len(texts), dtype=bool)
    by_text, by_image = choose(scores.T, right.T), choose(scores, right)
    image_right, text_right = (verdict is None or verdict.correct for verdict in (by_text, by_image))
    return image_right, text_right, image_right and text_right
