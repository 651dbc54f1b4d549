"""The same questions without their images, or with those of other questions: what a model knows without looking."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from eyechart.errors import UsageError
from eyechart.io.media import ImageRef
from eyechart.types import Message

NO_IMAGES, SWAPPED = "no_images", "swapped"
WORDS = {NO_IMAGES: "blind", SWAPPED: "swapped"}
"""What the results of a control are called, by its setting."""


def controls_of(settings: Mapping[str, Any], wanted: str) -> dict[str, dict[str, Any]]:
    """Return the settings of the runs that a seeing one is measured against, by the word that their results get."""
    return {WORDS[wanted]: {**settings, "blind": wanted}} if wanted else {}


def without_images(messages: Iterable[Message]) -> tuple[Message, ...]:
    """Take the images out of a prompt; the words stay as they are."""
    return tuple(
        replace(message, parts=tuple(part for part in message.parts if isinstance(part, str))) for message in messages
    )


class Swap:
    """Gives each image's place to the next other image of the benchmark, the last one's to the first."""

    def __init__(self, prompts: Iterable[Iterable[Message]]) -> None:
        images: dict[bytes, ImageRef] = {}
        for prompt in prompts:
            for part in (part for message in prompt for part in message.parts):
                if isinstance(part, ImageRef):
                    images.setdefault(part.digest(), part)
        if len(images) < 2:
            raise UsageError(
                "--blind swapped shows each question another image, but there is only one.",
                advice="Use --blind without a value: no image is shown then.",
            )
        names = list(images)
        self._next = {name: images[other] for name, other in zip(names, [*names[1:], names[0]], strict=True)}

    def __call__(self, messages: Iterable[Message]) -> tuple[Message, ...]:
        """Return a prompt with other images in the places of its own."""
        return tuple(
            replace(
                message,
                parts=tuple(
                    self._next[part.digest()] if isinstance(part, ImageRef) else part for part in message.parts
                ),
            )
            for message in messages
        )
