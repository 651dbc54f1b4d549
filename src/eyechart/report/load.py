"""Find and read results: files or folders, ours and those of other tools."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eyechart.errors import ResultError, UsageError
from eyechart.io.files import TEMPORARY
from eyechart.io.progress_file import PROGRESS_PREFIX
from eyechart.io.untrusted import DAMAGED, parse_json
from eyechart.report import peers
from eyechart.results import Result, result_from_dict

OURS = "eyechart"


@dataclass(frozen=True)
class Found:
    """A result, the tool that wrote it, and the argument under which it was found."""

    result: Result
    origin: str = OURS
    argument: str = ""


@dataclass(frozen=True)
class Skipped:
    """A file in a folder that could not be used, and why."""

    path: Path
    reason: str


@dataclass(frozen=True)
class Loaded:
    """All results of a command's arguments, and the files that were left out."""

    found: tuple[Found, ...]
    skipped: tuple[Skipped, ...] = ()


def load_results(arguments: Sequence[str | Path]) -> Loaded:
    """Read result files, and every result file below each folder.

    A file that is named must be a result. In a folder, other files are left out and listed in ``skipped``.

    Raises:
        ResultError: If a named file cannot be used, or nothing was found at all.
    """
    found: list[Found] = []
    skipped: list[Skipped] = []
    seen: set[Path] = set()
    for argument in arguments:
        path = Path(argument)
        for file in result_files(path):
            if file.resolve() in seen:
                continue
            seen.add(file.resolve())
            try:
                found += [Found(result, origin, str(argument)) for result, origin in read_any(file)]
            except ResultError as error:
                if not path.is_dir():
                    raise
                skipped.append(Skipped(file, error.message))
    if not found:
        shown = ", ".join(str(argument) for argument in arguments) or "no argument"
        raise ResultError(
            f"No results in {shown}.",
            advice=f"{len(skipped)} other files were looked at. Give result files or folders that hold some.",
        )
    return Loaded(tuple(found), tuple(skipped))


def read_any(path: Path) -> list[tuple[Result, str]]:
    """Read all results of one file with the name of the tool that wrote it.

    Raises:
        ResultError: If it is not a result file of a known form.
    """
    reader = _READERS.get(path.suffix.lower())
    if reader is None:
        raise ResultError(f"{path} is not a result file.", advice=f"Known forms: {', '.join(sorted(_READERS))}.")
    try:
        with path.open(encoding="utf-8-sig", newline="") as stream:  # line ends inside of cells stay as they are
            results = reader(path, stream.read())
    except OSError as error:
        raise ResultError(f"Cannot read {path} ({error.strerror}).") from error
    except UnicodeDecodeError as error:
        raise ResultError(f"{path} is not a text file ({error.reason}).") from error
    if not results:
        raise ResultError(f"{path} holds no results.")
    return results


def result_files(path: Path) -> Iterator[Path]:
    """Yield the file itself, or the files below a folder that may be results, in a fixed order."""
    if not path.exists():
        raise UsageError(f"There is no file or folder {path}.", advice="Give result files or folders of them.")
    if path.is_file():
        if not _is_part(path):
            yield path
        return
    for file in sorted(path.rglob("*")):
        if file.suffix.lower() in _READERS and file.is_file() and not _is_part(file):
            yield file


def _is_part(file: Path) -> bool:
    """Tell whether a file belongs to a result rather than being one (``out/*`` in a shell names those, too)."""
    lines = file.suffix == ".jsonl" and (file.stem.endswith(".records") or file.with_suffix(".json").exists())
    return lines or file.name.startswith((TEMPORARY, PROGRESS_PREFIX))


def _read_json(path: Path, text: str) -> list[tuple[Result, str]]:
    """One JSON object; or several, one per line, as tools that append to their output write them."""
    try:
        return [_from_object(parse_json(text), path)]
    except ValueError as error:
        if sum(bool(line.strip()) for line in text.split("\n")) < 2:
            raise ResultError(
                f"{path} is not valid JSON ({error}).", advice="It may be half-written: delete it and run again."
            ) from error
        return _read_lines(path, text)


def _read_lines(path: Path, text: str) -> list[tuple[Result, str]]:
    results = []
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            try:
                results.append(_from_object(parse_json(line), path))
            except ValueError as error:
                raise ResultError(f"{path}, line {number}: not valid JSON ({error}).") from error
    return results


def _from_object(body: Any, path: Path) -> tuple[Result, str]:
    """Recognise the form of one JSON object by its keys."""
    if not isinstance(body, dict):
        raise ResultError(f"{path} is not a result file.")
    if "dataset" in body and isinstance(body.get("metrics"), dict):
        origin = OURS if "schema" in body else "CLIP_benchmark" if "pretrained" in body else "EvalScope"
        return result_from_dict(body, path), origin
    for keys, origin, read in peers.OBJECTS:
        if keys <= body.keys():
            try:
                return read(body, path), origin
            except DAMAGED as error:
                raise ResultError(f"{path} is damaged: {error!r}.", advice="Leave it out.") from error
    if "dataset" in body and "metrics" in body:
        raise ResultError(f"{path} has no metrics: the run that wrote it gave no numbers.")
    raise ResultError(f"{path} is not a result file.", advice="A result has the keys dataset, model, task, metrics.")


_READERS: dict[str, Callable[[Path, str], list[tuple[Result, str]]]] = {
    ".json": _read_json,
    ".jsonl": _read_lines,
    ".csv": peers.read_csv,
}
