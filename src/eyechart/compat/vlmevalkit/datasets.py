"""Dataset classes under VLMEvalKit's names: thin shells over tables, prompts and scorers.

A user's benchmark extends one of them, declares its file in ``DATASET_URL`` and ``DATASET_MD5``, and overrides
``build_prompt`` and ``evaluate`` as needed.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Literal

from eyechart.compat.vlmevalkit.evaluation import evaluate_file
from eyechart.compat.vlmevalkit.files import to_frame
from eyechart.datasets.questions.benchmark_files import fetch, inside, lmu_data_root
from eyechart.datasets.questions.benchmarks import (
    OPEN_RULE,
    ClassForm,
    QuestionBenchmark,
    class_forms,
    known_benchmarks,
)
from eyechart.datasets.questions.prompt_templates import PromptTemplate
from eyechart.datasets.questions.question_dataset import build_prompt, fill_questions
from eyechart.datasets.questions.question_reader import (
    add_answers,
    benchmark_of,
    borrowed_name,
    by_scorer,
    known_file,
    other_file,
    parts_of,
    read_known,
    with_metric,
    with_options,
)
from eyechart.datasets.questions.question_table import QuestionTable
from eyechart.datasets.questions.row_table import Record, as_record, as_table, with_columns
from eyechart.datasets.questions.table_files import read_tsv
from eyechart.errors import unknown_name
from eyechart.messages import UserMessage

__all__ = [
    "CustomCaptionDataset", "CustomMCQDataset", "CustomTextMCQDataset", "CustomVQADataset", "HRBenchDataset",
    "ImageBaseDataset", "ImageCaptionDataset", "ImageMCQDataset", "ImageMTDataset", "ImageShortQADataset",
    "ImageVQADataset", "ImageYORNDataset", "LLaVABench", "MMDUDataset", "MMMUDataset", "MMVet", "MTVQADataset",
    "MUIRDataset", "MathVision", "MathVista", "NaturalBenchDataset", "OCRBench", "TextBaseDataset", "VCRDataset",
]  # fmt: skip


class CatalogueColumn(Mapping[str, str]):
    """URLs or digests of a dataset class's benchmarks, read lazily from the catalogue."""

    def __init__(self, dataset_class: str, column: Literal["url", "md5"]) -> None:
        self.dataset_class, self.column = dataset_class, column

    def _entries(self) -> dict[str, str]:
        known = known_benchmarks().values()
        return {b.name: getattr(b, self.column) for b in known if b.dataset_class == self.dataset_class}

    def __getitem__(self, name: str) -> str:
        return self._entries()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries())

    def __len__(self) -> int:
        return len(self._entries())


class ImageBaseDataset:
    """A benchmark in a TSV file: rows with an index, an image, a question and usually an answer."""

    MODALITY = "IMAGE"
    TYPE: ClassVar[str] = "VQA"
    FORM: ClassVar[ClassForm] = class_forms()["ImageBaseDataset"]
    """Prompts and scoring unless a subclass overrides the methods."""
    METRIC: ClassVar[str] = ""
    """Metric of `eyechart.metrics.answers.OPEN_METRICS` for open answers; chosen by the table if empty."""
    DATASET_URL: ClassVar[Mapping[str, str]] = {}
    DATASET_MD5: ClassVar[Mapping[str, str]] = {}

    def __init_subclass__(cls) -> None:
        """Set form and files of a class that is in the catalogue."""
        super().__init_subclass__()
        name = cls.__name__
        if name in class_forms():
            form = class_forms()[name]
            url, md5 = CatalogueColumn(name, "url"), CatalogueColumn(name, "md5")
            known = {"FORM": form, "TYPE": form.kind, "DATASET_URL": url, "DATASET_MD5": md5}
            for key, value in known.items():
                if key not in vars(cls):
                    setattr(cls, key, value)

    def __init__(self, dataset: str = "MMBench", skip_noimg: bool = True, *, file: Path | None = None) -> None:
        self.dataset_name = dataset
        self.file = file
        self.metric = self.METRIC
        self.table_file: Path | None = None
        """The file that the rows were read from; None for a class that reads them elsewhere."""
        self.questions = self._questions(dataset, skip_noimg)
        self.img_root = str(self.questions.image_root)
        self.meta_only, self.notices = self.questions.meta_only, self.questions.notices
        if self.FORM.kind == "Caption":
            fill_questions(self.questions.data)
        self._data: Any = None
        self.post_build(dataset)

    @property
    def data(self) -> Any:
        """The rows as a data frame if pandas is installed, images included; a subclass may modify them.

        Built on first use: code that iterates over `questions` keeps no image in memory.
        """
        if self._data is None:
            self._data = to_frame(self.questions.data)
        return self._data

    @data.setter
    def data(self, table: Any) -> None:
        self._data = table

    @property
    def _own_entry(self) -> QuestionBenchmark | None:
        """The catalogue's entry of this benchmark, if it names this class."""
        known = known_benchmarks().get(self.dataset_name)
        return known if known is not None and class_for(known) is type(self) else None

    def _questions(self, dataset: str, skip_noimg: bool) -> QuestionTable:
        known = known_benchmarks().get(dataset)
        table = as_table(self.load_data(dataset))
        table = with_columns(table, known.columns) if known else with_options(dataset, table)
        questions = QuestionTable(dataset, table, file=self.file, skip_noimg=skip_noimg)
        questions.exported = known.exported if known else {}
        if known is not None and known.parameters.get("image_size"):
            questions.add_image_sizes()
        if known is not None and known.answer_file and self.file is None:
            add_answers(questions)
        if self.file is not None:
            questions.notices.extend(borrowed_name(dataset))
        elif self._own_entry is not None and self.table_file is not None:
            questions.notices.extend(other_file(self._own_entry, self.table_file))
        return questions

    @classmethod
    def supported_datasets(cls) -> list[str]:
        """List the benchmarks of this class."""
        return list(cls.DATASET_URL)

    @property
    def benchmark(self) -> QuestionBenchmark:
        """Scoring of this benchmark: from the catalogue, else derived from the class and the table."""
        known = known_benchmarks().get(self.dataset_name)
        if known is not None and self.file is None:
            return known
        name = next(one.__name__ for one in type(self).__mro__ if one.__name__ in class_forms())
        found = benchmark_of(self.dataset_name, name, self.questions.data)
        if name == "CustomVQADataset":
            return with_metric(found, self.metric)
        return replace(found, metric=self.metric) if self.metric and found.scorer == OPEN_RULE else found

    def load_data(self, dataset: str) -> Any:
        """Return the table: the given file, else ``$LMUData/{dataset}.tsv``, downloaded if missing."""
        if self.file is None and self._own_entry is not None:
            self.table_file = known_file(self._own_entry)
            return read_tsv(self.table_file)
        return self.prepare_tsv(self.DATASET_URL.get(dataset, ""), self.DATASET_MD5.get(dataset))

    def prepare_tsv(self, url: str, file_md5: str | None = None) -> Any:
        """Return the table: the given file, else ``$LMUData/{dataset}.tsv``, downloaded from ``url`` if missing."""
        name = self.dataset_name
        path = self.file or inside(lmu_data_root(), f"{name}.tsv", "the benchmark's name")
        if self.file is None and not path.is_file():
            if not url:
                raise unknown_name(
                    "benchmark", name, self.supported_datasets(), advice=UserMessage("Or put it at {path}.", path=path)
                )
            fetch(url, path, file_md5 or "")
        self.table_file, self.data_path = path, str(path)
        return read_tsv(path)

    def post_build(self, dataset: str) -> None:
        """Hook for subclasses, called after the table is read."""

    def __len__(self) -> int:
        return len(self.questions.rows if self._data is None else self._data)

    def __getitem__(self, position: int) -> dict[str, Any]:
        return dict(self.data.iloc[position])

    def line(self, line: Any) -> Record:
        """Return a row from its position, or from a record, dict or pandas series."""
        if isinstance(line, int):
            return self.questions.rows[line] if self._data is None else as_record(self._data.iloc[line])
        return as_record(line)

    def build_prompt(self, line: Any) -> Any:
        """Return the prompt for a row (or its position), in the form declared by the catalogue."""
        row, form = self.line(line), self.FORM
        known = self._own_entry or QuestionBenchmark(
            self.dataset_name, "", "", "no", form.prompt, form.kind, asking=form.asking
        )
        images = [{"type": "image", "value": path} for path in self.dump_image(row)]
        return build_prompt(known, row, images, self.questions.where(row))

    @by_scorer
    def evaluate(self, eval_file: str | Path, **judge_kwargs: Any) -> Any:
        """Score a file of predictions (see `eyechart.compat.vlmevalkit.evaluation.evaluate_file`)."""
        return evaluate_file(self.questions, self.benchmark, Path(eval_file), **judge_kwargs)

    def dump_image(self, line: Any) -> list[str]:
        """Write a row's images to the image folder and return their paths, or return the paths in the row."""
        return self.questions.write_images(self.line(line))


class ImageMCQDataset(ImageBaseDataset):
    """Multiple choice: hint, question, options A, B, ... and an instruction to choose one."""


class MMMUDataset(ImageMCQDataset):
    """MMMU: multiple choice with images at their references in the text (``<image 1>``)."""


class MUIRDataset(ImageMCQDataset):
    """MUIRBench: multiple choice with images in place of ``<image>``, in order."""


class HRBenchDataset(ImageMCQDataset):
    """HRBench: multiple choice on large images, in several cycles."""


class NaturalBenchDataset(ImageMCQDataset):
    """NaturalBench: two questions on two images."""


class ImageYORNDataset(ImageBaseDataset):
    """Yes/no questions, verbatim; AMBER's include the instruction."""


class ImageVQADataset(ImageBaseDataset):
    """Open questions with short answers."""


class MTVQADataset(ImageBaseDataset):
    """MTVQA: open questions in many languages."""


class OCRBench(ImageBaseDataset):
    """OCRBench: verbatim questions; the reference is searched in the response."""


class MathVista(ImageBaseDataset):
    """MathVista: verbatim questions."""


class MathVision(ImageBaseDataset):
    """MathVision: verbatim questions."""


class MMVet(ImageBaseDataset):
    """MM-Vet and CORE-MM: verbatim questions, graded by a judge."""


class LLaVABench(ImageBaseDataset):
    """LLaVABench: verbatim questions, compared with GPT-4's answers by a judge."""


class ImageShortQADataset(ImageBaseDataset):
    """Open questions with an instruction to answer briefly."""

    TYPE = "Short"
    FORM = ClassForm(
        "Short",
        "question",
        asking=PromptTemplate("${question}\nPlease directly provide a short answer to the question. "),
    )


class TextBaseDataset(ImageBaseDataset):
    """Questions without images."""

    MODALITY = "TEXT"

    def __init__(self, dataset: str = "MMBench", **_: Any) -> None:
        super().__init__(dataset, skip_noimg=False)

    def dump_image(self, line: Any) -> list[str]:  # noqa: ARG002 - the base class's signature
        """Return an empty list."""
        return []


class VCRDataset(ImageBaseDataset):
    """Visual caption restoration: the question describes the task."""


class ImageCaptionDataset(ImageBaseDataset):
    """Captions: the same prompt for every image, unless the table has questions."""


class ImageMTDataset(ImageBaseDataset):
    """Dialogues: ``question`` and ``answer`` are lists; ``<ImageHere>`` marks the position of an image."""


class MMDUDataset(ImageMTDataset):
    """MMDU's dialogues."""


class ConcatDataset(ImageBaseDataset):
    """Several benchmarks in one: each row is prompted and scored as in its part."""

    def _questions(self, dataset: str, skip_noimg: bool) -> QuestionTable:  # noqa: ARG002 - decided by the parts
        known = known_benchmarks()[dataset]
        return read_known(known, {part.name: known_file(part) for part in parts_of(known)})


class CustomMCQDataset(ImageMCQDataset):
    """A user's multiple-choice table, with columns A and B."""


class CustomTextMCQDataset(CustomMCQDataset):
    """Multiple choice without images."""

    MODALITY = "TEXT"


class CustomVQADataset(ImageBaseDataset):
    """Any other table: yes/no and open questions, verbatim; ``metric`` scores open answers."""


class CustomCaptionDataset(ImageCaptionDataset):
    """Images with answers but no questions."""


_BY_KIND: Mapping[str, type[ImageBaseDataset]] = {
    "MCQ": ImageMCQDataset,
    "Y/N": ImageYORNDataset,
    "Caption": ImageCaptionDataset,
    "MT": ImageMTDataset,
}


def class_for(benchmark: QuestionBenchmark) -> type[ImageBaseDataset]:
    """Return the class of a catalogue benchmark, or that of its kind if its own is not implemented."""
    found: type[ImageBaseDataset] | None = globals().get(benchmark.dataset_class)
    return found or _BY_KIND.get(benchmark.kind, ImageBaseDataset)
