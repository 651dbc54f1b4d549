"""Reading and comparing answers: rules of our own, hostile text, and agreement with independent programs."""

import time

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from eyechart.metrics import answers, choices
from eyechart.metrics.cell_values import as_score, is_missing, literal_list, options_of, text_list

ANIMALS = {"A": "cat", "B": "dog", "C": "horse", "D": "bird"}
CHINESE = {"A": "泰迪熊", "B": "兔子", "C": "猫", "D": "狗"}
NUMBERS = {"A": "1", "B": "2", "C": "12", "D": "21"}
SIDES = {"A": "left", "B": "left front", "C": "right", "D": "right front"}
YES_NO = {"A": "yes", "B": "no"}

ANY_TEXT = (
    st.none() | st.text() | st.text(alphabet="AaBbZz .:*()[]{}\\'\"\n\t/-,0123456789%answeriyo<>thk") | st.floats()
)


@pytest.mark.parametrize(
    ("answer", "options", "choice", "rule"),
    [
        ("b", ANIMALS, "B", "bare"),
        ("\uff08B\uff09", CHINESE, "B", "bare"),
        ("B\u3002", CHINESE, "B", "bare"),
        ("<think>A is possible</think>\nB", ANIMALS, "B", "bare"),
        (r"so \boxed{A}, no: \boxed{\text{C}}", ANIMALS, "C", "boxed"),
        (r"\boxed{horse}", ANIMALS, "C", "boxed"),
        ("B is the correct answer here", ANIMALS, "B", "commitment"),
        ("At first the answer is A. No, the final answer is D.", ANIMALS, "D", "commitment"),
        ("答案是B", CHINESE, "B", "commitment"),
        ("The answer is 2", NUMBERS, "B", "statement"),
        ("B. dog", ANIMALS, "B", "label"),
        ("the answer is a dog", ANIMALS, "B", "text"),
        ("It is left front.", SIDES, "B", "text"),
        ("猫", CHINESE, "C", "text"),
        ("Cannot determine the answer, B", ANIMALS, "Z", "refusal"),
        ("Failed to obtain answer via API. B", ANIMALS, None, "failed"),
        (None, {"A": "None"}, None, "missing"),
        ("The answer is A or B", ANIMALS, None, "undecided"),
        ("The answer is not B", ANIMALS, None, "undecided"),
        ("It is not a dog", ANIMALS, None, "undecided"),
        ("A. cat\nB. dog\nC. horse\nD. bird", ANIMALS, None, "undecided"),
        ("熊猫", CHINESE, None, "undecided"),
        ("none", YES_NO, None, "undecided"),
        ("E", ANIMALS, None, "undecided"),
    ],
)
def test_strict_extractor_names_the_rule_that_decided(answer, options, choice, rule):
    assert answers.EXTRACTORS["strict"](answer, options) == choices.Extraction(choice, rule)


@pytest.mark.parametrize(
    ("answer", "verdict"),
    [
        ("**No**", "No"),
        ("Yes:", "Yes"),
        ("Yes\uff0cit is", "Yes"),
        ("No. The word yes is wrong", "No"),
        ("I think yes", "Yes"),
        ("Yes and no", "Unknown"),
        ("yes / no", "Unknown"),
        ("not sure", "Unknown"),
        (None, "Unknown"),
    ],
)
def test_strict_yes_no_sees_through_punctuation(answer, verdict):
    assert answers.YES_NO_EXTRACTORS["strict"](answer) == verdict


@pytest.mark.parametrize(
    ("answer", "options", "choice", "rule"),
    [
        (r"\boxed{B}", ANIMALS, "B", "letter"),
        ("it is B for sure now", ANIMALS, "B", "letter"),
        ("it is B for sure now then", ANIMALS, None, "undecided"),
        ("B it is for sure now: the answer is B", ANIMALS, "B", "answer-is"),
        ("A, B or Z", ANIMALS, None, "undecided"),
        ("it is Z", ANIMALS, "Z", "letter"),
        ("the answer is a dog", ANIMALS, "A", "answer-is"),
        ("the answer is easy", {"A": "x", "E": "y"}, None, "undecided"),
        ("not sure", YES_NO, "B", "text"),
        ("I do not know", YES_NO, None, "undecided"),
        ("\u7b54\u6848\u662fB", CHINESE, None, "undecided"),
        ("I can't process this file.", ANIMALS, "Z", "refusal"),
        ("Failed to obtain answer via API: dog", {"A": "a very long option text", "B": "dog"}, "B", "text"),
        (None, {"A": "None"}, None, "missing"),
    ],
)
def test_compatible_extractor_names_the_rule_that_decided(answer, options, choice, rule):
    assert answers.EXTRACTORS["vlmeval"](answer, options) == choices.Extraction(choice, rule)


def test_the_last_answer_line_counts():
    assert choices.final_answer_line("Answer: A\nno, wait\nAnswer: C") == "C"
    assert choices.final_answer_line("so\nAnswer: A or B") == "A or B"


def test_an_order_is_read_line_by_line():
    assert choices.extract_sequence("First: C\nSecond: A\nThird: B\nFourth: D") == "CABD"
    assert choices.extract_sequence("First:\nA. Second: B. Third: C. Fourth: D") is None
    assert choices.extract_sequence("Step 1: B, step 2: A, step 3: D, step 4: C") == "BADC"


def test_only_32_periods_are_removed():
    assert answers.clean_punctuation("." * 40) == "." * 8


def test_the_length_of_anls_is_that_of_the_raw_text():
    assert answers.anls_distance("jello world", "hello   world") == pytest.approx(1 / 13)


@pytest.mark.parametrize(
    ("metric", "prediction", "targets", "score"),
    [
        ("accuracy", " CAT", ["dog", "cat "], 1.0),
        ("mean_accuracy", "cat", ["cat", "dog"], 0.5),
        ("relaxed_accuracy", " 10.5 ", ["7", "10"], 1.0),
        ("relaxed_accuracy", " Yes ", ["yes"], 1.0),
        ("normalized_exact", "The two dogs.", ["2 dogs", "x"], 1.0),
        ("anls", "May 12", "['12 May 1990', 'may 12']", 1.0),
    ],
)
def test_open_metrics_take_the_best_or_the_mean_answer(metric, prediction, targets, score):
    assert answers.open_score(prediction, targets, metric) == score


def test_extraction_leaves_the_options_as_they_are():
    options = {"A": "Cat", "B": "DOG", "C": None, "D": float("nan")}
    before = dict(options)

    assert choices.extract_vlmeval("a dog", options).choice == "B"
    assert options == before


def test_missing_options_cannot_be_chosen():
    assert choices.extract_vlmeval("none of them", {"A": "cat", "B": None}).choice is None
    assert options_of({"A": "cat", "B": None, "C": float("nan"), "D": "None"}) == {"A": "cat", "D": "None"}


@given(ANY_TEXT, ANY_TEXT)
@settings(max_examples=300, deadline=None)
def test_no_text_makes_the_functions_raise(answer, other):
    options = {"A": other, "B": "dog", "Z": ""}
    for extract in answers.EXTRACTORS.values():
        choice = extract(answer, options).choice
        assert choice is None or choice in {"A", "B", "Z"}
    for read in answers.YES_NO_EXTRACTORS.values():
        assert read(answer) in {"Yes", "No", "Unknown"}
    for clean in (answers.clean_punctuation, answers.clean_digits_and_articles, answers.vqa_normalize):
        assert isinstance(clean(answer), str)
    for metric in answers.OPEN_METRICS:
        assert 0 <= answers.open_score(answer, [other, "dog"], metric) <= 1
    assert isinstance(answers.relaxed_match(answer, other), bool)
    assert all(isinstance(part, str) for part in answers.split_thinking(answer))
    assert choices.extract_first_letter(answer) in {"", *"ABCDE"}
    assert choices.extract_sequence(answer) is None or sorted(choices.extract_sequence(answer)) == list("ABCD")
    assert isinstance(choices.final_answer_line(answer), str)


# Texts that drive careless regular expressions or parsers into quadratic or worse time, 100 kB each.
HOSTILE = {
    "spaces": " " * 100_000,
    "new lines": "\n" * 100_000,
    "answer is": "answer is " * 10_000,
    "answer and spaces": ("answer" + " " * 94) * 1_000,
    "stars": "answer is " + "*" * 100_000,
    "boxed": r"\boxed{" * 14_000,
    "first": "first " * 17_000,
    "step": "step 1 " * 14_000,
    "brackets": "[" * 50_000 + "]" * 50_000,
    "signs": "[" + "-" * 100_000 + "1]",
    "periods": ". " * 50_000,
    "quotes": "['" + "\\'" * 50_000,
    "letters": "B " * 50_000,
    "think": "<think></think>" * 6_700,
    "digits": "9" * 100_000,
    "labels": "A. \n" * 25_000,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_100_kb_of_hostile_text_is_read_at_once(name):
    text = HOSTILE[name]
    started = time.process_time()

    for extract in answers.EXTRACTORS.values():
        extract(text, ANIMALS)
    for read in answers.YES_NO_EXTRACTORS.values():
        read(text)
    for metric in answers.OPEN_METRICS:
        answers.open_score(text, ["a short answer"], metric)
    answers.relaxed_match(text, "5")
    answers.split_thinking(text)
    choices.extract_sequence(text)
    choices.extract_first_letter(text)
    choices.final_answer_line(text)
    text_list(text)

    assert time.process_time() - started < 2.0


def _textbook_distance(first, second):
    row = list(range(len(second) + 1))
    for i, left in enumerate(first, 1):
        diagonal, row[0] = row[0], i
        for j, right in enumerate(second, 1):
            diagonal, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, diagonal + (left != right))
    return row[-1]


@given(st.text(alphabet="abé", max_size=80), st.text(alphabet="abé", max_size=80))
@settings(deadline=None)
@example("", "")
@example("kitten", "sitting")
def test_edit_distance_is_the_textbook_one(first, second):
    assert answers.edit_distance(first, second) == _textbook_distance(first, second)


def test_edit_distance_of_long_texts():
    assert answers.edit_distance("ab" * 5_000, "ba" * 5_000) == 2


@given(st.text(max_size=20), st.lists(st.text(max_size=20), min_size=1, max_size=5))
@settings(deadline=None)
def test_anls_is_one_for_an_answer_itself_and_never_between_zero_and_a_half(prediction, targets):
    score = answers.open_score(prediction, targets, "anls")

    assert answers.open_score(targets[0], targets, "anls") == 1.0
    assert score == 0 or 0.5 <= score <= 1


@pytest.mark.parametrize(("agreeing", "score"), [(0, 0.0), (1, 0.3), (2, 0.6), (3, 0.9), (4, 1.0), (10, 1.0)])
def test_vqa_accuracy_of_ten_annotators(agreeing, score):
    targets = ["Cat"] * agreeing + [f"other {i}" for i in range(10 - agreeing)]

    assert answers.open_score("the cat", targets, "vqa_score") == pytest.approx(score)


def test_relaxed_match_takes_nan_for_a_word():
    assert answers.relaxed_match("nan", "NaN")
    assert not answers.relaxed_match("nan", "5")
    assert not answers.relaxed_match("inf", "5")


def test_a_row_without_answers_cannot_be_scored():
    with pytest.raises(ValueError, match="no reference answer"):
        answers.open_score("x", [], "anls")


@given(st.lists(st.text() | st.integers() | st.booleans() | st.floats(allow_nan=False, allow_infinity=False)))
@settings(deadline=None)
def test_a_printed_list_is_read_back(values):
    assert literal_list(repr(values)) == values
    assert text_list(repr(values)) == [str(value) for value in values]


@pytest.mark.parametrize(
    "text",
    [
        "[__import__('os').system('true')]",
        "[open('x')]",
        "[cat]",
        "[1 + 1]",
        "['a' 'b', c]",
        "[",
        "]",
        "[[1]]",
        "{'a': 1}",
        "",
        "[1 2]",
    ],
)
def test_anything_but_a_flat_list_is_one_text(text):
    assert literal_list(text) is None
    assert text_list(text) == [text]


def test_words_for_nothing_are_kept_as_text():
    assert [is_missing(word) for word in ("None", "NA", "nan", "", None, float("nan"))] == [False] * 4 + [True] * 2
    assert text_list("None") == ["None"]
    assert text_list(None) == []


@pytest.mark.parametrize(("cell", "score"), [(True, 1.0), ("True", 1.0), ("False", 0.0), ("0.5", 0.5), (2, 2.0)])
def test_scores_from_spreadsheets(cell, score):
    assert as_score(cell) == score


def test_a_score_that_is_not_a_number_is_an_error():
    with pytest.raises(ValueError, match="not a score"):
        as_score("good")


@pytest.mark.parametrize(
    ("text", "answer", "thinking"),
    [
        ("<think> t </think> B", "B", "t"),
        ("<think>a</think>b</think>c", "c", "<think>a</think>b</think>"),
        ("no tags ", "no tags ", ""),
        (None, "", ""),
    ],
)
def test_thinking_ends_at_the_last_closing_tag(text, answer, thinking):
    assert answers.split_thinking(text) == (answer, thinking)


@pytest.mark.parametrize(
    ("said", "answer", "right"),
    [
        *(("the", "A", 0), ("?", "A", 0), ("a", "A", 1), ("The", "the", 1)),  # nothing is left of these
        *(("5", "-5", 0), ("-5", "- 5", 1), ("-5 degrees", "5 degrees", 0), ("well-known", "well known", 1)),
        *(("The cat.", "cat", 1), ("two", "2", 1)),
    ],
)
def test_normalised_texts_keep_what_tells_them_apart(said, answer, right):
    assert answers.open_score(said, answer, "normalized_exact") == right


@pytest.mark.parametrize(
    ("answer", "choice"),
    [
        ("<answer>A</answer>", "A"),
        ("<think>B or C?</think> <answer> (A) </answer>", "A"),
        ("It may be B, C or D. <ANSWER>dog</ANSWER>", "B"),
        ("<answer>A</answer> No: <answer>D</answer>", "D"),
        ("<answer>A", None),
        ("</answer>A<answer>", None),
        ("<answer></answer>", None),
        ("<answer>whale</answer>", None),
    ],
)
def test_an_answer_in_a_tag_is_read_by_the_strict_extractor(answer, choice):
    assert answers.EXTRACTORS["strict"](answer, ANIMALS).choice == choice


@pytest.mark.parametrize(
    ("answer", "said"),
    [("<answer>Yes</answer>", "Yes"), ("Yes or no? <answer>No.</answer>", "No"), ("<answer>maybe</answer>", "Unknown")],
)
def test_a_yes_or_no_in_a_tag_is_read_by_the_strict_extractor(answer, said):
    assert answers.YES_NO_EXTRACTORS["strict"](answer) == said


@pytest.mark.parametrize("reader", sorted(answers.YES_NO_EXTRACTORS))
def test_the_strict_reader_of_yes_and_no_ignores_the_thinking(reader):
    read = answers.YES_NO_EXTRACTORS[reader]
    if reader == "strict":
        assert read("<think>No, that is no dog.</think> Yes") == "Yes"
        assert read("no no</think>yes") == "Yes"
    else:  # VLMEvalKit's reads the whole text
        assert read("<think>No, that is no dog.</think> Yes") == "Unknown"
