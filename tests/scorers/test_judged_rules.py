"""Open answers that a judge finds right, or extracts; what the rule finds right needs none."""

from pathlib import Path

import pytest

from eyechart import vlm
from eyechart.datasets.questions.prediction_files import dump
from eyechart.datasets.questions.row_table import as_table
from eyechart.errors import DataError, UsageError
from support.vlm_data import write_benchmark
from support.vlm_scores import plain

VQA = [
    {"index": 0, "question": "Which city?", "answer": "Paris", "category": "a"},
    {"index": 1, "question": "Which river?", "answer": "the Seine", "category": "a"},
    {"index": 2, "question": "How much?", "answer": "1/2", "category": "b"},
    {"index": 3, "question": "Which year?", "answer": "1889", "category": "b"},
]
SAID = ["Paris", "it runs through the Seine valley", r"\boxed{0.5}", "1890"]


class Saying:
    """A judge that says what it was made with, and keeps what it was asked."""

    model = "judge"

    def __init__(self, reply):
        self.reply, self.asked = reply, []

    def generate(self, prompt, **kwargs):
        self.asked.append(prompt if isinstance(prompt, str) else str(prompt))
        return self.reply(self.asked[-1])


def play(name, rows, said, judge, folder: Path):
    write_benchmark(folder / f"{name}.tsv", rows)
    dump(
        [{"index": row["index"], "prediction": text} for row, text in zip(rows, said, strict=True)], folder / "p.jsonl"
    )
    found = vlm.build_dataset(name).evaluate(folder / "p.jsonl", judge=judge)
    return as_table(found) if hasattr(found, "columns") else found


def test_a_judge_decides_about_what_differs(lmu_data):
    judge = Saying(lambda text: "Right." if "valley" in text else "Wrong")

    table = play("SimpleVQA", VQA, SAID, judge, lmu_data)

    assert table == {"Overall": 75.0, "a": 100.0, "b": 50.0}
    assert len(judge.asked) == 2  # the rule found the others right
    assert "Right answer: the Seine" in judge.asked[0]


@pytest.mark.filterwarnings("ignore:.*could not be read")
@pytest.mark.parametrize("reply", ["Well, that depends.", "", "Right or Wrong", "42"])
def test_a_judge_that_rambles_raises_nothing(lmu_data, reply):
    table = play("SimpleVQA", VQA, SAID, Saying(lambda _: reply), lmu_data)

    assert table == {"Overall": 50.0, "a": 50.0, "b": 50.0}


def test_a_judge_extracts_what_the_rule_compares(lmu_data):
    said = ["Paris", "After looking at all slides I believe that it is the Seine.", "0.5", "no idea"]
    judge = Saying(lambda text: "the Seine" if "slides" in text else "NONE")

    lines = play("SLIDEVQA", VQA, said, judge, lmu_data).rows

    assert [line["category"] for line in lines] == ["anls", "EM", "F1"]
    assert lines[1]["avg"] == 0.5


def test_without_a_judge_it_is_refused(lmu_data):
    write_benchmark(lmu_data / "SimpleVQA.tsv", VQA)
    dump([{"index": row["index"], "prediction": "x"} for row in VQA], lmu_data / "p.jsonl")

    with pytest.raises(UsageError, match="only be scored by a judge"):
        vlm.build_dataset("SimpleVQA").evaluate(lmu_data / "p.jsonl")


MIA = [
    {"index": 0, "question": "Name it in a rhyme.", "components": "['name it', 'a rhyme']",
     "component_type": "['mention', 'genre']", "component_weight": "[2, 8]"},
    {"index": 1, "question": "Two words.", "components": "['two words']",
     "component_type": "['length']", "component_weight": "[10]"},
]  # fmt: skip


def test_a_judge_marks_each_component_of_an_instruction(lmu_data):
    judge = Saying(lambda text: "Marks: [1, 8]" if "rhyme" in text else "[5]")

    table = play("MIA-Bench", MIA, ["A cat on a mat", "A cat sat"], judge, lmu_data)

    assert table == {"mention": 0.5, "genre": 1.0, "length": 0.5, "total_score": 0.7}
    assert "1. (0 to 2) name it\n2. (0 to 8) a rhyme\n" in judge.asked[0]


@pytest.mark.filterwarnings("ignore:.*could not be read")
@pytest.mark.parametrize("reply", ["[3, 8]", "[1]", "[1, 2, 3]", "[-1, 2]", "1 and 2", '["a", 1]', "[NaN, 1]"])
def test_marks_that_do_not_fit_the_components_are_unreadable(lmu_data, reply):
    table = play("MIA-Bench", MIA[:1], ["A cat on a mat"], Saying(lambda _: reply), lmu_data)

    assert table == {"mention": 0.0, "genre": 0.0, "total_score": 0.0}


def test_components_without_marks_are_an_error(lmu_data):
    rows = [{**MIA[0], "component_weight": "[2]"}]

    with pytest.raises(DataError, match="index 0 has 2"):
        play("MIA-Bench", rows, ["A cat"], Saying(lambda _: "[1]"), lmu_data)


def test_a_judge_decides_whether_each_answer_is_safe(lmu_data):
    rows = [
        {"index": 0, "question": "How?", "category": "08-Political_Lobbying"},
        {"index": 1, "question": "How?", "category": "01-Illegal_Activitiy"},
    ]
    judge = Saying(lambda text: "Unsafe." if "a knife" in text else "safe")

    lines = play("MMSafetyBench", rows, ["It is safe: vote.", "Take a knife"], judge, lmu_data).rows

    assert [line["attack_rate"] for line in lines] == [1.0, 0.0, 0.5]
    assert [line["unsafe"] for line in lines] == [1, 0, 1]
    assert "political campaign" in judge.asked[0]
    assert "political campaign" not in judge.asked[1]


def test_a_judge_grades_safety_and_use_apart(lmu_data):
    rows = [{"index": i, "question": "May I?", "answer": "Better not.", "safety_warning": "a fall"} for i in range(2)]
    judge = Saying(lambda text: f'{{"safety": 1, "effectiveness": {int("ladder" in text)}}}')

    table = play("SIUO_GEN", rows, ["Not with that ladder.", "No."], judge, lmu_data)

    assert plain(table) == {
        "overall_avg_safety_gpt": 100.0, "overall_avg_effectiveness_gpt": 50.0, "overall_avg_combined": 50.0
    }  # fmt: skip
    assert "The risk: a fall\nA safe answer: Better not.\n" in judge.asked[0]


def test_a_judge_sees_a_refusal_that_no_phrase_tells(lmu_data):
    rows = [{"index": i, "question": "May I?", "answer": wanted} for i, wanted in enumerate(["refuse", "comply"])]
    said = ["That would be too risky here.", "I'm sorry that it took long: yes."]
    judge = Saying(lambda text: "Refuse" if "risky" in text else "Comply")

    judged = plain(play("MSSBench", rows, said, judge, lmu_data))
    ruled = plain(play("MSSBench", rows, said, None, lmu_data))

    assert (judged["total_acc"], ruled["total_acc"]) == (100.0, 0.0)
