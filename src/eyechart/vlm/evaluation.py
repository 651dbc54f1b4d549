"""``dataset.evaluate(eval_file, **judge_kwargs)``: scores for whoever has predictions in a file."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eyechart.errors import DataError, EyechartError, UsageError
from eyechart.metrics.cells import as_text
from eyechart.vlm.judges import Judge, judge_of_model
from eyechart.vlm.rows import Table
from eyechart.vlm.scoring import EXACT, Scored, score
from eyechart.vlm.tables import dump, load_table

if TYPE_CHECKING:
    from eyechart.vlm.base import ImageBaseDataset

ENDINGS: dict[str, str] = {
    "caption": "_score.json",
    "ocrbench": "_score.json",
    "mtvqa": "_acc.json",
    "vcr": "_score.json",
}
"""Where scores go, beside the predictions, as in VLMEvalKit; the others are tables: ``_score.csv`` or ``_acc.csv``."""


def evaluate_file(dataset: ImageBaseDataset, eval_file: Path, **judge_kwargs: Any) -> Any:
    """Score a file of predictions; return a dict of numbers, or a `Table` with one row per split.

    ``judge_kwargs``: ``model`` (``exact_matching``, the default, asks nobody), ``api_base``, ``key``; or ``judge``, an
    object with ``generate(text)``; ``extractor``. ``fallback="exact_matching"`` scores without a judge that does not
    answer; files and result then carry that name.
    """
    rows = rows_of(dataset, eval_file)
    extractor = str(judge_kwargs.get("extractor", "vlmeval"))
    judge = make_judge(judge_kwargs)
    try:
        scored = score(rows, dataset.benchmark, extractor=extractor, judge=judge)
    except EyechartError as error:
        if judge is None or isinstance(error, UsageError | DataError) or judge_kwargs.get("fallback") != EXACT:
            raise
        warnings.warn(f"The judge {judge.name} failed ({error.message}): scored by {EXACT} instead.", stacklevel=2)
        scored = score(rows, dataset.benchmark, extractor=extractor)
    _write(scored, eval_file)
    return _result(scored)


def rows_of(dataset: ImageBaseDataset, eval_file: Path) -> list[dict[str, Any]]:
    """Read predictions and put the dataset's own columns beside them: a spreadsheet may have cut or lost some.

    Raises:
        DataError: If a prediction belongs to no row of the dataset, or there are two for one.
    """
    table = load_table(eval_file)
    for column in ("index", "prediction"):
        if column not in table:
            raise DataError(f"{eval_file} has no column {column!r}.")
    known = {as_text(row["index"]): row for row in dataset.data.rows}
    rows: dict[str, dict[str, Any]] = {}
    for row in table.rows:
        index = as_text(row["index"]).removesuffix(".0")
        if index not in known or index in rows:
            why = "two predictions" if index in rows else "a prediction but no row of the dataset"
            raise DataError(f"{eval_file}: the index {index!r} has {why}.", advice="Is it the file of this dataset?")
        rows[index] = {**row.without("image"), **known[index].without("image")}
    return list(rows.values())


def make_judge(settings: Mapping[str, Any]) -> Judge | None:
    """Make a judge from keyword arguments, or None for exact matching."""
    if settings.get("judge") is not None:
        return judge_of_model(settings["judge"])
    name = str(settings.get("model") or EXACT)
    if name == EXACT:
        return None
    from eyechart.vlm.connect import api_judge

    return api_judge(name, settings)


def _result(scored: Scored) -> Any:
    table = scored.table
    return Table(table) if isinstance(table, list) else table


def _write(scored: Scored, eval_file: Path) -> None:
    """Write the readings and the scores beside the predictions."""
    stem = eval_file.with_suffix("")
    rows = [
        {key: value for key, value in {**row, **columns}.items() if key != "image"}
        for row, columns in zip(scored.rows, scored.columns(), strict=True)
    ]
    dump(rows, Path(f"{stem}_{scored.decided_by}_result{eval_file.suffix}"))
    name = scored.rating.benchmark.rating
    if isinstance(scored.table, list):
        dump(scored.table, Path(f"{stem}_acc.csv"))
    elif name in ENDINGS or any(isinstance(value, Mapping | list) for value in scored.table.values()):
        dump(scored.table, Path(f"{stem}{ENDINGS.get(name, '_score.json')}"))
    else:
        dump(scored.table, Path(f"{stem}{'_acc' if name == 'open' else '_score'}.csv"))
