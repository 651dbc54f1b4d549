"""Where the Hugging Face client keeps what it fetched: read without the client, and without asking the hub."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

OFFLINE = "HF_HUB_OFFLINE"


def hub_cache() -> Path:
    """Return the folder that the environment names, as the client understands it."""
    for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"):
        if os.environ.get(name):
            return Path(os.environ[name]).expanduser()
    base = os.environ.get("HF_HOME") or Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "huggingface"
    return Path(base).expanduser() / "hub"


def cached_snapshot(
    kind: str, repository: str, cache: str | Path | None = None, revision: str | None = None
) -> Path | None:
    """Return the folder of a repository in the cache; None if it is not there.

    Args:
        kind: ``models`` or ``datasets``.
        repository: Owner and name.
        cache: Another folder than the environment's.
        revision: A branch, a tag or a commit.
    """
    root = (Path(cache) if cache else hub_cache()) / f"{kind}--{repository.replace('/', '--')}"
    pointer = root / "refs" / (revision or "main")
    commit = pointer.read_text(encoding="utf-8").strip() if pointer.is_file() else revision or ""
    folder = root / "snapshots" / commit
    return folder if commit and folder.is_dir() else None


@contextmanager
def asking_nothing(*, wanted: bool) -> Iterator[None]:
    """Let the client, and all libraries that load models with it, take what is in the cache and ask the hub nothing."""
    before = os.environ.get(OFFLINE)
    if wanted:
        _set(OFFLINE, "1")
    try:
        yield
    finally:
        if wanted:
            _set(OFFLINE, before)


def _set(name: str, value: str | None) -> None:
    """Set a variable of the environment, and what the client made of it when it was imported."""
    os.environ.pop(name, None) if value is None else os.environ.update({name: value})
    constants = sys.modules.get("huggingface_hub.constants")
    if constants is not None:
        said = value or os.environ.get("TRANSFORMERS_OFFLINE") or ""
        setattr(constants, name, said.upper() in {"1", "ON", "YES", "TRUE"})
