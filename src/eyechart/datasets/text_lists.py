"""Lists of texts in files: one entry a line, or JSON by dataset name."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from eyechart.datasets import prompt_pack
from eyechart.errors import DataError, UsageError
from eyechart.io.untrusted import read_json, read_text, split_lines
from eyechart.languages import MAIN, find_same, is_main

_SPACE = " \t\r\u00a0\u3000"
"""What is stripped from an entry; other characters that count as spaces were hardly meant."""


def languages_in(folder: Path, stem: str = "classnames") -> list[str]:
    """List the languages for which a folder has a list."""
    found = {MAIN} if (folder / f"{stem}.txt").is_file() else set()
    found |= {path.name[len(stem) + 1 : -len(".txt")] for path in folder.glob(f"{stem}.*.txt")}
    return sorted(found)


def list_for(folder: Path, stem: str, language: str, *, allow_blank: bool = False) -> tuple[str, ...]:
    """Read ``stem.txt`` (English) or ``stem.de.txt``; the code in the name may be any spelling of the language."""
    own = find_same(language, languages_in(folder, stem))
    if own is None:
        return ()
    plain = folder / f"{stem}.txt"
    path = plain if is_main(own) and plain.is_file() else folder / f"{stem}.{own}.txt"
    return read_lines(path, allow_blank=allow_blank)


def read_lines(path: Path, *, allow_blank: bool = False) -> tuple[str, ...]:
    """Read one entry a line, each stripped. A blank line would be a phantom entry, so it is an error."""
    lines = [line.strip(_SPACE) for line in split_lines(read_text(path))]
    for number, line in enumerate(lines, 1):
        if not line and not allow_blank:
            raise DataError(
                f"{path}, line {number}: a blank line would be a class without a name.",
                advice="Remove the line. If a class really has an empty name, use --allow-blank-classnames.",
            )
    return tuple(lines)


def find_entry(file: str, keys: Sequence[str], *, fallback: str = "", offline: bool = False) -> tuple[Any, str]:
    """Read a user's file and return its entry for a dataset, and the key that it was found under.

    Args:
        file: A plain list, or JSON: a list, or a mapping from dataset name to its entry. A bare name of one of the
            prompt pack's files stands for that file.
        keys: Names to look for, in order.
        fallback: A last name to look for.
        offline: Do not fetch the prompt pack.
    """
    path = Path(file)
    if path.is_file():
        content = _read(path)
    elif prompt_pack.has_member(file):
        content = prompt_pack.read_member(file, offline=offline)
    else:
        raise UsageError(f"There is no file {path}.", advice="Check the path after --custom_*_file.")
    if not isinstance(content, dict):
        return content, ""
    for key in (*keys, fallback):
        if key in content:
            return content[key], key
    raise UsageError(
        f"{path} has no entry for {keys[0]!r}.",
        advice=f"Looked for {', '.join(keys)}; it has {', '.join(sorted(content)[:10])}.",
    )


def as_names(entry: Any, file: str, *, allow_blank: bool) -> tuple[str, ...]:
    """Check that an entry is a list of class names."""
    if not isinstance(entry, list) or not all(isinstance(name, str) for name in entry):
        raise UsageError(f"{file}: class names must be a list of texts.")
    blank = [i for i, name in enumerate(entry) if not name.strip()]
    if blank and not allow_blank:
        raise DataError(
            f"{file}: class {blank[0]} has no name.", advice="Use --allow-blank-classnames if that is right."
        )
    return tuple(entry)


def as_templates(entry: Any, file: str) -> tuple[tuple[str, ...], dict[str, tuple[str, ...]]]:
    """Accept a list of templates, or a mapping from class name to its texts."""
    if isinstance(entry, list) and entry and all(isinstance(text, str) for text in entry):
        return tuple(entry), {}
    if isinstance(entry, dict) and all(isinstance(texts, list) and texts for texts in entry.values()):
        if not all(isinstance(text, str) and text.strip() for texts in entry.values() for text in texts):
            raise UsageError(f"{file}: a prompt of a class is blank, or no text.")
        return (), {name: tuple(texts) for name, texts in entry.items()}
    raise UsageError(
        f"{file}: templates must be a list of texts, or a mapping from class name to a list of texts.",
        advice="None of the lists may be empty.",
    )


def _read(path: Path) -> Any:
    if path.suffix != ".json":
        return list(read_lines(path))
    return read_json(path, UsageError)
