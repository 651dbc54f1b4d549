"""Caption cleaning as a named, recorded option (``--caption_cleaning``). By default captions are read as they are."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from eyechart.datasets.mapped import MappedDataset
from eyechart.errors import UsageError, unknown_name
from eyechart.types import Dataset, Notice, Sample

_MARKS = str.maketrans(dict.fromkeys('.!"()*#:;~', " "))
_LONG_GAPS = re.compile(r"\s{2,}")
_MAX_WORDS = 50


def clean_internvl(caption: str) -> str:
    """Clean a caption as InternVL's evaluation does (after ALBEF): lower case, ten marks to spaces, 50 words."""
    text = _LONG_GAPS.sub(" ", caption.lower().translate(_MARKS)).rstrip("\n").strip(" ")
    return " ".join(text.split(" ")[:_MAX_WORDS])


CLEANINGS: dict[str, Callable[[str], str]] = {"internvl": clean_internvl}


def _clean(sample: Sample, clean: Callable[[str], str]) -> Sample:
    return replace(sample, texts=tuple(map(clean, sample.texts)))


def cleaned(dataset: Dataset, name: str) -> Dataset:
    """Clean every caption of a dataset.

    Raises:
        UsageError: If there is no such cleaning, or the dataset has no captions.
    """
    if name not in CLEANINGS:
        raise unknown_name("caption cleaning", name, CLEANINGS)
    info = dataset.info
    if info.kind not in ("retrieval", "selection"):
        raise UsageError(f"{info.name} has no captions to clean.", advice="Leave --caption_cleaning out.")
    note = Notice("caption_cleaning", 1, f"Captions are cleaned before use ({name}).")
    change = partial(_clean, clean=CLEANINGS[name])
    return MappedDataset(dataset, replace(info, notes=(*info.notes, note)), change, f"caption_cleaning {name}")
