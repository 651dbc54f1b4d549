"""ImageNet's 1000 classes by WordNet id, and the subsets of them that ImageNet-A, -R and -O have."""

from __future__ import annotations

from functools import cache
from importlib import resources

SUBSETS = {"imagenet-a": "a", "imagenet-r": "r", "imagenet-o": "o"}
N_CLASSES = 1000


@cache
def wnids() -> dict[str, str]:
    """Return the 1000 WordNet ids in class order, each with the letters of the subsets that have it."""
    text = resources.files(__package__).joinpath("imagenet_wnids.txt").read_text(encoding="ascii")
    rows = (line.partition(" ") for line in text.splitlines() if not line.startswith("#"))
    return {wnid: subsets for wnid, _, subsets in rows}


def subset_indices(name: str) -> tuple[int, ...]:
    """Return the ImageNet class numbers of a subset such as imagenet-a, ascending; without a name, all of them."""
    letter = SUBSETS.get(name, "")
    return tuple(i for i, subsets in enumerate(wnids().values()) if letter in subsets)
