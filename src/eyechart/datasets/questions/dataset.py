"""A benchmark of questions as a dataset: one sample per row, and the prompt of each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

from eyechart.datasets.questions.benchmarks import QuestionBenchmark
from eyechart.datasets.questions.messages import to_messages
from eyechart.datasets.questions.prompts import build_prompt
from eyechart.datasets.questions.question_table import QuestionTable
from eyechart.datasets.questions.rows import Record
from eyechart.datasets.rows import RowShard
from eyechart.io.digests import file_digest
from eyechart.metrics.cells import as_text
from eyechart.types import DatasetInfo, Message, Sample, digest_json

NOT_META = ("index", "image", "question")


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionInfo(DatasetInfo):
    """The description of a benchmark of questions, with how it is asked and scored."""

    benchmark: QuestionBenchmark


class QuestionDataset:
    """A benchmark whose prompts and scorer are named by data: the catalogue's, or a table's own columns.

    ``read`` gives its rows; a large file is read when they are first needed.
    """

    keeps_prompts = False
    """Whether its prompts hold even for models that make their own."""

    def __init__(self, info: QuestionInfo, read: Callable[[], QuestionTable]) -> None:
        self.info, self._read = info, read

    @cached_property
    def table(self) -> QuestionTable:
        """Return the rows with their images."""
        return self._read()

    def build_prompt(self, row: Record) -> Sequence[Any]:
        """Return what a row asks, as items or as turns, in the form of prompt that the benchmark names."""
        images = [{"type": "image", "value": path} for path in self.image_paths(row)]
        return build_prompt(self.info.benchmark, row, images, self.table.where(row))

    def image_paths(self, row: Record) -> list[str]:
        """Return the files of a row's images, also for models that make their own prompts."""
        return self.table.write_images(row)

    def prompt(self, row: Record) -> tuple[Message, ...]:
        """Return the conversation that a row asks for.

        Raises:
            DataError: If the row has no usable prompt: a broken image, a name that leaves the folder.
        """
        return to_messages(self.build_prompt(row), self.table.where(row))

    def shards(self) -> Sequence[RowShard[Record]]:
        """Return the whole table as one shard."""
        return [RowShard(self.info.name, self.table.rows, self._sample)]

    def _sample(self, row: Record) -> Sample:
        question = as_text(row.get("question"))
        return Sample(
            as_text(row["index"]),
            self.table.first_image(row),
            texts=(question,) if question else (),
            meta={key: value for key, value in row.without(*NOT_META).items() if value is not None},
        )

    def signature(self) -> str:
        """Digest all that is asked: the table, the images that it names, and how it asks."""
        files = [*self.table.files, *self.table.image_files()]
        asking = self.info.benchmark.asking
        words = [self.info.benchmark.prompt, *([asdict(asking)] if asking else [])]
        return digest_json([*words, [file_digest(path).hex() for path in files]])
