"""What tables and the report say of the judges of a result."""

import pytest

from eyechart import evaluate
from eyechart.report.judge_summary import judge_lines, judge_table
from eyechart.report.loader import load_results
from eyechart.report.page.payload import describe
from eyechart.report.result_table import lost_samples
from eyechart.results import Result
from eyechart.types import Metric
from support.openai_server import OpenAIServer
from support.vlm_data import write_benchmark

ALPHA = {"value": 0.8, "low": 0.6, "high": 0.9, "n": 12}
NOTHING = {"value": None, "low": None, "high": None, "n": 12}


def result_with(**details):
    metric = Metric(0.4, primary=True, worst_case=0.4, best_case=0.9)
    counts = {"listed": 10, "scored": 9, "failed": 1, "unreadable": 4}
    return Result("Pets", "m", "", "questions", "en", {"accuracy": metric}, counts=counts, details=details)


def test_judges_their_agreement_and_what_they_took_are_told():
    judges = {
        "a": {"numbers": {"accuracy": 0.4}, "self_consistency": ALPHA},
        "b": {"numbers": {"accuracy": 0.5}, "self_consistency": NOTHING},
    }
    spent = {
        "model": {"tokens_of_answers": {"prompt_tokens": 7, "completion_tokens": 3}, "answers": 1}
        | {"cost_of_answers": 0.25, "currency": "EUR"},
        "judges": {"a": {}},
    }
    people = {"a": {"kappa": ALPHA}}
    tokens = "prompt tokens 7, completion tokens 3"

    assert judge_lines(result_with(judge={"judges": judges, "alpha": ALPHA}, people=people, spent=spent)) == [
        "judge a: 40.00 %, self-consistency 0.80 (0.60 - 0.90), n 12, agreement with people 0.80 (0.60 - 0.90), n 12",
        "judge b: 50.00 %, self-consistency unknown (all verdicts are the same)",
        "judges agree: alpha 0.80 (0.60 - 0.90), n 12",
        f"model: whole benchmark: answers 1, {tokens}, cost 0.2500 EUR; new in this run: nothing, all is cached",
    ]
    assert judge_lines(result_with()) == []


def test_judges_stand_side_by_side_in_a_table():
    judges = {
        "a": {"numbers": {"accuracy": 0.4}, "unreadable": 2, "self_consistency": ALPHA},
        "b": {"numbers": {"accuracy": 0.5}, "unreadable": 0},
    }
    pair = {"judges": ["a", "b"], **NOTHING}
    audit = {"judged": 12, "prompt": {"source": "eyechart"}, "judges": judges, "alpha": ALPHA, "kappa": [pair]}

    table = judge_table(result_with(judge=audit, people={"b": {"kappa": ALPHA}}))

    assert (table["judged"], table["prompt"]) == (12, "eyechart")
    assert table["header"][:3] == ["judge", "accuracy", "unreadable"]
    assert table["rows"] == [
        ("a", "40.00", "2", "0.80 (0.60 - 0.90), n 12", ""),
        ("b", "50.00", "0", "", "0.80 (0.60 - 0.90), n 12"),
    ]
    assert table["together"] == [
        "all: alpha 0.80 (0.60 - 0.90), n 12",
        "a and b: kappa unknown (all verdicts are the same)",
    ]
    assert judge_table(result_with()) is None


@pytest.mark.parametrize("details", [{"judge": []}, {"judge": {"judges": {"a": 1}}}, {"spent": {"model": 3}}])
def test_a_file_may_say_anything_of_its_judges(details):
    assert judge_lines(result_with(**details)) == ["the judge details are damaged"]
    assert judge_table(result_with(**details)) is None


def test_what_is_lost_stands_beside_the_number_with_its_range():
    assert lost_samples(result_with()) == [
        "1 failed",
        "4 unreadable",
        "counted as wrong: accuracy 40.00 if all are wrong, 90.00 if right",
    ]


def test_a_judged_result_keeps_its_judges_in_file_and_page(tmp_path):
    rows = [{"index": i, "question": f"q{i}?", "A": "cat", "B": "dog", "answer": "A"} for i in range(4)]
    write_benchmark(tmp_path / "Pets.tsv", rows)
    judge = lambda body: "A" if "Your output" in str(body) else "who knows"  # noqa: E731 - a table of two
    with OpenAIServer(answer=judge, models=("test-model", "j", "k", "l")) as server:
        evaluate(
            dataset=[str(tmp_path / "Pets.tsv")],
            model=["test-model"],
            model_type="api",
            output=str(tmp_path / "r.json"),
            questions={"api_base": server.api_base, "judge": ["j", "k", "l"]},
        )

    [found] = load_results([tmp_path / "r.json"]).found
    page = describe(found.result)["judges"]
    assert [line.partition(":")[0] for line in page][:4] == ["judge j", "judge k", "judge l", "judges agree"]
    assert any("completion tokens" in line for line in page)
