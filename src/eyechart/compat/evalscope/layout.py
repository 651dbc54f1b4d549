"""Where ``run_task`` puts its files: ``<work_dir>/<model>/<dataset>_<task>.json`` and what belongs to it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from pathlib import Path

from eyechart.datasets.resolve import plain_name
from eyechart.errors import ResultError
from eyechart.results import read_result
from eyechart.types import digest_json

CONFIG = Path("configs") / "task_config.yaml"
LOG = Path("logs") / "eval_log.log"
RESERVED = frozenset({"configs", "logs"})


class Layout:
    """The folder of one run. Two models never share a subfolder, even if their names end alike."""

    def __init__(self, root: Path, *, timestamp: bool = False) -> None:
        self.root = root / datetime.now().astimezone().strftime("%Y%m%d_%H%M%S") if timestamp else root
        self._owners: dict[str, str] = {}

    def model_folder(
        self, names: Sequence[str], identity: object, taken: Callable[[Path], bool] = lambda _: False
    ) -> Path:
        """Return the subfolder of a model: the last part of its name, with a digest if another model has that one.

        Args:
            names: As the user wrote them: one, or several models that work together.
            identity: Whatever tells this model from another of the same name: its precision, prompt, ...
            taken: Tells whether a folder holds what must not be written over.
        """
        own = digest_json([names, identity])
        base = "+".join(file_name(name.rstrip("/\\").replace("\\", "/").split("/")[-1]) or "model" for name in names)
        name = label(names)
        for folder in (base, f"{base}-{own[:8]}"):
            if folder in RESERVED or self._owners.get(folder, own) != own or self._is_of_another(folder, name):
                continue
            if taken(self.root / folder):
                continue
            self._owners[folder] = own
            return self.root / folder
        return self.root / f"{base}-{own}"

    def _is_of_another(self, folder: str, name: str) -> bool:
        """Tell whether an earlier run has left results of another model there."""
        return any(model != name for model in _models_in(self.root / folder))


def _models_in(folder: Path) -> Iterator[str]:
    for path in sorted(folder.glob("*.json")):
        try:
            yield read_result(path).model
        except ResultError:
            continue  # not a result: nothing that we would overwrite


def holds_other_captions(output: Path, made_with: str) -> bool:
    """Tell whether a result is about captions that were made in another way: their folder is not written over."""
    try:
        return bool(read_result(output).details.get("made_with", made_with) != made_with)
    except ResultError:
        return False


def label(names: Sequence[str]) -> str:
    """Return what results call a model, or several that work together."""
    return " + ".join(names)


def result_path(folder: Path, dataset: str, task: str, language: str = "en") -> Path:
    """Return where the result of a model goes."""
    tail = "" if language == "en" else f"_{file_name(language)}"
    return folder / f"{file_name(plain_name(dataset))}_{file_name(task)}{tail}.json"


def file_name(text: str) -> str:
    """Turn any name into one that is a plain file name: no folders, no leading dot."""
    return re.sub(r"[/\\:\0]+", "_", text.strip().strip("/")).lstrip(".")
