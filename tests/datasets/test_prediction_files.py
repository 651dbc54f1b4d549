"""Prediction files that VLMEvalKit writes: its own index and texts for some benchmarks; and files that disagree."""

import pytest

from eyechart.datasets.questions.prediction_files import dump, read_agreeing, read_predictions
from eyechart.datasets.questions.question_reader import open_questions
from eyechart.datasets.resolve import resolve_dataset
from eyechart.errors import DataError
from support.vlm_data import write_benchmark


def table_of(lmu_data, name, rows):
    write_benchmark(lmu_data / f"{name}.tsv", rows)
    return open_questions(resolve_dataset(name, "root")).table


def indices(table, file, rows):
    dump(rows, file)
    return {row["index"]: row["prediction"] for row in read_predictions(table, file)}


CLICKS = [{"index": index, "question": f"q{i}", "bbox": "[0, 0, 1, 1]"} for i, index in enumerate(("0", "1", "7"))]


@pytest.mark.parametrize("name", ["ScreenSpot_Pro_CAD", "ScreenSpot_v2_Web", "OSWorld_G", "VBGD"])
@pytest.mark.parametrize("written", [("1", "2", "3"), (3, 1, 2), ("1.0", "2.0", "3.0")])
def test_rows_that_were_renumbered_from_1_are_found_by_position(lmu_data, tmp_path, name, written):
    table = table_of(lmu_data, name, CLICKS)
    rows = [{"index": i, "question": f"q{int(float(i)) - 1}", "prediction": f"p{int(float(i)) - 1}"} for i in written]

    assert indices(table, tmp_path / "x.jsonl", rows) == {0: "p0", 1: "p1", 7: "p2"}


def test_rows_with_the_index_of_the_table_keep_it(lmu_data, tmp_path):
    table = table_of(lmu_data, "VBGD", [{**row, "index": i + 1} for i, row in enumerate(reversed(CLICKS))])
    rows = [{"index": i, "question": f"q{3 - i}", "prediction": f"p{i}"} for i in (1, 2, 3)]

    assert indices(table, tmp_path / "x.jsonl", rows) == {1: "p1", 2: "p2", 3: "p3"}


@pytest.mark.parametrize("rows", [[("1", "q0"), ("2", "q1")], [("1", "q1"), ("2", "q0"), ("3", "q2")]])
def test_renumbered_rows_that_are_incomplete_or_ask_something_else_are_refused(lmu_data, tmp_path, rows):
    table = table_of(lmu_data, "VBGD", CLICKS)

    with pytest.raises(DataError, match=r"no row in the dataset|different question"):
        indices(table, tmp_path / "x.jsonl", [{"index": i, "question": q, "prediction": "p"} for i, q in rows])


def test_another_benchmark_is_never_read_by_position(lmu_data, tmp_path):
    rows = [{"index": index, "question": "q", "answer": "x"} for index in ("0", "1", "7")]
    table = table_of(lmu_data, "ChartQA_TEST", [{**row, "split": "human"} for row in rows])

    with pytest.raises(DataError, match="no row in the dataset"):
        indices(table, tmp_path / "x.jsonl", [{"index": i, "question": "q", "prediction": "p"} for i in (1, 2, 3)])


def test_the_splits_in_front_of_an_index_are_taken_off(lmu_data, tmp_path):
    rows = [{"index": i, "question": f"q{i}", "answer": "[1,1,2,2]", "category": "RefCOCO+ testA"} for i in (4, 5)]
    table = table_of(lmu_data, "RefCOCO", rows)
    written = [{"index": f"RefCOCO+_testA_{i}", "question": f"q{i}", "prediction": f"p{i}"} for i in (5, 4)]

    assert indices(table, tmp_path / "x.jsonl", written) == {5: "p5", 4: "p4"}


@pytest.mark.parametrize("name", ["MMMU_Pro_V", "MMMU_Pro_V_COT"])
def test_a_placeholder_is_not_another_question(lmu_data, tmp_path, name):
    table = table_of(lmu_data, name, [{"index": 0, "question": "Which?", "A": "x", "B": "y", "answer": "A"}])
    row = {"index": 0, "question": "placeholder", "A": "x", "B": "y", "prediction": "A"}

    [read] = read_predictions(table, _written(tmp_path, [row]))

    assert (read["question"], read["prediction"]) == ("Which?", "A")
    with pytest.raises(DataError, match="different question"):
        read_predictions(table, _written(tmp_path, [{**row, "A": "z"}]))


def test_a_placeholder_is_another_question_elsewhere(lmu_data, tmp_path):
    table = table_of(lmu_data, "MMMU_Pro_10c", [{"index": 0, "question": "Which?", "A": "x", "B": "y", "answer": "A"}])

    with pytest.raises(DataError, match="different question"):
        read_predictions(table, _written(tmp_path, [{"index": 0, "question": "placeholder", "prediction": "A"}]))


def _written(folder, rows):
    dump(rows, folder / "x.jsonl")
    return folder / "x.jsonl"


@pytest.mark.parametrize("lacking", [0, 1])
def test_a_prediction_that_only_one_of_two_files_has_is_noticed(lmu_data, tmp_path, lacking):
    table = table_of(lmu_data, "VBGD", CLICKS)
    both = [{"index": row["index"], "prediction": "p"} for row in CLICKS]
    files = [tmp_path / "x.jsonl", tmp_path / "x.tsv"]
    for place, file in enumerate(files):
        dump(both[:2] if place == lacking else both, file)

    with pytest.raises(DataError, match="different predictions for 1 question, for example index '7'"):
        read_agreeing(table, files)
