"""What captioning would cost, without asking anybody."""

from __future__ import annotations

from eyechart.errors import DataError
from eyechart.io.media import image_size
from eyechart.manifest import Manifest
from eyechart.models.generators.api import MAX_EDGE
from eyechart.types import Job, Sample

PATCH = 28
"""Pixels along one side of what becomes a token in today's open models; hosted ones are of the same order."""
LETTERS_PER_TOKEN = 4
CAPTION_TOKENS = 100
"""A paragraph, as in EvalScope's examples, where no limit on the answer is set."""


def estimate(manifest: Manifest, wanted: set[str], job: Job) -> dict[str, float]:
    """Estimate requests and tokens for the images that have no caption yet.

    Prompt tokens are one for each 28 x 28 pixels after scaling down, and one for four letters of the prompt; a caption
    counts as ``max_tokens``, or 100 without it. Real figures differ from model to model by a factor of two or so.
    """
    settings = job.model.options.get("settings") or {}
    words = -(-len(job.settings["prompt"]) // LETTERS_PER_TOKEN)
    longest = job.model.options.get("max_edge", MAX_EDGE)
    prompt_tokens = 0
    for sample in manifest.samples():
        if sample.id in wanted:
            prompt_tokens += words + image_tokens(_size(sample), longest)
    return {
        "images": float(len(manifest)),
        "requests": float(len(wanted)),
        "estimated_prompt_tokens": float(prompt_tokens),
        "estimated_completion_tokens": float(len(wanted) * int(settings.get("max_tokens", CAPTION_TOKENS))),
    }


def image_tokens(size: tuple[int, int], max_edge: int | None) -> int:
    """Return the estimated tokens of an image of a size."""
    scale = min(1.0, max_edge / max(size)) if max_edge else 1.0
    width, height = (max(1, round(side * scale)) for side in size)
    return -(-width // PATCH) * -(-height // PATCH)


def _size(sample: Sample) -> tuple[int, int]:
    """Read an image's size from its header; one that cannot be read will not be sent."""
    try:
        return image_size(sample.image.read(), sample.image.source)
    except DataError:
        return (1, 1)
