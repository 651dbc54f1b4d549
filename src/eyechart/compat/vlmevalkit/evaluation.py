"""Scoring of prediction files and of multiple choice, under the names of VLMEvalKit's ``evaluate`` and ``utils``."""

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from eyechart.api import Secret
from eyechart.compat.vlmevalkit.files import dump, load, to_frame
from eyechart.compat.vlmevalkit.helpers import track_progress_rich
from eyechart.compat.vlmevalkit.models import open_generator
from eyechart.datasets.questions.benchmarks import QuestionBenchmark
from eyechart.datasets.questions.prediction_files import read_predictions
from eyechart.datasets.questions.question_table import QuestionTable
from eyechart.datasets.questions.row_table import Record, RowTable, as_record, as_table
from eyechart.errors import DataError, EyechartError, UsageError
from eyechart.inference.answers import CachedGenerator
from eyechart.io.files import cache_root
from eyechart.metrics import choices as rules
from eyechart.metrics.answers import edit_distance as levenshtein_distance
from eyechart.metrics.answers import split_thinking
from eyechart.metrics.cell_values import LETTERS, as_text, is_missing
from eyechart.metrics.choices import FAILED
from eyechart.metrics.repeated_questions import question_of
from eyechart.models.access import Access
from eyechart.scorers.aggregates import choices as aggregates
from eyechart.scorers.judging import JUDGE_SETTINGS, Judge
from eyechart.scorers.rule import UNREADABLE
from eyechart.scorers.rules.choices import close_open
from eyechart.scorers.scoring import EXACT, ScoredRows, score_rows
from eyechart.store.answer_store import ResponseStore
from eyechart.types import Answer, ModelSpec, Prompt

__all__ = [
    "MMMU_preproc", "build_choices", "can_infer", "can_infer_lego", "can_infer_option", "can_infer_sequence",
    "can_infer_text", "eval_circular_group", "eval_vanilla", "extract_answer_from_item", "extract_characters_regex",
    "levenshtein_distance", "mcq_circular_eval", "mcq_vanilla_eval", "prefetch_answer", "report_acc", "report_acc_MMT",
    "report_acc_MMVP",
]  # fmt: skip

ENDINGS: dict[str, str] = {
    "rules.texts:whole_text": "_score.json",
    "rules.texts:ocrbench": "_score.json",
    "rules.texts:mtvqa": "_acc.json",
    "rules.texts:open_answer": "_acc.csv",
}
"""Endings of score files next to the predictions, as in VLMEvalKit."""
Options = Mapping[str, Any]
Verdict = dict[str, Any]
"""``hit`` (0 or 1) and ``log``, the reason."""


def evaluate_file(questions: QuestionTable, benchmark: QuestionBenchmark, eval_file: Path, **judge_kwargs: Any) -> Any:
    """Score a file of predictions; return a dict of numbers, or a table (data frame) with one row per split.

    ``judge_kwargs``: ``model`` (``exact_matching``, the default, uses no judge model), ``api_base``, ``key``; or
    ``judge``, an object with ``generate(text)``; ``extractor``. With ``fallback="exact_matching"``, a failing judge is
    replaced by exact matching; files and result then carry that name.
    """
    rows, listed = read_predictions(questions, eval_file), len(questions.rows)
    if len(rows) < listed:
        lost = f"{listed - len(rows)} of {listed} questions have no prediction in {eval_file}"
        warnings.warn(f"{lost}: only the others are scored.", stacklevel=2)
    extractor = str(judge_kwargs.get("extractor", "vlmeval"))
    judge = make_judge(judge_kwargs) if benchmark.judge != "no" else None
    try:
        scored = score_rows(rows, benchmark, extractor=extractor, judges=[judge] if judge else [])
    except EyechartError as error:
        if judge is None or isinstance(error, UsageError | DataError) or judge_kwargs.get("fallback") != EXACT:
            raise
        warnings.warn(f"The judge {judge.name} failed ({error.message}): using {EXACT} instead.", stacklevel=2)
        scored = score_rows(rows, benchmark, extractor=extractor)
    unread = scored.rules.get(UNREADABLE, 0)
    if unread:
        lost = f"{unread} verdicts of the judge {scored.decided_by} could not be read"
        warnings.warn(f"{lost}: these answers count as wrong.", stacklevel=2)
    for notice in scored.left_out:
        warnings.warn(notice.message, stacklevel=2)
    _write(scored, eval_file)
    table = scored.table
    if benchmark.dataset_class == "TDBenchGrounding":  # the original names the method as its judge
        omitted = "Average Centroid Containment" if judge_kwargs.get("model") == "iou" else "Average IoU"
        table = {name: value for name, value in table.items() if name != omitted}
    if benchmark.kind == "Y/N" and isinstance(table, Mapping):  # rows as in the original: one, or one per split
        nested = all(isinstance(part, Mapping) for part in table.values())
        table = [{"split": name, **part} for name, part in table.items()] if nested else [dict(table)]
    return to_frame(RowTable(table)) if isinstance(table, list) else table


def make_judge(settings: Mapping[str, Any]) -> Judge | None:
    """Make a judge from keyword arguments: ``judge``, an object, or a server's ``model``; None for exact matching.

    Servers also take api_base, key, nproc, retry, temperature and max_tokens.
    """
    if settings.get("judge") is not None:
        return judge_of_model(settings["judge"])
    name, key = str(settings.get("model") or EXACT), settings.get("key")
    if name == EXACT:
        return None
    options = {
        "api_base": settings.get("api_base"),
        "settings": JUDGE_SETTINGS | {name: settings[name] for name in JUDGE_SETTINGS if name in settings},
    }
    access = Access(
        key=Secret(str(key)) if key else None,
        concurrency=int(settings.get("nproc", 4)),
        tries=int(settings.get("retry", 6)),
    )
    model = open_generator(ModelSpec("api", name, options=options, access=access))
    answers = CachedGenerator(model, ResponseStore(cache_root() / "responses"))
    return Judge(name.replace("/", "_"), answers.generate)


def judge_of_model(model: Any) -> Judge:
    """Make a judge from an object with ``generate(text) -> text``, like VLMEvalKit's judges."""

    def ask(prompts: Iterable[Prompt], attempt: int) -> Iterable[tuple[str, Answer]]:  # noqa: ARG001 - no store
        for prompt in prompts:
            try:
                reply = model.generate(str(prompt.messages[0].parts[0]))
            except Exception as error:  # noqa: BLE001 - an exception of a user's judge is not a verdict
                reply = error
            failed = not isinstance(reply, str) or reply.startswith(FAILED)
            yield prompt.id, Answer("", error=repr(reply)) if failed else Answer(split_thinking(reply)[0])

    return Judge(str(getattr(model, "name", type(model).__name__)), ask)


def _write(scored: ScoredRows, eval_file: Path) -> None:
    """Write the extracted answers and the scores next to the predictions."""
    stem, scorer = eval_file.with_suffix(""), scored.scorer
    rows = [
        {**row, **scorer.hooks.columns(score), "rule": score.rule}
        for row, score in zip(scored.rows, scored.scores, strict=True)
    ]
    dump(rows, Path(f"{stem}_{scored.decided_by}_result{eval_file.suffix}"))
    nested = isinstance(scored.table, Mapping) and any(isinstance(v, Mapping | list) for v in scored.table.values())
    usual = "_acc.csv" if isinstance(scored.table, list) else "_score.json" if nested else "_score.csv"
    dump(scored.table, Path(f"{stem}{ENDINGS.get(scorer.benchmark.scorer, usual)}"))


def build_choices(item: Any) -> dict[str, Any]:
    """Return the options of a row by their letters."""
    return {letter: item[letter] for letter in LETTERS if letter in item and not is_missing(item[letter])}


def can_infer_option(answer: str, choices: Options) -> str | bool:
    """Extract the letter of an option from an answer; False if there is none."""
    found = rules.choice_by_letter(as_text(answer), rules.clean_options(choices))
    return found.choice if found and found.choice else False


def can_infer_text(answer: str, choices: Options) -> str | bool:
    """Return the only option whose text the answer contains; False otherwise."""
    return rules.choice_by_text(as_text(answer), rules.clean_options(choices)).choice or False


def can_infer(answer: Any, choices: Options) -> str | bool:
    """Extract the chosen option by its letter, else by its text."""
    return can_infer_option(str(answer), choices) or can_infer_text(str(answer), choices)


def can_infer_sequence(answer: str, choices: Options | None = None) -> str | bool:  # noqa: ARG001 - the original's signature
    """Extract an ordering of the options A to D."""
    return rules.extract_sequence(answer) or False


def can_infer_lego(answer: Any, question_type: str, choices: Options) -> str | bool:
    """Extract an ordering for questions to sort, else an option."""
    found = can_infer_sequence(str(answer)) if question_type == "sort" else can_infer_option(str(answer), choices)
    return found or can_infer_text(str(answer), choices)


def extract_characters_regex(s: Any, choices: Sequence[str] = ()) -> str:  # noqa: ARG001 - the original's signature
    """Return the first capital A to E of an answer."""
    return rules.extract_first_letter(s if isinstance(s, str) else "")


def prefetch_answer(item: Any) -> str | bool:
    """Extract the chosen option of a row's prediction by rule."""
    return can_infer(item["prediction"], build_choices(item))


def extract_answer_from_item(model: Any, item: Any, dataset_name: str | None = None) -> dict[str, Any]:
    """Extract the chosen option by rule, else by a judge with our prompt; ``Z`` if neither succeeds.

    The original then picks one at random; here an unreadable answer is never correct.
    """
    row = as_record(item)
    found = prefetch_answer(row)
    if found or model is None:
        note = row["prediction"] if found else "no rule matches, and there is no judge"
        return {"opt": found or rules.NO_OPTION, "log": note}
    judge = judge_of_model(model)
    verdict = judge.judge(judge.prompts.form("choice", dataset_name or ""), [("", row)])[""].verdict
    note = f"{judge.name} read {verdict}" if verdict else f"the reply of {judge.name} could not be read"
    return {"opt": verdict or rules.NO_OPTION, "log": note}


def eval_vanilla(model: Any, item: Any, dataset_name: str | None = None) -> Verdict:
    """Score one row against its ``GT``."""
    found = extract_answer_from_item(model, item, dataset_name)
    return {"hit": int(found["opt"] == item["GT"]), "log": found["log"]}


def eval_circular_group(model: Any, sub_data: Any, dataset_name: str | None = None) -> Verdict:
    """Score the rotations of a question: correct if all are; the judge is called only as long as they are."""
    rows = as_table(sub_data).rows
    first = [eval_vanilla(None, row) for row in rows]
    if any(not found["hit"] and prefetch_answer(row) for row, found in zip(rows, first, strict=True)):
        return {"hit": 0, "log": "a rule extracts a wrong option"}
    for row, found in zip(rows, first, strict=True):
        judged = found if found["hit"] else eval_vanilla(model, row, dataset_name)
        if not judged["hit"]:
            return {"hit": 0, "log": f"{as_text(row.get('index'))}: {judged['log']}"}
    return {"hit": 1, "log": f"all {len(rows)} rotations correct"}


def MMMU_preproc(data: Any) -> Any:  # noqa: N802 - the original's name
    """Turn open questions into a choice between their answer and a placeholder."""
    return to_frame(RowTable(map(close_open, as_table(data).rows)))


def mcq_vanilla_eval(
    model: Any, data: Any, meta: Any, nproc: int, result_file: str, dataset_name: str | None = None
) -> Any:
    """Score predictions row by row and return ``hit`` and ``log``; verdicts are cached in ``result_file``."""
    rows = _with_keys(data, meta)
    if dataset_name and "MMMU" in dataset_name:
        rows = [Record({**closed, "GT": closed["answer"]}) for closed in map(close_open, rows)]
    tasks = {row["index"]: {"item": row, "model": model, "dataset_name": dataset_name} for row in rows}
    return _judged(rows, eval_vanilla, tasks, nproc, result_file)


def mcq_circular_eval(
    model: Any, data: Any, meta: Any, nproc: int, result_file: str, dataset_name: str | None = None
) -> Any:
    """Score questions with rotations; return the first row of each with ``hit`` and ``log``."""
    groups: dict[int, list[Record]] = {}
    for row in _with_keys(data, meta):
        groups.setdefault(question_of(row), []).append(row)
    mains = [row for index, members in groups.items() for row in members if row["index"] == index]
    if len(mains) < len(groups):
        raise DataError("{n} questions have rotations but no main row.", n=len(groups) - len(mains))
    tasks = {
        index: {"sub_data": RowTable(members), "model": model, "dataset_name": dataset_name}
        for index, members in groups.items()
    }
    return _judged(mains, eval_circular_group, tasks, nproc, result_file)


def report_acc(df: Any) -> Any:
    """Return the mean of ``hit`` per split: overall, by l2-category and by category."""
    return _report(aggregates.report_acc, df)


def report_acc_MMT(df: Any) -> Any:  # noqa: N802 - the original's name
    """Return the accuracy table of MMT-Bench."""
    return _report(aggregates.mmt, df)


def report_acc_MMVP(df: Any) -> Any:  # noqa: N802 - the original's name
    """Return the accuracy of MMVP by row and by pair."""
    return _report(aggregates.mmvp, df)


def _report(report: Any, df: Any) -> Any:
    table = report([{**row, "score": row["hit"]} for row in as_table(df).rows])
    return to_frame(RowTable(table if isinstance(table, list) else [table]))


def _with_keys(data: Any, meta: Any) -> list[Record]:
    """Return the rows with a known answer, which is added as ``GT``."""
    table = as_table(meta)
    keys = dict(zip(table["index"], table["answer"], strict=True))
    rows = [Record({**row, "GT": keys[row["index"]]}) for row in as_table(data).rows if row["index"] in keys]
    if not rows:
        raise DataError("No prediction matches a row of the benchmark.", advice="Check the index column.")
    return rows


def _judged(
    rows: Iterable[Record], function: Callable[..., Verdict], tasks: Mapping[Any, Options], nproc: int, file: str
) -> Any:
    """Return the rows with their verdicts: those in the file, and new ones, which are added to it."""
    verdicts: dict[Any, Verdict] = load(file) if Path(file).is_file() else {}
    left = {key: task for key, task in tasks.items() if key not in verdicts}
    found = track_progress_rich(function, [*left.values()], nproc=nproc)
    verdicts = {**verdicts, **dict(zip(left, found, strict=True))}
    dump(verdicts, file)
    return to_frame(RowTable({**row.without("GT"), **verdicts[row["index"]]} for row in rows))
