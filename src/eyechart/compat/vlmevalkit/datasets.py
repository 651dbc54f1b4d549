"""Dataset classes under the names that VLMEvalKit gives them: thin shells over tables, prompts and scorers.

A benchmark of one's own extends one of them, names its file in ``DATASET_URL`` and ``DATASET_MD5``, and overrides
``build_prompt`` and ``evaluate`` as needed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Literal

from eyechart.compat.vlmevalkit.evaluation import evaluate_file
from eyechart.compat.vlmevalkit.frames import to_frame
from eyechart.datasets.questions.asking import Asking
from eyechart.datasets.questions.benchmarks import CLASS_FORMS, ClassForm, QuestionBenchmark, known_benchmarks
from eyechart.datasets.questions.download import fetch
from eyechart.datasets.questions.folders import inside, lmu_data_root
from eyechart.datasets.questions.own_classes import by_scorer
from eyechart.datasets.questions.own_tables import benchmark_of, with_metric
from eyechart.datasets.questions.prompts import build_prompt, fill_questions
from eyechart.datasets.questions.question_table import QuestionTable
from eyechart.datasets.questions.reader import borrowed_name, known_file, other_file, parts_of, read_known
from eyechart.datasets.questions.rows import Record, as_record, as_table, with_columns
from eyechart.datasets.questions.tsv import read_tsv
from eyechart.errors import unknown_name

__all__ = [
    "CustomCaptionDataset",
    "CustomMCQDataset",
    "CustomTextMCQDataset",
    "CustomVQADataset",
    "HRBenchDataset",
    "ImageBaseDataset",
    "ImageCaptionDataset",
    "ImageMCQDataset",
    "ImageMTDataset",
    "ImageShortQADataset",
    "ImageVQADataset",
    "ImageYORNDataset",
    "LLaVABench",
    "MMDUDataset",
    "MMMUDataset",
    "MMVet",
    "MTVQADataset",
    "MUIRDataset",
    "MathVision",
    "MathVista",
    "NaturalBenchDataset",
    "OCRBench",
    "TextBaseDataset",
    "VCRDataset",
]


class CatalogueColumn(Mapping[str, str]):
    """The addresses or digests of a dataset class's benchmarks: a dict that reads the catalogue when it is used."""

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
    """A benchmark in one TSV file: rows with an index, an image, a question and mostly an answer."""

    MODALITY = "IMAGE"
    TYPE: ClassVar[str] = "VQA"
    FORM: ClassVar[ClassForm] = CLASS_FORMS["ImageBaseDataset"]
    """How rows are asked and scored where a subclass overrides neither method."""
    METRIC: ClassVar[str] = ""
    """Which metric of `eyechart.metrics.answers.OPEN_METRICS` compares open answers; the table decides if empty."""
    DATASET_URL: ClassVar[Mapping[str, str]] = {}
    DATASET_MD5: ClassVar[Mapping[str, str]] = {}

    def __init_subclass__(cls) -> None:
        """Give a class that the catalogue knows the form and the files of its benchmarks."""
        super().__init_subclass__()
        name = cls.__name__
        if name in CLASS_FORMS:
            form = CLASS_FORMS[name]
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
        """The file that the rows were read from; a class that reads them elsewhere leaves it empty."""
        self.questions = self._questions(dataset, skip_noimg)
        self.img_root = str(self.questions.image_root)
        self.meta_only, self.notices = self.questions.meta_only, self.questions.notices
        if self.FORM.kind == "Caption":
            fill_questions(self.questions.data)
        self._data: Any = None
        self.post_build(dataset)

    @property
    def data(self) -> Any:
        """The rows as a data frame where pandas is installed, images included; a class of one's own may change them.

        It is made when it is first asked for: who takes the rows of `questions` one by one keeps no image in memory.
        """
        if self._data is None:
            self._data = to_frame(self.questions.data)
        return self._data

    @data.setter
    def data(self, table: Any) -> None:
        self._data = table

    def _questions(self, dataset: str, skip_noimg: bool) -> QuestionTable:
        known = known_benchmarks().get(dataset)
        table = with_columns(as_table(self.load_data(dataset)), known.columns if known else {})
        questions = QuestionTable(dataset, table, file=self.file, skip_noimg=skip_noimg)
        if known is not None and known.parameters.get("image_size"):
            questions.add_image_sizes()
        if self.file is not None:
            questions.notices.extend(borrowed_name(dataset))
        elif known is not None and class_for(known) is type(self) and self.table_file is not None:
            questions.notices.extend(other_file(known, self.table_file))
        return questions

    @classmethod
    def supported_datasets(cls) -> list[str]:
        """List the benchmarks of this class."""
        return list(cls.DATASET_URL)

    @property
    def benchmark(self) -> QuestionBenchmark:
        """Say how this benchmark is scored: from the catalogue, else from the class and the table."""
        known = known_benchmarks().get(self.dataset_name)
        if known is not None and self.file is None:
            return known
        name = next(one.__name__ for one in type(self).__mro__ if one.__name__ in CLASS_FORMS)
        found = benchmark_of(self.dataset_name, name, self.questions.data)
        if name == "CustomVQADataset":
            return with_metric(found, self.metric)
        return replace(found, metric=self.metric) if self.metric and found.scorer == "open" else found

    def load_data(self, dataset: str) -> Any:
        """Return the table: a given file, else ``$LMUData/{dataset}.tsv``, downloaded if need be."""
        known = known_benchmarks().get(dataset)
        if self.file is None and known is not None and class_for(known) is type(self):
            self.table_file = known_file(known)
            return read_tsv(self.table_file)
        return self.prepare_tsv(self.DATASET_URL.get(dataset, ""), self.DATASET_MD5.get(dataset))

    def prepare_tsv(self, url: str, file_md5: str | None = None) -> Any:
        """Return the table: a given file, else ``$LMUData/{dataset}.tsv``, downloaded from ``url`` if need be."""
        name = self.dataset_name
        path = self.file or inside(lmu_data_root(), f"{name}.tsv", "the benchmark's name")
        if self.file is None and not path.is_file():
            if not url:
                raise unknown_name("benchmark", name, self.supported_datasets(), advice=f"Or put it at {path}.")
            fetch(url, path, file_md5 or "")
        self.table_file, self.data_path = path, str(path)
        return read_tsv(path)

    def post_build(self, dataset: str) -> None:
        """Do what a subclass wants to do after the table was read."""

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
        """Return the message for a row (its position or the row itself), in the form that the catalogue names."""
        row = self.line(line)
        known = known_benchmarks().get(self.dataset_name)
        if known is None or class_for(known) is not type(self):
            form = self.FORM
            known = QuestionBenchmark(self.dataset_name, "", "", "no", form.prompt, form.kind, asking=form.asking)
        images = [{"type": "image", "value": path} for path in self.dump_image(row)]
        return build_prompt(known, row, images, self.questions.where(row))

    @by_scorer
    def evaluate(self, eval_file: str | Path, **judge_kwargs: Any) -> Any:
        """Score a file of predictions (see `eyechart.compat.vlmevalkit.evaluation.evaluate_file`)."""
        return evaluate_file(self.questions, self.benchmark, Path(eval_file), **judge_kwargs)

    def dump_image(self, line: Any) -> list[str]:
        """Write a row's images to the image folder and return their paths, or return the paths it names."""
        return self.questions.write_images(self.line(line))


class ImageMCQDataset(ImageBaseDataset):
    """Multiple choice: hint, question, options A, B, ... and the request to choose one."""


class MMMUDataset(ImageMCQDataset):
    """MMMU: multiple choice with the images where the text names them (``<image 1>``)."""


class MUIRDataset(ImageMCQDataset):
    """MUIRBench: multiple choice with the images in place of ``<image>``, in their order."""


class HRBenchDataset(ImageMCQDataset):
    """HRBench: multiple choice about large images, in several cycles."""


class NaturalBenchDataset(ImageMCQDataset):
    """NaturalBench: two questions on two images."""


class ImageYORNDataset(ImageBaseDataset):
    """Yes/no questions, asked as they are; AMBER's say what they want."""


class ImageVQADataset(ImageBaseDataset):
    """Open questions with short answers."""


class MTVQADataset(ImageBaseDataset):
    """MTVQA: open questions in many languages."""


class OCRBench(ImageBaseDataset):
    """OCRBench: questions as they are, answers looked for in what the model writes."""


class MathVista(ImageBaseDataset):
    """MathVista: questions as they are."""


class MathVision(ImageBaseDataset):
    """MathVision: questions as they are."""


class MMVet(ImageBaseDataset):
    """MM-Vet and CORE-MM: questions as they are, graded by a judge."""


class LLaVABench(ImageBaseDataset):
    """LLaVABench: questions as they are, compared with GPT-4's answers by a judge."""


class ImageShortQADataset(ImageBaseDataset):
    """Open questions that ask for a short answer."""

    TYPE = "Short"
    FORM = ClassForm(
        "Short", "question", "open", Asking("${question}\nPlease directly provide a short answer to the question. ")
    )


class TextBaseDataset(ImageBaseDataset):
    """Questions without images."""

    MODALITY = "TEXT"

    def __init__(self, dataset: str = "MMBench", **_: Any) -> None:
        super().__init__(dataset, skip_noimg=False)

    def dump_image(self, line: Any) -> list[str]:  # noqa: ARG002 - there are none
        """Return no images."""
        return []


class VCRDataset(ImageBaseDataset):
    """Visual caption restoration: the question names the task."""


class ImageCaptionDataset(ImageBaseDataset):
    """Captions: one request for every image, unless the table has questions."""


class ImageMTDataset(ImageBaseDataset):
    """Dialogues: ``question`` and ``answer`` are lists; ``<ImageHere>`` stands where an image is shown."""


class MMDUDataset(ImageMTDataset):
    """MMDU's dialogues."""


class ConcatDataset(ImageBaseDataset):
    """Several benchmarks in one: each row is asked and scored as in its part."""

    def _questions(self, dataset: str, skip_noimg: bool) -> QuestionTable:  # noqa: ARG002 - as the parts have it
        known = known_benchmarks()[dataset]
        return read_known(known, {part.name: known_file(part) for part in parts_of(known)})


class CustomMCQDataset(ImageMCQDataset):
    """A table of one's own with multiple choice: the columns A and B are there."""


class CustomTextMCQDataset(CustomMCQDataset):
    """Multiple choice without images."""

    MODALITY = "TEXT"


class CustomVQADataset(ImageBaseDataset):
    """Anything else: yes/no and open questions, asked as they are; ``metric`` compares open answers."""


class CustomCaptionDataset(ImageCaptionDataset):
    """Images with answers but no questions."""


_BY_KIND: Mapping[str, type[ImageBaseDataset]] = {
    "MCQ": ImageMCQDataset,
    "Y/N": ImageYORNDataset,
    "Caption": ImageCaptionDataset,
    "MT": ImageMTDataset,
}


def class_for(benchmark: QuestionBenchmark) -> type[ImageBaseDataset]:
    """Return the class of a benchmark of the catalogue; where its own is not here, that of its kind."""
    found: type[ImageBaseDataset] | None = globals().get(benchmark.dataset_class)
    return found or _BY_KIND.get(benchmark.kind, ImageBaseDataset)
