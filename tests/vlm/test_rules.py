"""What holds of every rule: no answer breaks it, and an answer that nobody could read is the worst, or the best."""

import time
from functools import cache

import pytest

from eyechart.datasets.questions.benchmarks import known_benchmarks
from eyechart.errors import EyechartError
from eyechart.scorers import scorer_of
from eyechart.scorers.rule import RuleScorer
from eyechart.scorers.rules import RULES
from eyechart.scorers.scorer import FAILED
from eyechart.scorers.scoring import score_rows
from eyechart.scorers.shapes import SHAPES
from support.vlm_scores import score_cases

CASES = {name: case for name, case in score_cases("open").items() if name in known_benchmarks()}
RULED = sorted(name for name in CASES if isinstance(scorer_of(known_benchmarks()[name]), RuleScorer))
HOSTILE = {
    "nothing": "",
    "spaces": " \n\t ",
    "nan": "nan",
    "nul": "\x00",
    "brackets": "[" * 3000,
    "nested": "[" * 200 + "1" + "]" * 200,
    "signs": "-" * 5000 + "1",
    "digits": "9" * 5000,
    "numbers": "1, " * 3000,
    "infinite": "inf 1e999 -1e999 nan",
    "boxes": r"\boxed{" * 500,
    "tables": "<table><tr><td>" * 300,
    "fences": "```json" * 300,
    "points": '[{"point_2d": [1e308, -1e308]}]',
    "x=": "x=..., y=...",
    "click": "pyautogui.click(x=1e9, y=99999999999)",
    "answer": "Answer: " * 500,
    "code": "__import__('os').system('touch evaluated')",
    "json": '{"answer": {"answer": [{}, [], null]}, "reason": 1}',
    "chinese": "所以答案是不对。" * 300,
    "words": "zero one two three hundred thousand " * 200,
}


@cache
def rows_of(name):
    case = CASES[name]
    cells = [dict(zip(case["columns"], row, strict=True)) for row in case["rows"]]
    size = {"image_size": case["image_size"]} if "image_size" in case else {}
    return [{**size, **{key: None if value == "" else value for key, value in row.items()}} for row in cells]


@pytest.mark.parametrize("name", RULED)
def test_no_answer_breaks_a_rule_or_takes_long(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    scorer = scorer_of(known_benchmarks()[name])
    started = time.process_time()

    for row in rows_of(name)[:3]:
        for text in HOSTILE.values():
            score = scorer.score(row, text)
            assert 0 <= score.correct <= 1
            assert score == scorer.score(row, text)

    assert time.process_time() - started < 20
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", RULED)
def test_a_lost_answer_is_never_better_than_one_that_was_read(name):
    benchmark, rows = known_benchmarks()[name], rows_of(name)
    read = score_rows(rows, benchmark)

    for i, row in enumerate(rows[:4]):
        lost = score_rows([*rows[:i], {**row, "finish_reason": "failed"}, *rows[i + 1 :]], benchmark)
        assert sum(lost.units.values()) <= sum(read.units.values()) + 1e-9
        assert sum(lost.assuming(right=True).units.values()) >= sum(read.units.values()) - 1e-9
        assert lost.scores[i].rule == FAILED
        assert lost.table


@pytest.mark.parametrize("name", RULED)
def test_a_missing_column_is_an_error_with_a_name(name):
    row = {key: value for key, value in rows_of(name)[0].items() if key in {"index", "question", "prediction"}}

    with pytest.raises(EyechartError, match=name):
        score_rows([row], known_benchmarks()[name])


def test_every_rule_and_table_is_used_and_every_one_used_is_there():
    ruled = [b for b in known_benchmarks().values() if isinstance(scorer_of(b), RuleScorer)]
    used = {scorer_of(benchmark).rule[0] for benchmark in ruled}
    tables = {benchmark.parameters["table"].get("form", "groups") for benchmark in ruled}

    assert used == set(RULES.names())
    assert tables == SHAPES.keys()


@pytest.mark.parametrize("name", [name for name in RULED if "number" in known_benchmarks()[name].parameters])
def test_the_number_that_stands_for_a_benchmark_is_in_its_table(name):
    scored = score_rows(rows_of(name), known_benchmarks()[name])

    assert scored.scorer.numbers(scored.table).keys() == {scored.scorer.primary}
    assert scored.scorer.primary != "accuracy"
