"""The zoo: every model is built once per session, and only if a test needs it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from support import zoo_internvl, zoo_open_clip, zoo_others, zoo_sentence, zoo_transformers
from support.zoo import Case, load

BUILDERS: dict[str, Callable[[Path], Case]] = {
    **zoo_open_clip.CASES,
    **zoo_transformers.CASES,
    **zoo_sentence.CASES,
    **zoo_internvl.CASES,
    **zoo_others.CASES,
}


class Zoo:
    """Cases and loaded encoders by name."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._cases: dict[str, Case] = {}
        self._encoders = {}

    def case(self, name: str) -> Case:
        if name not in self._cases:
            self._cases[name] = BUILDERS[name](self.folder / name)
        return self._cases[name]

    def encoder(self, name: str):
        if name not in self._encoders:
            self._encoders[name] = load(self.case(name).spec)
        return self._encoders[name]

    def close(self) -> None:
        """Stop the servers of the models behind an API."""
        while zoo_others.SERVERS:
            zoo_others.SERVERS.pop().__exit__()
