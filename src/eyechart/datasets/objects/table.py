"""What every dataset in memory comes down to: rows with an image and a target, read again from the start each time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

from eyechart.datasets.classes import DEFAULT_TEMPLATES, ClassTexts, class_info, read_class_texts
from eyechart.datasets.content import digest_info
from eyechart.datasets.objects.pixels import image_of
from eyechart.datasets.rows import describe
from eyechart.datasets.text_lists import as_names
from eyechart.errors import DataError
from eyechart.types import DatasetInfo, DatasetSpec, Kind, Sample, digest_json


@dataclass(frozen=True)
class ObjectRow:
    """One row, as its source gives it."""

    image: Any
    target: Any
    """A label (a number or a class name), several labels, a caption, or several captions."""
    meta: Mapping[str, Any] = field(default_factory=dict)
    id: str = ""


@dataclass(frozen=True)
class ObjectRows:
    """All rows of a dataset, and what is known of their targets."""

    kind: Kind
    rows: Callable[[], Iterator[ObjectRow]]
    classnames: tuple[str, ...] = ()
    templates: tuple[str, ...] = ()
    by_name: bool = False
    """Whether labels are class names and not their numbers."""


@dataclass(frozen=True)
class ObjectDataset:
    """A dataset of the caller's: read from its object each time, and known to nobody but this call."""

    info: DatasetInfo
    source: ObjectRows
    token: str

    def shards(self) -> Sequence[ObjectShard]:
        """Return the one piece that there is."""
        return [ObjectShard(self.info.name, self)]

    def signature(self) -> str:
        """Return a text that no other call has: the object may hold something else by then."""
        return digest_json([digest_info(self.info), self.token])


@dataclass(frozen=True)
class ObjectShard:
    """All rows as samples."""

    name: str
    dataset: ObjectDataset

    def __iter__(self) -> Iterator[Sample]:
        source, name = self.dataset.source, self.dataset.info.name
        numbers = {text: number for number, text in enumerate(source.classnames)}
        for position, row in enumerate(source.rows()):
            sample = Sample(row.id or str(position), image_of(row.image, f"{name}[{position}]"), meta=row.meta)
            target = _target(source, row.target, numbers, f"{name}[{position}]")
            _check_range(target, len(self.dataset.info.classnames), f"{name}[{position}]")
            yield replace(sample, **target)


def make_dataset(spec: DatasetSpec, source: ObjectRows, kind: str, token: str) -> ObjectDataset:
    """Describe rows as a dataset: with prompts if they have classes."""
    where = f"object of {kind}"
    if source.kind in ("retrieval", "images"):
        return ObjectDataset(describe(spec, source.kind, where), source, token)
    blank = bool(spec.options.get("allow_blank_classnames"))
    names = as_names(list(source.classnames), spec.name, allow_blank=blank)
    read = read_class_texts(None, replace(spec, language="en"), names)
    texts = replace(read, templates=source.templates, notes=()) if source.templates else read
    # Nobody but the caller knows in which language his names are.
    templates = texts.templates or DEFAULT_TEMPLATES
    texts = ClassTexts(texts.classnames, templates, texts.class_prompts, texts.notes)
    return ObjectDataset(class_info(spec, source.kind, texts, where), source, token)


def _target(source: ObjectRows, target: Any, numbers: Mapping[str, int], where: str) -> dict[str, Any]:
    """Read the target of a row."""
    if source.kind == "images":
        return {}
    if source.kind == "retrieval":
        return {"texts": _captions(target, where)}
    labels = _listed(target) if source.kind == "multilabel" else [target]
    found = tuple(_label(label, numbers if source.by_name else None, where) for label in labels)
    if len(set(found)) < len(found):
        raise DataError(
            f"{where}: its labels {labels!r:.60} name a class twice.", advice="Each is the number of a class."
        )
    return {"labels": found} if source.kind == "multilabel" else {"label": found[0]}


def _check_range(target: Mapping[str, Any], count: int, where: str) -> None:
    for label in target.get("labels", [target.get("label", 0)]):
        if label < 0 or (count and label >= count):
            raise DataError(
                f"{where} has label {label}, but there are {count} class names (0 to {count - 1}).",
                advice="classnames has a name for each label, in their order; leave images without a label out.",
            )


def _captions(target: Any, where: str) -> tuple[str, ...]:
    texts = [target] if isinstance(target, str) or not hasattr(target, "__iter__") else _listed(target)
    if not all(isinstance(text, str) for text in texts):
        raise DataError(f"{where}: its captions are no texts.", advice="Each image has a caption, or a list of them.")
    return tuple(texts)


def _listed(target: Any) -> list[Any]:
    return list(target.tolist() if hasattr(target, "tolist") else target)


def _label(label: Any, numbers: Mapping[str, int] | None, where: str) -> int:
    if numbers is not None:
        if label not in numbers:
            raise DataError(f"{where}: there is no class {label!r}.", advice="Its label is not among the classnames.")
        return numbers[label]
    value = label.item() if prod(getattr(label, "shape", (0,))) == 1 else label
    if isinstance(value, bool) or not isinstance(value, int):
        raise DataError(f"{where}: {label!r:.60} is no label.", advice="A label is the number of a class.")
    return value
