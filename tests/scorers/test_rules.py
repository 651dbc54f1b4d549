"""What holds of every rule: no answer breaks it, and an answer that nobody could read is the worst, or the best."""

import importlib
import inspect
import pkgutil
import sys
import time
from functools import cache
from importlib.metadata import EntryPoint, EntryPoints
from types import ModuleType

import pytest

from eyechart.datasets.questions.benchmarks import QuestionBenchmark, known_benchmarks
from eyechart.errors import EyechartError, UnknownNameError, UsageError
from eyechart.scorers import aggregates, rules
from eyechart.scorers.rule import DIFFERENT, FAILED, UNDECIDED, RuleResult
from eyechart.scorers.scorer import scorer_of, split_spec
from eyechart.scorers.scoring import score_rows
from support.vlm_scores import score_cases

CASES = {name: case for name, case in score_cases("open").items() if name in known_benchmarks()}
RULED = sorted(name for name in CASES if scorer_of(known_benchmarks()[name]).hooks.per_answer)
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
            score = scorer.read(row, text)
            assert 0 <= score.score <= 1
            assert score == scorer.read(row, text)

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


def functions(package, wanted):
    """Name the functions of a package whose annotations look as wanted."""
    modules = [
        importlib.import_module(f"{package.__name__}.{one.name}") for one in pkgutil.iter_modules(package.__path__)
    ]
    found = ((module, name, made) for module in modules for name, made in vars(module).items() if name[0] != "_")
    return {
        f"{module.__name__.removeprefix('eyechart.scorers.')}:{name}"
        for module, name, made in found
        if inspect.isfunction(made) and made.__module__ == module.__name__ and wanted(inspect.signature(made))
    }


def named(key):
    found = (getattr(benchmark, key) for benchmark in known_benchmarks().values() if not benchmark.parts)
    return {split_spec(spec)[0] for spec in found}


def test_every_rule_is_used_and_every_one_used_is_there():
    taken = ["row", "text"]
    rule_names = functions(
        rules, lambda one: one.return_annotation in ("RuleResult", RuleResult) and [*one.parameters][:2] == taken
    )

    assert named("rule") == rule_names


def test_every_aggregate_is_used_and_every_one_used_is_there():
    found = functions(aggregates, lambda one: [*one.parameters][:1] == ["rows"])
    helpers = {
        "aggregates.means:" + name
        for name in ("all_right", "by_column", "by_value", "grouped", "mean", "need", "together")
    }

    assert named("aggregate") == found - helpers


@pytest.mark.parametrize("name", ["VisFactor", "CCOCR", "CRPE_EXIST", "IPhO_2024", "npmm"])
def test_the_number_that_stands_for_a_benchmark_is_in_its_table(name):
    scored = score_rows(rows_of(name), known_benchmarks()[name])

    assert scored.scorer.numbers(scored.table).keys() == {scored.scorer.primary}
    assert scored.scorer.primary != "accuracy"


def loud(row, text, *, mark="!"):
    return RuleResult(text, float(text == row["answer"] + mark))


def count(rows, *, name="n"):
    return {name: len(rows)}


def benchmark(**known):
    return QuestionBenchmark(name="Mine", dataset_class="Mine", judge="no", **known)


def test_a_rule_and_an_aggregate_of_any_module_are_named_as_module_and_function():
    mine = benchmark(
        rule={"function": f"{__name__}:loud", "mark": "?"}, aggregate={"function": f"{__name__}:count", "name": "rows"}
    )

    scored = score_rows(
        [{"index": i, "answer": "a", "prediction": said} for i, said in enumerate(("a?", "a!", ""))], mine
    )

    assert scored.table == {"rows": 3}
    assert [(one.score, one.rule) for one in scored.scores] == [(1.0, "loud"), (0.0, "loud"), (0.0, UNDECIDED)]


@pytest.mark.parametrize("name", ["rules.texts:nothing", "rules.nowhere:contains", "no.such.module:rule"])
def test_a_function_that_is_not_there_is_named(name):
    with pytest.raises(UsageError, match=f"{name} cannot be imported"):
        scorer_of(benchmark(rule=name))
    with pytest.raises(UsageError, match=f"{name} cannot be imported"):
        scorer_of(benchmark(rule="rules.texts:contains", aggregate=name))


@pytest.mark.parametrize(
    ("group", "made"), [("rules", loud), ("scorers", lambda one, extractor: (one.name, extractor))]
)
def test_packages_register_rules_and_scorers_by_name(group, made, monkeypatch):
    module = ModuleType("shouting")
    module.made = made
    monkeypatch.setitem(sys.modules, "shouting", module)
    points = EntryPoints([EntryPoint("shout", "shouting:made", f"eyechart.{group}")])
    monkeypatch.setattr("eyechart.plugins._entry_points", lambda: points)
    mine = benchmark(rule="shout")

    found = scorer_of(mine, "strict")

    assert found == ("Mine", "strict") if group == "scorers" else found.read({"answer": "a"}, "a!").score == 1
    with pytest.raises(UnknownNameError, match="shot"):
        scorer_of(benchmark(rule="shot"))


def test_a_judge_looks_at_what_a_rule_does_not_find_right_as_the_policy_says():
    row = {"index": 0, "question": "?", "answer": "a", "prediction": "a!"}
    rules_by_form = {}
    for form in ("", "verdict", "extract", "harm"):
        scorer = scorer_of(benchmark(rule={"function": f"{__name__}:loud", "mark": "?"}, judge_form=form))
        results = [scorer.read(row, said) for said in ("a?", "a!", "")]
        rules_by_form[form] = [one.rule for one in results], scorer.worth_judging([row] * 3, results)

    assert rules_by_form == {
        "": (["loud", "loud", UNDECIDED], []),
        "verdict": (["loud", DIFFERENT, UNDECIDED], [1, 2]),
        "extract": (["loud", DIFFERENT, UNDECIDED], [1, 2]),
        "harm": (["loud", "loud", UNDECIDED], [0, 1, 2]),
    }
