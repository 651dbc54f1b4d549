"""Circular evaluation: making the rotations, and what they are worth."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eyechart.metrics.cell_values import LETTERS, options_of
from eyechart.metrics.repeated_questions import can_rotate, circular_rows
from eyechart.scorers.aggregates.choices import mmbench
from eyechart.scorers.scoring import score_rows
from support.vlm_data import benchmark_of_kind

CIRCULAR = benchmark_of_kind("circular", "optional")
ROW = {"index": 7, "image": "iVBOR", "question": "q", "A": "cat", "B": "dog", "C": "horse", "answer": "B"}


@st.composite
def questions(draw):
    """Rows with two to six options and distinct small-letter texts."""
    count = draw(st.integers(1, 5))
    indices = draw(st.lists(st.integers(0, 3_000_000), min_size=count, max_size=count, unique=True))
    rows = []
    for index in indices:
        texts = draw(st.lists(st.text("abcdefgh", min_size=2, max_size=6), min_size=2, max_size=6, unique=True))
        answer = draw(st.sampled_from(LETTERS[: len(texts)]))
        rows.append({"index": index, **dict(zip(LETTERS, texts, strict=False)), "answer": answer})
    return rows


@given(questions())
@settings(deadline=None)
def test_every_rotation_keeps_the_right_text(rows):
    rotations = circular_rows(rows)
    truth = {row["index"]: row[row["answer"]] for row in rows}

    assert len(rotations) == sum(len(options_of(row)) for row in rows)
    assert len({row["index"] for row in rotations}) == len(rotations)
    for row in rotations:
        assert row[row["answer"]] == truth[row["g_index"]]


@given(questions())
@settings(deadline=None)
def test_only_who_knows_the_answer_scores(rows):
    rotations = circular_rows(rows)

    knowing = score_rows([row | {"prediction": row["answer"]} for row in rotations], CIRCULAR)
    stubborn = score_rows([row | {"prediction": "A"} for row in rotations], CIRCULAR)

    assert set(knowing.units.values()) == {1}
    assert set(stubborn.units.values()) == {0}
    assert len(knowing.units) == len(rows)
    assert (knowing.table, stubborn.table) == ([{"split": "none", "Overall": 1}], [{"split": "none", "Overall": 0}])


def test_rotations_borrow_the_image_of_their_question():
    first, second, third = circular_rows([ROW])

    assert first["image"] == "iVBOR"
    assert second["image"] == third["image"] == "7"
    assert [row["index"] for row in (first, second, third)] == [7, 1_000_007, 2_000_007]
    assert [row["answer"] for row in (first, second, third)] == ["B", "A", "C"]


def test_a_borrowed_image_is_not_borrowed_twice():
    rows = circular_rows([ROW, ROW | {"index": 8, "image": "7"}])

    assert {row["image"] for row in rows if row["g_index"] == 8} == {"7"}


def test_the_offset_clears_the_largest_index():
    assert circular_rows([ROW | {"index": 1_000_000}])[1]["index"] == 11_000_000


@pytest.mark.parametrize(
    "change",
    [
        {"A": "both B and C"},
        {"A": "B"},
        {"B": None},
        {"B": None, "C": None},
        {"A": None, "B": None, "C": None},
        {"answer": "D"},
        {"answer": "AB"},
        {"answer": None},
    ],
)
def test_a_question_that_rotation_would_change_is_kept_as_it_is(change):
    row = ROW | change

    assert not can_rotate(row)
    assert circular_rows([row]) == [row | {"g_index": 7}]


@pytest.mark.parametrize("text", ["a cat", "vitamin C", "plan 9", "BC"])
def test_one_mentioned_letter_does_no_harm(text):
    assert can_rotate(ROW | {"A": text})


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([ROW, ROW], "same index"),
        ([ROW | {"index": "a1"}], "not a whole number"),
        ([ROW | {"index": -1}], "negative"),
    ],
)
def test_an_index_that_cannot_be_counted_from_is_an_error(rows, message):
    with pytest.raises(ValueError, match=message):
        circular_rows(rows)


def test_one_wrong_rotation_decides_and_an_unclear_one_waits_for_a_judge():
    rows = circular_rows([ROW])
    right = [row | {"prediction": row["answer"]} for row in rows]
    unclear = [*right[:2], right[2] | {"prediction": "no idea"}]
    wrong = [right[0] | {"prediction": "C"}, right[1] | {"prediction": "no idea"}, right[2]]
    scored = [score_rows(rows, CIRCULAR) for rows in (right, unclear, wrong)]

    assert [one.scorer.worth_judging(one.rows, one.scores) for one in scored] == [[], [2], []]
    assert [one.units for one in scored] == [{"7": 1}, {"7": 0}, {"7": 0}]


def test_a_rotation_without_its_question_is_an_error():
    with pytest.raises(ValueError, match="no unrotated row"):
        mmbench([row | {"hit": 1} for row in circular_rows([ROW])[1:]])
