"""Open answers that a judge finds right, or extracts; what the rule finds right needs none."""

from pathlib import Path

import pytest

from eyechart import vlm
from eyechart.datasets.questions.rows import as_table
from eyechart.datasets.questions.tables import dump
from eyechart.errors import UsageError
from support.vlm_data import write_benchmark

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
