"""``clip_benchmark.metrics.captioning``: captions of a CoCa model, scored as our task of that name does."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from eyechart.compat.clip_benchmark.encode import mixed
from eyechart.errors import import_extra
from eyechart.metrics.captions import score_captions
from eyechart.metrics.java_captions import score_with_java, why_not

__all__ = ["evaluate"]

START, END = "<start_of_text>", "<end_of_text>"


def evaluate(
    model: Any,
    dataloader: Iterable[Any],
    batch_size: int,  # the loader has its own
    device: Any,
    transform: Any = None,  # the loader has its own
    train_dataloader: Any = None,
    num_workers: int | None = None,
    amp: bool = True,
    verbose: bool = False,  # nothing is printed here
) -> dict[str, float]:
    """Return Bleu_1 to Bleu_4, ROUGE_L and CIDEr; METEOR and SPICE too where Java and their tools are."""
    import torch

    decode = import_extra("open_clip.tokenizer", "open-clip")._tokenizer.decode
    captions: list[str] = []
    references: list[list[str]] = []
    for images, texts in dataloader:
        with torch.no_grad(), mixed(device, amp=amp):
            rows = model.generate(images.to(device)).cpu().tolist()
        captions += [decode(row).partition(END)[0].replace(START, "").strip() for row in rows]
        references += [list(group) for group in texts]
    found = {name: value / 100 for name, value in score_captions(captions, references, "ptb").items()}
    return found if why_not() else found | score_with_java(captions, references)[0]
