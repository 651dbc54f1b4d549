"""What a dataset needs before it can be read, in a few words."""

from __future__ import annotations

from collections.abc import Iterator

from eyechart.datasets.catalogue.entry import CatalogueEntry, Source
from eyechart.datasets.catalogue.load import Catalogue

EXTRAS = {"torchvision": "torchvision", "tfds": "tfds", "imagenet_w": "imagenet-w"}
"""Readers that need an optional library: the extra to install."""


def needs_of(entry: CatalogueEntry, catalogue: Catalogue) -> list[str]:
    """Tell how the data is got, the first way first: download, extra, manual step, or nothing."""
    ways = list(dict.fromkeys(way for source in entry.sources for way in _ways(source, catalogue)))
    manual = entry.manual or any(base.manual for source in entry.sources if (base := catalogue.find(source.base)))
    return ways + (["manual step"] if manual else [])


def _ways(source: Source, catalogue: Catalogue) -> Iterator[str]:
    extra = EXTRAS.get(source.reader)
    base = catalogue.find(source.base) if source.base else None
    if base:
        yield from ([f"extra {extra}"] if extra else [])
        yield from (way for one in base.sources for way in _ways(one, catalogue))
    elif source.huggingface or source.modelscope:
        yield "download"
    elif extra and source.download:
        yield f"download by extra {extra}"
    elif not source.present:
        yield "nothing"
