"""``clip_benchmark.metrics.zeroshot_retrieval``: retrieval in both directions for a model and a loader of torch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from eyechart.compat.clip_benchmark.encode import image_units, text_units
from eyechart.errors import DataError
from eyechart.metrics.retrieval import rank_both_ways
from eyechart.metrics.vectors import Vectors

if TYPE_CHECKING:
    import torch

__all__ = ["batchify", "dataloader_with_indices", "evaluate", "recall_at_k"]


def evaluate(
    model: Any,
    dataloader: Iterable[Any],
    tokenizer: Any,
    device: Any,
    amp: bool = True,
    recall_k_list: Sequence[int] = (5,),
) -> dict[str, float]:
    """Return image_retrieval_recall@k and text_retrieval_recall@k: the share of queries with a hit in the first k.

    Batches are images and, for each of them, a list of captions.
    """
    images: list[Vectors] = []
    texts: list[Vectors] = []
    owner: list[int] = []
    for pixels, captions, places in dataloader_with_indices(dataloader):
        if not all(captions):
            raise DataError("An image has no caption.", advice="Give it at least one, or leave the image out.")
        images.append(image_units(model, pixels, device, amp=amp))
        flat = [caption for group in captions for caption in group]
        texts.append(text_units(model, tokenizer, flat, device, amp=amp))
        owner += [int(place) for place, group in zip(places, captions, strict=True) for _ in group]
    if not images:
        raise DataError("The loader has no batches.", advice="Check the dataset: it is empty.")
    of_images, of_texts = rank_both_ways(np.concatenate(images), np.concatenate(texts), np.array(owner, np.int64))
    metrics: dict[str, float] = {}
    for k in recall_k_list:
        metrics[f"image_retrieval_recall@{k}"] = float(np.mean(of_images.ranks <= k))
        metrics[f"text_retrieval_recall@{k}"] = float(np.mean(of_texts.ranks <= k))
    return metrics


def dataloader_with_indices(dataloader: Iterable[Any]) -> Iterator[tuple[Any, Any, torch.Tensor]]:
    """Yield each batch with the places of its images in the whole."""
    import torch

    start = 0
    for images, texts in dataloader:
        yield images, texts, torch.arange(start, start + len(images))
        start += len(images)


def recall_at_k(scores: torch.Tensor, positive_pairs: torch.Tensor, k: int) -> torch.Tensor:
    """Return for each row the share of its positives that are among the first k columns.

    This is recall in the strict sense; what CLIP papers call recall is whether it is above 0. Of equal scores the
    negatives come first.
    """
    negatives_first = positive_pairs.int().argsort(dim=1, stable=True)
    by_score = scores.gather(1, negatives_first).argsort(dim=1, descending=True, stable=True)
    found = positive_pairs.gather(1, negatives_first).gather(1, by_score)[:, :k]
    return found.sum(dim=1) / positive_pairs.sum(dim=1)


def batchify(
    func: Callable[..., torch.Tensor],
    X: torch.Tensor,  # noqa: N803 - scripts may name it
    Y: torch.Tensor,  # noqa: N803
    batch_size: int,
    device: Any,
    *args: Any,
    **kwargs: Any,
) -> torch.Tensor:
    """Call a function on a few rows of both at a time, and put what it returns together on the CPU."""
    import torch

    starts = range(0, len(X), batch_size)
    rows = [(X[start : start + batch_size].to(device), Y[start : start + batch_size].to(device)) for start in starts]
    return torch.cat([func(x, y, *args, **kwargs).cpu() for x, y in rows])
