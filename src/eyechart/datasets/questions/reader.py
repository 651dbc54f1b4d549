"""From a name to a benchmark of questions: the catalogue, other people's classes, or a table of one's own."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from eyechart.datasets.questions.benchmarks import QuestionBenchmark, known_benchmarks, refused_benchmarks
from eyechart.datasets.questions.dataset import QuestionDataset, QuestionInfo
from eyechart.datasets.questions.download import fetch
from eyechart.datasets.questions.folders import inside, lmu_data_root
from eyechart.datasets.questions.own_classes import open_class
from eyechart.datasets.questions.own_tables import benchmark_of, class_of, is_question_table, table_file
from eyechart.datasets.questions.prompts import fill_questions
from eyechart.datasets.questions.question_table import JoinedTable, QuestionTable
from eyechart.datasets.questions.rows import with_columns
from eyechart.datasets.questions.tsv import read_header, read_tsv
from eyechart.datasets.registry import BENCHMARKS
from eyechart.errors import DataError, LanguageError, NotHereError, UsageError
from eyechart.languages import canonical
from eyechart.metrics.cells import as_text
from eyechart.plugins import PYTHON, split_own
from eyechart.types import DatasetSpec, Notice


def question_names() -> list[str]:
    """List the benchmarks that are known by name."""
    return [*known_benchmarks(), *BENCHMARKS.names()]


def find_questions(name: str) -> tuple[str, str] | None:
    """Return the name and place of a benchmark of questions; None if it is something else.

    No file is read but for the first line of a table. The place is empty where the name says it all.

    Raises:
        UsageError: If it is a benchmark that VLMEvalKit knows and that is not scored here, with the reason.
    """
    if name in question_names():
        return name, ""
    refuse_unscored(name)
    if name.startswith(PYTHON):
        return split_own(name, "benchmark")[1], name
    path = table_file(name)
    return (path.stem, str(path)) if path is not None and is_question_table(read_header(path)) else None


def refuse_unscored(name: str) -> None:
    """Refuse a benchmark that VLMEvalKit knows and that is not scored here, with the reason."""
    if name in refused_benchmarks():
        raise UsageError(
            f"{name} is not scored: {refused_benchmarks()[name]}.",
            advice=f"To score its table by the general rules all the same, give the file: path/to/{name}.tsv.",
        )


def open_questions(spec: DatasetSpec) -> QuestionDataset:
    """Open a benchmark, downloaded if need be.

    Raises:
        LanguageError: If another language than the table's own is asked for.
        DataError: If the file cannot be downloaded, or is no benchmark.
    """
    _check_settings(spec)
    known = known_benchmarks().get(spec.name) if not spec.root else None
    if known is not None:
        return _open_known(known, spec)
    if not spec.root or spec.root.startswith(PYTHON):
        return open_class(BENCHMARKS.load(spec.root or spec.name), spec)
    path = Path(spec.root)
    if not path.is_file():
        raise DataError(f"There is no table {path}.", advice="Check the path.")
    dataset_class = class_of(read_header(path), path)
    table = read_questions(spec.name, path, dataset_class == "CustomCaptionDataset")
    table.notices.extend(borrowed_name(spec.name))
    return QuestionDataset(_info(spec, path, benchmark_of(spec.name, dataset_class, table.data)), lambda: table)


def borrowed_name(name: str) -> list[Notice]:
    """Say that a table has a benchmark's name but is not scored by its rules."""
    if name not in {*known_benchmarks(), *refused_benchmarks()}:
        return []
    text = f"This table has the name of a benchmark, {name}, but is scored by the general rules for its columns."
    return [Notice("other_rules", 1, text)]


def _open_known(known: QuestionBenchmark, spec: DatasetSpec) -> QuestionDataset:
    offline = bool(spec.options.get("offline"))
    paths = {part.name: known_file(part, offline=offline) for part in parts_of(known)}
    source = lmu_data_root() if known.parts else paths[known.name]
    return QuestionDataset(_info(spec, source, known), partial(read_known, known, paths))


def parts_of(known: QuestionBenchmark) -> list[QuestionBenchmark]:
    """Return the benchmarks that one is made of: others, or itself."""
    return [known_benchmarks()[name] for name in known.parts] or [known]


def read_known(known: QuestionBenchmark, paths: Mapping[str, Path]) -> QuestionTable:
    """Read the table of a benchmark of the catalogue, or those of its parts."""
    tables = {part.name: _read_published(part, paths[part.name]) for part in parts_of(known)}
    return JoinedTable(known.name, tables) if known.parts else tables[known.name]


def _read_published(known: QuestionBenchmark, path: Path) -> QuestionTable:
    """Read the table of a benchmark of the catalogue, and say if it is not the published one."""
    table = read_questions(known.name, path, known.kind == "Caption", known.columns)
    table.notices.extend(other_file(known, path))
    if known.parameters.get("image_size"):
        table.add_image_sizes()
    return table


def other_file(known: QuestionBenchmark, path: Path) -> list[Notice]:
    """Say that a file is not the published one of its name."""
    with path.open("rb") as stream:
        md5 = hashlib.file_digest(stream, partial(hashlib.md5, usedforsecurity=False)).hexdigest()
    if not known.md5 or md5 == known.md5:
        return []
    text = f"{path} is not the published file of {known.name} (its MD5 differs): numbers cannot be compared."
    return [Notice("other_file", 1, text)]


def known_file(known: QuestionBenchmark, *, offline: bool = False) -> Path:
    """Return the file of a benchmark of the catalogue, downloaded if need be."""
    path = inside(lmu_data_root(), f"{known.name}.tsv", "the benchmark's name")
    if known.by_hand and not path.is_file():
        raise DataError(
            f"{known.name} has no table that could be downloaded, and there is no {path}.",
            advice=f"Get {known.url}, {known.by_hand} and put it there.",
        )
    if offline and not path.is_file():
        raise NotHereError(
            f"There is no {path}, and nothing is fetched with --offline.", advice=f"Get {known.url}.", source=known.url
        )
    return fetch(known.url, path, known.md5)


def read_questions(
    name: str, path: Path, captions: bool, columns: Mapping[str, str | Sequence[str]] | None = None
) -> QuestionTable:
    """Read the table of a benchmark, with columns that stand under other names in its file."""
    table = QuestionTable(name, with_columns(read_tsv(path), columns or {}), file=path)
    if captions:
        fill_questions(table.data)
    blank = sum(not as_text(row.get("question")).strip() for row in table.rows)
    if blank:
        text = f"{blank} of {len(table.rows)} rows have no question: the model is shown the rest of the row."
        table.notices.append(Notice("blank_questions", blank, text))
    return table


def _info(spec: DatasetSpec, path: Path, benchmark: QuestionBenchmark) -> QuestionInfo:
    return QuestionInfo(name=spec.name, kind="questions", split=spec.split, source=str(path), benchmark=benchmark)


def _check_settings(spec: DatasetSpec) -> None:
    """Refuse what a table of questions cannot follow, rather than to do nothing about it."""
    if canonical(spec.language) != "en":
        raise LanguageError(
            f"{spec.name} is asked in its own language, not in {spec.language!r}.",
            advice="Leave --language out; a benchmark in another language has another name.",
        )
    if spec.split != "test":
        raise UsageError(
            f"{spec.name} has no split {spec.split!r}: a table is read whole.", advice="Leave --split out."
        )
