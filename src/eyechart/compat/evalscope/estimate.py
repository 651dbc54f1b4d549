"""What captioning would cost, without a single request."""

from __future__ import annotations

from eyechart.errors import DataError
from eyechart.io.media import image_size
from eyechart.models.access import access_of
from eyechart.models.generators.api import MAX_EDGE
from eyechart.results import Result
from eyechart.session import Session
from eyechart.tasks.captions.image_caption import USER, ImageCaption, prompts
from eyechart.types import Job, Metric, Sample

PATCH = 28
"""Pixels along one side of what becomes a token in today's open models; hosted ones are of the same order."""
LETTERS_PER_TOKEN = 4
CAPTION_TOKENS = 100
"""A paragraph, as in EvalScope's examples, where no limit on the answer is set."""
TOKENS_PER_SECOND = 50
"""How fast a server writes one of several answers at a time."""
SECONDS_PER_REQUEST = 1.0
"""How long it takes to read an image, before the first word of the answer."""


def estimate(job: Job, session: Session) -> Result:
    """Return a result that holds no measurement, but what the job would ask for."""
    numbers = count_tokens(job, session)
    return Result(
        dataset=job.dataset.name,
        model=job.model.name,
        pretrained="",
        task=job.task,
        language=job.dataset.language,
        values={name: Metric(value) for name, value in numbers.items()},
        facts={"dry_run": True, **_currency(job)},
        counts={"listed": int(numbers["images"])},
    )


def _currency(job: Job) -> dict[str, str]:
    price = access_of(job.model).price
    return {} if price is None else {"currency": price.currency}


def missing_captions(job: Job, session: Session) -> list[str]:
    """Return the ids of the images that have no stored caption yet."""
    asked = prompts(session.manifest(job), job.settings["prompt"], job.settings.get("prompt_role", USER))
    return session.generator(job, ImageCaption()).unanswered(asked)


def count_tokens(job: Job, session: Session) -> dict[str, float]:
    """Estimate requests, tokens, time and cost for the images that have no caption yet.

    Prompt tokens are one for each 28 x 28 pixels after scaling down, and one for four letters of the prompt; a caption
    counts as ``max_tokens``, or 100 without it. A request takes a second, and another for 50 tokens. Real figures
    differ from model to model by a factor of two or so, times by more. The cost is there with a table of prices.
    """
    manifest, wanted = session.manifest(job), set(missing_captions(job, session))
    settings = job.model.options.get("settings") or {}
    words = -(-len(job.settings["prompt"]) // LETTERS_PER_TOKEN)
    longest = job.model.options.get("max_edge", MAX_EDGE)
    sizes = [_size(sample) for sample in manifest.samples() if sample.id in wanted]
    usage = {
        "prompt_tokens": float(sum(words + image_tokens(size, longest) for size in sizes)),
        "completion_tokens": float(len(wanted) * int(settings.get("max_tokens", CAPTION_TOKENS))),
    }
    access = access_of(job.model)
    busy = len(wanted) * SECONDS_PER_REQUEST + usage["completion_tokens"] / TOKENS_PER_SECOND
    return {
        "images": float(len(manifest)),
        "requests": float(len(wanted)),
        **{f"estimated_{name}": count for name, count in usage.items()},
        "estimated_seconds": round(busy / max(1, min(access.concurrency, len(wanted))), 1),
        **({"estimated_cost": access.price.cost(usage)} if access.price is not None else {}),
    }


def image_tokens(size: tuple[int, int], max_edge: int | None) -> int:
    """Return the estimated tokens of an image of a size."""
    scale = min(1.0, max_edge / max(size)) if max_edge else 1.0
    width, height = (max(1, round(side * scale)) for side in size)
    return -(-width // PATCH) * -(-height // PATCH)


def _size(sample: Sample) -> tuple[int, int]:
    """Read an image's size from its header; one that cannot be read will not be sent."""
    try:
        return image_size(sample.need_image().read(), sample.id)
    except DataError:
        return (1, 1)
