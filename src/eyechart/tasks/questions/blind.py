"""The same questions without their images, or with those of other questions: what a model knows without looking."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from itertools import cycle, islice
from typing import Any

from eyechart.errors import UsageError
from eyechart.io.media import ImageRef
from eyechart.types import Message

NO_IMAGES, SWAPPED = "no_images", "swapped"
WORDS = {NO_IMAGES: "blind", SWAPPED: "swapped"}
"""What the results of a control are called, by its setting."""
_ADVICE = "Use --blind without a value: no image is shown then."


def controls_of(settings: Mapping[str, Any], wanted: str) -> dict[str, dict[str, Any]]:
    """Return the settings of the runs that a seeing one is measured against, by the word that their results get."""
    return {WORDS[wanted]: {**settings, "blind": wanted}} if wanted else {}


def without_images(messages: Iterable[Message]) -> tuple[Message, ...]:
    """Take the images out of a prompt; the words stay as they are."""
    return tuple(
        replace(message, parts=tuple(part for part in message.parts if isinstance(part, str))) for message in messages
    )


class Swap:
    """Gives the places of a question's images to the next images of the benchmark that it does not show itself."""

    def __init__(self, prompts: Iterable[Iterable[Message]]) -> None:
        self._images: dict[bytes, ImageRef] = {}
        for prompt in prompts:
            self._images |= {name: image for name, image in _images_of(prompt).items() if name not in self._images}
        if len(self._images) < 2:
            raise UsageError(
                "--blind swapped shows each question another image, but there is only one.", advice=_ADVICE
            )
        self._names = list(self._images)
        self._places = {name: place for place, name in enumerate(self._names)}

    def __call__(self, messages: Iterable[Message]) -> tuple[Message, ...]:
        """Return a prompt with other images in the places of its own: as many different ones, if there are.

        Raises:
            UsageError: If it shows every image of the benchmark itself.
        """
        prompt = tuple(messages)
        own = _images_of(prompt)
        instead = dict(zip(own, cycle(self._others(own)), strict=False))
        if len(instead) < len(own):
            raise UsageError("--blind swapped: a question shows all images that there are itself.", advice=_ADVICE)
        return tuple(
            replace(
                message,
                parts=tuple(instead[part.digest()] if isinstance(part, ImageRef) else part for part in message.parts),
            )
            for message in prompt
        )

    def _others(self, own: Collection[bytes]) -> list[ImageRef]:
        """Return as many images as there are, from the first of them on, that are none of them."""
        start = self._places[next(iter(own))] if own else 0
        ring = (self._names[(start + step) % len(self._names)] for step in range(len(self._names)))
        return [self._images[name] for name in islice((name for name in ring if name not in own), len(own))]


def _images_of(messages: Iterable[Message]) -> dict[bytes, ImageRef]:
    parts = (part for message in messages for part in message.parts)
    return {part.digest(): part for part in parts if isinstance(part, ImageRef)}
