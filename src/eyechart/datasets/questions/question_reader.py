"""From a name to a benchmark of questions: the catalogue, user tables, and VLMEvalKit's dataset classes."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from eyechart.datasets.locations import check_only_split, need_file
from eyechart.datasets.questions.benchmark_files import answers_path, fetch, inside, lmu_data_root
from eyechart.datasets.questions.benchmarks import (
    CHOICE_RULE,
    CIRCULAR,
    IGNORE_CASE,
    OPEN_RULE,
    OWN_EVALUATE,
    YES_NO_RULE,
    QuestionBenchmark,
    class_forms,
    is_listed,
    known_benchmarks,
    refused_benchmarks,
)
from eyechart.datasets.questions.question_dataset import QuestionDataset, QuestionInfo, fill_questions
from eyechart.datasets.questions.question_table import JoinedTable, QuestionTable
from eyechart.datasets.questions.row_table import Record, RowTable, as_table, option_columns, with_columns
from eyechart.datasets.questions.table_files import read_header, read_tsv
from eyechart.datasets.registry import BENCHMARKS
from eyechart.errors import DataError, EyechartError, LanguageError, NotHereError, UsageError, unknown_name
from eyechart.io.digests import DIGEST_SIZE, code_digest, file_digest
from eyechart.io.safe_parse import parse_json, read_text
from eyechart.languages import canonical
from eyechart.messages import UserMessage
from eyechart.metrics.answers import OPEN_METRICS
from eyechart.metrics.cell_values import LETTERS, as_text, literal_list, text_list
from eyechart.metrics.choices import key_letter
from eyechart.plugins import PYTHON, declared_identity, split_user_name
from eyechart.types import DatasetSpec, Notice, digest_json

CIRCULAR_NAMES = ("mmbench", "ccbench", "circular", "mmcr")
"""Substrings of table names that mark multiple choice with rotated options, as in VLMEvalKit."""
OPEN_CLASS = "CustomVQADataset"
"""The class of tables with a selectable metric."""
YES_NO = frozenset({"yes", "no"})
_OPTION_LETTER = re.compile(r"\(?[A-Ja-j][).]?")


def table_file(name: str) -> Path | None:
    """Return the file of a user table: a path that ends in .tsv, or a table in ``$LMUData``."""
    path = Path(name)
    if path.suffix != ".tsv":
        if "/" in name or "\\" in name:
            return None
        try:
            path = inside(lmu_data_root(), f"{name}.tsv", "the benchmark's name")
        except DataError:
            return None
    return path if path.is_file() else None


def is_question_table(columns: Iterable[str]) -> bool:
    """True if a table with these columns holds questions, or images with answers."""
    names = set(columns)
    return "index" in names and bool(names & {"question", "answer"})


def class_of(columns: Iterable[str], path: Path) -> str:
    """Return the dataset class that fits the columns of a table."""
    names = set(columns)
    if not is_question_table(names):
        raise DataError(
            "{path} is not a benchmark; its columns are: {names}.",
            advice="The columns index and question (or answer, for captions) are required.",
            path=path,
            names=", ".join(sorted(names)),
        )
    if {"A", "B"} <= names:
        return "CustomMCQDataset" if names & {"image", "image_path"} else "CustomTextMCQDataset"
    return OPEN_CLASS if "question" in names else "CustomCaptionDataset"


_LISTS = ("options", "choices", "candidates")
_USED = frozenset(
    ("index", "image", "image_path", "question", "answer", "hint", "category", "l2-category", "split", "g_index")
)


def with_options(name: str, table: RowTable) -> RowTable:
    """Add the columns A, B, ... to a user table that has its options under other names, or as a list.

    Columns a, b, ... are options only if the answers name them.
    """
    if {"A", "B"} <= set(table.columns):
        return table
    named = option_columns(table.columns)
    lists = [column for column in _LISTS if column in table]
    if {"A", "B"} <= named.keys():
        sources = [column for columns in named.values() for column in columns]
        options = [
            {key: row[columns[0]] for key, columns in named.items() if row.has(columns[0])} for row in table.rows
        ]
    elif len(lists) == 1 and all(literal_list(as_text(cell)) is not None for cell in table[lists[0]]):
        sources, options = lists, [dict(zip(LETTERS, text_list(row[lists[0]]), strict=False)) for row in table.rows]
    else:
        return table
    pairs = [(as_text(row.get("answer")), one) for row, one in zip(table.rows, options, strict=True)]
    fits = [key_letter(answer, one) is not None for answer, one in pairs if answer]
    if max(map(len, sources)) == 1 and not any(fits):
        return table
    lost = fits.count(False)
    if lost or (sources != lists and len(sources) > len(named)):
        none = UserMessage("{lost} answers name none of them", lost=lost)
        raise DataError(
            "{name}: the columns {columns} look like options, but {why}.",
            advice="Name the options A, B, ... and answer with their letters, or rename these columns; "
            "`eyechart vlm convert` also reads answers that are positions.",
            name=name,
            columns=", ".join(sources),
            why=none if lost else UserMessage("some hold the same option"),
        )
    for letter in sorted({letter for one in options for letter in one}):
        table[letter] = [one.get(letter) for one in options]
    return table


def unused_columns(table: RowTable) -> list[Notice]:
    """Return a notice that names the columns of a user table that neither prompts nor scores use."""
    known = {*_USED, *LETTERS}
    if {"A", "B"} <= set(table.columns):
        known |= {*_LISTS, *(column for columns in option_columns(table.columns).values() for column in columns)}
    unused = [column for column in table.columns if column not in known]
    text = UserMessage(
        "{n} columns are not used in prompts or scores: {names}.", n=len(unused), names=", ".join(unused)
    )
    return [Notice("unused_columns", len(unused), text)] if unused else []


def benchmark_of(name: str, dataset_class: str, table: RowTable) -> QuestionBenchmark:
    """Derive prompt and scoring of a table that is not in the catalogue."""
    form = class_forms()[dataset_class]
    made = QuestionBenchmark(
        name, dataset_class, form.rule, "optional", form.prompt, form.kind, aggregate=form.aggregate
    )
    if made.scorer == CHOICE_RULE and ("g_index" in table or any(word in name.lower() for word in CIRCULAR_NAMES)):
        return replace(made, aggregate=CIRCULAR)
    if made.scorer != OPEN_RULE:
        return made
    answers = [text_list(row.get("answer")) for row in table.rows]
    binary = bool(answers) and all(len(texts) == 1 and texts[0].strip().lower() in YES_NO for texts in answers)
    if binary and dataset_class == OPEN_CLASS:
        return replace(made, rule=YES_NO_RULE, metric=IGNORE_CASE)
    # VQA accuracy, VLMEvalKit's default, counts agreement between annotators: with one answer it is always 0.
    several = sum(len(texts) >= 3 for texts in answers) > len(answers) / 2
    letters = bool(answers) and all(len(texts) == 1 and _OPTION_LETTER.fullmatch(texts[0].strip()) for texts in answers)
    lost = letters and dataset_class == OPEN_CLASS
    return replace(made, metric="vqa_score" if several else "normalized_exact", judge="no", needs_options=lost)


def with_metric(benchmark: QuestionBenchmark, metric: str) -> QuestionBenchmark:
    """Return the benchmark with the metric that the user selected, if any."""
    if not metric:
        return benchmark
    if benchmark.dataset_class != OPEN_CLASS:
        raise UsageError(
            "The metric of {name} cannot be changed: it is scored by {scorer}.",
            advice="{--metric} applies to user tables with open questions.",
            name=benchmark.name,
            scorer=benchmark.scorer,
        )
    if metric not in OPEN_METRICS:
        raise unknown_name("metric", metric, OPEN_METRICS)
    return replace(benchmark, rule=OPEN_RULE, metric=metric, judge="no", needs_options=False)


# User-defined dataset classes in VLMEvalKit's form, recognised by their interface and not by their base class.
#
# Such a class is constructed with the benchmark's name and has ``data`` (a table or data frame),
# ``build_prompt(row)``, ``TYPE``, and either its own ``evaluate(file)`` or a ``benchmark`` that names a scorer.

_BY_SCORER = "__by_scorer__"
F = TypeVar("F", bound=Callable[..., Any])


def by_scorer(function: F) -> F:
    """Mark an ``evaluate`` that only calls the benchmark's scorer, so that answers need not pass through a file."""
    setattr(function, _BY_SCORER, True)
    return function


def open_class(made_by: Any, spec: DatasetSpec) -> ClassDataset:
    """Instantiate a dataset class under the name of its benchmark."""
    name = getattr(made_by, "__name__", spec.name)
    own = list(vars(made_by).get("DATASET_URL", ())) if isinstance(made_by, type) else []
    with _explained(name):
        made = made_by(spec.name if spec.name in own or not own else own[0])
    missing = [name for name in ("data", "build_prompt", "TYPE", "evaluate") if not hasattr(made, name)]
    if missing:
        raise UsageError(
            "{type} is not a dataset class: it lacks {first}.",
            advice="Subclass eyechart.vlm.ImageBaseDataset, or write a class with the same methods.",
            type=type(made).__name__,
            first=missing[0],
        )
    return ClassDataset(made, spec)


@contextmanager
def _explained(what: str) -> Iterator[None]:
    """Convert exceptions of user code to errors of this dataset, so that other jobs continue."""
    try:
        yield
    except EyechartError:
        raise
    except Exception as error:
        raise DataError(
            "{what} failed: {type}: {reason}", what=what, type=type(error).__name__, reason=error
        ) from error


class ClassDataset(QuestionDataset):
    """A benchmark that a user-defined class reads, prompts and possibly scores."""

    def __init__(self, made: Any, spec: DatasetSpec) -> None:
        own = not getattr(type(made).evaluate, _BY_SCORER, False)
        kind, name = str(made.TYPE), type(made).__name__
        benchmark = QuestionBenchmark(spec.name, name, OWN_EVALUATE, "optional", kind=kind) if own else made.benchmark
        file: Path | None = getattr(made, "table_file", None)  # absent if the class reads its rows elsewhere
        super().__init__(_info(spec, file or spec.root or spec.name, benchmark), self._rows)
        self.made, self.file = made, file
        self.keeps_prompts = bool(getattr(made, "force_use_dataset_prompt", False))

    def _rows(self) -> QuestionTable:
        name = str(getattr(self.made, "dataset_name", self.info.name))
        table = QuestionTable(name, as_table(self.made.data), file=self.file, skip_noimg=False)
        table.notices += getattr(self.made, "notices", ())
        return table

    def build_prompt(self, row: Record) -> Sequence[Any]:
        """Build a prompt with the class."""
        with _explained(f"{type(self.made).__name__}.build_prompt"):
            prompt: Sequence[Any] = self.made.build_prompt(row)
        return prompt

    def image_paths(self, row: Record) -> list[str]:
        """Return the image files of a row, from the class if it provides them."""
        paths: list[str] = self.made.dump_image(row) if hasattr(self.made, "dump_image") else super().image_paths(row)
        return paths

    def evaluate(self, file: Path, judge: dict[str, Any]) -> Any:
        """Score a file of predictions with the class."""
        with _explained(f"{type(self.made).__name__}.evaluate"):
            return self.made.evaluate(str(file), **judge)

    def signature(self) -> str | None:
        """Digest the declared identity and the code of the class, the rows and the image files they name."""
        declared = declared_identity(self.made)
        if declared is None:
            return None
        if self.file:
            data = file_digest(self.file).hex()
        else:
            state = hashlib.blake2b(digest_size=DIGEST_SIZE)
            for row in self.table.rows:
                state.update(repr(list(row.items())).encode("utf-8", "surrogatepass"))
            data = state.hexdigest()
        images = [file_digest(path).hex() for path in self.table.image_files()]
        return digest_json([declared, code_digest(self.made), data, images])


def question_names() -> list[str]:
    """List the names of all benchmarks."""
    return [*known_benchmarks(), *BENCHMARKS.names()]


def is_benchmark(name: str) -> bool:
    """True if the name is that of a benchmark."""
    return (is_listed(name) and name in known_benchmarks()) or name in BENCHMARKS.names()


def find_questions(name: str) -> tuple[str, str] | None:
    """Return name and path of a question benchmark; None if it is something else.

    Of a table, only the header is read. The path is empty if the name identifies the benchmark.
    """
    if is_benchmark(name):
        return name, ""
    refuse_unscored(name)
    if name.startswith(PYTHON):
        return split_user_name(name, "benchmark")[1], name
    path = table_file(name)
    return (path.stem, str(path)) if path is not None and is_question_table(read_header(path)) else None


def refuse_unscored(name: str) -> None:
    """Raise a `UsageError` for an unsupported benchmark of VLMEvalKit, with the reason."""
    if is_listed(name) and name in refused_benchmarks():
        raise UsageError(
            "{path} is not scored: {reason}.",
            advice="To score its table by the general rules anyway, pass the file: path/to/{path}.tsv.",
            path=name,
            reason=refused_benchmarks()[name],
        )


def open_questions(spec: DatasetSpec) -> QuestionDataset:
    """Open a benchmark, downloading it if necessary."""
    if canonical(spec.language) != "en":
        raise LanguageError(
            "{name} is available in its original language only, not in {language!r}.",
            advice="Omit {--language}; a benchmark in another language has its own name.",
            name=spec.name,
            language=spec.language,
        )
    check_only_split(spec, UserMessage("Omit {--split}."))
    known = known_benchmarks().get(spec.name) if not spec.root else None
    if known is not None:
        offline = bool(spec.options.get("offline"))
        paths = {part.name: known_file(part, offline=offline) for part in parts_of(known)}
        source = lmu_data_root() if known.parts else paths[known.name]
        if not known.answers:  # published without answers, which may be in the file by now
            found = read_known(known, paths)
            complete = all(as_text(row.get(known.reference or "answer")) for row in found.rows)
            known = replace(known, answers=complete)
            return QuestionDataset(_info(spec, source, known), lambda: found)
        return QuestionDataset(_info(spec, source, known), partial(read_known, known, paths))
    if not spec.root or spec.root.startswith(PYTHON):
        return open_class(BENCHMARKS.load(spec.root or spec.name), spec)
    path = need_file(Path(spec.root), UserMessage("Check the path."))
    rows = with_options(spec.name, read_tsv(path))
    dataset_class = class_of(rows.columns, path)
    table = question_table(spec.name, path, rows, dataset_class == "CustomCaptionDataset")
    table.notices.extend((*borrowed_name(spec.name), *unused_columns(rows)))
    return QuestionDataset(_info(spec, path, benchmark_of(spec.name, dataset_class, table.data)), lambda: table)


def borrowed_name(name: str) -> list[Notice]:
    """Return a notice if a table has the name of a benchmark but is not scored by its rules."""
    if name not in {*known_benchmarks(), *refused_benchmarks()}:
        return []
    text = UserMessage(
        "This table has the name of the benchmark {name}, but is scored by the general rules for its columns.",
        name=name,
    )
    return [Notice("other_rules", 1, text)]


def parts_of(known: QuestionBenchmark) -> list[QuestionBenchmark]:
    """Return the parts of a joined benchmark, or the benchmark itself."""
    return [known_benchmarks()[name] for name in known.parts] or [known]


def read_known(known: QuestionBenchmark, paths: Mapping[str, Path]) -> QuestionTable:
    """Read the table of a catalogue benchmark, or those of its parts."""
    tables = {}
    for part in parts_of(known):
        path = paths[part.name]
        rows = with_columns(read_tsv(path), part.columns)
        table = question_table(part.name, path, rows, part.kind == "Caption")
        table.exported = part.exported
        table.notices.extend(other_file(part, path))
        if part.answer_file:
            add_answers(table)
        if part.parameters.get("image_size"):
            table.add_image_sizes()
        tables[part.name] = table
    return JoinedTable(known.name, tables) if known.parts else tables[known.name]


def add_answers(table: QuestionTable) -> None:
    """Fill in the answers that a publisher released after the table, if their file is in ``$LMUData``."""
    path = answers_path(table.name)
    if not path.is_file():
        return
    released = parse_json(read_text(path))
    if not isinstance(released, Mapping):
        raise DataError("{path} does not hold answers by question.", path=path)
    table.answer_files.append(path)
    answers = []
    for row in table.rows:
        found = next((released[name] for name in map(as_text, (row.get("id"), row["index"])) if name in released), None)
        value = found.get("ground_truth") if isinstance(found, Mapping) else found
        answers.append(row.get("answer") if value is None or row.get("answer") else str(value))
    table.data["answer"] = answers


def other_file(known: QuestionBenchmark, path: Path) -> list[Notice]:
    """Return a notice if a file differs from the published one."""
    with path.open("rb") as stream:
        md5 = hashlib.file_digest(stream, partial(hashlib.md5, usedforsecurity=False)).hexdigest()
    if not known.md5 or md5 == known.md5:
        return []
    text = UserMessage(
        "{path} differs from the published file of {name} (MD5 mismatch): scores are not comparable with "
        "published ones.",
        path=path,
        name=known.name,
    )
    return [Notice("other_file", 1, text)]


def known_file(known: QuestionBenchmark, *, offline: bool = False) -> Path:
    """Return the file of a catalogue benchmark, downloading it if necessary."""
    path = inside(lmu_data_root(), f"{known.name}.tsv", "the benchmark's name")
    if known.by_hand and not path.is_file():
        raise DataError(
            "{name} has no downloadable table, and {path} does not exist.",
            advice="Download {url}, {by_hand} and save it there.",
            name=known.name,
            path=path,
            url=known.url,
            by_hand=known.by_hand,
        )
    if offline and not path.is_file():
        raise NotHereError(
            "{path} does not exist, and {--offline} disables downloads.",
            advice="Download {url}.",
            source=known.url,
            path=path,
            url=known.url,
        )
    return fetch(known.url, path, known.md5)


def question_table(name: str, path: Path, rows: RowTable, captions: bool) -> QuestionTable:
    """Make the table of a benchmark from its rows; captions get a default question."""
    table = QuestionTable(name, rows, file=path)
    if captions:
        fill_questions(table.data)
    blank = sum(not as_text(row.get("question")).strip() for row in table.rows)
    if blank:
        text = UserMessage(
            "{blank} of {n} rows have no question: their prompts consist of the remaining cells.",
            blank=blank,
            n=len(table.rows),
        )
        table.notices.append(Notice("blank_questions", blank, text))
    return table


def _info(spec: DatasetSpec, source: Path | str, benchmark: QuestionBenchmark) -> QuestionInfo:
    return QuestionInfo(name=spec.name, kind="questions", split=spec.split, source=str(source), benchmark=benchmark)
