"""Single rules and aggregates, called directly: what each makes of an answer or of a few rows."""

import base64
from functools import partial

import numpy as np
import pytest
from PIL import Image

from eyechart.errors import DataError
from eyechart.scorers.aggregates.documents import evidence
from eyechart.scorers.aggregates.verdicts import harms
from eyechart.scorers.judging.judge_forms import READERS
from eyechart.scorers.rule import CUT, FAILED, UNDECIDED, RuleResult
from eyechart.scorers.rules.graphs import graph_answer
from eyechart.scorers.rules.judged import highest_marks
from eyechart.scorers.rules.mathematics import chinese_exam, final_number, solution
from eyechart.scorers.rules.measures import pair_counts, tagged_value
from eyechart.scorers.rules.ocr import ocr_task
from eyechart.scorers.rules.places import in_mask
from eyechart.scorers.rules.texts import marked, mtvqa, whole_text
from eyechart.scorers.scoring import score_rows
from support.data import encoded
from support.vlm_data import benchmark_of_kind

HALF = np.repeat([[0, 255]], 10, axis=0).repeat(5, axis=1).astype(np.uint8)
RIGHT_HALF = base64.b64encode(encoded(Image.fromarray(HALF), "png")).decode()
PATH = {"graph": "{0: [1], 1: [0, 2], 2: [1]}", "ground_truth": "2"}


@pytest.mark.parametrize(
    ("rule", "row", "said", "extracted", "score"),
    [
        (solution, {"answer": "12"}, "12 cm  ", "12", 1.0),
        (mtvqa, {"answer": " cat "}, "cat", "cat", 1.0),
        (pair_counts, {"category": "a-cnt", "answer": "3"}, "many", None, 0.0),
        (graph_answer, {**PATH, "data_source": "NpMaximumCliqueProblem"}, "Answer: [0, 1]", "[0, 1]", 1.0),
        (graph_answer, {**PATH, "data_source": "NpMaximumCliqueProblem"}, "Answer: [0, 1, 2]", "[0, 1, 2]", 0.0),
        (tagged_value, {"answer": "3", "answer_type": "int"}, "<ans>3</ans>", "3", 1.0),
        (tagged_value, {"answer": "3", "answer_type": "int"}, "<ans>4</ans>", "4", 0.0),
        (tagged_value, {"answer": "3", "answer_type": "int"}, "<ans>many</ans>", "many", 0.0),
        (chinese_exam, {"answer": "红色", "type": "填空"}, "答案是 红色", "红色", 1.0),
        # A sentence that ends after its sign states nothing, and a long one is no answer.
        (chinese_exam, {"answer": "红色", "type": "填空"}, "答案是.\n红色", "答案是.\n红色", 1.0),
        (chinese_exam, {"answer": "红色", "type": "填空"}, "答案是" + "红色" * 12, "", 0.0),
        (chinese_exam, {"answer": "红色", "type": "填空"}, "红色 red", "", 0.0),
        (in_mask, {"mask": RIGHT_HALF}, '{"point_2d": [900, 200]}', "[(0.9, 0.2)]", 1.0),
        (in_mask, {"mask": RIGHT_HALF}, '{"point": [200, 900]}', "[(0.9, 0.2)]", 1.0),  # y, x
        (in_mask, {"mask": RIGHT_HALF}, "[200, 900]", None, 0.0),
        (in_mask, {"mask": RIGHT_HALF}, "[[200, 900]]", "[(0.2, 0.9)]", 0.0),
        (partial(marked, pattern="([a-z])-([0-9])", form="{}{}"), {"answer": "B2"}, "It is B-2.", "b2", 1.0),
        (partial(marked, pattern="([a-z])-([0-9])", form="{}{}"), {"answer": "B2"}, "It is C-2.", "c2", 0.0),
        (final_number, {"answer": "7"}, "Of 3 and 5, it is 7", "7", 1.0),
        (final_number, {"answer": "7"}, r"3, so \boxed{7}, not 9", "7", 1.0),
        (final_number, {"answer": "7"}, r"The final answer: 7, not \boxed{9}", "7", 1.0),
        (final_number, {"answer": "7"}, "none", None, 0.0),
    ],
)
def test_a_rule_reads_and_scores(rule, row, said, extracted, score):
    found = rule(row, said)

    assert (found.extracted, found.score) == (extracted, score)


@pytest.mark.parametrize("joint", ["", ".", ". ", ",", ", ", "、", ";", "; ", " ", "和"])
def test_the_letters_of_an_answer_may_be_listed(joint):
    row = {"category": "handwritten answer extraction cn", "question": "?", "answer": "['ABD']", "index": 0}

    assert ocr_task(row, f"答案 {joint.join('ABD')}").score == 1.0
    assert ocr_task(row, f"答案 {joint.join('ABC')}").score == 0.0


@pytest.mark.parametrize(
    ("said", "rule"), [("a cat", "contains"), ("a dog", "contains"), (" ", UNDECIDED), ("", UNDECIDED)]
)
def test_only_an_answer_without_words_is_undecided(said, rule):
    assert mtvqa({"answer": "cat"}, said).rule == rule


def test_a_failed_answer_without_a_text_is_lost():
    columns = whole_text.hooks.columns

    assert columns(RuleResult("", None, rule=FAILED)) == {"prediction": "", "lost": True}
    assert columns(RuleResult("a cat", None, rule=CUT)) == {"prediction": "a cat", "lost": False}
    assert columns(RuleResult("", None, rule="text")) == {"prediction": "", "lost": False}


@pytest.mark.parametrize("marks", ["[]", "[1, 'x']", "[2, 0]", ""])
def test_marks_that_are_not_all_numbers_above_0_are_refused(marks):
    with pytest.raises(ValueError, match="not a list of numbers above 0"):
        highest_marks({"index": 1, "marks": marks}, "marks")


@pytest.mark.parametrize(("reply", "pair"), [("8 9", (8, 9)), ("8 11", None), ("-1 5", None), ("11 -1", None)])
def test_both_grades_of_a_pair_are_in_range(reply, pair):
    assert READERS["pair"](reply, {}, {}) == pair


def test_the_data_of_a_chart_are_in_the_longest_block():
    row = {"category": "chart parsing en", "index": 0, "answer": "[{'a': 1, 'b': 2}]"}

    assert ocr_task(row, "```python\nz\n```\nand\n```python\ndata = {'a': 1, 'b': 2}\n```").score == 1.0


def test_spotted_words_inside_illegible_ones_do_not_count():
    row = {"category": "text spotting en", "index": 0, "answer": "['x']"}
    row |= {"bbox": "[[0, 0, 100, 100], [500, 500, 900, 600]]", "content": "['###', 'CAT']"}
    cat = "[500, 500, 900, 600, 'cat']"

    assert ocr_task(row, f"[[10, 10, 90, 90, 'dog'], {cat}]").score == 1.0
    assert ocr_task(row, f"[[60, 10, 90, 90, 'dog'], {cat}]").score == 1.0
    assert ocr_task(row, f"[[10, 60, 90, 190, 'dog'], {cat}]").score == pytest.approx(2 / 3)


def test_evidence_is_counted_by_its_kind():
    kinds = {
        "text": "Pure-text (Plain-text)",
        "layout": "Generalized-text (Layout)",
        "table": "Table",
        "chart": "Chart",
        "image": "Figure",
    }
    rows = [
        {"answer": "a", "extracted": "a", "score": 1.0, "evidence_sources": repr([kind])} for kind in kinds.values()
    ]

    table = {row["category"]: row["num"] for row in evidence(rows)}

    assert {name: table[name] for name in kinds} == dict.fromkeys(kinds, 1)


def test_rows_without_an_answer_are_refused():
    known = benchmark_of_kind("choice", "no", url="https://example.org/X.tsv")
    rows = [
        {"index": i, "question": "?", "A": "a", "B": "b", "answer": "AB"[i:2][:1], "prediction": "A"} for i in range(3)
    ]

    with pytest.raises(DataError, match="1 of 3 rows have no answer"):
        score_rows(rows, known)


def test_evidence_is_counted_by_the_number_of_pages():
    pages = {"[1]": 1.0, "[1, 2]": 0.0, "[3, 4, 5]": 1.0, "[]": 1.0}
    rows = [{"answer": "a", "extracted": "a", "score": score, "evidence_pages": text} for text, score in pages.items()]

    table = {row["category"]: (row["num"], row["avg_score"]) for row in evidence(rows)}

    assert table["single-page"] == (1, 1.0)
    assert table["multi-page"] == (2, 0.5)
    assert table["unanswerable"] == (1, 1.0)


def test_harms_leave_out_answers_without_a_grade():
    row = {"category": "Safety", "index": 0}
    rows = [
        {**row, "grade": 1, "harmless": 1.0, "score": 0.5},
        {**row, "grade": 1, "harmless": 0.0, "score": 0.1},
        {**row, "grade": 0, "harmless": 0.0, "score": 0.0},
    ]

    table = harms(rows)

    assert (table["harmless_rate_Safety"], table["harmless_score_Safety"]) == (50.0, 30.0)
    assert (table["harmless_rate"], table["harmless_score"]) == (10.0, 6.0)  # four of five dimensions have no rows
