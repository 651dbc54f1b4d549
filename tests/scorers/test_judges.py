"""Judges: what they are asked, what becomes of their replies, and what happens without them."""

import pytest

from eyechart import evaluate, vlm
from eyechart.compat.vlmevalkit.evaluation import judge_of_model
from eyechart.datasets.questions.prediction_files import dump
from eyechart.errors import DataError, EyechartError, UsageError
from eyechart.scorers.judging import Judge, JudgePrompts
from eyechart.scorers.rules.judged import DIMENSIONS
from eyechart.scorers.scoring import score_rows
from eyechart.types import Answer
from support.openai_server import OpenAIServer, Status
from support.vlm_data import benchmark_of_kind, write_benchmark

PETS = [
    {"index": i, "question": f"Which animal is number {i}?", "A": "cat", "B": "dog", "answer": answer}
    for i, answer in enumerate("ABAB")
]
MODELS = ("test-model", "judge-model")
FORM = JudgePrompts().form
SAID = ["A", "B", "a small feline", "hard to tell"]


def predict(rows, said):
    return [{**row, "prediction": text} for row, text in zip(rows, said, strict=True)]


def text_of(body):
    content = body["messages"][-1]["content"]
    return content if isinstance(content, str) else content[-1]["text"]


@pytest.fixture
def pets(lmu_data):
    return write_benchmark(lmu_data / "Pets.tsv", PETS)


def answer_pets(body):
    """Play the model that is judged, and its judge."""
    text = text_of(body)
    if text.endswith("Your output: "):
        return "A" if "feline" in text else "cannot say"
    return next(said for row, said in zip(PETS, SAID, strict=True) if row["question"] in text)


def run_pets(server, tmp_path, **questions):
    [result] = evaluate(
        dataset=["Pets"],
        model=["test-model"],
        model_type="api",
        output=str(tmp_path / "r.json"),
        min_success=0.5,
        questions={"api_base": server.api_base, "tries": 1, **questions},
    )
    return result


def test_a_judge_reads_what_no_rule_can_and_unreadable_verdicts_are_wrong(pets, tmp_path):
    with OpenAIServer(answer=answer_pets, models=MODELS) as server:
        plain = run_pets(server, tmp_path)
        judged = run_pets(server, tmp_path, judge="judge-model", judge_api_base=server.api_base)
        asked = len(server.requests)
        again = run_pets(server, tmp_path, judge="judge-model", judge_api_base=server.api_base)
        asked_again = len(server.requests) - asked

    assert plain.metrics["accuracy"] == 0.5
    assert plain.details["decided_by"] == "exact_matching"
    assert judged.metrics["accuracy"] == 0.75  # the fourth has no readable verdict
    assert judged.counts == {"listed": 4, "scored": 4, "failed": 0, "unreadable": 1, "repeats": 1}
    assert judged.details["lost"] == {"unreadable verdict": 1}
    assert (judged.values["accuracy"].worst_case, judged.values["accuracy"].best_case) == (0.75, 1.0)
    assert judged.details["decided_by"] == "judge-model"
    assert judged.details["rules"] == {"letter": 2, "judge": 1, "unreadable verdict": 1}
    [unread] = [notice for notice in judged.notices if notice["kind"] == "unreadable_verdicts"]
    assert unread["count"] == 1
    assert asked == 4 + 1 + 3  # four questions; one verdict at once, one tried three times
    assert again.metrics == judged.metrics
    assert asked_again == 1  # the last attempt at the unreadable verdict; everything else is stored


def test_a_dead_judge_is_an_error_and_a_fallback_has_its_own_name(pets, tmp_path):
    dead = Status(503)
    with OpenAIServer(answer=answer_pets) as server, OpenAIServer(fault=dead, models=MODELS) as judge:
        with pytest.raises(EyechartError, match="judge-model did not answer"):
            run_pets(server, tmp_path, judge="judge-model", judge_api_base=judge.api_base)
        result = run_pets(
            server,
            tmp_path,
            judge="judge-model",
            judge_api_base=judge.api_base,
            judge_fallback="exact_matching",
        )

    assert result.details["decided_by"] == "exact_matching"
    assert result.metrics["accuracy"] == 0.5
    assert "judge_failed" in [notice["kind"] for notice in result.notices]


def test_a_benchmark_that_needs_a_judge_is_refused_before_anything_is_asked(lmu_data, tmp_path):
    write_benchmark(lmu_data / "MMVet.tsv", [{"index": 0, "question": "q", "answer": "a", "category": "ocr"}])
    with OpenAIServer() as server:
        with pytest.raises(UsageError, match="only be scored by a judge"):
            evaluate(
                dataset=["MMVet"],
                model=["test-model"],
                model_type="api",
                output=str(tmp_path / "r.json"),
                questions={"api_base": server.api_base},
            )
        assert not server.requests


def test_a_test_split_without_answers_can_only_be_asked(lmu_data, tmp_path):
    write_benchmark(lmu_data / "MMBench_TEST_EN.tsv", [{"index": 0, "question": "q", "A": "x", "B": "y"}])
    settings = {"dataset": ["MMBench_TEST_EN"], "model": ["test-model"], "model_type": "api"}
    settings["output"] = str(tmp_path / "r.json")
    with OpenAIServer(answer=lambda body: "A") as server:
        with pytest.raises(UsageError, match="without answers"):
            evaluate(**settings, questions={"api_base": server.api_base})
        [result] = evaluate(**settings, questions={"api_base": server.api_base, "mode": "infer"})

    assert result.metrics == {"answered": 1.0}
    assert (tmp_path / "r.xlsx").is_file()


@pytest.mark.parametrize(("letter", "correct"), [("A", 1.0), ("B", 0.0), ("Z", 0.0)])
def test_the_letter_that_a_judge_reads_is_compared_with_the_answer(letter, correct):
    row = {"index": 0, "question": "q", "A": "cat", "B": "dog", "answer": "A", "prediction": "hard to say, a pet"}

    class Reader:
        def generate(self, text):
            return letter

    benchmark = benchmark_of_kind("choice", "optional")
    [score] = score_rows([row], benchmark, judges=[judge_of_model(Reader())]).scores

    assert (score.extracted, score.rule, score.score) == (letter, "judge", correct)


def test_grades_make_the_score_of_open_questions():
    rows = [
        {"index": i, "question": "q", "answer": "x", "category": "ocr,math", "prediction": text}
        for i, text in enumerate(["good", "half", "silly"])
    ]

    class Grader:
        def generate(self, text):
            return {"good": "1.0", "half": "0.5"}.get(text.split(" | ")[-2], "great answer!")

    scored = score_rows(rows, benchmark_of_kind("mmvet", "required", name="MMVet"), judges=[judge_of_model(Grader())])

    assert [score.score for score in scored.scores] == [1.0, 0.5, 0.0]
    assert scored.lost == {"2": "unreadable verdict"}
    assert scored.table["score"]["Overall"] == [3, 50.0]


@pytest.mark.parametrize("reply", ["nan", "inf", "2", "-0.1", "0.5 because", "", "1e3", "__import__('os')"])
def test_only_a_number_between_0_and_1_is_a_grade(reply):
    assert FORM("grade").parse(reply, {}) is None


@pytest.mark.parametrize(
    "reply", ["{}", "no", '{"Overall Score": 5}', "[1]", '{"Creativity": "__import__"}', "{" * 9000]
)
def test_only_complete_grades_of_a_dialogue_are_read(reply):
    assert FORM("dialogue").parse(reply, {}) is None


def test_dialogues_are_graded_turn_by_turn():
    rows = [{"index": 7, "question": "['q1', 'q2']", "answer": "['a1', 'a2']", "prediction": "['r1', 'r2']"}]
    grades = "{" + ", ".join(f'"{name}": {{n}}' for name in DIMENSIONS) + "}"

    class Grader:
        def generate(self, text):
            return grades.replace("{n}", "8" if "Reply: r1" in text else "4")

    scored = score_rows(rows, benchmark_of_kind("dialogue", "required", name="MMDU"), judges=[judge_of_model(Grader())])

    assert [row["index"] for row in scored.rows] == ["7/0", "7/1"]
    assert scored.table["all"]["Overall Score"] == 60
    assert [score.score for score in scored.scores] == [0.8, 0.4]


def test_a_judge_extracts_the_answer_of_a_long_solution():
    row = {
        "index": 0, "question": "2+2?", "question_type": "free_form", "answer_type": "integer", "answer": "4",
        "task": "t", "skills": "['s']", "prediction": "Two and two make four, so 4 it is.",
    }  # fmt: skip
    benchmark = benchmark_of_kind("mathvista", "optional", name="MathVista_MINI")

    class Extractor:
        def generate(self, text):
            assert text.endswith("Final answer: ")
            return "4"

    alone = score_rows([row], benchmark)
    judged = score_rows([row], benchmark, judges=[judge_of_model(Extractor())])

    assert (alone.scores[0].score, judged.scores[0].score) == (0.0, 1.0)
    assert FORM("extract").parse("x" * 501, row) is None


def test_rotations_of_a_lost_question_are_not_judged():
    rows = [
        {"index": 1, "question": "q", "A": "cat", "B": "dog", "answer": "A", "prediction": "B", "g_index": 1},
        {"index": 1000001, "question": "q", "A": "dog", "B": "cat", "answer": "B", "prediction": "??", "g_index": 1},
        {"index": 2, "question": "q", "A": "cat", "B": "dog", "answer": "A", "prediction": "A", "g_index": 2},
        {"index": 1000002, "question": "q", "A": "dog", "B": "cat", "answer": "B", "prediction": "??", "g_index": 2},
    ]
    asked = []

    def ask(prompts, attempt):
        for prompt in prompts:
            asked.append(prompt.id)
            yield prompt.id, Answer("B")

    scored = score_rows(rows, benchmark_of_kind("circular", "optional"), judges=[Judge("j", ask)])

    assert asked == ["3"]
    assert scored.table[0]["Overall"] == 0.5
    assert scored.units == {"1": 0.0, "2": 1.0}


def test_evaluate_takes_a_judge_as_the_original_does(pets, tmp_path):
    dump(predict(PETS, SAID), tmp_path / "m_Pets.xlsx")
    dataset = vlm.build_dataset("Pets")

    unread = pytest.warns(UserWarning, match="1 verdicts of the judge judge-model could not be read")
    with OpenAIServer(answer=answer_pets, models=MODELS) as server, unread:
        table = dataset.evaluate(tmp_path / "m_Pets.xlsx", model="judge-model", api_base=server.api_base, retry=1)

    assert table["Overall"][0] == 0.75
    assert (tmp_path / "m_Pets_judge-model_result.xlsx").is_file()


def test_the_extractors_disagreement_is_counted():
    rows = predict(PETS[:2], ["b", "B"])  # a small letter is read by the strict rules only

    scored = score_rows(rows, benchmark_of_kind("choice", "optional", name="Pets"))

    assert scored.disagreement["decided"] == "vlmeval"
    assert (scored.disagreement["differ"], scored.disagreement["n"]) == (1, 2)


class Rambling:
    """Reads the answers it is told to; of others it says nothing that can be read."""

    def __init__(self, **replies):
        self.replies = replies

    def generate(self, text):
        answer = text.rpartition("Answer: ")[2].partition("\n")[0]
        return self.replies.get(answer, "where is the image in all this")


def table_of(scorer, rows, **replies):
    benchmark = benchmark_of_kind(scorer, "optional")
    return score_rows(rows, benchmark, judges=[judge_of_model(Rambling(**replies))]).table


def choices(said):
    return [{"index": i, "A": "cat", "B": "dog", "answer": "A", "prediction": text} for i, text in enumerate(said)]


def test_a_pair_with_an_unreadable_answer_is_wrong_in_mmvp():
    table = table_of("mmvp", choices(["A", "??", "??", "A", "??", "B", "B", "B", "A", "A"]))

    assert table == {"Average": 4 / 10, "Overall": 1 / 5}


def test_a_question_with_an_unreadable_rotation_is_wrong_in_a_circular_table():
    def rotations(index, *said):
        rows = choices(said)
        return [row | {"index": index + 1_000_000 * i, "g_index": index} for i, row in enumerate(rows)]

    rows = [*rotations(1, "??", "A"), *rotations(2, "A", "??"), *rotations(3, "??", "B"), *rotations(4, "A", "A")]

    assert table_of("circular", rows)[0]["Overall"] == 1 / 4
    assert table_of("circular", rows[:4])[0]["Overall"] == 0


def test_an_unreadable_answer_makes_its_figure_of_hallusionbench_wrong():
    said = {
        "VD_x_1_0_0_0": "yes",
        "VD_x_1_0_0_1": "??",
        "VD_x_1_0_1_0": "no",
        "VD_x_1_0_1_1": "??",
        "VD_x_1_0_2_0": "yes",
    }
    rows = [{"index": i, "l2-category": "x", "answer": "Yes", "prediction": text} for i, text in said.items()]

    assert table_of("hallusion", rows)["Overall"] == pytest.approx({"aAcc": 200 / 5, "fAcc": 100 / 3, "qAcc": 0})


def test_an_unreadable_answer_makes_its_image_of_mme_wrong():
    said = {"1.jpg": ("yes", "??"), "2.jpg": ("no", "??"), "3.jpg": ("yes", "yes")}
    rows = [
        {"category": "OCR", "image_path": image, "answer": "Yes", "prediction": text}
        for image, texts in said.items()
        for text in texts
    ]

    assert table_of("mme", rows) == {"OCR": pytest.approx(100 * 3 / 6 + 100 / 3)}


def test_the_tables_of_graded_answers_hold_all_of_them():
    rows = [{"index": i, "answer": "x", "category": "ocr", "prediction": text} for i, text in enumerate(["good", "??"])]

    class Grader:
        def generate(self, text):
            return "1.0" if "good" in text else "great"

    scored = score_rows(rows, benchmark_of_kind("mmvet", "required", name="MMVet"), judges=[judge_of_model(Grader())])

    assert scored.table["score"] == {"ocr": [2, 50.0], "Overall": [2, 50.0]}


@pytest.mark.parametrize("reply", ["Failed to obtain answer via API.", None, OSError("no route")])
def test_a_judge_object_that_fails_gives_no_verdict(reply):
    class Failing:
        def generate(self, text):
            if isinstance(reply, OSError):
                raise reply
            return reply

    with pytest.raises(EyechartError, match="Failing did not answer"):
        score_rows(MATHS, benchmark_of_kind("mathvista", "optional"), judges=[judge_of_model(Failing())])


MATHS = [
    {"index": 0, "question": "q", "question_type": "multi_choice", "choices": "['one', 'two']", "answer": "one"}
    | {"answer_option": "A", "task": "t", "prediction": "Hard to see, as the image is dark."}
]


def test_no_answer_is_not_the_option_whose_letters_are_in_the_word():
    class Honest:
        def generate(self, text):
            return "NONE"

    scored = score_rows(MATHS, benchmark_of_kind("mathvista", "optional"), judges=[judge_of_model(Honest())])

    assert [(score.extracted, score.score) for score in scored.scores] == [("NONE", 0.0)]


@pytest.mark.parametrize(
    ("scorer", "change", "message"),
    [
        *(("choice", {"answer": key}, "none of its letters: A, B") for key in ("C", "cow", "A or B", "a dog")),
        ("choice", {"A": None, "B": None}, "none of its letters: none"),
        ("circular", {"index": "q7"}, "not a whole number"),
        ("ocrbench", {}, "no 'category'"),
    ],
)
def test_rows_that_nobody_could_answer_right_are_refused(scorer, change, message):
    rows = [row | change for row in predict(PETS, "ABAB")]

    with pytest.raises(DataError, match=message):
        assert score_rows(rows, benchmark_of_kind(scorer, "optional")).table


def test_the_keys_of_a_published_table_stay_as_they_are():
    rows = [row | {"answer": "E"} for row in predict(PETS, "ABAB")]
    benchmark = benchmark_of_kind("choice", "optional", url="https://example.org/X.tsv")

    assert score_rows(rows, benchmark).table == [{"split": "none", "Overall": 0}]


def test_rows_that_belong_together_are_found_in_any_order_and_missed_where_one_is_lost():
    rows = choices(["A", "A", "A", "B", "A", "A"])

    assert table_of("mmvp", [rows[i] for i in (3, 0, 5, 2, 1, 4)])["Overall"] == pytest.approx(2 / 3)
    with pytest.raises(DataError, match="groups of 2, but that of index 0 has 1"):
        assert table_of("mmvp", [rows[i] for i in (0, 2, 3, 5)])


def test_a_file_that_lacks_predictions_says_so(pets, tmp_path):
    dump(predict(PETS[:3], SAID[:3]), tmp_path / "m_Pets.tsv")

    with pytest.warns(UserWarning, match="1 of 4 questions have no prediction"):
        vlm.build_dataset("Pets").evaluate(tmp_path / "m_Pets.tsv")


class Thinking:
    """A judge that thinks aloud."""

    def generate(self, text):
        return "<think>Is it B, or C?</think>A"


def test_what_a_judge_thinks_is_no_verdict(pets, tmp_path):
    dump(predict(PETS, ["hard to tell"] * len(PETS)), tmp_path / "p.jsonl")

    table = vlm.build_dataset("Pets").evaluate(tmp_path / "p.jsonl", judge=Thinking())

    assert table["Overall"][0] == sum(row["answer"] == "A" for row in PETS) / len(PETS)


def test_unreadable_verdicts_of_every_repeat_are_counted(pets, tmp_path):
    said = iter(range(10**6))

    def answer(body):
        if text_of(body).endswith("Your output: "):
            return "cannot say" if "never" in text_of(body) else "A"
        return "never" if next(said) == len(PETS) else "hard to tell"  # the first answer of the second repeat

    with OpenAIServer(answer=answer, models=MODELS) as server:
        settings = {"judge": "judge-model", "judge_api_base": server.api_base, "repeats": 2, "concurrency": 1}
        result = run_pets(server, tmp_path, **settings)

    assert (result.counts["scored"], result.counts["unreadable"]) == (len(PETS), 1)
    assert "unreadable_verdicts" in {notice["kind"] for notice in result.notices}


def test_a_dialogue_with_too_few_replies_is_named():
    row = {"index": 7, "question": "['a?', 'b?']", "answer": "['x', 'y']", "prediction": "['x']"}

    with pytest.raises(DataError, match="index 7 has 2 questions, 2 answers and 1 replies"):
        score_rows([row], benchmark_of_kind("dialogue", "optional", name="MMDU"))
