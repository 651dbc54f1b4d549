"""From a name to a dataset: the catalogue, other people's classes, or a TSV file dropped into the folder."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from eyechart import plugins
from eyechart.errors import DataError, unknown_name
from eyechart.metrics.answers import OPEN_METRICS
from eyechart.metrics.cells import text_list
from eyechart.vlm import datasets
from eyechart.vlm.base import ImageBaseDataset
from eyechart.vlm.benchmarks import Benchmark, Judge, known_benchmarks
from eyechart.vlm.folders import inside, lmu_data_root
from eyechart.vlm.ratings import IGNORE_CASE
from eyechart.vlm.rows import Table
from eyechart.vlm.tsv import read_header

YES_NO = frozenset({"yes", "no"})
CIRCULAR = "circular"


class _Custom(ImageBaseDataset):
    """A file of one's own; its rating follows from its columns, and a metric may be chosen."""

    metric = ""

    @property
    def benchmark(self) -> Benchmark:
        """Say how this file is scored."""
        rating, metric = choose_rating(self.dataset_name, self.data, self.metric)
        judge: Judge = "no" if rating == "open" else "optional"
        return Benchmark(self.dataset_name, type(self).__name__, rating, judge, metric=metric)


class CustomMCQDataset(_Custom, datasets.ImageMCQDataset):
    """Multiple choice: the columns A and B are there."""


class CustomTextMCQDataset(CustomMCQDataset):
    """Multiple choice without pictures."""

    MODALITY = "TEXT"


class CustomVQADataset(_Custom):
    """Anything else: yes/no and open questions, asked as they are."""


class CustomCaptionDataset(datasets.ImageCaptionDataset):
    """Pictures with answers but no questions."""


def choose_rating(name: str, table: Table, metric: str = "") -> tuple[str, str]:
    """Return the rating of a custom table and, for open questions, its metric.

    Columns A and B mean multiple choice (circular with a column ``g_index`` or by name, as in VLMEvalKit); answers
    that are all yes or no mean yes/no; everything else is open. The metric for open
    questions is normalised equality, or VQA accuracy where rows have three answers or more; ``metric`` overrules.
    """
    if "A" in table and "B" in table:
        circular = CIRCULAR in name.lower() or "g_index" in table
        return (CIRCULAR if circular else "choice"), ""
    if metric in OPEN_METRICS:
        return "open", metric
    if metric:
        raise unknown_name("metric", metric, OPEN_METRICS)
    answers = [text_list(row.get("answer")) for row in table.rows]
    if answers and all(len(a) == 1 and a[0].strip().lower() in YES_NO for a in answers):
        return "yes_no", IGNORE_CASE
    several = sum(len(a) >= 3 for a in answers) > len(answers) / 2
    return "open", "vqa_score" if several else "normalized_exact"


def build_dataset(name: str, *, metric: str = "", skip_noimg: bool = True) -> ImageBaseDataset:
    """Open a benchmark by name, or a TSV file by path.

    Raises:
        UnknownNameError: If nobody knows the name and there is no such file.
    """
    known = known_benchmarks().get(name)
    if known is not None:
        made: ImageBaseDataset = getattr(datasets, known.dataset_class)(name, skip_noimg)
        return made
    other = _registered(name)
    if other is not None:
        opened: ImageBaseDataset = other(name)
        return opened
    path = custom_file(name)
    if path is None:
        raise unknown_name(
            "benchmark",
            name,
            [*known_benchmarks(), *plugins.names("benchmarks")],
            advice=f"Or put your own table at {lmu_data_root() / f'{name}.tsv'}.",
        )
    cls = _custom_class(path)
    dataset = cls(path.stem, skip_noimg, file=path)
    if isinstance(dataset, _Custom):
        dataset.metric = metric
    return dataset


def is_benchmark(name: str) -> bool:
    """Tell whether a name is that of a generative benchmark; no file is read but for its first line."""
    if name in known_benchmarks() or name in plugins.names("benchmarks"):
        return True
    path = custom_file(name)
    return path is not None and _is_table_of_questions(read_header(path))


def custom_file(name: str) -> Path | None:
    """Return the file of a custom benchmark: a path that ends in .tsv, or one in ``$LMUData``."""
    path = Path(name)
    if path.suffix == ".tsv":
        return path if path.is_file() else None
    if "/" in name or "\\" in name:
        return None
    try:
        path = inside(lmu_data_root(), f"{name}.tsv", "the benchmark's name")
    except DataError:
        return None
    return path if path.is_file() else None


def _is_table_of_questions(columns: Iterable[str]) -> bool:
    names = set(columns)
    return "index" in names and bool(names & {"question", "answer"})


def _custom_class(path: Path) -> type[ImageBaseDataset]:
    columns = set(read_header(path))
    if not _is_table_of_questions(columns):
        raise DataError(
            f"{path} is not a benchmark: it has the columns {', '.join(sorted(columns))}.",
            advice="It needs index and question (or answer, for captions).",
        )
    pictures = bool(columns & {"image", "image_path"})
    if {"A", "B"} <= columns:
        return CustomMCQDataset if pictures else CustomTextMCQDataset
    return CustomVQADataset if "question" in columns else CustomCaptionDataset


def _registered(name: str) -> Any:
    """Return the dataset class that a package registered for a name, or that lists it in ``DATASET_URL``."""
    if name in plugins.names("benchmarks"):
        return plugins.load("benchmarks", name)
    return None
