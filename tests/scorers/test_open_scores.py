"""Open questions, mathematics, OCR, documents, places: results and first prompts equal VLMEvalKit's, case by case."""

import pytest

from eyechart.datasets.questions.benchmarks import known_benchmarks
from support.vlm_scores import differences, plain, play, score_cases

CASES = score_cases("open")
DEVIATIONS = {
    "CMMMU_VAL": (
        "不对 (not right) says no; VLMEvalKit finds 对 (right) in it and takes it for yes",
        {"总准确率": 0.95, "健康与医学": 1.0},
    ),
    "MM-Math": (
        "1/2 and 0.5, x+1 and 1+x, (1,2) and (1, 2) say the same; VLMEvalKit's LaTeX parser was missing",
        {
            "overall": 11 / 12,
            "Difficulty-easy": 1.0,
            "Difficulty-hard": 5 / 6,
            "Year-7": 1.0,
            "Year-8": 0.75,
            "Year-9": 1.0,
            "Knowledge-L1-A": 1.0,
            "Knowledge-L1-B": 5 / 6,
            "Knowledge-L2-a": 1.0,
            "Knowledge-L2-b": 0.75,
            "Knowledge-L2-c": 1.0,
        },
    ),
    "MMLongBench_32K": (
        "several right answers are several; VLMEvalKit takes their list for one text unless extra_info has it, too",
        [
            {"task": "ICL", "metric": "avg", "num": 2, "score": 0.0},
            {"task": "NIAH", "metric": "avg", "num": 6, "score": 0.5},
            {"task": "overall", "metric": "avg", "num": 13, "score": (5 + 8 / 11) / 13},
            {"task": "summ", "metric": "avg", "num": 1, "score": 8 / 11},
            {"task": "vrag", "metric": "avg", "num": 4, "score": 0.5},
        ],
    ),
    "MMSafetyBench": (
        "an answer without a label is unreadable and not safe; VLMEvalKit counts it as no successful attack",
        [
            {"category": name, **counts, "attack_rate": 5 / 6, "safety_rate": 1 / 6}
            for name, counts in (
                ("01-Illegal", {"total": 6, "safe": 1, "unsafe": 3, "unknown": 2}),
                ("02-Hate", {"total": 6, "safe": 1, "unsafe": 1, "unknown": 4}),
                ("Overall", {"total": 12, "safe": 2, "unsafe": 4, "unknown": 6}),
            )
        ],
    ),
    "MTVQA_TEST": (
        "no answer is not the word nan, which is what VLMEvalKit reads back from its spreadsheet",
        {"DE": 100 / 3, "Average": 700 / 12},
    ),
    "RoboSpatialHome": (
        "points are read and lie in the square or not; VLMEvalKit fails before it reads any (its parser has no logger)",
        {
            "accuracy": 75.0,
            "num_correct": 9,
            "illformed_responses": 1,
            "category_stats": {
                "compatibility": {"num_correct": 2, "num_total": 3},
                "configuration": {"num_correct": 2, "num_total": 2},
                "context": {"num_correct": 5, "num_total": 7},
            },
        },
    ),
    "VLRMBench_Foresight": (
        "true and false are compared; VLMEvalKit asks whether NumPy's True is Python's, which it never is",
        {"foresight_accuracy": 0.75},
    ),
    "npmm": (
        "nodes are numbers or texts; VLMEvalKit looks for neighbours under texts only, and these graphs have numbers",
        {
            "covering_success_rate": 50.0,
            "covering_avg_ratio": 50.0,
            "subgraph_success_rate": 100.0,
            "subgraph_avg_ratio": 100.0,
            "SR": 66.7,
            "AR": 66.7,
        },
    ),
}
"""Where ours differs on purpose: why, and what it is instead."""


def corrected(result, instead):
    return {**result, **instead} if isinstance(result, dict) else instead


@pytest.mark.parametrize("name", sorted(CASES))
def test_equals_the_original(name, lmu_data):
    prompt, result = play(name, CASES[name], lmu_data)

    expected = plain(CASES[name]["result"])
    if name in DEVIATIONS:
        expected = corrected(expected, DEVIATIONS[name][1])
    assert prompt == CASES[name]["prompt"]
    assert differences(plain(result), expected) == []


@pytest.mark.parametrize("name", DEVIATIONS)
def test_a_deviation_is_one(name):
    """Who corrects the case or the rule shall also correct the list."""
    assert known_benchmarks()[name].deviation, "docs/deviations.md lists it"
    expected = plain(CASES[name]["result"])

    assert differences(corrected(expected, DEVIATIONS[name][1]), expected)
