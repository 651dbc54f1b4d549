"""Tables of one's own: where they lie, and what kind of benchmark their columns and answers make of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from eyechart.datasets.questions.benchmarks import CLASS_FORMS, IGNORE_CASE, QuestionBenchmark
from eyechart.datasets.questions.folders import inside, lmu_data_root
from eyechart.datasets.questions.rows import RowTable
from eyechart.errors import DataError, UsageError, unknown_name
from eyechart.metrics.answers import OPEN_METRICS
from eyechart.metrics.cells import text_list

CIRCULAR_NAMES = ("mmbench", "ccbench", "circular", "mmcr")
"""Words in names of multiple-choice tables whose rows are rotations of each other, as VLMEvalKit takes them."""
OPEN_CLASS = "CustomVQADataset"
"""The class of tables whose metric can be chosen."""
YES_NO = frozenset({"yes", "no"})


def table_file(name: str) -> Path | None:
    """Return the file of a table of one's own: a path that ends in .tsv, or one in ``$LMUData``."""
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


def is_question_table(columns: Iterable[str]) -> bool:
    """Tell whether a table with these columns holds questions or images with answers."""
    names = set(columns)
    return "index" in names and bool(names & {"question", "answer"})


def class_of(columns: Iterable[str], path: Path) -> str:
    """Return the dataset class that fits a table's columns."""
    names = set(columns)
    if not is_question_table(names):
        raise DataError(
            f"{path} is not a benchmark: it has the columns {', '.join(sorted(names))}.",
            advice="It needs index and question (or answer, for captions).",
        )
    if {"A", "B"} <= names:
        return "CustomMCQDataset" if names & {"image", "image_path"} else "CustomTextMCQDataset"
    return OPEN_CLASS if "question" in names else "CustomCaptionDataset"


def benchmark_of(name: str, dataset_class: str, table: RowTable) -> QuestionBenchmark:
    """Return how a table is asked and scored that the catalogue does not know."""
    form = CLASS_FORMS[dataset_class]
    made = QuestionBenchmark(name, dataset_class, form.scorer, "optional", form.prompt, form.kind)
    if form.scorer == "choice" and ("g_index" in table or any(word in name.lower() for word in CIRCULAR_NAMES)):
        return replace(made, scorer="circular")
    if dataset_class == OPEN_CLASS and only_yes_and_no(table):
        return replace(made, scorer="yes_no", metric=IGNORE_CASE)
    return replace(made, metric=default_open_metric(table), judge="no") if form.scorer == "open" else made


def with_metric(benchmark: QuestionBenchmark, metric: str) -> QuestionBenchmark:
    """Return the benchmark scored by the metric that the user chose, if any.

    Raises:
        UsageError: If there is no such metric, or the benchmark has a scorer of its own.
    """
    if not metric:
        return benchmark
    if benchmark.dataset_class != OPEN_CLASS:
        raise UsageError(
            f"The metric of {benchmark.name} cannot be chosen: it is scored as {benchmark.scorer}.",
            advice="--metric is for open questions in a table of your own.",
        )
    if metric not in OPEN_METRICS:
        raise unknown_name("metric", metric, OPEN_METRICS)
    return replace(benchmark, scorer="open", metric=metric, judge="no")


def default_open_metric(table: RowTable) -> str:
    """Return VQA accuracy where most rows have three answers or more, else normalised equality.

    VQA accuracy, the original's default, counts how many other people gave an answer: with one answer it is always 0.
    """
    several = sum(len(text_list(row.get("answer"))) >= 3 for row in table.rows)
    return "vqa_score" if several > len(table) / 2 else "normalized_exact"


def only_yes_and_no(table: RowTable) -> bool:
    """Tell whether every answer is yes or no, in any case."""
    answers = [text_list(row.get("answer")) for row in table.rows]
    return bool(answers) and all(len(a) == 1 and a[0].strip().lower() in YES_NO for a in answers)
