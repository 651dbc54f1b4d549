"""Names to objects: built-ins from a table, everybody else's from entry points, both imported only when used."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Literal

from eyechart.errors import UsageError, unknown_name

Group = Literal["models", "generators", "datasets", "tasks", "benchmarks", "vlms"]

PYTHON = "python:"

BUILT_IN: dict[Group, dict[str, str]] = {
    "models": {
        "api": "eyechart.models.encoders.api:ApiFamily",
        "internvl": "eyechart.models.encoders.internvl:InternVLFamily",
        "ja_clip": "eyechart.models.encoders.ja_clip:JaClipFamily",
        "onnx": "eyechart.models.encoders.onnx:OnnxFamily",
        "open_clip": "eyechart.models.encoders.open_clip:OpenClipFamily",
        "python": "eyechart.models.encoders.python:PythonFamily",
        "sentence-transformers": "eyechart.models.encoders.sentence_transformers:SentenceTransformersFamily",
        "transformers": "eyechart.models.encoders.transformers:TransformersFamily",
    },
    "generators": {
        "open_clip": "eyechart.models.generators.open_clip:OpenClipFamily",
        "api": "eyechart.models.generators.api:ApiFamily",
        "python": "eyechart.vlm.python_models:PythonFamily",
        "transformers": "eyechart.models.generators.transformers:TransformersFamily",
    },
    "datasets": {
        "aro": "eyechart.datasets.selection:open_aro",
        "babel_imagenet": "eyechart.datasets.named.babel:open_babel_imagenet",
        "birdsnap": "eyechart.datasets.named.birdsnap:open_birdsnap",
        "coco_captions": "eyechart.datasets.named.coco:open_coco",
        "collection": "eyechart.datasets.collection:open_collection",
        "crossmodal3600": "eyechart.datasets.named.crossmodal:open_crossmodal",
        "dummy": "eyechart.datasets.named.dummy:open_dummy",
        "flickr_captions": "eyechart.datasets.named.flickr:open_flickr",
        "folder": "eyechart.datasets.folder:open_folder",
        "imagenet": "eyechart.datasets.named.imagenet:open_imagenet",
        "imagenet_w": "eyechart.datasets.named.imagenet_w:open_imagenet_w",
        "imagecode": "eyechart.datasets.selection:open_imagecode",
        "jsonl": "eyechart.datasets.jsonl:open_jsonl",
        "objectnet": "eyechart.datasets.named.objectnet:open_objectnet",
        "pairs": "eyechart.datasets.pairs:open_pairs",
        "parallel_captions": "eyechart.datasets.named.parallel:open_parallel",
        "selection": "eyechart.datasets.selection:open_selection",
        "sugar_crepe": "eyechart.datasets.named.selection:open_sugar_crepe",
        "table": "eyechart.datasets.table:open_table",
        "tfds": "eyechart.datasets.tfds:open_tfds",
        "torchvision": "eyechart.datasets.torchvision:open_torchvision",
        "voc": "eyechart.datasets.named.voc:open_voc",
        "wds": "eyechart.datasets.webdataset:open_webdataset",
        "winogavil": "eyechart.datasets.named.selection:open_winogavil",
        "winoground": "eyechart.datasets.named.selection:open_winoground",
    },
    "tasks": {
        "captioning": "eyechart.tasks.captioning:Captioning",
        "clustering": "eyechart.tasks.clustering:Clustering",
        "image_caption_selection": "eyechart.tasks.image_caption_selection:ImageCaptionSelection",
        "knn": "eyechart.tasks.knn:Knn",
        "linear_probe": "eyechart.tasks.linear_probe:LinearProbe",
        "logistic_probe": "eyechart.tasks.logistic_probe:LogisticProbe",
        "visual_sts": "eyechart.tasks.visual_sts:VisualSts",
        "zeroshot_classification": "eyechart.tasks.zeroshot_classification:ZeroshotClassification",
        "zeroshot_retrieval": "eyechart.tasks.zeroshot_retrieval:ZeroshotRetrieval",
    },
    "benchmarks": {},
    "vlms": {},
}
"""What ships with Eyechart, as ``module:name``."""


def names(group: Group) -> list[str]:
    """List the known names of a group."""
    return sorted({*BUILT_IN[group], *_entry_points(group)})


def load(group: Group, name: str) -> Any:
    """Import the object behind a name.

    A task may also be ``python:module:Class``.

    Raises:
        UnknownNameError: If nobody registered the name; the nearest ones are named.
        UsageError: If a third party's plugin cannot be imported.
    """
    if group == "tasks" and name.startswith(PYTHON):
        return _own(name)
    target = BUILT_IN[group].get(name)
    if target is not None:
        module, _, attribute = target.partition(":")
        return getattr(import_module(module), attribute)
    point = _entry_points(group).get(name)
    if point is None:
        raise unknown_name(_WORDS[group], name, names(group))
    try:
        return point.load()
    except (ImportError, AttributeError) as error:
        package = point.dist.name if point.dist else "unknown package"
        raise UsageError(
            f"The {_WORDS[group]} {name!r} of the package {package!r} cannot be loaded ({error}).",
            advice=f"Reinstall or remove {package}.",
        ) from error


def _own(name: str) -> Any:
    """Import a task of the user's own: ``python:module.path:Class``, installed or a file in the working folder."""
    from eyechart.models.encoders.python import see_working_folder

    module, colon, attribute = name.removeprefix(PYTHON).partition(":")
    if not colon or not module or not attribute:
        raise UsageError(f"{name!r} is not python:module:Class.", advice="Write for example python:my_tasks:Margin.")
    see_working_folder()
    try:
        return getattr(import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise UsageError(f"The task {name!r} cannot be loaded ({error}).", advice="Check the module's name.") from error


_WORDS: dict[Group, str] = {
    "models": "model type",
    "generators": "generator type",
    "datasets": "dataset reader",
    "tasks": "task",
    "benchmarks": "benchmark",
    "vlms": "model class",
}


@cache
def _entry_points(group: Group) -> dict[str, EntryPoint]:
    """Find third parties' plugins; a name that two packages claim, or that is built in, is an error."""
    found: dict[str, EntryPoint] = {}
    for point in entry_points(group=f"eyechart.{group}"):
        if point.name in BUILT_IN[group] or point.name in found:
            package = point.dist.name if point.dist else "a package"
            raise UsageError(
                f"{package} registers the {_WORDS[group]} {point.name!r}, which exists already.",
                advice="Rename it there, or remove one of the packages.",
            )
        found[point.name] = point
    return found
