"""Multiple-choice and yes/no benchmarks as VLMEvalKit's own code scored them: the table and the first prompt.

The facts are in `data/choice_scores.jsonl`, one benchmark per line: rows (``same`` holds for all of them), predictions,
the original's table and the texts of the first prompt (null for an image). DEVIATIONS says where ours differs and why.
"""

import json
import math
from pathlib import Path

import pytest

from eyechart.datasets.questions.benchmarks import known_benchmarks
from eyechart.datasets.questions.question_dataset import build_prompt
from eyechart.datasets.questions.row_table import RowTable, with_columns
from eyechart.scorers.scoring import score_rows

LINES = (Path(__file__).parent / "data" / "choice_scores.jsonl").read_text(encoding="utf-8").splitlines()
CASES = {case["name"]: case for case in map(json.loads, LINES)}
LABELS = ("split", "setting", "cycle", "type", "category", "group", "Category", "subject")
"""Columns that name a line of a table."""

DEVIATIONS = {
    "MMOral_OPG_CLOSED": (
        "A row whose category is one of the five is counted three times in the original.",
        {"HisT|tot": 4, "Teeth|tot": 8, "Teeth|acc": 75.0},
    ),
    "OmniSpatialBench": (
        "The original looks for the tasks under names that it did not give them, and shows none.",
        {
            "Manipulation_accuracy": 75.0,
            "Dynamic_Reasoning_accuracy": 75.0,
            "Traffic_Analysis_accuracy": 75.0,
            "Spatial_Interaction_accuracy": 75.0,
            "tabulated_keys": "overall, Manipulation_accuracy, Dynamic_Reasoning_accuracy, "
            "Traffic_Analysis_accuracy, Spatial_Interaction_accuracy",
            "tabulated_results": "75.000, 75.000, 75.000, 75.000, 75.000",
        },
    ),
    "TopViewRS": (
        "The partial match is that of the option that was read; the original takes the answer's last word for it.",
        {
            "none|Overall_PM": 25 / 72,
            "none|animal_PM": 7 / 12,
            "none|object_PM": 1 / 8,
            "none|scene_PM": 1 / 3,
        },
    ),
    "VSR-zeroshot": ("All four are per cent; the original leaves the last a fraction.", {"f1_score": 140 / 3}),
    "WeMath": (
        "Rates are over the problems that are there, six; the original divides by 525, whatever is there.",
        {
            "Score (Strict)": "41.67%",
            "InsufficientKnowledge (Strict)": "16.67% (1)",
            "InadequateGeneralization (Strict)": "16.67% (1)",
            "CompleteMastery (Strict)": "33.33% (2)",
            "Score (Loose)": "58.33%",
            "InsufficientKnowledge (Loose)": "16.67% (1)",
            "InadequateGeneralization (Loose)": "16.67% (1)",
            "CompleteMastery (Loose)": "50.00% (3)",
        },
    ),
}


def rows_of(case):
    rows = [case["same"] | dict(zip(case["columns"], cells, strict=True)) for cells in case["rows"]]
    texts = [{name: None if cell in ("", None) else str(cell) for name, cell in row.items()} for row in rows]
    return [dict(row) for row in with_columns(RowTable(texts), known_benchmarks()[case["name"]].columns).rows]


def flat(table, path=""):
    """The numbers and texts of a table by their path; what the original could not compute is left out."""
    if isinstance(table, list):
        named = [("/".join(str(line[name]) for name in LABELS if name in line), line) for line in table]
        bare = [(name, {key: cell for key, cell in line.items() if key not in LABELS}) for name, line in named]
        return {key: cell for name, line in bare for key, cell in flat(line, f"{path}{name}|").items()}
    if isinstance(table, dict):
        return {key: cell for name, part in table.items() for key, cell in flat(part, f"{path}{name}|").items()}
    unknown = table in ("NaN", "nan%", None) or (isinstance(table, float) and math.isnan(table))
    return {} if unknown else {path.strip("|"): table}


@pytest.mark.parametrize("name", CASES)
def test_the_table_is_that_of_the_original(name):
    case = CASES[name]
    rows = [row | {"prediction": said} for row, said in zip(rows_of(case), case["predictions"], strict=True)]
    ours, theirs = flat(score_rows(rows, known_benchmarks()[name]).table), flat(case["table"])
    _, changed = DEVIATIONS.get(name, ("", {}))
    assert bool(changed) <= bool(known_benchmarks()[name].deviation), "docs/deviations.md lists it"

    assert not changed.items() & theirs.items(), "a deviation that is none"
    assert ours == pytest.approx(theirs | changed, abs=1e-9)


@pytest.mark.parametrize("name", CASES)
def test_the_first_prompt_is_that_of_the_original(name):
    case = CASES[name]
    images = [{"type": "image", "value": f"{i}.png"} for i in range(case.get("images", 1))]
    row = rows_of(case)[case.get("asked", 0)]
    items = build_prompt(known_benchmarks()[name], row, images, name)

    assert [item["value"] if item["type"] == "text" else None for item in items if item["value"]] == [
        text for text in case["prompt"] if text != ""
    ]
