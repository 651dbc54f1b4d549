"""Folders of images: one subfolder per class, and the layouts of ImageNet's family, ObjectNet, Birdsnap and VOC."""

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

from eyechart.datasets import prompt_pack
from eyechart.datasets.class_texts import (
    N_CLASSES,
    ClassTexts,
    check_order,
    class_info,
    read_class_texts,
    subset_indices,
    wnids,
)
from eyechart.datasets.image_finder import ImageFinder, from_pixels
from eyechart.datasets.locations import (
    COMMON_SPLITS,
    ONLY_SPLIT,
    check_only_split,
    existing,
    need_file,
    no_such_split,
    source_of,
    source_split,
)
from eyechart.datasets.row_dataset import MappedDataset, RowDataset, in_memory, read_object
from eyechart.datasets.webdataset import open_webdataset
from eyechart.errors import DataError, import_extra
from eyechart.io.files import by_name, file_name, shown
from eyechart.io.images import ImageRef, to_rgb
from eyechart.io.safe_parse import read_text, split_lines
from eyechart.languages import canonical
from eyechart.messages import UserMessage
from eyechart.types import Dataset, DatasetInfo, DatasetSpec, Notice, Sample, digest_json

EXTENSIONS = frozenset({
    ".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".webp", ".avif", ".gif", ".bmp", ".dib", ".tif", ".tiff",
    ".ppm", ".pgm", ".pbm", ".pnm", ".jp2", ".j2k",
})  # fmt: skip
"""Image file suffixes, in lower case: all formats that can be decoded."""
_CLUTTER = frozenset({".DS_Store", "Thumbs.db", "desktop.ini"})
"""Files created by file managers."""


def open_folder(spec: DatasetSpec) -> RowDataset[Sample]:
    """Read class folders: those in the catalogue's folder, in that of the split, or in the root (the split "test").

    Class names are the sorted folder names with underscores as spaces; they are replaced by ``classnames.txt`` in the
    root (one name per folder, in that order), the catalogue or ``--custom_classname_file``.
    """
    root = Path(spec.root)
    if not root.is_dir():
        raise DataError("There is no folder {path}.", advice="Check {--dataset_root}.", path=root)
    base, split, candidates = root, source_split(spec), source_of(spec).get("folders")
    if candidates is not None:
        base = existing(spec, candidates, UserMessage("Check {--dataset_root}."), split=split)
    elif (root / split).is_dir():
        base = root / split
    elif known := [name for name in COMMON_SPLITS if (root / name).is_dir() and class_folders(root / name)]:
        raise no_such_split(spec.name, spec.split, known)
    else:
        check_only_split(spec, "Splits are subfolders such as train and test, each with all classes.")
    folders = class_folders(base)
    if not folders:
        raise DataError(
            "{path} contains no folders with images.", advice="Put images into one folder per class.", path=base
        )
    names = tuple(file_name(folder).replace("_", " ") for folder in folders)
    texts = read_class_texts(root, spec, names)
    if texts.classnames and len(texts.classnames) != len(folders):
        raise DataError(
            "{name}: {n} class names for {folders} folders in {path}.",
            name=spec.name,
            n=len(texts.classnames),
            folders=len(folders),
            path=base,
        )
    check_order(f"{spec.name}: the folders in {base}", names, texts.classnames)
    samples = [sample for label, folder in enumerate(folders) for sample in folder_samples(folder, label)]
    return in_memory(with_unread(class_info(spec, "classification", texts, base), base), samples)


def class_folders(base: Path) -> list[Path]:
    """Return the subfolders with images, sorted by name, without hidden ones."""
    return by_name(folder for folder in subfolders(base) if any(_images(folder)) and not folder.name.startswith("."))


def folder_samples(folder: Path, label: int) -> Iterator[Sample]:
    """Yield the images of a class folder, sorted by name, without opening them."""
    for path in by_name(_images(folder)):
        yield Sample(f"{file_name(folder)}/{file_name(path)}", ImageRef.from_path(path), label=label)


def with_unread(info: DatasetInfo, base: Path) -> DatasetInfo:
    """Add notices about files and folders that are not read: a class may be incomplete or missing."""
    folders = class_folders(base)
    empty = list({*subfolders(base)}.difference(folders))
    deep = [inner for folder in subfolders(base) for inner in subfolders(folder) if any(_images(inner))]
    strange = [
        path for folder in folders for path in _files(folder) if not _is_image(path) and path.name not in _CLUTTER
    ]
    found = (
        ("unread_images", list(_images(base)), "{n} images are in no class folder and are not read, such as {path}."),
        ("unread_folders", deep, "{n} folders of images are nested in class folders and are not read, such as {path}."),
        ("folders_without_images", empty, "{n} folders are hidden or have no images and are ignored, such as {path}."),
        ("unread_files", strange, "{n} files in class folders have no image suffix and are not read, such as {path}."),
    )
    notes = [
        Notice(kind, len(paths), UserMessage(template, n=len(paths), path=shown(by_name(paths)[0])))
        for kind, paths, template in found
        if paths
    ]
    return replace(info, notes=(*info.notes, *notes))


def subfolders(base: Path) -> list[Path]:
    """List the subfolders of a folder."""
    with os.scandir(base) as entries:
        return [Path(entry.path) for entry in entries if entry.is_dir()]


def _files(folder: Path) -> Iterator[Path]:
    with os.scandir(folder) as entries:
        yield from (Path(entry.path) for entry in entries if not entry.is_dir())


def _images(folder: Path) -> Iterator[Path]:
    return filter(_is_image, _files(folder))


def _is_image(path: Path) -> bool:
    return path.suffix.lower() in EXTENSIONS


def open_imagenet(spec: DatasetSpec) -> RowDataset[Sample]:
    """Read class folders: in the split's folder, another one that the catalogue names, or the root.

    Labels come from a folder's name (a WordNet id or, for ImageNet-V2, a class number), not from its position, so that
    a subset of classes has correct labels. Classes and images are sorted, as in torchvision's ImageFolder.
    """
    settings = source_of(spec)
    candidates = settings.get("folders", ["{split}", "."] if spec.split == ONLY_SPLIT else ["{split}"])
    advice = UserMessage("Check {--split} and {--dataset_root}.")
    base = existing(spec, candidates, advice, split=source_split(spec))
    names = [str(i) for i in range(N_CLASSES)] if settings.get("labels") == "number" else list(wnids())
    subset = subset_indices(spec.options.get("prompts", {}).get("subset", ""))
    label_of = {names[index]: label for label, index in enumerate(subset)}
    folders = class_folders(base)
    unknown = [folder.name for folder in folders if folder.name not in label_of]
    if unknown or not folders:
        raise DataError(
            "{name}: {base} has folders that are not classes, such as {folder!r}."
            if unknown
            else "{name}: {base} has no folders with images.",
            advice="It must have one folder per class, such as {label}.",
            name=spec.name,
            base=base,
            folder=unknown[0] if unknown else "",
            label=next(iter(label_of)),
        )
    samples = [sample for folder in folders for sample in folder_samples(folder, label_of[folder.name])]
    info = class_info(spec, "classification", read_class_texts(None, spec), base)
    return in_memory(with_unread(info, base), samples)


BASES: Mapping[str, Callable[[DatasetSpec], Dataset]] = {"imagenet": open_imagenet, "wds": open_webdataset}


def _relabelled(sample: Sample, label_of: Mapping[int | None, int]) -> Sample | None:
    label = label_of.get(sample.label)
    return None if label is None else replace(sample, label=label)


def open_babel_imagenet(spec: DatasetSpec) -> MappedDataset:
    """Read ImageNet's images of the classes that the language has."""
    offline = bool(spec.options.get("offline"))
    found = prompt_pack.babel_classes(spec.language, offline=offline)
    if found is None:
        raise DataError(
            "{name} has no class names in {language!r}.",
            advice="See `eyechart info babel_imagenet`.",
            name=spec.name,
            language=spec.language,
        )
    indices, names = found
    if spec.options.get("template_file"):
        own = read_class_texts(None, replace(spec, options={**spec.options, "prompts": {}, "classname_file": ""}))
        texts = replace(own, classnames=names)
    elif translated := prompt_pack.read_member("nllb_dist13b_prompts.json", offline=offline).get(
        canonical(spec.language).upper()
    ):
        texts = ClassTexts(names, tuple(text.replace("{}", "{c}") for text in translated))
    else:
        raise DataError(
            "{name} has class names but no prompts in {language!r}.",
            advice="Set your own with {--custom_template_file}.",
            name=spec.name,
            language=spec.language,
        )
    base = open_base(spec)
    info = class_info(spec, "classification", texts, base.info.source)
    change = partial(_relabelled, label_of={index: label for label, index in enumerate(indices)})
    return MappedDataset(base, info, change, digest_json(list(indices)))


def open_base(spec: DatasetSpec) -> Dataset:
    """Open ImageNet itself, in English: only its images and labels are used."""
    options = {key: value for key, value in spec.options.items() if key not in ("classname_file", "template_file")}
    options["prompts"] = {"classnames": "imagenet1k", "templates": "imagenet1k"}
    return BASES[spec.options["base"]](replace(spec, reader=spec.options["base"], language="en", options=options))


SIDE = 224
"""Image size before watermarking, since the watermark has a fixed size in pixels."""


def open_imagenet_w(spec: DatasetSpec) -> MappedDataset:
    """Draw the watermark of the package ``imagenet-w``, which models take for cardboard boxes, on ImageNet's images."""
    import_extra("imagenet_w", "imagenet-w")  # fail early, not in the middle of a run
    base = open_base(spec)
    info = class_info(spec, "classification", read_class_texts(None, spec), base.info.source)
    return MappedDataset(base, info, _watermarked, f"watermark at {SIDE}")


@cache
def _watermark() -> Any:
    from imagenet_w import AddWatermark

    return AddWatermark(SIDE)


def _watermarked(sample: Sample) -> Sample:
    from torchvision.transforms import functional

    image = to_rgb(sample.need_image().decode())
    image = functional.resize(image, SIDE, functional.InterpolationMode.BICUBIC)
    tensor = functional.to_tensor(functional.center_crop(image, [SIDE, SIDE]))
    marked = functional.to_pil_image(_watermark()(tensor).clamp(0, 1))
    return replace(sample, image=from_pixels(marked, f"{sample.need_image().source} with watermark"))


IMAGES = ["objectnet-1.0/images", "images"]
MAPPINGS = ["objectnet-1.0/mappings", "mappings", "."]


def open_objectnet(spec: DatasetSpec) -> RowDataset[Sample]:
    """Read the folders that the mappings match with ImageNet, sorted by name; class names are lower-cased labels."""
    source_split(spec)
    images = existing(spec, IMAGES, "Unpack objectnet-1.0.zip there.")
    label_of_folder, overlap = (
        read_object(existing(spec, [f"{folder}/{file}" for folder in MAPPINGS], "It is part of objectnet-1.0.zip."))
        for file in ("folder_to_objectnet_label.json", "objectnet_to_imagenet_1k.json")
    )
    folders = sorted(folder for folder, label in label_of_folder.items() if str(label) in overlap)
    samples = [
        sample
        for label, folder in enumerate(folders)
        if (images / folder).is_dir()
        for sample in folder_samples(images / folder, label)
    ]
    names = tuple(str(label_of_folder[folder]).lower() for folder in folders)
    texts = read_class_texts(None, spec, names)
    return in_memory(class_info(spec, "classification", texts, images), samples)


LIST = "test_images_valid.txt"
SPECIES = "species.txt"


def open_birdsnap(spec: DatasetSpec) -> RowDataset[Sample]:
    """Read ``species.txt`` (tab-separated: id, common name, ..., folder) and the image list; both have a header."""
    source_split(spec)
    root = existing(spec, [SPECIES, f"birdsnap/{SPECIES}"]).parent
    species = [line.split("\t") for line in _lines(root / SPECIES)]
    if any(len(row) < 2 for row in species):
        raise DataError("{root} must have tab-separated columns of ids, names and folders.", root=root / SPECIES)
    label_of = {row[-1].lower(): label for label, row in enumerate(species)}
    finder = ImageFinder(root, ["{image}", "images/{image}"])
    samples = []
    for name in _lines(root / LIST):
        folder = name.split("/")[0].lower()
        if folder not in label_of:
            raise DataError(
                "{root}: the folder of {name!r} is not listed in {file}.", root=root / LIST, name=name, file=SPECIES
            )
        samples.append(Sample(name, finder.find(name), label=label_of[folder]))
    finder.raise_if_missing(root / LIST)
    texts = read_class_texts(None, spec, tuple(row[1] for row in species))
    return in_memory(class_info(spec, "classification", texts, root), samples)


def _lines(path: Path) -> list[str]:
    need_file(path, UserMessage("See `eyechart info birdsnap`."))
    return [line for line in split_lines(read_text(path))[1:] if line.strip()]


CLASSES = (
    "aeroplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat", "chair", "cow", "diningtable", "dog",
    "horse", "motorbike", "person", "pottedplant", "sheep", "sofa", "train", "tvmonitor",
)  # fmt: skip


def open_voc(spec: DatasetSpec) -> RowDataset[Sample]:
    """Read ``VOCdevkit/VOC2007``. Difficult objects are included, as in published scores."""
    settings = source_of(spec)
    base = Path(spec.root) / "VOCdevkit" / f"VOC{settings.get('year', '2007')}"
    path = base / "ImageSets" / "Main" / f"{source_split(spec)}.txt"
    need_file(path, UserMessage("Unpack the archives of Pascal VOC there."))
    names = [line.split()[0] for line in split_lines(read_text(path)) if line.strip()]
    if not all(name.replace("_", "").isalnum() for name in names):
        raise DataError("{path} must contain one image name per line.", path=path)
    crops = settings.get("crops", True)
    samples: list[Sample] = []
    for name in names:
        image = ImageRef.from_path(base / "JPEGImages" / f"{name}.jpg")
        objects = list(_objects(base, name))
        if crops:
            boxes = enumerate(objects)
            samples += [Sample(f"{name}/{i}", image.crop(*box), label=label) for i, (box, label) in boxes]
        else:
            samples.append(Sample(name, image, labels=tuple(sorted({label for _, label in objects}))))
    texts = read_class_texts(None, spec, CLASSES)
    return in_memory(class_info(spec, "classification" if crops else "multilabel", texts, base), samples)


def _objects(base: Path, name: str) -> Iterator[tuple[list[int], int]]:
    path = base / "Annotations" / f"{name}.xml"
    try:
        tree = ET.parse(path)  # noqa: S314 - Expat limits entity expansion and loads nothing from outside
        for item in tree.iterfind("object"):
            corners = [int(float(item.findtext(f"bndbox/{side}") or "")) for side in ("xmin", "ymin", "xmax", "ymax")]
            yield corners, CLASSES.index(item.findtext("name") or "")
    except (OSError, ET.ParseError, ValueError, OverflowError) as error:
        raise DataError("{path} is not a Pascal VOC annotation ({reason}).", path=path, reason=error) from error


def open_dummy(spec: DatasetSpec) -> RowDataset[Sample]:
    """Create the image, which is zeros after the transform as in CLIP_benchmark; its class is the first one."""
    from PIL import Image

    image = replace(from_pixels(Image.new("RGB", (SIDE, SIDE)), "blank image"), zeros=True)
    info = class_info(spec, "classification", read_class_texts(None, spec), "built in")
    return in_memory(info, (Sample("0", image, label=0),))
