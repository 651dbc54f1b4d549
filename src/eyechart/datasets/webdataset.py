"""The webdataset folder of CLIP_benchmark.

    ROOT/classnames.txt  ROOT/zeroshot_classification_templates.txt  ROOT/dataset_type.txt
    ROOT/{split}/nshards.txt  ROOT/{split}/0.tar  1.tar ...

A sample is a picture (.webp, .png, .jpg, .jpeg) and its target: .cls (a number), .npy (a vector of zeros and ones)
or .txt (one caption a line). Lists and captions in another language carry it in their name: classnames.de.txt,
s0000001.de.txt.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path

import numpy as np

from eyechart.datasets.classes import MAIN_LANGUAGE, languages_in, read_class_texts
from eyechart.datasets.tarshard import Fields, MakeSample, TarShard
from eyechart.errors import DataError
from eyechart.media import Picture
from eyechart.types import DatasetInfo, DatasetSpec, Kind, Sample, digest_json

_KINDS: dict[str, Kind] = {"": "classification", "retrieval": "retrieval", "multilabel": "multilabel"}


@dataclass(frozen=True)
class WebDataset:
    """A split of a webdataset folder."""

    spec: DatasetSpec
    root: Path

    @cached_property
    def info(self) -> DatasetInfo:
        """Read the small files of the folder."""
        kind = read_kind(self.root)
        if kind == "retrieval":
            return DatasetInfo(self.spec.name, kind, self.spec.split, self.spec.language, source=str(self.root))
        texts = read_class_texts(self.root, self.spec)
        if not texts.classnames and self.spec.language not in languages_in(self.root):
            known = ", ".join(languages_in(self.root)) or "none"
            raise DataError(
                f"{self.spec.name} has no class names for language {self.spec.language!r} (it has: {known}).",
                advice=f"Add classnames.{self.spec.language}.txt and templates to {self.root}, "
                "or use --custom_classname_file and --custom_template_file.",
            )
        return DatasetInfo(
            name=self.spec.name,
            kind=kind,
            split=self.spec.split,
            language=self.spec.language,
            classnames=texts.classnames,
            templates=texts.templates,
            class_prompts=texts.class_prompts,
            source=str(self.root),
            notes=texts.notes,
        )

    def shards(self) -> Sequence[TarShard]:
        """List the tar files that nshards.txt counts."""
        folder = self.root / self.spec.split
        make = _maker(read_kind(self.root), self.spec.language)
        return [TarShard(folder / f"{i}.tar", make) for i in range(read_count(folder))]

    def signature(self) -> str:
        """Digest the sizes of the shards."""
        return digest_json([shard.path.stat().st_size for shard in self.shards()])


def open_webdataset(spec: DatasetSpec) -> WebDataset:
    """Open a webdataset folder and check that all its shards are there."""
    root = Path(spec.root)
    if not root.is_dir():
        raise DataError(f"There is no dataset folder {root}.", advice="Check --dataset_root.")
    dataset = WebDataset(spec, root)
    missing = [shard.path for shard in dataset.shards() if not shard.path.is_file()]
    if missing:
        raise DataError(
            f"{spec.name}: {len(missing)} shards are missing, the first is {missing[0]}.",
            advice="nshards.txt counts them: complete the folder, or correct the number.",
        )
    return dataset


def read_kind(root: Path) -> Kind:
    """Read dataset_type.txt; without it the dataset is for classification."""
    path = root / "dataset_type.txt"
    text = path.read_text(encoding="utf-8").strip().lower() if path.is_file() else ""
    if text not in _KINDS:
        raise DataError(f"{path} says {text!r}.", advice="It may say retrieval or multilabel, or be absent.")
    return _KINDS[text]


def read_count(folder: Path) -> int:
    """Read the number of shards of a split."""
    path = folder / "nshards.txt"
    if not path.is_file():
        splits = sorted(found.parent.name for found in folder.parent.glob("*/nshards.txt"))
        there = f"it has the splits {', '.join(splits)}" if splits else "no folder in it has nshards.txt"
        raise DataError(
            f"{folder.parent} has no split {folder.name!r}: {there}.", advice="Check --split and --dataset_root."
        )
    try:
        count = int(path.read_text(encoding="utf-8").strip())
    except ValueError as error:
        raise DataError(f"{path} must hold one number.") from error
    if count < 1:
        raise DataError(f"{path} says {count}: a split has at least one shard.")
    return count


def _maker(kind: Kind, language: str) -> MakeSample:
    if kind == "classification":
        return _with_label
    if kind == "multilabel":
        return _with_labels
    return partial(_with_captions, member="txt" if language == MAIN_LANGUAGE else f"{language}.txt")


def _with_label(name: str, picture: Picture, fields: Fields) -> Sample:
    if "cls" not in fields:
        raise DataError(f"{picture.source}: the sample has no .cls member.", advice="Its label goes there.")
    try:
        label = int(fields["cls"].decode("ascii").strip())
    except ValueError as error:
        raise DataError(f"{picture.source}: the label {fields['cls'][:20]!r} is not a number.") from error
    return Sample(name, picture, label=label)


def _with_labels(name: str, picture: Picture, fields: Fields) -> Sample:
    if "npy" not in fields:
        raise DataError(f"{picture.source}: the sample has no .npy member.", advice="Its labels go there.")
    try:
        vector = np.load(io.BytesIO(fields["npy"]), allow_pickle=False)
    except (ValueError, EOFError, OSError) as error:
        raise DataError(f"{picture.source}: cannot read its .npy ({error}).") from error
    if vector.ndim != 1 or not np.isin(vector, (0, 1)).all():
        raise DataError(f"{picture.source}: its .npy must be a vector of zeros and ones.")
    return Sample(name, picture, labels=tuple(int(i) for i in np.flatnonzero(vector)))


def _with_captions(name: str, picture: Picture, fields: Fields, *, member: str) -> Sample:
    if member not in fields:
        other = sorted(field for field in fields if field.endswith("txt"))
        advice = f"It has {', '.join(other)}: choose another --language." if other else "Its captions go there."
        raise DataError(f"{picture.source}: the sample has no .{member} member.", advice=advice)
    try:
        text = fields[member].decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError(f"{picture.source}: its captions are not UTF-8 ({error.reason}).") from error
    return Sample(name, picture, texts=tuple(text.splitlines()))
