"""The readers that are known by name, and how a dataset is opened with one."""

from __future__ import annotations

from eyechart.datasets.cleaning import cleaned
from eyechart.plugins import Registry
from eyechart.types import Dataset, DatasetSpec, digest_json

READERS = Registry(
    "datasets",
    "dataset reader",
    {
        "aro": "eyechart.datasets.selection:open_aro",
        "babel_imagenet": "eyechart.datasets.named.babel:open_babel_imagenet",
        "birdsnap": "eyechart.datasets.named.birdsnap:open_birdsnap",
        "coco_captions": "eyechart.datasets.named.captions:open_coco",
        "collection": "eyechart.datasets.text_collection:open_collection",
        "crossmodal3600": "eyechart.datasets.named.captions:open_crossmodal",
        "dummy": "eyechart.datasets.named.dummy:open_dummy",
        "flickr_captions": "eyechart.datasets.named.captions:open_flickr",
        "folder": "eyechart.datasets.folder:open_folder",
        "imagecode": "eyechart.datasets.selection:open_imagecode",
        "imagenet": "eyechart.datasets.named.imagenet:open_imagenet",
        "imagenet_w": "eyechart.datasets.named.imagenet_w:open_imagenet_w",
        "jsonl": "eyechart.datasets.jsonl:open_jsonl",
        "mteb": "eyechart.datasets.libraries.mteb:open_mteb",
        "object": "eyechart.datasets.objects.reader:open_object",
        "objectnet": "eyechart.datasets.named.objectnet:open_objectnet",
        "pairs": "eyechart.datasets.pairs:open_pairs",
        "parallel_captions": "eyechart.datasets.named.captions:open_parallel",
        "questions": "eyechart.datasets.questions.reader:open_questions",
        "selection": "eyechart.datasets.selection:open_selection",
        "sugar_crepe": "eyechart.datasets.named.selection:open_sugar_crepe",
        "table": "eyechart.datasets.table:open_table",
        "text_collection": "eyechart.datasets.text_collection:open_text_collection",
        "tfds": "eyechart.datasets.libraries.tfds:open_tfds",
        "torchvision": "eyechart.datasets.libraries.torchvision:open_torchvision",
        "voc": "eyechart.datasets.named.voc:open_voc",
        "wds": "eyechart.datasets.wds.webdataset:open_webdataset",
        "winogavil": "eyechart.datasets.named.selection:open_winogavil",
        "winoground": "eyechart.datasets.named.selection:open_winoground",
    },
)
BENCHMARKS = Registry("benchmarks", "benchmark", {})
"""Dataset classes of VLMEvalKit's form that packages registered under the names of their benchmarks."""


class OpenDatasets:
    """The datasets of a run, each opened once: what was opened to be checked is there to be read."""

    def __init__(self) -> None:
        self._by_source: dict[str, Dataset] = {}

    def open(self, spec: DatasetSpec) -> Dataset:
        """Return a dataset."""
        key = digest_json(spec.source)
        if key not in self._by_source:
            self._by_source[key] = open_dataset(spec)
        return self._by_source[key]


def open_dataset(spec: DatasetSpec) -> Dataset:
    """Open a dataset with its reader, and clean its captions if asked to."""
    dataset: Dataset = READERS.load(spec.reader)(spec)
    cleaning = spec.options.get("caption_cleaning")
    return cleaned(dataset, cleaning) if cleaning else dataset
