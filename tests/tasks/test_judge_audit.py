"""The judge audit: repeats, several judges, people; reasoning and cut answers; what all of it has taken."""

import json
import re

import pytest

from eyechart import evaluate
from eyechart.cli import main
from eyechart.errors import DataError, UsageError
from eyechart.stats import cohen_kappa, krippendorff_alpha, mean_interval
from support.openai_server import OpenAIServer
from support.vlm_data import write_benchmark

N = 24
PETS = [
    {"index": i, "question": f"q{i}?", "A": "cat", "B": "dog", "answer": "AB"[i % 2], "category": f"c{i % 2}"}
    for i in range(N)
]
JUDGES = ("good", "lenient", "moody")
UNDECIDED = range(4, N)
"""The first four answers are letters, which no judge sees."""


def number_in(text, mark):
    return int(text.rpartition(mark)[2].split("?")[0].split(",")[0])


class World:
    """A model whose answers are mostly unreadable by rule, and judges of known habits."""

    def __init__(self):
        self.moods = {}

    def __call__(self, body):
        text = str(body["messages"][-1]["content"])
        if body["model"] == "test-model":
            i = number_in(text.partition("\\n")[0] if "\\n" in text else text, "q")
            return "A" if i < 4 else f"hm {i}, who knows"
        i = number_in(text, "Answer: hm ")
        return getattr(self, body["model"])(i)

    def good(self, i):  # two of three are right
        return PETS[i]["answer"] if i % 3 else other(i)

    def lenient(self, i):
        return PETS[i]["answer"] if i % 6 else other(i)

    def moody(self, i):  # says one thing, then another; of some answers nothing
        self.moods[i] = self.moods.get(i, 0) + 1
        if i == 7:
            return "where is the image?"
        return self.good(i) if self.moods[i] % 2 or i % 4 else other(i)


def other(i):
    return "BA"[i % 2]


def right(i, judge):
    return float(i % {"good": 3, "lenient": 6}[judge] != 0)


def by_rule(i):
    return float(PETS[i]["answer"] == "A")


@pytest.fixture
def run(lmu_data, tmp_path):
    write_benchmark(lmu_data / "Pets.tsv", PETS)
    with OpenAIServer(answer=World(), models=("test-model", *JUDGES)) as server:

        def run(judges, **questions):
            [result] = evaluate(
                dataset=["Pets"],
                model=["test-model"],
                model_type="api",
                output=str(tmp_path / "r.json"),
                questions={"api_base": server.api_base, "judge": judges, "concurrency": 1, **questions},
            )
            return result

        yield run


def test_of_several_judges_the_majority_decides_and_each_ones_own_number_stands_beside(run):
    result = run(["good", "lenient"])
    audit = result.details["judge"]
    rule = [by_rule(i) for i in range(4)]
    means = {name: (sum(rule) + sum(right(i, name) for i in UNDECIDED)) / N for name in ("good", "lenient")}

    assert {name: judge["numbers"]["accuracy"] for name, judge in audit["judges"].items()} == pytest.approx(means)
    assert result.metrics["accuracy"] == pytest.approx(means["good"])  # a tie counts as wrong
    assert result.details["decided_by"] == "good + lenient"
    verdicts = [[right(i, name) for i in UNDECIDED] for name in ("good", "lenient")]
    assert audit["judged"] == len(UNDECIDED)
    assert audit["alpha"]["value"] == pytest.approx(krippendorff_alpha(verdicts).value)
    assert audit["kappa"][0]["judges"] == ["good", "lenient"]
    assert audit["kappa"][0]["value"] == pytest.approx(cohen_kappa(*verdicts).value)
    assert audit["kappa"][0]["low"] < audit["kappa"][0]["value"] < audit["kappa"][0]["high"]
    assert result.values["accuracy"].low is None  # two judges do not show how far others would lie apart
    records = {record["id"]: record for record in result.iter_records()}
    assert records["6"]["verdicts"] == {"good": [0.0], "lenient": [0.0]}
    assert records["9"]["verdicts"] == {"good": [0.0], "lenient": [1.0]}
    assert "verdicts" not in records["0"]


def test_three_judges_give_an_interval_that_is_wider_than_that_of_the_questions(run):
    result = run(list(JUDGES))
    records = list(result.iter_records())
    alone = mean_interval([record["correct"] for record in records])

    metric = result.values["accuracy"]
    assert metric.high - metric.low >= 2 * alone.half_width - 1e-9
    assert len(result.details["judge"]["kappa"]) == 3
    assert set(result.job["others"]) == {"judge", "judge_2", "judge_3"}


def test_repeats_of_a_judge_show_its_self_consistency(run):
    steady = run("good", judge_repeats=3)
    moody = run("moody", judge_repeats=3)

    assert steady.details["judge"]["judges"]["good"]["self_consistency"]["value"] == 1.0
    consistency = moody.details["judge"]["judges"]["moody"]["self_consistency"]
    assert consistency["low"] <= consistency["value"] < 0.9
    assert moody.details["judge"]["judges"]["moody"]["unreadable"] == 3
    records = {record["id"]: record for record in moody.iter_records()}
    assert records["8"]["verdicts"]["moody"] == [1.0, 0.0, 1.0]
    assert records["8"]["correct"] == 1  # two of three
    assert (records["7"]["verdicts"]["moody"], records["7"]["correct"]) == ([None] * 3, 0)


def test_people_are_a_judge_of_judges(run, tmp_path):
    (tmp_path / "people.csv").write_text("index,correct\n" + "".join(f"{i},{int(i % 3 != 0)}\n" for i in range(6, 18)))

    result = run(["good", "lenient"], human_verdicts=str(tmp_path / "people.csv"))
    people = result.details["people"]

    assert (people["n"], people["number_of_people"]) == (12, pytest.approx(2 / 3))
    assert (people["good"]["same"], people["good"]["kappa"]["value"]) == (1.0, 1.0)
    assert people["lenient"]["same"] == pytest.approx(10 / 12)
    assert people["final"]["kappa"]["value"] == 1.0
    assert {record["id"]: record.get("people") for record in result.iter_records()}["7"] == 1.0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("index,correct\n99,1\n", "no question with index '99'"),
        ("index,correct\n5,1\n5,0\n", "two verdicts"),
        ("index,correct\n", "has no verdicts"),
        ("index,correct\n5,maybe\n", "maybe is not a verdict"),
        ("index,correct\n5,7\n", "7 is not a verdict"),
        ("index,verdict\n5,1\n", "no column 'correct'"),
        ("index,correct,prediction\n5,1,another answer\n", "about a different answer"),
    ],
)
def test_verdicts_of_people_that_fit_nothing_are_refused(run, tmp_path, text, message):
    (tmp_path / "people.csv").write_text(text)

    with pytest.raises(DataError, match=message):
        run("good", human_verdicts=str(tmp_path / "people.csv"))


@pytest.mark.parametrize(
    ("judges", "change", "message"),
    [
        (["good", "good"], {}, "same judge is given twice"),
        (["good", "lenient", "good"], {}, "same judge is given twice"),
        (["good", "exact_matching"], {}, "cannot be combined with judges"),
        (["good", "moody", "lenient"], {"judge_type": ["api", "api"]}, "2 values for 3 judges"),
        (["good"], {"human_verdicts": "none.csv"}, "does not exist"),
        (["exact_matching"], {"judge_repeats": 2}, "requires a judge"),
    ],
)
def test_judges_that_make_no_sense_are_refused(run, judges, change, message):
    with pytest.raises(UsageError, match=message):
        run(judges, **change)


def test_tokens_of_model_and_judge_are_in_the_result_even_when_all_is_stored(run):
    first, again = run("good"), run("good")

    for result in (first, again):
        spent = result.details["spent"]
        assert spent["model"]["tokens_of_answers"]["completion_tokens"] > 0
        assert spent["judges"]["good"]["tokens_of_answers"]["prompt_tokens"] > 0
    assert (first.details["spent"]["judges"]["good"]["asked"], again.details["spent"]["judges"]["good"]["asked"]) == (
        len(UNDECIDED),
        0,
    )


def test_each_judge_is_told_what_it_took_itself(run):
    judges = run(["good", "lenient"]).details["spent"]["judges"]

    assert {name: took["requests"] for name, took in judges.items()} == dict.fromkeys(judges, len(UNDECIDED))


def test_the_table_shows_judges_tokens_and_the_range(lmu_data, tmp_path, capsys):
    write_benchmark(lmu_data / "Pets.tsv", PETS)
    with OpenAIServer(answer=World(), models=("test-model", *JUDGES)) as server:
        flags = ["--dataset", "Pets", "--model", "test-model", "--model_type", "api", "--api_base", server.api_base]
        flags += ["--judge", "good", "moody", "lenient", "--judge_repeats", "2", "--output", str(tmp_path / "r.json")]
        assert main(["eval", *flags, "--concurrency", "1"]) == 0
    out = capsys.readouterr().out

    assert re.search(r"judge moody: \d+\.\d\d %", out)
    assert "judges agree: alpha" in out
    assert "completion tokens" in out


THOUGHT = "<think>Let me see, it is a cat.</think>"


@pytest.mark.parametrize("cut_answers", ["read", "wrong"])
def test_reasoning_is_kept_apart_and_an_answer_that_was_cut_is_counted(lmu_data, tmp_path, cut_answers):
    """Every answer begins with reasoning; every sixth is cut, after the right letter."""
    rows = [{"index": i, "question": f"q{i}?", "A": "cat", "B": "dog", "answer": "A"} for i in range(N)]
    write_benchmark(lmu_data / "Pets.tsv", rows)

    class Server(OpenAIServer):
        def _chat(self, body):
            reply = super()._chat(body)
            i = number_in(str(body["messages"][-1]["content"]).partition("\\n")[0], "q")
            reply["choices"][0]["finish_reason"] = "stop" if i % 6 else "length"
            return reply

    with Server(answer=lambda body: THOUGHT + "A") as server:
        [result] = evaluate(
            dataset=["Pets"],
            model=["test-model"],
            model_type="api",
            output=str(tmp_path / "r.json"),
            min_success=0.8,
            questions={"api_base": server.api_base, "cut_answers": cut_answers},
        )

    cut, strict = N // 6, cut_answers == "wrong"
    accuracy = result.values["accuracy"]
    assert accuracy.value == pytest.approx(1 - cut / N if strict else 1.0)
    assert (accuracy.worst_case, accuracy.best_case) == (pytest.approx(1 - cut / N), 1.0)
    assert (result.counts["unreadable"], result.counts.get("cut")) == ((cut, None) if strict else (0, cut))
    assert result.details.get("lost") == ({"cut": cut} if strict else None)
    [notice] = [notice for notice in result.notices if notice["kind"] == "cut_answers"]
    assert (notice["count"], "count as wrong" in notice["message"]) == (cut, strict)
    length = len("Let me see, it is a cat.")
    assert result.details["thinking"] == {"answers": N, "mean_chars": length, "max_chars": length, "cut": cut}
    first, second, *_ = result.iter_records()
    decided = ("cut", True, 0, "A") if strict else ("letter", True, 1, "A")
    assert (first["rule"], first["cut"], first["correct"], first["prediction"]) == decided
    said = second["transcript"]["messages"][-1]
    assert (said["reasoning"], second["thinking_chars"], "cut" in second) == (
        "Let me see, it is a cat.",
        length,
        False,
    )


@pytest.mark.parametrize("reason", ["stop", "length"])
def test_a_thought_without_an_end_is_reasoning_without_an_answer(lmu_data, tmp_path, reason):
    write_benchmark(lmu_data / "Pets.tsv", [{"index": 0, "question": "q?", "A": "cat", "B": "dog", "answer": "A"}])

    with OpenAIServer(answer=lambda body: "<think>A", finish_reason=reason) as server:
        [result] = evaluate(
            dataset=["Pets"],
            model=["test-model"],
            model_type="api",
            output=str(tmp_path / "r.json"),
            min_success=0.0,
            questions={"api_base": server.api_base},
        )

    [record] = result.iter_records()
    said = record["transcript"]["messages"][-1]
    assert (said["content"], said["reasoning"], record["rule"], record["correct"]) == ([""], "A", "undecided", 0)
    cut = int(reason == "length")
    assert result.details["thinking"] == {"answers": 1, "mean_chars": 1, "max_chars": 1, "cut": cut}
    kinds = {notice["kind"]: notice["count"] for notice in result.notices}
    assert (kinds.get("cut_answers", 0), kinds["only_thinking"]) == (cut, 1)
    assert (result.counts["unreadable"], result.values["accuracy"].best_case) == (1, 1.0)


def test_predictions_of_other_tools_carry_no_finish_reason_and_are_read_as_they_are(lmu_data, tmp_path):
    write_benchmark(lmu_data / "Pets.tsv", PETS)
    lines = [{"index": row["index"], "prediction": row["answer"]} for row in PETS]
    (tmp_path / "r.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))

    [result] = evaluate(
        dataset=["Pets"],
        model=["test-model"],
        model_type="api",
        output=str(tmp_path / "r.json"),
        questions={"mode": "eval", "api_base": "http://localhost/v1"},
    )

    assert (result.metrics["accuracy"], result.counts["unreadable"]) == (1.0, 0)
