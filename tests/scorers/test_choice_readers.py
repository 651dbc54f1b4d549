"""Reading chosen options by the rules of single benchmarks, and keys that are written in several ways."""

import pytest

from eyechart.errors import DataError
from eyechart.metrics.benchmark_letters import mean_relative_accuracy, spatial_letter, spatial_number
from eyechart.metrics.choices import key_letter
from eyechart.scorers.rules import choices
from eyechart.scorers.scoring import score_rows
from support.vlm_data import benchmark_of_kind

PETS = {"A": "cat", "B": "dog", "C": "horse", "D": "bird"}
READERS = {name: made.reader for name, made in vars(choices).items() if hasattr(made, "reader")}
FACTS = {
    "first_letter": {"<answer>b</answer>": "B", "The best answer is C": "C", "(d)": "D", "dog": None, "": None},
    "letter_set": {"(A) and (C)": "AC", "B, D": "BD", "B. dog": "BD", "none": None},
    "last_letter": {r"\boxed{A} (B)": "A", "(A) no, (B)": "B", "it is c, not b": "B", "hm": None},
    "answer_line": {"answer: b\nAnswer : D": "D", "Answer is B": None},
    "boxed_letter": {r"so \boxed{c}": "C", "C": None},
    "boxed_or_stated": {r"\boxed{\text{B}}": "B", "It is (C).": "C", "The answer is: d\nfoo": "D", "dog": None},
    "labelled": {"(A) or (B)": "B", "A. cat": "A", "I see one big horse over there": "C", "horse": None},
    "first_labelled": {"(A) or (B)": "A", "B, dog": "B", "the dog": "B", "no idea": None},
    "stated_letter": {"b": "B", "C) horse": "C", "the answer is d!": "D", "e": "E", "xyz": None},
    "stated_letter_to_d": {
        "C, it is a cat": "C",
        "B, not A": "B",
        "B; since A is too low": "B",
        "A, or B": "A",
        "B/A": "B",
        "(d)": "D",
        "It is a dog: B": "A",
        "**C** not A": "C",
        "E": None,
        "Bad": None,
    },
    "after_answer": {"<Answer>: B": "B", "Answer:: <C>": "C", "answer b": None},
    "answer_last_line": {"A or B?\nAnswer: D": "D"},
    "first_character": {" (C) horse": "C", "B dog": "B", "dog": None},
    "listed": {"['C', 'A']": "AC", "A": None},
    "spatial": {"<answer>b. dog</answer>": "B", "A or B": None, "Option C": "C", "**D**": "D"},
}


@pytest.mark.parametrize(("reader", "text"), [(name, text) for name, facts in FACTS.items() for text in facts])
def test_a_rule_reads_what_it_says(reader, text):
    assert READERS[reader](text, PETS, {}) == FACTS[reader][text]


def test_an_order_is_read_where_one_is_asked_for():
    read = READERS["letter_or_order"]

    assert read("first B, then A", PETS, {"question_type": "choice"}) is None
    assert read("So it is BACD.", PETS, {"question_type": "sort"}) == "BACD"


@pytest.mark.parametrize("reader", READERS)
def test_no_text_takes_long_or_fails(reader):
    for text in ("<answer" * 4000, "(" * 20000, "answer " + " " * 20000, r"\boxed{" * 4000, "A" * 20000, "\n" * 20000):
        READERS[reader](text, PETS, {"question_type": "sort", "task": "Nested Squares", "answer": "x"})


def test_numbers_are_read_from_the_end_and_scored_by_how_near_they_are():
    assert spatial_number("about three or <answer>4.5 m</answer>") == 4.5
    assert spatial_number("<think>7</think> so seventeen") == 17
    assert spatial_number("none") is None
    assert mean_relative_accuracy(10, 10) == 1
    assert mean_relative_accuracy(12.5, 10) == 0.6
    assert mean_relative_accuracy(20, 10) == 0
    assert spatial_letter("<think>maybe A</think>B") == "A"  # as the original reads it


@pytest.mark.parametrize("end", ["\n\nDone.", "\n\nOption A: a cat\nOption B: a dog\n\nDone."])
def test_the_line_of_a_letter_is_found_above_empty_lines_and_lists_of_options(end):
    assert spatial_letter(f"C or D\nB{end}") == "B"


@pytest.mark.parametrize(
    ("key", "letter"),
    [
        *((key, "B") for key in ("B", "b", "(B)", " B. ", "dog", "DOG", "B. dog", "(B) dog", "  B. dog")),
        *((key, None) for key in ("E", "e", "cow", "A or B", "B. cat", "", "doggy")),
    ],
)
def test_a_key_names_one_option(key, letter):
    assert key_letter(key, PETS) == letter


def test_a_key_that_names_two_options_names_none():
    assert key_letter("a", {"A": "b", "B": "a"}) is None


def table(rows, **known):
    return score_rows(rows, benchmark_of_kind("choice", "optional", **known))


def test_keys_become_letters_and_others_are_refused_or_counted():
    rows = [
        {"index": i, "question": "?", **PETS, "answer": key, "prediction": "B"} for i, key in enumerate(("b", "dog"))
    ]
    wrong = [rows[0] | {"index": 9, "answer": "cow"}]

    assert table(rows).table == [{"split": "none", "Overall": 1.0}]
    with pytest.raises(DataError, match="the answer 'cow' of index 9 is none of its letters: A, B, C, D"):
        table(rows + wrong)
    published = table(rows + wrong, url="https://example.org/X.tsv")
    assert published.table == [{"split": "none", "Overall": pytest.approx(2 / 3)}]
    assert [(n.kind, n.count) for n in published.scorer.notices(published.rows)] == [("keys_without_option", 1)]


@pytest.mark.parametrize(("key", "right"), [("AC", 1.0), ("C, A", 1.0), ("(A) (C)", 1.0), ("A", 0.0), ("AB", 0.0)])
def test_a_key_may_be_several_letters(key, right):
    row = {"index": 0, "question": "?", **PETS, "answer": key, "prediction": "A, C"}

    assert table([row], rule="rules.choices:letter_set").table == [{"split": "none", "Overall": right}]


def test_a_key_of_several_letters_names_options():
    row = {"index": 0, "question": "?", **PETS, "answer": "AF", "prediction": "A"}

    with pytest.raises(DataError, match="the answer 'AF' of index 0 is none of its letters"):
        table([row], rule="rules.choices:letter_set")


def test_the_strict_extractor_reads_options_and_leaves_the_rest_to_the_rule_of_the_benchmark():
    rows = [{"index": i, "question": "?", "answer": "B", "prediction": r"so \boxed{B}"} for i in range(2)]
    known = benchmark_of_kind("choice", "no", url="https://x.org", rule="rules.choices:boxed_or_stated")

    scored = score_rows([rows[0], rows[1] | PETS], known, extractor="strict")

    assert [score.extracted for score in scored.scores] == ["B", "B"]
    assert [score.rule for score in scored.scores] == ["boxed_or_stated", "boxed"]
    assert scored.disagreement["differ"] == 0
