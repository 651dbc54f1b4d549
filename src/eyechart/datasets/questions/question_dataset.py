"""A benchmark of questions as a dataset: one sample per row, and the prompt of each."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

from eyechart.datasets.questions.benchmarks import PART, QuestionBenchmark, known_benchmarks, prompts
from eyechart.datasets.questions.prompt_items import Item, to_messages
from eyechart.datasets.questions.prompt_templates import VIEWS, here, text_item
from eyechart.datasets.questions.question_table import QuestionTable
from eyechart.datasets.questions.row_table import Record, RowTable
from eyechart.datasets.row_dataset import RowShard, located
from eyechart.errors import DataError
from eyechart.io.digests import file_digest
from eyechart.metrics.cell_values import Row, as_text, text_list
from eyechart.types import DatasetInfo, Message, Sample, digest_json

CAPTION_QUESTION = (
    "Please describe this image in general. Directly provide the description, "
    'do not include prefix like "This image depicts". '
)
DIALOGUE = "dialogue"


def build_prompt(benchmark: QuestionBenchmark, row: Row, images: Sequence[Item], where: str) -> list[Any]:
    """Build the prompt of a row, as items or as turns; ``where`` identifies the row in errors."""
    if benchmark.parts:
        benchmark = known_benchmarks()[as_text(row[PART])]
    with located(where):
        if benchmark.prompt == DIALOGUE:
            return turns(row, images)
        asking = benchmark.asking or prompts()[benchmark.prompt]
        if "view" in benchmark.parameters:
            row = {**row, **VIEWS[benchmark.parameters["view"]](row)}
        return asking.items(row, images)


def turns(row: Row, images: Sequence[Item]) -> list[Any]:
    """Return a dialogue: each question with its images (``<ImageHere>``), followed by its reference answer."""
    questions, answers = text_list(row.get("question")), text_list(row.get("answer"))
    if len(questions) != len(answers):
        raise DataError("there are {n} questions and {m} answers.", n=len(questions), m=len(answers))
    made: list[Any] = []
    for question, answer in zip(questions, answers, strict=True):
        made.append({"role": "user", "content": here(question, images)})
        made.append({"role": "assistant", "content": [text_item(answer)]})
        images = images[question.count("<ImageHere>") :]
    return made


def fill_questions(table: RowTable) -> None:
    """Add a default question to a caption benchmark without questions."""
    if "question" not in table:
        table["question"] = [CAPTION_QUESTION] * len(table)


NOT_META = ("index", "image", "question")


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionInfo(DatasetInfo):
    """Description of a question benchmark, with its prompt and scoring."""

    benchmark: QuestionBenchmark


class QuestionDataset:
    """A benchmark whose prompts and scorer are defined by data: the catalogue, or the columns of a table.

    ``read`` returns its rows; it is called on first use.
    """

    keeps_prompts = False
    """True if models must not replace its prompts by their own."""

    def __init__(self, info: QuestionInfo, read: Callable[[], QuestionTable]) -> None:
        self.info, self._read = info, read

    @cached_property
    def table(self) -> QuestionTable:
        """Return the rows with their images."""
        return self._read()

    def build_prompt(self, row: Record) -> Sequence[Any]:
        """Build the prompt of a row, as items or as turns."""
        images = [{"type": "image", "value": path} for path in self.image_paths(row)]
        return build_prompt(self.info.benchmark, row, images, self.table.where(row))

    def image_paths(self, row: Record) -> list[str]:
        """Return the image files of a row."""
        return self.table.write_images(row)

    def prompt(self, row: Record) -> tuple[Message, ...]:
        """Build the messages of a row."""
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

    def signature(self) -> str | None:
        """Digest the prompts: the table, the image files it names, and the prompt template."""
        files = [*self.table.files, *self.table.image_files()]
        asking = self.info.benchmark.asking
        words = [self.info.benchmark.prompt, *([asdict(asking)] if asking else [])]
        return digest_json([*words, [file_digest(path).hex() for path in files]])
