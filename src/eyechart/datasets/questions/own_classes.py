"""Dataset classes of VLMEvalKit's form, ours or others', recognised by what they have and not by what they extend.

Such a class is made with the benchmark's name and has ``data`` (a table or data frame), ``build_prompt(row)``,
``TYPE`` and either an ``evaluate(file)`` of its own or a ``benchmark`` that names a scorer.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from eyechart.datasets.questions.benchmarks import OWN_EVALUATE, QuestionBenchmark
from eyechart.datasets.questions.dataset import QuestionDataset, QuestionInfo
from eyechart.datasets.questions.question_table import QuestionTable
from eyechart.datasets.questions.rows import Record, as_table
from eyechart.errors import DataError, EyechartError, UsageError
from eyechart.io.code import code_digest
from eyechart.io.digests import DIGEST_SIZE, file_digest
from eyechart.types import DatasetSpec, digest_json

_BY_SCORER = "__by_scorer__"
F = TypeVar("F", bound=Callable[..., Any])


def by_scorer(function: F) -> F:
    """Mark an ``evaluate`` that only scores what the benchmark's scorer does: answers need not pass through a file."""
    setattr(function, _BY_SCORER, True)
    return function


def open_class(made_by: Any, spec: DatasetSpec) -> ClassDataset:
    """Make the dataset of a class, under the name of its benchmark.

    Raises:
        UsageError: If the class is not of the form that is described above.
    """
    name = getattr(made_by, "__name__", spec.name)
    own = list(vars(made_by).get("DATASET_URL", ())) if isinstance(made_by, type) else []
    with _explained(name):
        made = made_by(spec.name if spec.name in own or not own else own[0])
    missing = [name for name in ("data", "build_prompt", "TYPE", "evaluate") if not hasattr(made, name)]
    if missing:
        raise UsageError(
            f"{type(made).__name__} is no dataset class: it has no {missing[0]}.",
            advice="Extend eyechart.vlm.ImageBaseDataset, or write a class with the same methods.",
        )
    return ClassDataset(made, spec)


@contextmanager
def _explained(what: str) -> Iterator[None]:
    """Turn whatever somebody's class raises into an error of this dataset: other jobs go on."""
    try:
        yield
    except EyechartError:
        raise
    except Exception as error:
        raise DataError(f"{what} failed: {type(error).__name__}: {error}") from error


class ClassDataset(QuestionDataset):
    """A benchmark that somebody's class reads, asks and perhaps scores."""

    def __init__(self, made: Any, spec: DatasetSpec) -> None:
        own = not getattr(type(made).evaluate, _BY_SCORER, False)
        kind, name = str(made.TYPE), type(made).__name__
        benchmark = QuestionBenchmark(spec.name, name, OWN_EVALUATE, "optional", kind=kind) if own else made.benchmark
        file: Path | None = getattr(made, "table_file", None)  # a class that reads its rows elsewhere has none
        source = str(file or spec.root or spec.name)
        info = QuestionInfo(name=spec.name, kind="questions", split=spec.split, source=source, benchmark=benchmark)
        super().__init__(info, self._rows)
        self.made, self.file = made, file
        self.keeps_prompts = bool(getattr(made, "force_use_dataset_prompt", False))

    def _rows(self) -> QuestionTable:
        name = str(getattr(self.made, "dataset_name", self.info.name))
        table = QuestionTable(name, as_table(self.made.data), file=self.file, skip_noimg=False)
        table.notices += getattr(self.made, "notices", ())
        return table

    def build_prompt(self, row: Record) -> Sequence[Any]:
        """Let the class ask."""
        with _explained(f"{type(self.made).__name__}.build_prompt"):
            prompt: Sequence[Any] = self.made.build_prompt(row)
        return prompt

    def image_paths(self, row: Record) -> list[str]:
        """Let the class find a row's images, if it can."""
        paths: list[str] = self.made.dump_image(row) if hasattr(self.made, "dump_image") else super().image_paths(row)
        return paths

    def evaluate(self, file: Path, judge: dict[str, Any]) -> Any:
        """Let the class score a file of predictions."""
        with _explained(f"{type(self.made).__name__}.evaluate"):
            return self.made.evaluate(str(file), **judge)

    def signature(self) -> str:
        """Digest the code of the class with what it imports, the rows and the image files that they name."""
        data = file_digest(self.file).hex() if self.file else self._rows_digest()
        return digest_json(
            [code_digest(self.made), data, [file_digest(path).hex() for path in self.table.image_files()]]
        )

    def _rows_digest(self) -> str:
        state = hashlib.blake2b(digest_size=DIGEST_SIZE)
        for row in self.table.rows:
            state.update(repr(list(row.items())).encode("utf-8", "surrogatepass"))
        return state.hexdigest()
