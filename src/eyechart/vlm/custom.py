"""From a name to a dataset: the catalogue, other people's classes, or a TSV file dropped into the folder."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from eyechart import plugins
from eyechart.errors import DataError, UsageError, unknown_name
from eyechart.metrics.answers import OPEN_METRICS
from eyechart.metrics.cells import text_list
from eyechart.vlm import datasets
from eyechart.vlm.base import ImageBaseDataset, default_open_metric
from eyechart.vlm.benchmarks import Benchmark, known_benchmarks
from eyechart.vlm.folders import inside, lmu_data_root
from eyechart.vlm.ratings import IGNORE_CASE
from eyechart.vlm.rows import Table
from eyechart.vlm.tsv import read_header

YES_NO = frozenset({"yes", "no"})


class CustomMCQDataset(datasets.ImageMCQDataset):
    """Multiple choice: the columns A and B are there."""


class CustomTextMCQDataset(CustomMCQDataset):
    """Multiple choice without images."""

    MODALITY = "TEXT"


class CustomVQADataset(ImageBaseDataset):
    """Anything else: yes/no and open questions, asked as they are; ``metric`` compares open answers."""

    metric = ""

    @property
    def benchmark(self) -> Benchmark:
        """Say how this file is scored: as yes/no if all answers are, by the chosen metric, or by the table's."""
        if self.metric and self.metric not in OPEN_METRICS:
            raise unknown_name("metric", self.metric, OPEN_METRICS)
        if not self.metric and only_yes_and_no(self.data):
            return Benchmark(self.dataset_name, type(self).__name__, "yes_no", "optional", metric=IGNORE_CASE)
        metric = self.metric or default_open_metric(self.data)
        return Benchmark(self.dataset_name, type(self).__name__, "open", "no", metric=metric)


class CustomCaptionDataset(datasets.ImageCaptionDataset):
    """Images with answers but no questions."""


def only_yes_and_no(table: Table) -> bool:
    """Tell whether every answer is yes or no, in any case."""
    answers = [text_list(row.get("answer")) for row in table.rows]
    return bool(answers) and all(len(a) == 1 and a[0].strip().lower() in YES_NO for a in answers)


def build_dataset(name: str, *, metric: str = "", skip_noimg: bool = True) -> ImageBaseDataset:
    """Open a benchmark by name, or a TSV file by path.

    Raises:
        UnknownNameError: If nobody knows the name and there is no such file.
    """
    dataset = _open(name, skip_noimg)
    if isinstance(dataset, CustomVQADataset):
        dataset.metric = metric
    elif metric:
        raise UsageError(
            f"The metric of {name} cannot be chosen: it is scored as {dataset.benchmark.rating}.",
            advice="--metric is for open questions in a table of your own.",
        )
    return dataset


def _open(name: str, skip_noimg: bool) -> ImageBaseDataset:
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
    return _custom_class(path)(path.stem, skip_noimg, file=path)


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
    images = bool(columns & {"image", "image_path"})
    if {"A", "B"} <= columns:
        return CustomMCQDataset if images else CustomTextMCQDataset
    return CustomVQADataset if "question" in columns else CustomCaptionDataset


def _registered(name: str) -> Any:
    """Return the dataset class that a package registered for a name, or that lists it in ``DATASET_URL``."""
    if name in plugins.names("benchmarks"):
        return plugins.load("benchmarks", name)
    return None
