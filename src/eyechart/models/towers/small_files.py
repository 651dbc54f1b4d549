"""The small files of a model's folder, configs and tokenizers: what others wrote, with errors that name the file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from eyechart.errors import ModelError
from eyechart.io.untrusted import parse_json, read_text

TOKENIZER = "tokenizer.json"
LISTS = frozenset({"modules.json"})
"""Files that hold a list; all others hold an object."""


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object."""
    content = _parsed(path)
    if not isinstance(content, dict):
        raise ModelError(f"{path} must hold a JSON object.")
    return content


def load_tokenizer(path: Path) -> Any:
    """Load a ``tokenizer.json``."""
    from tokenizers import Tokenizer

    with tokenizing(str(path)):
        return Tokenizer.from_file(str(path))


@contextmanager
def tokenizing(source: str) -> Iterator[None]:
    """Turn whatever a tokenizer raises into an error that names it: bare exceptions, and panics of Rust."""
    try:
        yield
    except BaseException as error:
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise  # somebody stops the program
        raise ModelError(f"{source} is no usable tokenizer ({error}).", advice="Copy or download it again.") from error


def broken_file(folder: Path) -> ModelError | None:
    """Find the file because of which a library could not load a folder, if it is one of the small ones."""
    for path in sorted(folder.glob("*.json")):
        try:
            _parsed(path) if path.name in LISTS else read_json(path)
            if path.name == TOKENIZER:
                load_tokenizer(path)
        except ModelError as error:
            return error
    return None


def _parsed(path: Path) -> Any:
    try:
        return parse_json(read_text(path, ModelError))
    except ValueError as error:
        raise ModelError(f"{path} is not valid JSON ({error}).", advice="Copy or download it again.") from error
