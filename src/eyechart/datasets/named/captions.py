"""Captioned images: COCO, Flickr, Crossmodal-3600, and the parallel files of XTD and Flickr30k-200."""

from __future__ import annotations

from pathlib import Path

from eyechart.datasets.images import finder_of
from eyechart.datasets.layout import existing, own_split, source_of
from eyechart.datasets.named.annotations import annotation_file, named_file
from eyechart.datasets.rows import Problems, RowDataset, describe, in_memory, json_objects
from eyechart.errors import DataError
from eyechart.io.untrusted import read_json, read_text, split_lines, text_lines, text_of
from eyechart.types import DatasetSpec, Sample

_BORDER = ".jpg,"
_CROSSMODAL = ["captions.jsonl", "xm3600/captions.jsonl"]


def open_coco(spec: DatasetSpec) -> RowDataset[Sample]:
    """Read COCO's annotation format, with the Karpathy splits or COCO-CN.

    Images come by ascending id, as with pycocotools and torchvision, and their captions in the file's order.
    """
    path = annotation_file(spec)
    content = read_json(path)
    try:
        names = {int(image["id"]): str(image["file_name"]) for image in content["images"]}
        captions: dict[str, list[str]] = {str(number): [] for number in sorted(names)}
        for annotation in content["annotations"]:
            captions[str(int(annotation["image_id"]))].append(text_of(annotation["caption"]))
        twice = len(content["images"]) - len(names)
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(f"{path} is not in COCO's caption format ({error!r}).") from error
    if twice:
        raise DataError(f"{path} has {twice} images whose id another image has, too.")
    return _captioned(spec, path, [(key, names[int(key)], texts) for key, texts in captions.items()])


def open_flickr(spec: DatasetSpec) -> RowDataset[Sample]:
    """Read Flickr8k or Flickr30k: a header and ``image.jpg,caption`` lines, several for each image.

    Images come in order of first mention; a caption may hold anything.
    """
    path = annotation_file(spec)
    problems = Problems(path)
    captions: dict[str, list[str]] = {}
    for number, line in text_lines(path):
        name, border, caption = line.strip().partition(_BORDER)
        if border and caption.strip():
            captions.setdefault(f"{name}.jpg", []).append(caption)
        elif line.strip() and number > 1:
            problems.add(number, "not 'image.jpg,caption'")
    problems.raise_if_any()
    return _captioned(spec, path, [(name, name, texts) for name, texts in captions.items()])


def open_crossmodal(spec: DatasetSpec) -> RowDataset[Sample]:
    """Read the first caption of each image in one of 36 languages, as CLIP_benchmark does: one JSON object a line."""
    own_split(spec)
    path = existing(spec, _CROSSMODAL)
    language = str(spec.options.get("language", spec.language))
    problems = Problems(path)
    rows = []
    for number, row in json_objects(path, problems):
        try:
            key = str(row["image/key"])
            rows.append((key, f"{key}.jpg", [text_of(row[language]["caption"][0])]))
        except (KeyError, TypeError, IndexError):
            problems.add(number, f"no caption in {language!r}")
    problems.raise_if_any()
    return _captioned(spec, path, rows, "images/{image}")


def open_parallel(spec: DatasetSpec) -> RowDataset[Sample]:
    """Pair the lines of a file of image names with those of a file of captions in one language."""
    settings = source_of(spec)
    names_path = named_file(spec, settings["names"], settings.get("names_url"))
    path = annotation_file(spec)
    names, captions = ([line.strip() for line in split_lines(read_text(file))] for file in (names_path, path))
    if len(names) != len(captions):
        raise DataError(f"{path} has {len(captions)} captions for the {len(names)} images of {names_path}.")
    pairs = zip(names, captions, strict=True)
    return _captioned(spec, path, [(f"{i}-{name}", name, [caption]) for i, (name, caption) in enumerate(pairs)])


def _captioned(
    spec: DatasetSpec, path: Path, rows: list[tuple[str, str, list[str]]], pattern: str = "{image}"
) -> RowDataset[Sample]:
    """Make samples of ids, image names and captions; no image may be missing."""
    finder = finder_of(spec, pattern)
    samples = [Sample(key, finder.find(name), texts=tuple(texts)) for key, name, texts in rows]
    finder.raise_if_missing(path)
    return in_memory(describe(spec, "retrieval", path), samples)
