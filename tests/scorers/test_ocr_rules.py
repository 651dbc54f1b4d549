"""OCRBench v2 and FoxBench: scores equal those of their own code, and what needs a library says so."""

import sys

import pytest

from eyechart.datasets.questions.benchmarks import known_benchmarks
from eyechart.metrics.long_texts import JIEBA, WORDNET, bleu, rouge_l, word_scores, words_of
from eyechart.scorers.rules.ocr import ocr_task, read_fields
from eyechart.scorers.scoring import score_rows
from eyechart.vlm import build_dataset, dump
from support.vlm_data import write_benchmark
from support.vlm_scores import score_cases

COLUMNS = ("category", "question", "answer", "prediction", "eval", "bbox", "content", "score")
TASKS = score_cases("ocr_tasks")
PAGE = {"category": "full-page OCR en", "question": "Read it.", "answer": "['the quick brown fox jumps']"}
SHORT = {"category": "text recognition en", "question": "Read it.", "answer": "['fox']", "prediction": "a fox"}
GROUNDED = {"category": "text grounding en", "question": "Where?", "answer": "[0, 0, 10, 10]", "prediction": "none"}


@pytest.fixture
def without(monkeypatch):
    """Take libraries away, as if they were not installed."""
    return lambda *names: [monkeypatch.setitem(sys.modules, name, None) for name in names]


# By the code of OCRBench v2 in VLMEvalKit 0.2rc1, with which 3360 random rows agreed.
@pytest.mark.parametrize("task", TASKS, ids=lambda task: f"{task[0]} {task[4]}".strip())
def test_scores_are_those_of_the_original(task):
    row = dict(zip(COLUMNS, task, strict=True)) | {"index": 0}

    assert ocr_task(row, row["prediction"]).score == pytest.approx(row["score"], abs=1e-6)


def test_every_task_is_in_a_group_of_the_table():
    languages = known_benchmarks()["OCRBench_v2"].aggregate["languages"].values()
    tasks = [task for groups in languages for names in groups.values() for task in names]

    assert len(tasks) == len(set(tasks)) == 30
    assert {task[0] for task in TASKS} <= set(tasks)


def test_without_wordnet_a_group_and_what_depends_on_it_is_left_out(without):
    without("nltk", "nltk.translate.meteor_score")
    rows = [{**row, "index": i} for i, row in enumerate([{**PAGE, "prediction": "the fox"}, SHORT, GROUNDED])]

    scored = score_rows(rows, known_benchmarks()["OCRBench_v2"])

    assert [(notice.count, WORDNET in notice.message) for notice in scored.left_out] == [(1, True)]
    assert scored.table == {"en_text_detection": 0.0}  # neither en_text_recognition nor the English score
    assert scored.units == {"1": 1.0, "2": 0.0}


def test_no_answer_needs_no_library(without):
    without("nltk", "nltk.translate.meteor_score", "jieba")
    rows = [{**PAGE, "index": 0, "prediction": ""}, {**SHORT, "index": 1}]

    scored = score_rows(rows, known_benchmarks()["OCRBench_v2"])

    assert scored.table == {"en_text_recognition": 0.5, "English Overall Score": 0.5}


def test_chinese_words_need_jieba(without):
    without("jieba")

    assert word_scores("你好", "你好") == ({"near": 1.0}, JIEBA)


def test_chinese_is_cut_by_jieba():
    pytest.importorskip("jieba")

    assert words_of("你好世界", "hello world") == [["你好", "世界"], ["hello", " ", "world"]]


def test_meteor_is_that_of_nltk():
    pytest.importorskip("nltk")
    scores, needs = word_scores("the quick brown foxes", "the quick brown fox")  # stems: no synonym is looked up

    assert needs == ""
    assert scores["meteor"] == pytest.approx(0.9921875)


# By NLTK 3.10 and rouge 1.0.1.
def test_words_are_compared_as_nltk_and_rouge_do():
    scores = word_scores("a b c d f", "a b c d e")[0]

    assert bleu("abcdf", "abcde") == pytest.approx(0.668740304976422)
    assert bleu("abc", "abc") == 0  # no run of four words
    assert scores["f_measure"] == pytest.approx(0.8)
    assert rouge_l("the cat on a mat", "the cat sat on the mat")["rouge_l_f"] == pytest.approx(0.7999999950000002)
    assert rouge_l("", "a") == {"rouge_l_r": 0.0, "rouge_l_p": 0.0, "rouge_l_f": 0.0}


@pytest.mark.parametrize("text", ["word " * 20_000, " " * 20_000, "a:" * 20_000, "'" * 20_000])
def test_reading_fields_takes_no_time(text):
    assert isinstance(read_fields(text), dict)


def test_what_is_left_out_is_said_with_the_line_to_run(without, lmu_data):
    without("nltk", "nltk.translate.meteor_score")
    more = {"eval": "without eval", "bbox": "without bbox", "content": "without content"}
    rows = [{**PAGE, **more, "index": 0}, {**SHORT, **more, "index": 1}]
    write_benchmark(lmu_data / "OCRBench_v2.tsv", [{k: v for k, v in row.items() if k != "prediction"} for row in rows])
    dump([{"index": i, "prediction": "a fox"} for i in range(2)], lmu_data / "p.jsonl")

    with pytest.warns(UserWarning, match=r"1 answer needs nltk with WordNet.*pip install 'eyechart\[ocr\]'"):
        table = build_dataset("OCRBench_v2").evaluate(lmu_data / "p.jsonl")

    assert table == {}


def test_a_page_without_wordnet_has_all_numbers_but_meteor(without):
    without("nltk", "nltk.translate.meteor_score")
    rows = [
        {
            "index": 0,
            "question": "<image>\nOCR the box",
            "answer": "a b c d e",
            "prediction": "a b c d f",
            "sub_task": "x",
        },
        {"index": 1, "question": "Translate it", "answer": "a b", "prediction": "", "sub_task": "y"},
    ]

    table = score_rows(rows, known_benchmarks()["FoxBench"]).table

    assert table["ocr"] == pytest.approx(
        {"bleu": 0.668740304976422, "f_measure": 0.8, "precision": 0.8, "recall": 0.8, "edit_dist": 1 / 9}
    )
    assert table["translation"] == {
        "bleu": 0, "meteor": 0, "f_measure": 0, "precision": 0, "recall": 0, "edit_dist": 1
    }  # fmt: skip
    assert table["sub_tasks"] == {"x": table["ocr"], "y": table["translation"]}


def test_a_sub_task_of_several_kinds_has_the_numbers_of_each():
    rows = [
        {"index": 0, "question": "What is this in the box?", "answer": "a cat", "prediction": "a cat", "sub_task": "x"},
        {"index": 1, "question": "Summarize it", "answer": "a cat", "prediction": "dogs", "sub_task": "x"},
    ]

    table = score_rows(rows, known_benchmarks()["FoxBench"]).table["sub_tasks"]["x"]

    assert table == {"accuracy": 1.0, "rouge_l_r": 0.0, "rouge_l_p": 0.0, "rouge_l_f": 0.0}
