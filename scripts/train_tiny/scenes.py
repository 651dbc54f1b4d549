"""What an image shows, as five numbers: one garment, or two garments and their relation."""

from __future__ import annotations

from typing import NamedTuple

NOTHING = -1
LEFT, ABOVE = 0, 1
CLASSES = 10
COLOURS = {  # name: RGB at full brightness
    "red": (230, 40, 40),
    "orange": (250, 135, 20),
    "yellow": (245, 230, 60),
    "green": (50, 180, 60),
    "turquoise": (50, 210, 200),
    "blue": (60, 90, 240),
    "purple": (160, 65, 215),
    "white": (255, 255, 255),
}
WHITE = len(COLOURS) - 1


class Scene(NamedTuple):
    """One garment, or two of which the first is LEFT of or ABOVE the second."""

    garment: int
    colour: int
    relation: int = NOTHING
    other_garment: int = NOTHING
    other_colour: int = NOTHING


def arrangements(garments: tuple[int, int], colours: tuple[int, int]) -> list[Scene]:
    """The eight ways to colour and place two garments; the four of each relation are described with the same words."""
    return [
        Scene(g[0], c[0], relation, g[1], c[1])
        for relation in (LEFT, ABOVE)
        for g in (garments, garments[::-1])
        for c in (colours, colours[::-1])
    ]
