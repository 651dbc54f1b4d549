"""How the catalogue words a prompt: columns, options and the places of images in a text."""

import pytest

from eyechart.datasets.questions.benchmarks import QuestionBenchmark
from eyechart.datasets.questions.prompt_templates import PromptTemplate, asked, by_turns, olympiad
from eyechart.datasets.questions.question_dataset import build_prompt
from eyechart.errors import DataError

ROW = {
    "question": "Which <image> one?",
    "hint": None,
    "A": "cat",
    "B": "a ${hint} [[dog]]",
    "C": None,
    "list": "['x', 'y']",
}
IMAGES = [{"type": "image", "value": "1.png"}, {"type": "image", "value": "2.png"}]


def words(asking, row=ROW):
    [item] = asking.items(row, [])
    return item["value"]


def shown(asking, images=IMAGES, row=ROW):
    return [item["value"] for item in asking.items(row, images)]


def test_a_part_is_left_out_where_one_of_its_cells_is_empty():
    asking = PromptTemplate("[[Hint: ${hint}\n]]${question}[[ ${missing}|| (${A})]]")

    assert words(asking) == "Which <image> one? (cat)"
    assert words(asking, ROW | {"hint": "look", "missing": "m"}) == "Hint: look\nWhich <image> one? m"


@pytest.mark.parametrize(
    ("source", "subject", "form", "context"),
    [
        ("OE_MM_maths_en_COMP", "Math", "en", ""),
        ("OE_MM_physics_en_COMP", "Physics", "en", "Given.\n"),
        ("TP_MM_maths_zh_CEE", "数学", "zh_proof", ""),
        ("OE_MM_physics_zh_CEE", "物理", "zh", "Given.\n"),
    ],
)
def test_the_source_of_a_competition_names_subject_and_language(source, subject, form, context):
    found = olympiad({"source": source, "context": "Given.", "answer_type": "Numerical"})

    assert (found["subject"], found["form"], found["context"]) == (subject, form, context)


def test_instructions_at_the_end_of_a_question_are_removed():
    assert asked({"question": "Where is it? Your answer should be a tuple."}) == {"asked": "Where is it?"}


def test_the_turns_before_the_last_alternate():
    row = {"question": "['q1', 'q2', 'q3']", "answer": "['a1', 'a2', 'a3']"}

    assert by_turns(row) == {"first": "q1", "last": "q3", "turns": "['q1', 'a1', 'q2', 'a2']"}


def test_what_a_cell_holds_is_never_a_place():
    assert words(PromptTemplate("${options}")) == "A. cat\nB. a ${hint} [[dog]]\n"


def test_options_stand_in_columns_or_in_a_list():
    assert (
        words(PromptTemplate("${options}", option="(${letter}) ${option}", join=", ", options="list")) == "(A) x, (B) y"
    )
    assert words(PromptTemplate("${options}", options=("question", "A"))) == "A. Which <image> one?\nB. cat\n"


def test_the_value_of_a_column_chooses_the_words():
    asking = PromptTemplate("", by="kind", cases={"sort": "Sort!", "pick": "Pick!"})

    assert words(asking, {"kind": "sort"}) == "Sort!"
    with pytest.raises(DataError, match="unknown kind 'other'; expected sort or pick"):
        words(asking, {"kind": "other"})
    assert words(PromptTemplate("Else.", by="kind", cases={"sort": "Sort!"}), {"kind": "other"}) == "Else."


def test_images_go_where_the_form_says():
    assert shown(PromptTemplate()) == ["1.png", "2.png", "Which <image> one?"]
    assert shown(PromptTemplate(images="in_place"), IMAGES[:1]) == ["Which ", "1.png", " one?"]
    assert shown(PromptTemplate(images="woven")) == ["Which", "1.png", "one?", "2.png"]
    assert shown(PromptTemplate("<image 2>!", images="numbered")) == ["", "2.png", "!"]
    assert shown(
        PromptTemplate("${question} Go.", images="woven", unmarked="\n<image>"), IMAGES[:1], {"question": "Q"}
    ) == [
        "Q",
        "1.png",
        "Go.",
    ]


@pytest.mark.parametrize("images", ["in_place", "woven", "numbered"])
def test_a_text_that_speaks_of_more_images_than_there_are_is_refused(images):
    with pytest.raises(DataError, match="0 images"):
        PromptTemplate("<image> <image 1>", images=images).items(ROW, [])


def test_an_error_names_its_row():
    benchmark = QuestionBenchmark("X", "", "", "no", asking=PromptTemplate(images="in_place"))

    with pytest.raises(DataError, match="X: row '1': the text contains <image> 1 time, but there are 2 images"):
        build_prompt(benchmark, ROW, IMAGES, "X: row '1'")
