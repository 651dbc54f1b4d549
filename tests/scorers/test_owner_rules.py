"""Rules that follow the owner of a benchmark to the letter, and those that differ from it on purpose."""

import pytest

from eyechart.datasets.questions.benchmarks import known_benchmarks
from eyechart.scorers.aggregates.places import referrals
from eyechart.scorers.rule import UNDECIDED
from eyechart.scorers.rules.measures import near
from eyechart.scorers.scorer import scorer_of
from eyechart.scorers.scoring import score_rows

BOX = {"width": "640", "height": "480", "bbox_x1": "64", "bbox_y1": "48", "bbox_x2": "320", "bbox_y2": "240"}
"""A box from a tenth to a half of the image, in cells as a table has them: texts."""


def scored(name, *rows):
    numbered = [{"index": i, "question": "q", "answer": "x", **row} for i, row in enumerate(rows)]
    return score_rows(numbered, known_benchmarks()[name])


def read(name, text, **row):
    return scorer_of(known_benchmarks()[name]).read({"index": 0, **row}, text)


@pytest.mark.parametrize(
    "said",
    [
        "[100, 100, 500, 500]",
        "[0.1,0.1,0.5,0.5]",
        "[500, 500, 100, 100]",
        "<box>[100 100 500 500]</box>",
        "100 100 500 500",
    ],
)
def test_a_box_is_in_thousandths_or_fractions_of_the_image_and_its_corners_are_sorted(said):
    result = read("RefCOCO", said, answer="x", **BOX)

    assert result.score == 1
    assert result.grades["overlap"] == pytest.approx(1)


@pytest.mark.parametrize(
    ("row", "overlap"),
    [
        ({"answer": "[64, 48, 320, 240]"}, 1),
        ({"answer": "[0.1, 0.1, 0.5, 0.5]"}, 1),
        ({"x1": "64", "y1": "48", "x2": "320", "y2": "240"}, 1),
        ({"answer": "[64, 48, 576, 240]"}, 0.5),
        ({"answer": "none"}, 0),
    ],
)
def test_the_right_box_may_stand_in_the_answer_or_in_other_columns(row, overlap):
    result = read("RefCOCO", "[100, 100, 500, 500]", width="640", height="480", **row)

    assert (result.grades["overlap"], result.score) == (pytest.approx(overlap), float(overlap >= 0.5))


def test_splits_come_from_the_category_with_spaces_as_underscores():
    categories = {
        "RefCOCO val": 1,
        "RefCOCO+ testA": 0,
        "RefCOCO+ test b": 1,
        "RefCOCOg test": 1,
        "Other part-2": 1,
        "": 1,
    }
    rows = [{"category": name, "score": hit, "overlap": hit} for name, hit in categories.items()]

    table = referrals([*rows, {"split": "RefCOCO_val", "category": "Other x", "score": 0, "overlap": 0}])

    assert [(line["Split"], line["Samples"]) for line in table] == [
        ("RefCOCO_val", 2), ("RefCOCO+_testA", 1), ("RefCOCO+_testB", 1), ("RefCOCOg_test", 1),
        ("Other_part_2", 1), ("RefCOCO", 1), ("Average", 5),
    ]  # fmt: skip
    assert table[-1]["Precision@1"] == 62.5


def test_grounding_has_the_mean_overlap_next_to_the_centres():
    rows = [{"answer": "[0, 0, 0.5, 0.5]", "prediction": said} for said in ("[0, 0, 0.5, 0.5]", "[0, 0, 0.5, 1]", "no")]

    table = scored("tdbench_grounding_rot0", *rows).table

    assert table == {"Average Centroid Containment": pytest.approx(2 / 3), "Average IoU": 0.5, "Total Samples": 3}


@pytest.mark.parametrize("said", ["Option C", "(C)", "The best answer is: C.", ""])
@pytest.mark.parametrize("answer", ["C. a cat", "C"])
def test_an_answer_of_crpe_without_leading_letter_or_words_is_unreadable(said, answer):
    assert (read("CRPE_RELATION", said, answer=answer).rule, read("CRPE_RELATION", said, answer=answer).score) == (
        UNDECIDED,
        0,
    )


@pytest.mark.parametrize(("said", "right"), [("C", 1), ("C. a cat", 1), ("it is a cat", 1), ("B", 0), ("c", 0)])
def test_an_answer_of_crpe_with_either_is_read(said, right):
    assert (
        read("CRPE_RELATION", said, answer="C. a cat").rule,
        read("CRPE_RELATION", said, answer="C. a cat").score,
    ) == (
        "lettered",
        right,
    )


def test_measures_of_ost_follow_the_arithmetic_of_its_owner():
    def owner(said, wanted):
        off = abs(wanted - said) / abs(wanted)
        return sum(off < 1 - (0.5 + 0.05 * i) for i in range(10)) / 10

    pairs = [(wanted * share / 100, wanted) for wanted in range(1, 301) for share in range(201)]

    assert [pair for pair in pairs if near(*pair) != owner(*pair)] == []


@pytest.mark.parametrize(("said", "right"), [("3", 1), (" 3\n", 1), ("+3", 1), ("3.0", 0), ("three", 0), ("3 cats", 0)])
def test_a_count_of_omni3d_is_an_integer(said, right):
    assert read("Omni3DBench", f"<ans>{said}</ans>", answer="3", answer_type="int").score == right


def test_a_comma_between_thousands_is_part_of_the_number():
    assert read("GSM8K-V", "FINAL ANSWER: 1,200", answer="1200").score == 1


@pytest.mark.parametrize("name", ["ScreenSpot_Pro_CAD", "OSWorld_G", "VBGD", "ScreenSpot_Mobile"])
def test_an_answer_without_a_click_hits_nothing(name):
    row = {"bbox": "[0, 0, 50, 50]", "image_size": [100, 100], "answer": "x"}

    assert (read(name, "I cannot see it", **row).score, read(name, "I cannot see it", **row).rule) == (0, UNDECIDED)
    assert read(name, "pyautogui.click(x=0.0, y=0.0)", **row).score == 1


@pytest.mark.parametrize(
    ("said", "rule", "score"), [("safe", "safety", 1), ("unsafe", "safety", 0), ("Sure!", UNDECIDED, 0)]
)
def test_an_answer_without_a_label_is_not_safe(said, rule, score):
    result = read("MMSafetyBench", said, category="x")

    assert (result.rule, result.score) == (rule, score)


@pytest.mark.parametrize("said", [r"\boxed{\text{Yes}}", r"\boxed{Yes}", "boxed{yes}", "The answer is yes."])
def test_a_box_with_nested_braces_is_read(said):
    assert read("ReasonMap-Plus", said, type="TorF1", answer="1", difficulty_city="easy").score == 1


def test_a_key_that_is_no_option_is_told_and_only_right_literally():
    rows = [{"A": "x", "B": "y", "answer": "AE", "prediction": said} for said in ("(A) and (E)", "A")]
    result = scored("XLRS-Bench-lite", *rows)

    assert [score.score for score in result.scores] == [1, 0]
    [notice] = result.scorer.notices(result.rows)
    assert (notice.kind, notice.count) == ("keys_without_option", 2)
