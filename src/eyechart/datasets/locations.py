"""Where data lies: paths, splits and sources of a dataset, and folders of files, local or remote."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eyechart.errors import DataError, UsageError
from eyechart.io.digests import file_digest
from eyechart.io.files import by_name, cache_root, shown
from eyechart.io.progress import Progress
from eyechart.messages import UserMessage, join
from eyechart.types import DatasetSpec

ONLY_SPLIT = "test"
"""Split name of data without splits. Any other name would make them, for example, their own training split."""
COMMON_SPLITS = ("test", "train", "val", "valid", "validation", "trainval")
"""Splits that are looked for if none are declared."""


def is_url(root: str) -> bool:
    """True for a URL, False for a path."""
    return root.startswith(("http://", "https://"))


def is_webdataset(folder: Path) -> bool:
    """True if a folder has the layout of a webdataset."""
    return any(folder.glob("*/nshards.txt"))


_SPLIT = re.compile(
    r"(?<![a-z])(trainval|train(ing)?|test(ing)?|eval(uation)?|validation|valid|val|dev)(?![a-z])", re.IGNORECASE
)
_COUNT = re.compile(r"\d+-of-(\d+)")
_NUMBERS = re.compile(r"\d+(-of-\d+)?$")


def files_by_split(folder: Path, suffix: str) -> dict[str, list[Path]]:
    """Return the files of a folder with a suffix by split, sorted, down to two levels of subfolders.

    The split is the word for it in the file's name (``data/test-00000-of-00002.parquet``), else in a folder's name
    (``default/test/0.parquet``), else ``test``. Hidden files and caches of Hugging Face's library are ignored. Files of
    a split that differ in more than numbers are an error: different datasets, or splits without a common name.
    """
    found: dict[str, dict[str, list[Path]]] = {}
    for path in (path for depth in ("*", "*/*", "*/*/*") for path in folder.glob(f"{depth}{suffix}")):
        inner = path.relative_to(folder)
        if path.is_file() and not any(part.startswith((".", "cache-")) for part in inner.parts):
            series = _NUMBERS.sub("", str(inner.with_suffix("")))
            found.setdefault(_split_in(inner, folder), {}).setdefault(series, []).append(path)
    for split, series_of_files in found.items():
        if len(series_of_files) > 1:
            first, second, *_ = sorted(shown(files[0].relative_to(folder)) for files in series_of_files.values())
            raise DataError(
                "{path} has several datasets with the split {split!r}, such as {first} and {second}.",
                advice="Pass the folder or file of one of them.",
                path=folder,
                split=split,
                first=first,
                second=second,
            )
        (files,) = series_of_files.values()
        counts = {int(count[1]) for file in files if (count := _COUNT.search(file.stem))}
        if counts and counts != {len(files)}:
            raise DataError(
                "{path} has {n} of {count} files, such as {first}: some are missing.",
                advice="Download the folder again.",
                path=files[0].parent,
                n=len(files),
                count=max(counts),
                first=files[0].name,
            )
    splits = sorted(found, key=lambda name: (name != ONLY_SPLIT, name))
    return {split: by_name(file for files in found[split].values() for file in files) for split in splits}


def _split_in(path: Path, folder: Path) -> str:
    if (folder / path.parent.parent / "dataset_dict.json").is_file() and path.parent.name:
        return path.parent.name.lower()  # save_to_disk writes SPLIT/data-00000-of-00001.arrow next to it
    for text in (path.stem, *(part.name for part in path.parents)):
        if word := _SPLIT.search(text):
            return word[0].lower()
    stem = _NUMBERS.sub("", path.stem).rstrip("-_") if _COUNT.search(path.stem) else ""
    return ONLY_SPLIT if stem in ("", "data") else stem


def is_present(folder: Path, patterns: tuple[str, ...]) -> bool:
    """True if any of the paths or patterns exists in a folder."""
    return folder.is_dir() and any(any(folder.glob(pattern)) for pattern in patterns)


def source_of(spec: DatasetSpec) -> Mapping[str, Any]:
    """Return the catalogue's settings for the source of a dataset."""
    settings: Mapping[str, Any] = spec.options.get("source", {})
    return settings


def source_split(spec: DatasetSpec) -> str:
    """Return the source's name for a split."""
    source_splits = source_of(spec).get("splits") or {}
    known = list(source_splits) or spec.options.get("splits")
    if known is not None and spec.split not in known:
        raise no_such_split(spec.name, spec.split, list(known))
    return str(source_splits.get(spec.split, spec.split))


def check_only_split(spec: DatasetSpec, how: str) -> None:
    """Reject any split except `ONLY_SPLIT` for data without splits; ``how`` tells how such data can be divided."""
    if spec.split != ONLY_SPLIT:
        raise no_such_split(spec.name, spec.split, [ONLY_SPLIT], how)


def no_such_split(name: str, split: str, known: list[str], how: str = "") -> UsageError:
    """Create the error for a missing split."""
    advice = join((UserMessage("Available: {names}.", names=", ".join(known)), how))
    return UsageError("{name} has no split {split!r}.", advice=advice, name=name, split=split)


def first_existing(root: Path, candidates: list[str], **values: str) -> Path | None:
    """Return the first existing path of several under ``root``, with ``{placeholders}`` filled in."""
    return next(filter(Path.exists, (root / fill(candidate, values) for candidate in candidates)), None)


def need_file(path: Path, advice: str = "") -> Path:
    """Return a path after checking that it is a file."""
    if not path.is_file():
        raise DataError("There is no file {path}.", advice=advice, path=path)
    return path


def existing(spec: DatasetSpec, candidates: list[str], advice: str = "", **values: str) -> Path:
    """Return the first existing path of several under a dataset's root, with ``{placeholders}`` filled in."""
    found = first_existing(Path(spec.root), candidates, **values)
    if found is None:
        entry = spec.options.get("entry", spec.name)
        raise DataError(
            "{name}: {root} does not contain {wanted}.",
            advice=advice or UserMessage("See `eyechart info {name}`.", name=entry),
            name=spec.name,
            root=spec.root,
            wanted=" or ".join(fill(name, values) for name in candidates),
        )
    return found


def fill(text: str, values: Mapping[str, str]) -> str:
    """Fill in ``{placeholders}``; other braces are unchanged."""
    for key, value in values.items():
        text = text.replace(f"{{{key}}}", value)
    return text


@dataclass(frozen=True)
class Files:
    """The files of a dataset in a local folder, to which subclasses download them. Names are relative, with slashes."""

    folder: Path

    @property
    def address(self) -> str:
        """The location in messages and results."""
        return shown(self.folder)

    def small(self, name: str) -> Path | None:
        """Return a small text file, downloading it if necessary; None if it does not exist."""
        path = self.folder / name
        return path if path.is_file() else None

    def size(self, name: str) -> int | None:
        """Return the size of a file without downloading it; None if it does not exist."""
        path = self.folder / name
        return path.stat().st_size if path.is_file() else None

    def version(self, name: str) -> str:
        """Return a text that changes with a file's content: its digest, or the version that the server states."""
        return file_digest(self.folder / name).hex()

    def fetch(self, name: str, progress: Progress) -> Path:  # noqa: ARG002 - subclasses download
        """Return the path of a large file, downloading and verifying it if necessary."""
        return self.folder / name

    def unread(self, split: str, count: int) -> list[str]:
        """List tar files of a split beyond the first ``count``, as far as the location can be listed."""
        return beyond((f"{split}/{path.name}" for path in (self.folder / split).glob("*.tar")), split, count)

    def splits(self) -> list[str]:
        """List the splits of the webdataset, for messages."""
        return sorted(found.parent.name for found in self.folder.glob("*/nshards.txt"))

    def exists(self) -> bool:
        """True if the location contains a dataset."""
        return self.folder.is_dir()


def beyond(names: Iterable[str], split: str, count: int) -> list[str]:
    """Return the tar files of a split that are not among its first ``count`` shards."""
    shards = {f"{split}/{i}.tar" for i in range(count)}
    return sorted(
        name for name in names if name.startswith(f"{split}/") and name.endswith(".tar") and name not in shards
    )


def cache_folder(options: Mapping[str, Any]) -> Path:
    """Return the folder of downloaded datasets: the option ``cache_dir``, else Eyechart's cache."""
    own = options.get("cache_dir")
    return Path(own).expanduser() if own else cache_root() / "datasets"
