"""Benchmarks as VLMEvalKit 0.2rc1's own code scored them: rows, predictions, the first prompt and the result."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from eyechart import vlm
from eyechart.datasets.questions.prediction_files import dump
from eyechart.datasets.questions.row_table import RowTable, as_table
from eyechart.datasets.questions.table_files import write_tsv
from support.vlm_data import image_cell

FOLDER = Path(__file__).parent.parent / "data" / "vlm_scores"


def score_cases(kind: str) -> Any:
    """Read the cases of one file: by the name of the benchmark, or a list."""
    return json.loads((FOLDER / f"{kind}.json").read_text(encoding="utf-8"))


def play(name: str, case: dict[str, Any], folder: Path) -> tuple[list[str | None], Any]:
    """Write a case's table and predictions; return the texts of our first prompt (None: an image) and our result."""
    width, height = case.get("image_size", (8, 8))
    images = case["prompt"].count(None)
    cells = [image_cell(width, height, (i, 9, 9)) for i in range(images)]
    rows = [dict(zip(case["columns"], row, strict=True)) for row in case["rows"]]
    image = {"image": repr(cells) if images > 1 else cells[0]} if images else {}
    asked = [{**image, **row} for row in rows]
    for row in asked:
        del row["prediction"]
        row.update({column: None for column, value in row.items() if value == ""})
    folder.mkdir(parents=True, exist_ok=True)
    write_tsv(folder / f"{name}.tsv", RowTable(asked))
    said = [{"index": row["index"], "prediction": row["prediction"]} for row in rows]
    dump(RowTable(said), folder / "predictions.xlsx")
    dataset = vlm.build_dataset(name)
    prompt = [item["value"] if item["type"] == "text" else None for item in dataset.build_prompt(0)]
    found = dataset.evaluate(folder / "predictions.xlsx", model="exact_matching")
    return prompt, as_table(found) if hasattr(found, "columns") else found


def plain(result: Any) -> Any:
    """Bring a result to one form: a table of one line is that line; lines are in no order."""
    if isinstance(result, RowTable):
        result = [dict(row) for row in result.rows]
    if isinstance(result, list) and len(result) == 1 and isinstance(result[0], dict):
        result = result[0]
    if isinstance(result, dict):
        return {str(key): plain(value) for key, value in result.items()}
    if isinstance(result, list | tuple):
        parts = [plain(value) for value in result]
        return sorted(parts, key=_words) if parts and all(isinstance(part, dict) for part in parts) else parts
    return "NaN" if isinstance(result, float) and math.isnan(result) else result


def _words(line: dict[str, Any]) -> str:
    return json.dumps({key: value for key, value in line.items() if isinstance(value, str)}, sort_keys=True)


def differences(ours: Any, theirs: Any, where: str = "") -> list[str]:
    """Name the places where two results differ; numbers may differ by a millionth."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        keys = list(dict.fromkeys([*theirs, *ours]))
        return [d for key in keys for d in differences(ours.get(key), theirs.get(key), f"{where}/{key}")]
    if isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        pairs = enumerate(zip(ours, theirs, strict=True))
        return [d for i, (one, two) in pairs for d in differences(one, two, f"{where}/{i}")]
    numbers = all(isinstance(value, int | float) and not isinstance(value, bool) for value in (ours, theirs))
    same = abs(ours - theirs) < 1e-6 if numbers else ours == theirs
    return [] if same else [f"{where}: {ours!r}, not {theirs!r}"]
