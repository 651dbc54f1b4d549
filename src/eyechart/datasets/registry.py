"""The readers known by name, how a dataset is opened with one, and caption cleaning."""

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
    """Clean every caption of a dataset."""
    if name not in CLEANINGS:
        raise unknown_name("caption cleaning", name, CLEANINGS)
    info = dataset.info
    if info.kind not in ("retrieval", "selection"):
        raise UsageError("{name} has no captions to clean.", advice="Omit {--caption_cleaning}.", name=info.name)
    note = Notice("caption_cleaning", 1, UserMessage("Captions are cleaned before use ({how}).", how=name))
    change = partial(_clean, clean=CLEANINGS[name])
    return MappedDataset(dataset, replace(info, notes=(*info.notes, note)), change, f"caption_cleaning {name}")


_MODULES = {
    "annotation_files": "coco_captions crossmodal3600 flickr_captions jsonl pairs parallel_captions",
    "image_folder": "babel_imagenet birdsnap dummy folder imagenet imagenet_w objectnet voc",
    "image_table": "metadata table",
    "in_memory": "object",
    "libraries": "hugging_face tfds torchvision",
    "mmeb": "mmeb",
    "mteb": "mteb",
    "questions.question_reader": "questions",
    "selection": "aro imagecode selection sugar_crepe winogavil winoground",
    "text_collection": "collection text_collection",
}
"""Readers by module; the function of a reader is ``open_`` and its name."""
READERS = Registry(
    "datasets",
    "dataset reader",
    {"wds": "eyechart.datasets.webdataset:open_webdataset"}
    | {name: f"eyechart.datasets.{module}:open_{name}" for module, names in _MODULES.items() for name in names.split()},
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
