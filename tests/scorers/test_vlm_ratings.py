"""Benchmark numbers from rows: worked examples, agreement with scikit-learn, and what is refused."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, precision_recall_fscore_support

from eyechart.scorers.aggregates import choices, documents, exercises, yes_no
from eyechart.scorers.aggregates.means import percentages, together
from eyechart.scorers.aggregates.yes_no import MME_PERCEPTION, MME_REASONING
from eyechart.scorers.judging.judge_forms import two_numbers
from eyechart.scorers.rules import mathematics
from eyechart.scorers.scoring import score_rows
from support.vlm_data import benchmark_of_kind

YES_NO = st.sampled_from(["Yes", "No"])
ANIMALS = {"A": "cat", "B": "dog", "C": "horse", "D": "bird"}


def table(scorer, rows, *, metric="", extractor="vlmeval"):
    """Read the predictions of rows and return the benchmark's own table."""
    return score_rows(rows, benchmark_of_kind(scorer, "optional", metric=metric), extractor=extractor).table


def _mme_rows(first, second, images=2):
    """Two questions on each image of every category, answered right or not."""
    return [
        {"category": category, "image_path": f"{image}.jpg", "answer": "Yes", "prediction": "Yes" if right else "No"}
        for category in (*MME_PERCEPTION, *MME_REASONING)
        for image in range(images)
        for right in (first, second)
    ]


@pytest.mark.parametrize(
    ("first", "second", "perception", "reasoning"),
    [(True, True, 2000, 800), (True, False, 500, 200), (False, False, 0, 0)],
)
def test_mme_counts_answers_and_images(first, second, perception, reasoning):
    found = table("mme", _mme_rows(first, second))

    assert found["perception"] == perception
    assert found["reasoning"] == reasoning


def test_mme_gives_no_sum_while_a_category_is_missing():
    rows = [row for row in _mme_rows(True, True) if row["category"] != "OCR"]

    found = table("mme", rows)

    assert "perception" not in found
    assert found["reasoning"] == 800
    assert found["scene"] == 200


def test_mme_counts_images_that_lack_their_second_question():
    found = table("mme", _mme_rows(True, True)[:-1])

    assert found["incomplete_pairs"] == 1
    assert found["text_translation"] == 200


def test_mme_looks_at_two_questions_of_an_image():
    rows = [{"category": "OCR", "image_path": "1.jpg", "score": score} for score in (True, True, False)]

    assert yes_no.mme(rows)["OCR"] == pytest.approx(100 * 2 / 3 + 100)


@given(st.lists(st.tuples(YES_NO, st.sampled_from(["Yes", "No", "Unknown"])), min_size=1))
@settings(deadline=None)
def test_pope_agrees_with_scikit_learn(pairs):
    rows = [
        {"answer": answer, "extracted": said, "score": answer == said, "category": "random"} for answer, said in pairs
    ]
    truth = [answer == "Yes" for answer, _ in pairs]
    said = [word == "Yes" for _, word in pairs]

    found = yes_no.pope(rows)["Overall"]

    precision, recall, f1, _ = precision_recall_fscore_support(truth, said, average="binary", zero_division=0)
    expected = {"precision": 100 * precision, "recall": 100 * recall, "Overall": 100 * f1}
    expected["acc"] = 100 * accuracy_score([a for a, _ in pairs], [s for _, s in pairs])
    assert found == pytest.approx(expected)


def test_pope_counts_a_row_in_each_of_its_categories():
    rows = [
        {"answer": "Yes", "prediction": "yes", "category": "random,popular"},
        {"answer": "No", "prediction": "yes", "category": "random"},
    ]

    found = table("pope", rows)

    assert found["popular"]["acc"] == 100
    assert found["random"]["acc"] == 50
    assert found["Overall"]["acc"] == pytest.approx(200 / 3)


def test_amber_ignores_the_case_of_an_answer_and_others_do_not():
    row = {"category": "relation", "answer": "yes", "prediction": "Yes"}

    assert table("amber", [row])["Relation"] == 100
    assert table("yes_no", [row])["Overall"] == 0


def test_the_strict_reader_can_be_asked_for():
    row = {"answer": "No", "prediction": "**No**"}

    assert table("yes_no", [row])["Overall"] == 0
    assert table("yes_no", [row], extractor="strict")["Overall"] == 100


def test_two_columns_with_the_same_value_stay_apart():
    rows = [
        {"category": "x", "l2-category": "y", "score": True},
        {"category": "y", "l2-category": "z", "score": False},
    ]

    assert percentages(rows) == {"Overall": 50, "x": 100, "y": 0, "y (l2-category)": 100, "z": 0}


@pytest.mark.parametrize(
    ("rate", "rows", "message"),
    [
        (yes_no.mme, [{"category": "OCR", "answer": "Yes"}], "no 'image_path'"),
        (yes_no.hallusion, [{"index": "7", "l2-category": "chart", "score": 1}], "set, figure and question"),
        (yes_no.pope, [], "no rows"),
        (choices.mmvp, [{"index": i, "score": 1} for i in (0, 2, 3, 5)], "groups of 2, but that of index 0 has 1"),
        (documents.ocrbench, [{"category": "Poems", "answer": "['x']"}], "'Poems' is not a category of OCRBench"),
        (yes_no.naturalbench_groups, [], "no rows"),
    ],
)
def test_rows_that_cannot_be_rated_are_an_error(rate, rows, message):
    with pytest.raises(ValueError, match=message):
        rate(rows)


def test_report_has_nothing_to_say_of_a_category_a_split_lacks():
    rows = [{"split": "dev", "category": "x", "score": 1}, {"split": "test", "category": "y", "score": 0}]

    dev, test = choices.report_acc(rows)

    assert dev == {"split": "dev", "Overall": 1, "x": 1, "y": None}
    assert test == {"split": "test", "Overall": 0, "x": None, "y": 0}


def test_an_open_question_of_mmmu_is_right_when_its_answer_occurs():
    rows = [
        {"index": 0, "answer": "42", "prediction": "The result is 42"},
        {"index": 1, "answer": "C", "prediction": "B"},
    ]

    assert score_rows(rows, benchmark_of_kind("mmmu", "optional")).units == {"0": 1, "1": 0}


@pytest.mark.parametrize(
    ("columns", "names"),
    [
        ({}, {"Overall"}),
        ({"category": "charts"}, {"Overall", "charts"}),
        ({"category": "charts", "split": "val"}, {"Overall", "val"}),
    ],
)
def test_open_questions_are_reported_by_split_or_else_by_category(columns, names):
    found = table("open", [{"answer": "['cat', 'dog']", "prediction": "Cat", **columns}], metric="accuracy")

    assert found == dict.fromkeys(names, 100.0)


def test_mmt_averages_the_tasks_of_an_ability():
    rows = [
        {"split": "VAL", "category": "t1", "l2-category": "ocr", "score": 1},
        {"split": "VAL", "category": "t1", "l2-category": "ocr", "score": 1},
        {"split": "VAL", "category": "t1", "l2-category": "ocr", "score": 1},
        {"split": "VAL", "category": "t2", "l2-category": "ocr", "score": 0},
    ]

    val, everything = choices.mmt(rows)

    assert val == {"split": "VAL", "Overall": 0.75, "t1": 1, "t2": 0, "OCR": 0.5}
    assert everything == val | {"split": "ALL"}


def test_disagreement_of_the_extractors_is_counted():
    said = ["B", "the answer is a dog"]
    rows = [{"index": i, **ANIMALS, "answer": "B", "prediction": text} for i, text in enumerate(said)]

    found = score_rows(rows, benchmark_of_kind("choice", "optional", name="Pets")).disagreement

    assert {key: found[key] for key in ("n", "differ", "rate")} == {"n": 2, "differ": 1, "rate": 0.5}


def test_the_grades_of_two_answers_are_two_numbers():
    assert two_numbers("8 9", highest=10) == (8, 9)
    assert two_numbers("nan 9", highest=10) is None


def test_vcr_finds_the_covered_words_in_an_answer():
    rows = [
        {"answer": "['the quick fox', 'lazy dog']", "prediction": "I read: the quick fox; then a lazy cat."},
        {"answer": "['the end']", "prediction": "Sorry, the end is covered."},
    ]

    assert documents.vcr(rows) == pytest.approx({"Exact_Match": 1 / 3, "Jaccard": (1 + 1 / 3 + 0) / 3})
    assert (
        documents.vcr([{"answer": "['\u732b\u5728\u5bb6']", "prediction": "\u5c0f\u732b\u5728\u5bb6"}], "zh")[
            "Exact_Match"
        ]
        == 1
    )


def test_mathvista_compares_lists_and_texts():
    row = {"question_type": "free_form", "answer_type": "list", "answer": "[2007, 2008]", "res": "[2007,2008]"}

    assert mathematics.mathvista_hit(row)
    assert not mathematics.mathvista_hit(row | {"res": "None"})


def test_mathvision_table_by_subject():
    rows = [
        {"category": "algebra", "choices": "[]", "answer": "1/2", "res": "0.5", "log": "Succeed"},
        {"category": "logic", "choices": "['x', 'y']", "answer": "B", "res": "A", "log": "Prefetch succeed"},
    ]

    overall, algebra, logic = exercises.mathvision([row | {"score": mathematics.mathvision_hit(row)} for row in rows])

    assert overall == {"Subject": "Overall", "tot": 2, "prefetch": 1, "hit": 1, "prefetch_rate": 50, "acc": 50}
    assert algebra["acc"] == 100
    assert logic["acc"] == 0


@pytest.mark.parametrize(
    ("scorer", "row"),
    [
        ("yes_no", {"answer": "Yes"}),
        ("pope", {"answer": "Yes"}),
        ("choice", {"index": 0, **ANIMALS, "answer": "A"}),
        ("mtvqa", {"category": "FR", "answer": "x"}),
        ("mathvista", {"task": "t", "question_type": "free_form", "answer_type": "float", "answer": "1"}),
        ("mathvision", {"category": "t", "choices": "[]", "answer": "1"}),
        ("open", {"answer": "x"}),
    ],
)
@given(text=st.none() | st.text() | st.floats())
@settings(deadline=None)
def test_no_prediction_makes_a_rating_raise(scorer, row, text):
    assert table(scorer, [row | {"prediction": text}], metric="anls" if scorer == "open" else "")
    if scorer in HITS:
        assert HITS[scorer](row | {"res": text}) in (True, False)


HITS = {"mathvista": mathematics.mathvista_hit, "mathvision": mathematics.mathvision_hit}


@pytest.mark.parametrize("first", [0, 1, 301])
def test_pairs_are_counted_from_the_smallest_index(first):
    rows = [{"index": first + i, "score": score} for i, score in ((3, 1), (0, 1), (2, 0), (1, 1))]

    assert [[row["index"] - first for row in pair] for pair in together(rows, 2)] == [[0, 1], [2, 3]]
    assert choices.mmvp(rows)["Overall"] == 0.5
