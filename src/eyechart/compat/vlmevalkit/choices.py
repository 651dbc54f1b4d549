"""Reading and scoring multiple choice, under the names that VLMEvalKit's ``utils`` give these functions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from eyechart.compat.vlmevalkit.evaluation import judge_of_model
from eyechart.compat.vlmevalkit.files import dump, load
from eyechart.compat.vlmevalkit.frames import to_frame
from eyechart.compat.vlmevalkit.progress import track_progress_rich
from eyechart.datasets.questions.rows import Record, RowTable, as_record, as_table
from eyechart.errors import DataError
from eyechart.metrics.cells import LETTERS, as_text, is_missing
from eyechart.metrics.circular import question_of
from eyechart.metrics.texts import choices as rules
from eyechart.metrics.texts.open_answers import edit_distance as levenshtein_distance
from eyechart.scorers import choice as scores

__all__ = [
    "MMMU_preproc",
    "build_choices",
    "can_infer",
    "can_infer_lego",
    "can_infer_option",
    "can_infer_sequence",
    "can_infer_text",
    "eval_circular_group",
    "eval_vanilla",
    "extract_answer_from_item",
    "extract_characters_regex",
    "levenshtein_distance",
    "mcq_circular_eval",
    "mcq_vanilla_eval",
    "prefetch_answer",
    "report_acc",
    "report_acc_MMT",
    "report_acc_MMVP",
]

Options = Mapping[str, Any]
Verdict = dict[str, Any]
"""``hit`` (0 or 1) and ``log``, what it was decided by."""


def build_choices(item: Any) -> dict[str, Any]:
    """Return the options of a row by their letters."""
    return {letter: item[letter] for letter in LETTERS if letter in item and not is_missing(item[letter])}


def can_infer_option(answer: str, choices: Options) -> str | bool:
    """Read the letter of an option out of an answer; false if there is none."""
    found = rules.choice_by_letter(as_text(answer), rules.clean_options(choices))
    return found.choice if found and found.choice else False


def can_infer_text(answer: str, choices: Options) -> str | bool:
    """Find the one option whose text an answer holds."""
    return rules.choice_by_text(as_text(answer), rules.clean_options(choices)).choice or False


def can_infer(answer: Any, choices: Options) -> str | bool:
    """Read the chosen option by its letter, else by its text."""
    return can_infer_option(str(answer), choices) or can_infer_text(str(answer), choices)


def can_infer_sequence(answer: str, choices: Options | None = None) -> str | bool:  # noqa: ARG001 - the original's signature
    """Read an order of the options A to D."""
    return rules.extract_sequence(answer) or False


def can_infer_lego(answer: Any, question_type: str, choices: Options) -> str | bool:
    """Read an order of options where the question is to sort, else an option."""
    found = can_infer_sequence(str(answer)) if question_type == "sort" else can_infer_option(str(answer), choices)
    return found or can_infer_text(str(answer), choices)


def extract_characters_regex(s: Any, choices: Sequence[str] = ()) -> str:  # noqa: ARG001 - the original's signature
    """Return the first capital A to E of an answer."""
    return rules.extract_first_letter(s if isinstance(s, str) else "")


def prefetch_answer(item: Any) -> str | bool:
    """Read the chosen option of a row's prediction by rule."""
    return can_infer(item["prediction"], build_choices(item))


def extract_answer_from_item(model: Any, item: Any, dataset_name: str | None = None) -> dict[str, Any]:
    """Read the chosen option by rule, else by a judge, which gets our own question; ``Z`` if neither can.

    The original then takes one at random; here an answer that nobody can read is never right.
    """
    row = as_record(item)
    found = prefetch_answer(row)
    if found or model is None:
        note = row["prediction"] if found else "no rule reads it, and there is no judge"
        return {"opt": found or rules.NO_OPTION, "log": note}
    judge = judge_of_model(model)
    verdict = judge.verdicts(judge.prompts.form("choice", dataset_name or ""), [("", row)])[""]
    note = f"{judge.name} read {verdict}" if verdict else f"the reply of {judge.name} could not be read"
    return {"opt": verdict or rules.NO_OPTION, "log": note}


def eval_vanilla(model: Any, item: Any, dataset_name: str | None = None) -> Verdict:
    """Score one row, whose right answer is in ``GT``."""
    found = extract_answer_from_item(model, item, dataset_name)
    return {"hit": int(found["opt"] == item["GT"]), "log": found["log"]}


def eval_circular_group(model: Any, sub_data: Any, dataset_name: str | None = None) -> Verdict:
    """Score the rotations of a question: right if all of them are; the judge is asked only while they are."""
    rows = as_table(sub_data).rows
    first = [eval_vanilla(None, row) for row in rows]
    if any(not found["hit"] and prefetch_answer(row) for row, found in zip(rows, first, strict=True)):
        return {"hit": 0, "log": "a rule reads a wrong option"}
    for row, found in zip(rows, first, strict=True):
        judged = found if found["hit"] else eval_vanilla(model, row, dataset_name)
        if not judged["hit"]:
            return {"hit": 0, "log": f"{as_text(row.get('index'))}: {judged['log']}"}
    return {"hit": 1, "log": f"{len(rows)} rotations right"}


def MMMU_preproc(data: Any) -> Any:  # noqa: N802 - the original's name
    """Turn open questions into a choice between their answer and any other."""
    return to_frame(RowTable(map(scores.close_open, as_table(data).rows)))


def mcq_vanilla_eval(
    model: Any, data: Any, meta: Any, nproc: int, result_file: str, dataset_name: str | None = None
) -> Any:
    """Score predictions row by row; verdicts are kept in ``result_file``. Returns them as ``hit`` and ``log``."""
    rows = _with_keys(data, meta)
    if dataset_name and "MMMU" in dataset_name:
        rows = [Record({**closed, "GT": closed["answer"]}) for closed in map(scores.close_open, rows)]
    verdicts = _verdicts(
        eval_vanilla, {row["index"]: {"item": row} for row in rows}, model, dataset_name, nproc, result_file
    )
    return _judged(rows, verdicts)


def mcq_circular_eval(
    model: Any, data: Any, meta: Any, nproc: int, result_file: str, dataset_name: str | None = None
) -> Any:
    """Score questions that are asked once per rotation; returns the first row of each with ``hit`` and ``log``."""
    groups: dict[int, list[Record]] = {}
    for row in _with_keys(data, meta):
        groups.setdefault(question_of(row), []).append(row)
    tasks = {index: {"sub_data": RowTable(members)} for index, members in groups.items()}
    verdicts = _verdicts(eval_circular_group, tasks, model, dataset_name, nproc, result_file)
    mains = [row for index, members in groups.items() for row in members if row["index"] == index]
    if len(mains) < len(groups):
        raise DataError(f"{len(groups) - len(mains)} questions have rotations but no row of their own.")
    return _judged(mains, verdicts)


def report_acc(df: Any) -> Any:
    """Return the mean of ``hit`` per split: overall, by l2-category and by category."""
    return _report(scores.report_acc, df)


def report_acc_MMT(df: Any) -> Any:  # noqa: N802 - the original's name
    """Return the same in the form of MMT-Bench."""
    return _report(scores.mmt, df)


def report_acc_MMVP(df: Any) -> Any:  # noqa: N802 - the original's name
    """Return the accuracy of MMVP, of rows and of pairs."""
    return _report(scores.mmvp, df)


def _report(report: Any, df: Any) -> Any:
    table = report(as_table(df).rows)
    return to_frame(RowTable(table if isinstance(table, list) else [table]))


def _with_keys(data: Any, meta: Any) -> list[Record]:
    """Return the rows whose right answers are known, with these as ``GT``."""
    table = as_table(meta)
    keys = dict(zip(table["index"], table["answer"], strict=True))
    rows = [Record({**row, "GT": keys[row["index"]]}) for row in as_table(data).rows if row["index"] in keys]
    if not rows:
        raise DataError("None of the predictions belongs to a row of the benchmark.", advice="Compare their index.")
    return rows


def _verdicts(
    function: Any, tasks: dict[Any, dict[str, Any]], model: Any, dataset: str | None, nproc: int, file: str
) -> dict[Any, Verdict]:
    kept: dict[Any, Verdict] = load(file) if Path(file).is_file() else {}
    left = {key: task for key, task in tasks.items() if key not in kept}
    given = [{"model": model, "dataset_name": dataset, **task} for task in left.values()]
    found = track_progress_rich(function, given, nproc=nproc)
    kept = {**kept, **dict(zip(left, found, strict=True))}
    dump(kept, file)
    return kept


def _judged(rows: Iterable[Record], verdicts: Mapping[Any, Verdict]) -> Any:
    return to_frame(RowTable({**row.without("GT"), **verdicts[row["index"]]} for row in rows))
