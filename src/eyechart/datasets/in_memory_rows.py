"""Rows of in-memory datasets: images as PIL objects, arrays, paths or bytes, with labels or captions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from eyechart.datasets.class_texts import DEFAULT_TEMPLATES, as_names, class_info, read_class_texts
from eyechart.datasets.image_finder import from_pixels
from eyechart.datasets.image_table import class_numbers
from eyechart.datasets.row_dataset import describe, digest_info, located
from eyechart.errors import DataError, UsageError, first_line, unknown_name
from eyechart.io.images import ImageRef, known_range, to_rgb
from eyechart.types import DatasetInfo, DatasetSpec, Kind, Sample, digest_json

ADVICE = "An image must be a PIL image, a uint8 array (height, width, 3), a path, or the bytes of an image file."

MODES = ("1", "L", "LA", "I;16", "P", "RGB", "RGBA")
"""Modes that PNG supports."""


def image_of(thing: Any, source: str) -> ImageRef:
    """Create a reference to an image in any form; pixels become lossless PNG. Errors do not name the source."""
    if isinstance(thing, ImageRef):
        return thing
    if isinstance(thing, Image.Image):
        return _encoded(thing, source)
    if isinstance(thing, str | Path):
        return ImageRef.from_path(Path(thing))
    if isinstance(thing, bytes | bytearray):
        return ImageRef(source, data=bytes(thing))
    if isinstance(thing, Mapping) and thing.keys() & {"bytes", "path"}:  # the form of Hugging Face datasets
        return image_of(thing["bytes"] if thing.get("bytes") else thing.get("path"), source)
    if hasattr(thing, "detach") or isinstance(thing, np.ndarray):
        return _encoded(Image.fromarray(_pixels(thing)), source)
    raise DataError("a {type} is not an image.", advice=ADVICE, type=type(thing).__name__)


def _encoded(image: Image.Image, source: str) -> ImageRef:
    """Encode an image in a mode that PNG supports; other modes are converted as if read from a file."""
    try:
        if not all(image.size):
            raise DataError("the image has {width} x {height} pixels.", width=image.width, height=image.height)
        return from_pixels(image if image.mode in MODES else to_rgb(known_range(image, source)), source)
    except (OSError, ValueError) as error:  # lazily read from a closed or truncated file
        raise DataError("cannot read the image ({reason}).", reason=first_line(error)) from error


def _pixels(thing: Any) -> NDArray[np.uint8]:
    """Return an array or tensor as height x width x channels; tensors have their channels first."""
    array = thing.numpy(force=True) if hasattr(thing, "detach") else thing
    if array.dtype != np.uint8:
        raise DataError(
            "the value range of a {dtype} image is unknown.",
            advice="Pass uint8 arrays or PIL images: the model preprocesses them itself. Omit ToTensor and Normalize.",
            dtype=array.dtype,
        )
    if array.ndim == 3 and array.shape[0] in (1, 3) and (hasattr(thing, "detach") or array.shape[2] not in (1, 3, 4)):
        array = array.transpose(1, 2, 0)
    if array.ndim == 3 and array.shape[2] == 1:
        array = array[:, :, 0]
    if array.ndim not in (2, 3) or (array.ndim == 3 and array.shape[2] not in (3, 4)):
        raise DataError("an array of shape {shape} is not an image.", advice=ADVICE, shape=array.shape)
    return np.ascontiguousarray(array)


@dataclass(frozen=True)
class ObjectRow:
    """One row of the source."""

    image: Any
    target: Any
    """A label (an index or a class name), several labels, a caption, or several captions."""
    meta: Mapping[str, Any] = field(default_factory=dict)
    id: str = ""


@dataclass(frozen=True)
class ObjectRows:
    """All rows of a dataset, and the form of their targets."""

    kind: Kind
    rows: Callable[[], Iterator[ObjectRow]]
    classnames: tuple[str, ...] = ()
    templates: tuple[str, ...] = ()
    by_name: bool = False
    """True if labels are class names, False if they are indices."""
    numbers: Mapping[str, int] | None = None
    """Class indices of names; None means the positions in ``classnames``."""


@dataclass(frozen=True)
class ObjectDataset:
    """A dataset read on every pass from files, or from the caller's object with an identity unique to this call.

    Without a token it has no identity but the bytes of its images.
    """

    info: DatasetInfo
    source: ObjectRows
    token: str | None

    @property
    def name(self) -> str:
        """Its name as a shard."""
        return self.info.name

    def shards(self) -> Sequence[ObjectDataset]:
        """Return itself, the only shard."""
        return [self]

    def signature(self) -> str | None:
        """Digest the description and the identity of the rows."""
        return None if self.token is None else digest_json([digest_info(self.info), self.token])

    def __iter__(self) -> Iterator[Sample]:
        source, info, numbers = self.source, self.info, self.source.numbers
        if source.by_name and numbers is None:
            numbers = {text: number for number, text in enumerate(source.classnames)}
        for position, row in enumerate(source.rows()):
            where = f"{info.name}[{position}]"
            with located(where):
                image = image_of(row.image, where)
                target = read_target(source.kind, row.target, numbers, len(info.classnames))
            yield Sample(row.id or str(position), image, meta=row.meta, **target)


def make_dataset(
    spec: DatasetSpec, source: ObjectRows, where: object, token: str, folder: Path | None = None
) -> ObjectDataset:
    """Describe rows as a dataset, with prompts if they have classes.

    ``where`` they come from is stated in the result; ``token`` is their identity. ``folder`` may contain class names
    and templates; without one they are English.
    """
    if source.kind in ("retrieval", "images"):
        return ObjectDataset(describe(spec, source.kind, where), source, token)
    blank = bool(spec.options.get("allow_blank_classnames"))
    names = as_names(list(source.classnames), spec.name, allow_blank=blank)
    texts = read_class_texts(folder, spec if folder else replace(spec, language="en"), names)
    if source.templates:
        texts = replace(texts, templates=source.templates, notes=())
    elif not texts.templates and not folder:  # the language of the caller's class names is unknown
        texts = replace(texts, templates=DEFAULT_TEMPLATES)
    if folder and names and texts.classnames:
        number_of = class_numbers(folder, names, names, texts.classnames)
        if source.by_name:
            source = replace(source, numbers=number_of)
        elif number_of != dict(zip(names, range(len(names)), strict=True)):
            raise DataError("{name}: classnames.txt lists the classes in another order than the data.", name=spec.name)
    return ObjectDataset(class_info(spec, source.kind, texts, where), source, token)


def read_target(kind: Kind, target: Any, numbers: Mapping[str, int] | None, n_classes: int) -> dict[str, Any]:
    """Return the fields of a sample that its target fills: label, labels or texts, checked; ``numbers`` are by name."""
    if kind == "images":
        return {}
    if kind == "retrieval":
        texts = [target] if isinstance(target, str) or not hasattr(target, "__iter__") else _listed(target)
        if not all(isinstance(text, str) for text in texts):
            advice = "Each image needs a caption or a list of captions."
            raise DataError("the captions are not texts.", advice=advice)
        return {"texts": tuple(texts)}
    labels = _listed(target) if kind == "multilabel" else [target]
    found = tuple(_label(label, numbers) for label in labels)
    if len(set(found)) < len(found):
        raise DataError(
            "the labels {labels!r:.60} contain a class twice.",
            advice="Each label must be a distinct class index.",
            labels=labels,
        )
    for label in found:
        if label < 0 or (n_classes and label >= n_classes):
            raise DataError(
                "it has label {label}, but there are {n} class names (0 to {last}).",
                advice="classnames needs one name per label, in label order; omit images without a label.",
                label=label,
                n=n_classes,
                last=n_classes - 1,
            )
    return {"labels": found} if kind == "multilabel" else {"label": found[0]}


def _listed(target: Any) -> list[Any]:
    return list(target.tolist() if hasattr(target, "tolist") else target)


def _label(label: Any, numbers: Mapping[str, int] | None) -> int:
    if numbers is not None:
        if label not in numbers:
            advice = "The label must be one of the classnames."
            raise DataError("unknown class {label!r}.", advice=advice, label=label)
        return numbers[label]
    value = label.item() if prod(getattr(label, "shape", (0,))) == 1 else label
    if isinstance(value, bool) or not isinstance(value, int):
        raise DataError("{label!r:.60} is not a label.", advice="A label must be a class index.", label=label)
    return value


TARGETS = ("labels", "captions")
FIELDS = frozenset({"images", *TARGETS})
"""Keys that distinguish lists from a mapping of splits."""
KNOWN = ("name", "images", *TARGETS, "classnames", "templates", "ids", "meta")


def read_lists(name: str, data: Mapping[str, Any]) -> ObjectRows:
    """Check that lists (``{"images": [...], "labels": [...]}``) match; detect several labels an image, and names."""
    for key in data:
        if key not in KNOWN:
            raise unknown_name("list of a dataset", str(key), KNOWN)
    targets = [key for key in TARGETS if data.get(key) is not None]
    if "images" not in data or len(targets) != 1:
        advice = "Required: images, and either labels or captions."
        raise DataError("{name} has the keys {given}.", advice=advice, name=name, given=", ".join(map(str, data)))
    target = targets[0]
    check_no_matrix(data.get("labels"))
    columns = {key: _as_list(data[key]) for key in ("images", target, "ids") if data.get(key) is not None}
    meta = {str(key): _as_list(values) for key, values in dict(data.get("meta") or {}).items()}
    for key, values in (*columns.items(), *meta.items()):
        if len(values) != len(columns["images"]):
            raise DataError(
                "{name}: {n} images, but {m} {key}.", name=name, n=len(columns["images"]), m=len(values), key=key
            )

    def rows() -> Iterator[ObjectRow]:
        for i, (image, value) in enumerate(zip(columns["images"], columns[target], strict=True)):
            own = {key: values[i] for key, values in meta.items()}
            yield ObjectRow(image, value, own, str(columns["ids"][i]) if "ids" in columns else "")

    templates = texts_of("templates", data.get("templates"))
    if target == "captions":
        return ObjectRows("retrieval", rows, templates=templates)
    labels = columns[target]
    several = bool(labels) and isinstance(labels[0], list | tuple)
    if any(isinstance(label, list | tuple) is not several for label in labels):
        raise DataError(
            "{name}: some images have a list of labels, others a single label.",
            advice="Pass a list for each image.",
            name=name,
        )
    each = [label for row in labels for label in (row if several else (row,))]
    by_name = bool(each) and isinstance(each[0], str)
    found = tuple(sorted(set(map(str, each)))) if by_name else ()
    classnames = texts_of("classnames", data.get("classnames")) or found
    return ObjectRows("multilabel" if several else "classification", rows, classnames, templates, by_name)


def texts_of(what: str, values: Any) -> tuple[str, ...]:
    """Return one text or several as a tuple."""
    if isinstance(values, Mapping | Set):
        advice = "Its order must be that of the labels."
        raise UsageError("{what} must be a list, not a {kind}.", advice=advice, what=what, kind=type(values).__name__)
    return (values,) if isinstance(values, str) else tuple(map(str, () if values is None else values))


def check_no_matrix(labels: Any) -> None:
    """Reject a one-hot matrix, which would be misread as class indices."""
    if getattr(labels, "ndim", 1) > 1:
        raise UsageError(
            "`labels` has the shape {shape}; expected one dimension.",
            advice="Labels are class indices: use labels.argmax(1) for one-hot rows, or one list of indices per image "
            "for multi-label data.",
            shape=tuple(labels.shape),
        )


def _as_list(values: Any) -> Any:
    """Convert an array or tensor of numbers to a list; images in one array are unchanged."""
    if isinstance(values, str | Path):
        return [values]
    if hasattr(values, "tolist") and values.ndim < 3:
        return values.tolist()
    return values if hasattr(values, "__len__") else list(values)
