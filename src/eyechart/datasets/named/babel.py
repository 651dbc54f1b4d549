"""Babel-ImageNet: the ImageNet classes that have a name in a language, with it and machine-translated prompts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

from eyechart.datasets import prompt_pack
from eyechart.datasets.classes import ClassTexts, class_info, read_class_texts
from eyechart.datasets.mapped import MappedDataset
from eyechart.datasets.named.imagenet import open_imagenet
from eyechart.datasets.wds.webdataset import open_webdataset
from eyechart.errors import DataError
from eyechart.types import Dataset, DatasetSpec, Sample, digest_json

BASES: Mapping[str, Callable[[DatasetSpec], Dataset]] = {"imagenet": open_imagenet, "wds": open_webdataset}


def _relabelled(sample: Sample, label_of: Mapping[int | None, int]) -> Sample | None:
    """Keep the samples of some classes and number the classes anew."""
    label = label_of.get(sample.label)
    return None if label is None else replace(sample, label=label)


def open_babel_imagenet(spec: DatasetSpec) -> MappedDataset:
    """Read ImageNet's images of the language's classes."""
    offline = bool(spec.options.get("offline"))
    found = prompt_pack.babel_classes(spec.language, offline=offline)
    if found is None:
        raise DataError(
            f"{spec.name} has no class names in {spec.language!r}.", advice="See `eyechart info babel_imagenet`."
        )
    indices, names = found
    texts = _texts(spec, names, offline=offline)
    base = open_base(spec)
    info = class_info(spec, "classification", texts, base.info.source)
    change = partial(_relabelled, label_of={index: label for label, index in enumerate(indices)})
    return MappedDataset(base, info, change, digest_json(list(indices)))


def open_base(spec: DatasetSpec) -> Dataset:
    """Open ImageNet itself, in English: only its images and labels are used."""
    options = {key: value for key, value in spec.options.items() if key not in ("classname_file", "template_file")}
    options["prompts"] = {"classnames": "imagenet1k", "templates": "imagenet1k"}
    return BASES[spec.options["base"]](replace(spec, reader=spec.options["base"], language="en", options=options))


def _texts(spec: DatasetSpec, names: tuple[str, ...], *, offline: bool) -> ClassTexts:
    if spec.options.get("template_file"):
        own = read_class_texts(None, replace(spec, options={**spec.options, "prompts": {}, "classname_file": ""}))
        return replace(own, classnames=names)
    templates = prompt_pack.babel_templates(spec.language, offline=offline)
    if templates is None:
        raise DataError(
            f"{spec.name} has class names but no prompts in {spec.language!r}.",
            advice="Give your own with --custom_template_file.",
        )
    return ClassTexts(names, templates)
