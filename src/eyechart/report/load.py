"""Find and read results: files or folders, ours and those of other tools."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from eyechart.errors import ResultError, UsageError
from eyechart.io.files import TEMPORARY
from eyechart.io.progress.file import PROGRESS_PREFIX
from eyechart.io.untrusted import DAMAGED
from eyechart.report import peers
from eyechart.results import Result, parse_documents, result_from_dict

OURS = "eyechart"
PUBLISHED = "published"
Read = tuple[list[tuple[Result, str]], tuple[str, ...]]
"""Results with the tools that wrote them, and what is wrong with lines that cannot be read."""


@dataclass(frozen=True)
class Found:
    """A result, the tool that wrote it, and the argument under which it was found."""

    result: Result
    origin: str = OURS
    argument: str = ""


@dataclass(frozen=True)
class Skipped:
    """A file in a folder, or a line of a file, that could not be used, and why."""

    path: Path
    reason: str


@dataclass(frozen=True)
class Loaded:
    """All results of a command's arguments, and the files that were left out."""

    found: tuple[Found, ...]
    skipped: tuple[Skipped, ...] = ()


Argument = str | Path | Result
"""A result file, a folder of them, or a result that is there already."""


def load_results(arguments: Argument | Sequence[Argument]) -> Loaded:
    """Read result files, and every result file below each folder; results that are there already are taken as they are.

    A file that is named must be a result. In a folder, other files are left out and listed in ``skipped``.

    Raises:
        ResultError: If a named file cannot be used, or nothing was found at all.
    """
    found: list[Found] = []
    skipped: list[Skipped] = []
    seen: set[Path] = set()
    names: dict[str, object] = {}
    listed = [arguments] if isinstance(arguments, str | Path | Result) else list(arguments)
    for argument in listed:
        if isinstance(argument, Result):
            found.append(Found(argument, argument=str(argument.path or "")))
            continue
        path = Path(argument)
        for file in result_files(path):
            if file.resolve() in seen:
                continue
            seen.add(file.resolve())
            try:
                results, damaged = read_any(file)
                found += [Found(_sharing(result, names), origin, str(argument)) for result, origin in results]
                skipped += [Skipped(file, reason) for reason in damaged]
            except ResultError as error:
                if not path.is_dir():
                    raise
                skipped.append(Skipped(file, error.message))
    if not found:
        shown = ", ".join(str(argument) for argument in listed) or "no argument"
        raise ResultError(
            f"No results in {shown}.",
            advice=f"{len(skipped)} other files were looked at. Give result files or folders that hold some.",
        )
    return Loaded(tuple(found), tuple(skipped))


def _sharing(result: Result, names: dict[str, object]) -> Result:
    """Hold the class names of a dataset once: of many results, they are most of the memory."""
    own = result.details.get("classnames")
    known = names.setdefault(result.dataset, own)
    return replace(result, details={**result.details, "classnames": known}) if own and own == known else result


def read_any(path: Path) -> Read:
    """Read all results of one file with the name of the tool that wrote it, and what is wrong with damaged lines.

    Raises:
        ResultError: If it is not a result file of a known form.
    """
    reader = _READERS.get(path.suffix.lower())
    if reader is None:
        raise ResultError(f"{path} is not a result file.", advice=f"Known forms: {', '.join(sorted(_READERS))}.")
    try:
        with path.open(encoding="utf-8-sig", newline="") as stream:  # line ends inside of cells stay as they are
            results, damaged = reader(path, stream.read())
    except OSError as error:
        raise ResultError(f"Cannot read {path} ({error.strerror}).") from error
    except UnicodeDecodeError as error:
        raise ResultError(f"{path} is not a text file ({error.reason}).") from error
    if not results:
        raise ResultError(f"{path} holds no results.")
    return results, damaged


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


def _read_json(path: Path, text: str) -> Read:
    """One JSON object; or several, one per line."""
    found = parse_documents(text, path)
    return [_from_object(body, path) for body in found.bodies], found.damaged


def _read_csv(path: Path, text: str) -> Read:
    return peers.read_csv(path, text), ()


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


_READERS: dict[str, Callable[[Path, str], Read]] = {".json": _read_json, ".jsonl": _read_json, ".csv": _read_csv}
