"""Webdataset folders: in CLIP_benchmark's layout, on disk or remote, and tar files as other tools write them."""

import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from eyechart.datasets.class_texts import CLASSNAMES, TEMPLATES, class_info, languages_in, read_class_texts
from eyechart.datasets.locations import files_by_split, is_url, source_of
from eyechart.datasets.remote import Files, open_files
from eyechart.datasets.row_dataset import describe, digest_info
from eyechart.datasets.tar_shards import Fields, MakeSample, iter_groups, iter_tar
from eyechart.errors import DataError, LanguageError
from eyechart.io.images import ImageRef
from eyechart.io.progress import NoProgress, Progress
from eyechart.io.safe_parse import MAX_LINE, parse_json, read_text, split_lines
from eyechart.languages import MAIN, canonical, find_same, is_main
from eyechart.messages import UserMessage
from eyechart.types import DatasetInfo, DatasetSpec, Kind, Notice, Sample, digest_json


def _with_label(name: str, image: ImageRef, fields: Fields) -> Sample:
    return Sample(name, image, label=_label(fields))


def _label(fields: Fields) -> int:
    if "cls" not in fields:
        raise DataError("the sample has no .cls member.", advice="It must contain the label.")
    try:
        return int(fields["cls"].decode("ascii").strip())
    except ValueError as error:
        raise DataError("the label {value!r} is not a number.", value=fields["cls"][:20]) from error


def _with_columns(
    name: str, image: ImageRef, fields: Fields, *, columns: tuple[str, ...], objective: str | None
) -> Sample:
    values = _vector(fields, "It must contain the metadata.")
    if len(values) != len(columns):
        raise DataError(".npy has {n} values for {m} columns.", n=len(values), m=len(columns))
    meta: Mapping[str, Any] = {column: value.item() for column, value in zip(columns, values, strict=True)}
    if not objective:
        return Sample(name, image, label=_label(fields), meta=meta)
    value = str(meta[objective])[:20]
    try:
        label = int(meta[objective])
    except (TypeError, ValueError, OverflowError) as error:  # includes NaN and infinity
        raise DataError("the label {value!r} is not a number.", value=value) from error
    if label != meta[objective]:
        raise DataError("the label {value} is not an integer.", value=value)
    return Sample(name, image, label=label, meta=meta)


def _with_labels(name: str, image: ImageRef, fields: Fields, *, n_classes: int) -> Sample:
    vector = _vector(fields, "It must contain the labels.")
    if len(vector) != n_classes:
        raise DataError(
            "the .npy member has {n} values for {n_classes} classes.",
            advice="The class list does not match the labels: check classnames.txt.",
            n=len(vector),
            n_classes=n_classes,
        )
    if not np.isin(vector, (0, 1)).all():
        raise DataError("the .npy member must be a vector of zeros and ones.")
    return Sample(name, image, labels=tuple(int(i) for i in np.flatnonzero(vector)))


def _vector(fields: Fields, advice: str) -> np.ndarray:
    if "npy" not in fields:
        raise DataError("the sample has no .npy member.", advice=advice)
    try:
        vector = np.load(io.BytesIO(fields["npy"]), allow_pickle=False)
    except (ValueError, EOFError, OSError, SyntaxError, TypeError, MemoryError, RecursionError) as error:
        # numpy parses the header as Python text, and it may claim any size.
        raise DataError("cannot read the .npy member ({reason}).", reason=error) from error
    if not isinstance(vector, np.ndarray) or vector.ndim != 1:
        raise DataError("the .npy member must be a vector of zeros and ones.")
    return vector


def _with_captions(
    name: str, image: ImageRef, fields: Fields, *, language: str, plain: str, whole: bool = False
) -> Sample:
    # ``txt`` is in the plain language, ``de.txt`` German, under any code for it.
    spelling = find_same(language, [field.removesuffix(".txt") for field in fields if field.endswith(".txt")])
    member = spelling and f"{spelling}.txt"
    if find_same(language, [plain]) and "txt" in fields:
        member = "txt"
    if member is None:
        other = sorted(field for field in fields if field.endswith("txt"))
        wanted = "txt" if is_main(language) else f"{language}.txt"
        advice = (
            UserMessage("It has {other}: select another {--language}.", other=", ".join(other))
            if other
            else "It must contain the captions."
        )
        raise DataError("the sample has no .{wanted} member.", advice=advice, wanted=wanted)
    size = len(fields[member])
    if size > MAX_LINE:
        raise DataError("the captions have {n} bytes, more than the limit of {max_line}.", n=size, max_line=MAX_LINE)
    if (exact := f"{member}{EXACT}") in fields:
        return Sample(name, image, texts=_exact_captions(fields[exact], exact))
    try:
        text = fields[member].decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError("the captions are not UTF-8 ({reason}).", reason=error.reason) from error
    if "\0" in text:
        raise DataError("the captions contain zero bytes.", advice="The archive is damaged.")
    return Sample(name, image, texts=(text.strip(),) if whole else tuple(split_lines(text)))


def _exact_captions(data: bytes, member: str) -> tuple[str, ...]:
    try:
        texts = parse_json(data)
    except ValueError as error:
        raise DataError("the .{member} member is not valid JSON ({reason}).", member=member, reason=error) from error
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise DataError("the .{member} member must be a list of texts.", member=member)
    return tuple(texts)


# The webdataset folder of CLIP_benchmark, local or remote.
#
#     ROOT/classnames.txt  ROOT/zeroshot_classification_templates.txt  ROOT/dataset_type.txt
#     ROOT/{split}/nshards.txt  ROOT/{split}/0.tar  1.tar ...
#
# Other tools write tar files without nshards.txt: in the root (img2dataset, open_clip: 00000.tar), in the folder of a
# split, or with the split in their names (Hugging Face: data/test-000.tar). All of a split are read, in the order of
# their names; the members of the first sample decide the kind, and a .txt is one caption.
#
# A sample is an image (.webp, .png, .jpg, .jpeg) and its target: .cls (a number), .npy (a vector of zeros and ones)
# or .txt (one caption per line; .txt.json has them exactly if they are not lines). Lists and captions in another
# language have it in their name: classnames.de.txt, s0000001.de.txt.


EXACT = ".json"
"""Suffix of the member with the exact captions, a JSON list, where they are not plain lines."""
MAX_SHARDS = 100_000
_KINDS: dict[str, Kind] = {"": "classification", "retrieval": "retrieval", "multilabel": "multilabel"}


@dataclass(frozen=True)
class FileShard:
    """One tar file of a split, downloaded before it is read."""

    files: Files
    file: str
    make: MakeSample

    @property
    def name(self) -> str:
        """The file's name."""
        return self.file.rpartition("/")[2]

    def __iter__(self) -> Iterator[Sample]:
        return iter_tar(self.files.fetch(self.file, NoProgress()), self.make)

    def outline(self) -> Iterator[Sample]:
        """Stream the samples without reading images."""
        return iter_tar(self.files.fetch(self.file, NoProgress()), self.make, outline=True)


@dataclass(frozen=True)
class WebDataset:
    """A split of a webdataset folder."""

    spec: DatasetSpec
    files: Files

    @cached_property
    def info(self) -> DatasetInfo:
        """Read the small files of the folder; a notice reports shards that nshards.txt does not count."""
        found = describe(self.spec, self._kind, self.files.address) if self._kind == "retrieval" else self._class_info()
        unread = self.files.unread(self.spec.split, len(self._sizes)) if not self._uncounted else []
        if not unread:
            return found
        text = UserMessage(
            "nshards.txt counts {n} shards, so {n_unread} more tar files are not read, such as {first}.",
            n=len(self._sizes),
            n_unread=len(unread),
            first=unread[0],
        )
        return replace(found, notes=(*found.notes, Notice("unread_shards", len(unread), text)))

    def _class_info(self) -> DatasetInfo:
        """Describe the classes, after downloading the lists of their names and templates."""
        spec, folder = self.spec, self.files.folder
        languages = [] if is_main(spec.language) else [spec.language, canonical(spec.language)]
        for stem in (CLASSNAMES, TEMPLATES):
            for suffix in ("", *(f".{language}" for language in dict.fromkeys(languages))):
                self.files.small(f"{stem}{suffix}.txt")
        texts = read_class_texts(folder, spec)
        if not texts.classnames and not find_same(spec.language, languages_in(folder)):
            raise LanguageError(
                "{name} has no class names for language {language!r} (available: {list}).",
                advice="Add {file} and templates to {address}, or use "
                "{--custom_classname_file} and {--custom_template_file}.",
                name=spec.name,
                language=spec.language,
                file=f"{CLASSNAMES}.txt" if is_main(spec.language) else f"{CLASSNAMES}.{spec.language}.txt",
                list=", ".join(languages_in(folder)) or "none",
                address=self.files.address,
            )
        if objective := source_of(spec).get("objective"):  # its texts are written as ``objective:text``
            own = f"{objective}:"
            names, templates = (
                tuple(text.removeprefix(own) for text in listed if text.startswith(own))
                for listed in (texts.classnames, texts.templates)
            )
            texts = replace(texts, classnames=names, templates=templates)
        return class_info(spec, self._kind, texts, self.files.address)

    @cached_property
    def _kind(self) -> Kind:
        """The kind in dataset_type.txt; without it the dataset is for classification, or as its members say."""
        path = self.files.small("dataset_type.txt")
        if path is None and self._uncounted:
            _, members = next(iter_groups(self.files.folder / self._uncounted[0]))
            captions = any(name.endswith("txt") for name in members)
            return "classification" if "cls" in members else "retrieval" if captions else "multilabel"
        text = read_text(path).strip().lower() if path else ""
        if text not in _KINDS:
            raise DataError(
                "{path} contains the unknown dataset type {text!r}.",
                advice="Supported: retrieval, multilabel, or no such file.",
                path=path,
                text=text[:80],
            )
        return _KINDS[text]

    @cached_property
    def _uncounted(self) -> list[str]:
        """The tar files of the split in a local folder without nshards.txt."""
        if self.files.small(f"{self.spec.split}/nshards.txt"):
            return []
        found = self._tars().get(self.spec.split, [])
        return [path.relative_to(self.files.folder).as_posix() for path in found[:MAX_SHARDS]]

    def _tars(self) -> dict[str, list[Path]]:
        return {} if is_url(self.spec.root) else files_by_split(self.files.folder, ".tar")

    @cached_property
    def _sizes(self) -> dict[str, int | None]:
        """The size of each shard that nshards.txt counts, or that is there; None for a missing one."""
        split = self.spec.split
        if self._uncounted:
            return {name: self.files.size(name) for name in self._uncounted}
        path = self.files.small(f"{split}/nshards.txt")
        if path is None:
            raise self._no_split()
        try:
            count = int(read_text(path).strip())
        except ValueError as error:
            raise DataError("{path} must contain one number.", path=path) from error
        if not 1 <= count <= MAX_SHARDS:
            raise DataError(
                "{path} contains {n}: a split has between 1 and {most} shards.", path=path, n=count, most=MAX_SHARDS
            )
        return {(name := f"{split}/{i}.tar"): self.files.size(name) for i in range(count)}

    def _no_split(self) -> DataError:
        """Distinguish a missing split from a missing dataset."""
        address = self.files.address
        if not self.files.exists():
            return DataError(
                "There is no dataset at {address}.", advice="Check the name and {--dataset_root}.", address=address
            )
        splits = self.files.splits() or list(self._tars())
        return DataError(
            "{address} has no split {split!r}; available: {splits}."
            if splits
            else "{address} has no split {split!r}: it contains no nshards.txt and no tar files.",
            advice="Check {--split} and {--dataset_root}.",
            address=address,
            split=self.spec.split,
            splits=", ".join(splits),
        )

    def shards(self) -> Sequence[FileShard]:
        """List the tar files that nshards.txt counts.

        The catalogue may declare that ``.npy`` contains columns of metadata (WILDS, fairness sets) and that one of
        them, the objective, is the label; and the language of captions whose member name has none (MUGE's are Chinese).
        """
        source, make = source_of(self.spec), _with_label
        if self._kind == "retrieval":
            plain = source.get("plain_language", MAIN)
            whole = bool(self._uncounted)
            make = partial(_with_captions, language=self.spec.language, plain=plain, whole=whole)
        elif self._kind == "multilabel":
            make = partial(_with_labels, n_classes=len(self.info.classnames))
        elif source.get("columns"):
            make = partial(_with_columns, columns=tuple(source["columns"]), objective=source.get("objective"))
        return [FileShard(self.files, name, make) for name in self._sizes]

    def signature(self) -> str:
        """Digest the description and the versions of the shards, without downloading shards that have a version."""
        return digest_json([digest_info(self.info), [self.files.version(name) for name in self._sizes]])

    def fetch(self, progress: Progress) -> None:
        """Download all shards."""
        for name in self._sizes:
            self.files.fetch(name, progress)


def open_webdataset(spec: DatasetSpec) -> WebDataset:
    """Open a webdataset folder and check that no shard is missing."""
    dataset = WebDataset(spec, open_files(spec.root, spec.options))
    missing = [name for name, size in dataset._sizes.items() if size is None]
    if missing:
        raise DataError(
            "{name}: {n} shards are missing, the first is {address}/{first}.",
            advice="nshards.txt counts them: add the missing files, or correct the number.",
            name=spec.name,
            n=len(missing),
            address=dataset.files.address,
            first=missing[0],
        )
    return dataset
