"""The webdataset folder of CLIP_benchmark, on disk or elsewhere.

    ROOT/classnames.txt  ROOT/zeroshot_classification_templates.txt  ROOT/dataset_type.txt
    ROOT/{split}/nshards.txt  ROOT/{split}/0.tar  1.tar ...

A sample is an image (.webp, .png, .jpg, .jpeg) and its target: .cls (a number), .npy (a vector of zeros and ones)
or .txt (one caption a line). Lists and captions in another language carry it in their name: classnames.de.txt,
s0000001.de.txt.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from eyechart.datasets.classes import CLASSNAMES, TEMPLATES, class_info, read_class_texts
from eyechart.datasets.content import digest_info
from eyechart.datasets.layout import is_url
from eyechart.datasets.remote import Files, open_files
from eyechart.datasets.rows import describe
from eyechart.datasets.text_lists import languages_in
from eyechart.datasets.wds.targets import objective_texts, target_maker
from eyechart.datasets.wds.tarshard import MakeSample, iter_tar
from eyechart.errors import DataError, LanguageError
from eyechart.io.progress import NoProgress, Progress
from eyechart.io.untrusted import read_text
from eyechart.languages import canonical, find_same, is_main
from eyechart.types import DatasetInfo, DatasetSpec, Kind, Notice, Sample, digest_json

MAX_SHARDS = 100_000
_KINDS: dict[str, Kind] = {"": "classification", "retrieval": "retrieval", "multilabel": "multilabel"}


@dataclass(frozen=True)
class FileShard:
    """One tar file of a split, fetched before it is read."""

    files: Files
    file: str
    make: MakeSample

    @property
    def name(self) -> str:
        """Return the file's name."""
        return self.file.rpartition("/")[2]

    def __iter__(self) -> Iterator[Sample]:
        return iter_tar(self.files.fetch(self.file, NoProgress()), self.make)

    def outline(self) -> Iterator[Sample]:
        """Stream the samples without reading an image."""
        return iter_tar(self.files.fetch(self.file, NoProgress()), self.make, outline=True)


@dataclass(frozen=True)
class WebDataset:
    """A split of a webdataset folder."""

    spec: DatasetSpec
    files: Files

    @cached_property
    def info(self) -> DatasetInfo:
        """Read the small files of the folder; shards that nshards.txt does not count are noted."""
        found = self._description()
        unread = self.files.unread(self.spec.split, len(self._sizes))
        if not unread:
            return found
        text = (
            f"nshards.txt says {len(self._sizes)}, so {len(unread)} more tar files are not read, such as {unread[0]}."
        )
        return replace(found, notes=(*found.notes, Notice("unread_shards", len(unread), text)))

    def _description(self) -> DatasetInfo:
        spec, kind = self.spec, self._kind
        if kind == "retrieval":
            return describe(spec, kind, self.files.address)
        folder = self._small_files()
        texts = read_class_texts(folder, spec)
        if not texts.classnames and not find_same(spec.language, languages_in(folder)):
            known = ", ".join(languages_in(folder)) or "none"
            raise LanguageError(
                f"{spec.name} has no class names for language {spec.language!r} (it has: {known}).",
                advice=f"Add classnames.{spec.language}.txt and templates to {self.files.address}, "
                "or use --custom_classname_file and --custom_template_file.",
            )
        return class_info(spec, kind, objective_texts(texts, spec), self.files.address)

    @cached_property
    def _kind(self) -> Kind:
        return read_kind(self.files)

    @cached_property
    def _sizes(self) -> dict[str, int | None]:
        names = (f"{self.spec.split}/{i}.tar" for i in range(read_count(self.files, self.spec.split)))
        return {name: self.files.size(name) for name in names}

    def _small_files(self) -> Path:
        """Fetch the lists of class names and templates and return the folder that they are in."""
        languages = [] if is_main(self.spec.language) else [self.spec.language, canonical(self.spec.language)]
        for stem in (CLASSNAMES, TEMPLATES):
            self.files.small(f"{stem}.txt")
            for language in dict.fromkeys(languages):
                self.files.small(f"{stem}.{language}.txt")
        return self.files.folder

    def shards(self) -> Sequence[FileShard]:
        """List the tar files that nshards.txt counts."""
        make = target_maker(self._kind, self.spec, len(self.info.classnames) if self._kind == "multilabel" else 0)
        return [FileShard(self.files, name, make) for name in self._sizes]

    def signature(self) -> str:
        """Digest the description and the versions of the shards; nothing is fetched that has one where it lies."""
        return digest_json([digest_info(self.info), [self.files.version(name) for name in self._sizes]])

    def fetch(self, progress: Progress) -> None:
        """Bring all shards here."""
        for name in self._sizes:
            self.files.fetch(name, progress)

    def check(self) -> None:
        """Refuse a folder that lacks shards."""
        missing = [name for name, size in self._sizes.items() if size is None]
        if missing:
            raise DataError(
                f"{self.spec.name}: {len(missing)} shards are missing, the first is {self.files.address}/{missing[0]}.",
                advice="nshards.txt counts them: complete the folder, or correct the number.",
            )


def open_webdataset(spec: DatasetSpec) -> WebDataset:
    """Open a webdataset folder and check that all its shards are there."""
    files = open_files(spec.root, spec.options)
    dataset = WebDataset(spec, files)
    dataset.check()
    return dataset


def read_kind(files: Files) -> Kind:
    """Read dataset_type.txt; without it the dataset is for classification."""
    path = files.small("dataset_type.txt")
    text = read_text(path).strip().lower() if path else ""
    if text not in _KINDS:
        raise DataError(f"{path} says {text[:80]!r}.", advice="It may say retrieval or multilabel, or be absent.")
    return _KINDS[text]


def read_count(files: Files, split: str) -> int:
    """Read the number of shards of a split."""
    path = files.small(f"{split}/nshards.txt")
    if path is None:
        raise _no_split(files, split)
    try:
        count = int(read_text(path).strip())
    except ValueError as error:
        raise DataError(f"{path} must hold one number.") from error
    if not 1 <= count <= MAX_SHARDS:
        raise DataError(f"{path} says {count}: a split has at least one shard, and at most {MAX_SHARDS}.")
    return count


def _no_split(files: Files, split: str) -> DataError:
    """Tell a missing split from a missing dataset."""
    if not files.exists():
        kind = "at" if is_url(files.address) else "folder"
        return DataError(f"There is no dataset {kind} {files.address}.", advice="Check the name and --dataset_root.")
    splits = files.splits()
    there = f"it has the splits {', '.join(splits)}" if splits else "no folder in it has nshards.txt"
    return DataError(f"{files.address} has no split {split!r}: {there}.", advice="Check --split and --dataset_root.")
