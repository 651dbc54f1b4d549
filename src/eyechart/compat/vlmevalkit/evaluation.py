"""``dataset.evaluate(eval_file, **judge_kwargs)``: scores for whoever has predictions in a file."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from eyechart.api import Secret
from eyechart.compat.vlmevalkit.frames import to_frame
from eyechart.datasets.questions.benchmarks import QuestionBenchmark
from eyechart.datasets.questions.predictions import read_predictions
from eyechart.datasets.questions.question_table import QuestionTable
from eyechart.datasets.questions.rows import RowTable
from eyechart.datasets.questions.tables import dump
from eyechart.errors import DataError, EyechartError, UsageError
from eyechart.inference.answers import StoredAnswers
from eyechart.io.files import cache_root
from eyechart.metrics.answers import split_thinking
from eyechart.metrics.texts.choices import FAILED
from eyechart.models.access import Access
from eyechart.models.registry import open_model
from eyechart.scorers.judging import JUDGE_SETTINGS, Judge
from eyechart.scorers.scorer import UNREADABLE
from eyechart.scorers.scoring import EXACT, Scored, score_rows
from eyechart.store.answers import ResponseStore
from eyechart.types import Answer, ModelSpec, Prompt

ENDINGS: dict[str, str] = {
    "caption": "_score.json",
    "ocrbench": "_score.json",
    "mtvqa": "_acc.json",
    "vcr": "_score.json",
    "vcr_zh": "_score.json",
    "open": "_acc.csv",
}
"""Where the scores of a scorer go, beside the predictions, as in VLMEvalKit."""


def evaluate_file(table: QuestionTable, benchmark: QuestionBenchmark, eval_file: Path, **judge_kwargs: Any) -> Any:
    """Score a file of predictions; return a dict of numbers, or a table (data frame) with one row per split.

    ``judge_kwargs``: ``model`` (``exact_matching``, the default, asks nobody), ``api_base``, ``key``; or ``judge``, an
    object with ``generate(text)``; ``extractor``. ``fallback="exact_matching"`` scores without a judge that does not
    answer; files and result then carry that name.
    """
    rows = read_predictions(table, eval_file)
    if len(rows) < len(table.rows):
        lost = f"{len(table.rows) - len(rows)} of {len(table.rows)} questions have no prediction in {eval_file}"
        warnings.warn(f"{lost}: the scores are those of the others.", stacklevel=2)
    extractor = str(judge_kwargs.get("extractor", "vlmeval"))
    judge = make_judge(judge_kwargs)
    try:
        scored = score_rows(rows, benchmark, extractor=extractor, judges=[judge] if judge else [])
    except EyechartError as error:
        if judge is None or isinstance(error, UsageError | DataError) or judge_kwargs.get("fallback") != EXACT:
            raise
        warnings.warn(f"The judge {judge.name} failed ({error.message}): scored by {EXACT} instead.", stacklevel=2)
        scored = score_rows(rows, benchmark, extractor=extractor)
    unread = scored.rules.get(UNREADABLE, 0)
    if unread:
        lost = f"{unread} verdicts of the judge {scored.decided_by} could not be read"
        warnings.warn(f"{lost}: these answers count as wrong.", stacklevel=2)
    for notice in scored.left_out:
        warnings.warn(notice.message, stacklevel=2)
    _write(scored, eval_file)
    table = _as_lines(scored.table) if benchmark.kind == "Y/N" else scored.table
    return to_frame(RowTable(table)) if isinstance(table, list) else table


def _as_lines(table: Any) -> Any:
    """Return the numbers of yes/no questions as the original has them: a line, or a line for each split."""
    if not isinstance(table, Mapping):
        return table
    if all(isinstance(part, Mapping) for part in table.values()):
        return [{"split": name, **part} for name, part in table.items()]
    return [dict(table)]


def make_judge(settings: Mapping[str, Any]) -> Judge | None:
    """Make a judge from keyword arguments, or None for exact matching."""
    if settings.get("judge") is not None:
        return judge_of_model(settings["judge"])
    name = str(settings.get("model") or EXACT)
    return None if name == EXACT else _api_judge(name, settings)


def judge_of_model(model: Any) -> Judge:
    """Make a judge of an object with ``generate(text) -> text``, as VLMEvalKit's judges are."""

    def ask(prompts: Iterable[Prompt], attempt: int) -> Iterable[tuple[str, Answer]]:  # noqa: ARG001 - no store
        for prompt in prompts:
            try:
                reply = model.generate(str(prompt.messages[0].parts[0]))
            except Exception as error:  # noqa: BLE001 - whatever somebody's judge raises is no verdict
                reply = error
            failed = not isinstance(reply, str) or reply.startswith(FAILED)
            yield prompt.id, Answer("", error=repr(reply)) if failed else Answer(split_thinking(reply)[0])

    return Judge(str(getattr(model, "name", type(model).__name__)), ask)


def _api_judge(name: str, settings: Mapping[str, Any]) -> Judge:
    """Make a judge behind a server: api_base, key, nproc, retry, temperature, max_tokens."""
    options = {
        "api_base": settings.get("api_base"),
        "settings": JUDGE_SETTINGS | {key: settings[key] for key in JUDGE_SETTINGS if key in settings},
    }
    key = settings.get("key")
    access = Access(
        key=Secret(str(key)) if key else None,
        concurrency=int(settings.get("nproc", 4)),
        tries=int(settings.get("retry", 6)),
    )
    model = open_model(ModelSpec("api", name, options=options, access=access), "generator")
    model.family.check(model.spec)
    answers = StoredAnswers(model, ResponseStore(cache_root() / "responses"))
    return Judge(name.replace("/", "_"), answers.generate)


def _write(scored: Scored, eval_file: Path) -> None:
    """Write what was read and the scores beside the predictions."""
    stem, scorer = eval_file.with_suffix(""), scored.scorer
    rows = [
        {**row, **scorer.columns(score), "rule": score.rule}
        for row, score in zip(scored.rows, scored.scores, strict=True)
    ]
    dump(rows, Path(f"{stem}_{scored.decided_by}_result{eval_file.suffix}"))
    nested = isinstance(scored.table, Mapping) and any(isinstance(v, Mapping | list) for v in scored.table.values())
    usual = "_acc.csv" if isinstance(scored.table, list) else "_score.json" if nested else "_score.csv"
    dump(scored.table, Path(f"{stem}{ENDINGS.get(scorer.benchmark.scorer, usual)}"))
