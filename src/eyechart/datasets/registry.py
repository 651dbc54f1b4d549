"""The readers known by name, how a dataset is opened with one, and caption cleaning."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial

from eyechart.datasets.row_dataset import MappedDataset
from eyechart.errors import UsageError, unknown_name
from eyechart.messages import UserMessage
from eyechart.plugins import Registry
from eyechart.types import Dataset, DatasetSpec, Notice, Sample, digest_json

_MARKS = str.maketrans(dict.fromkeys('.!"()*#:;~', " "))
_LONG_GAPS = re.compile(r"\s{2,}")
_MAX_WORDS = 50


def clean_internvl(caption: str) -> str:
    """Clean a caption like InternVL's evaluation (after ALBEF): lower case, ten marks to spaces, 50 words."""
    text = _LONG_GAPS.sub(" ", caption.lower().translate(_MARKS)).rstrip("\n").strip(" ")
    return " ".join(text.split(" ")[:_MAX_WORDS])


CLEANINGS: dict[str, Callable[[str], str]] = {"internvl": clean_internvl}


def _clean(sample: Sample, clean: Callable[[str], str]) -> Sample:
    return replace(sample, texts=tuple(map(clean, sample.texts)))


def clean_captions(dataset: Dataset, name: str) -> Dataset:
    """Clean every caption of a dataset.

    Raises:
        UsageError: If the cleaning is unknown, or the dataset has no captions.
    """
    if name not in CLEANINGS:
        raise unknown_name("caption cleaning", name, CLEANINGS)
    info = dataset.info
    if info.kind not in ("retrieval", "selection"):
        raise UsageError("{name} has no captions to clean.", advice="Omit {--caption_cleaning}.", name=info.name)
    note = Notice("caption_cleaning", 1, UserMessage("Captions are cleaned before use ({how}).", how=name))
    change = partial(_clean, clean=CLEANINGS[name])
    return MappedDataset(dataset, replace(info, notes=(*info.notes, note)), change, f"caption_cleaning {name}")


READERS = Registry(
    "datasets",
    "dataset reader",
    {
        "aro": "eyechart.datasets.selection:open_aro",
        "babel_imagenet": "eyechart.datasets.image_folder:open_babel_imagenet",
        "birdsnap": "eyechart.datasets.image_folder:open_birdsnap",
        "coco_captions": "eyechart.datasets.annotation_files:open_coco",
        "collection": "eyechart.datasets.text_collection:open_collection",
        "crossmodal3600": "eyechart.datasets.annotation_files:open_crossmodal",
        "dummy": "eyechart.datasets.image_folder:open_dummy",
        "flickr_captions": "eyechart.datasets.annotation_files:open_flickr",
        "folder": "eyechart.datasets.image_folder:open_folder",
        "hugging_face": "eyechart.datasets.libraries:open_hugging_face",
        "imagecode": "eyechart.datasets.selection:open_imagecode",
        "imagenet": "eyechart.datasets.image_folder:open_imagenet",
        "imagenet_w": "eyechart.datasets.image_folder:open_imagenet_w",
        "jsonl": "eyechart.datasets.annotation_files:open_jsonl",
        "metadata": "eyechart.datasets.image_table:open_metadata",
        "mmeb": "eyechart.datasets.mmeb:open_mmeb",
        "mteb": "eyechart.datasets.mteb:open_mteb",
        "object": "eyechart.datasets.in_memory:open_object",
        "objectnet": "eyechart.datasets.image_folder:open_objectnet",
        "pairs": "eyechart.datasets.annotation_files:open_pairs",
        "parallel_captions": "eyechart.datasets.annotation_files:open_parallel",
        "questions": "eyechart.datasets.questions.question_reader:open_questions",
        "selection": "eyechart.datasets.selection:open_selection",
        "sugar_crepe": "eyechart.datasets.selection:open_sugar_crepe",
        "table": "eyechart.datasets.image_table:open_table",
        "text_collection": "eyechart.datasets.text_collection:open_text_collection",
        "tfds": "eyechart.datasets.libraries:open_tfds",
        "torchvision": "eyechart.datasets.libraries:open_torchvision",
        "voc": "eyechart.datasets.image_folder:open_voc",
        "wds": "eyechart.datasets.webdataset:open_webdataset",
        "winogavil": "eyechart.datasets.selection:open_winogavil",
        "winoground": "eyechart.datasets.selection:open_winoground",
    },
)
BENCHMARKS = Registry("benchmarks", "benchmark", {})
"""VLMEvalKit-style dataset classes registered by packages, by benchmark name."""


@dataclass
class OpenDatasets:
    """The datasets of a run, each opened once, so that checking a dataset also opens it for reading."""

    _by_source: dict[str, Dataset] = field(default_factory=dict)

    def open(self, spec: DatasetSpec) -> Dataset:
        """Return a dataset, opening it on first use."""
        key = digest_json(spec.source)
        if key not in self._by_source:
            self._by_source[key] = open_dataset(spec)
        return self._by_source[key]


def open_dataset(spec: DatasetSpec) -> Dataset:
    """Open a dataset with its reader, and clean its captions if requested."""
    dataset: Dataset = READERS.load(spec.reader)(spec)
    cleaning = spec.options.get("caption_cleaning")
    return clean_captions(dataset, cleaning) if cleaning else dataset
