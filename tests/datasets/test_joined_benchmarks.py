"""Benchmarks that are made of others: joined tables, prompts, scores and images of the parts."""

import pytest

from eyechart.datasets.questions.benchmarks import known_benchmarks
from eyechart.datasets.questions.question_reader import open_questions
from eyechart.datasets.questions.row_table import RowTable
from eyechart.datasets.questions.table_files import write_tsv
from eyechart.datasets.resolve import resolve_dataset
from eyechart.manifest import iter_samples
from eyechart.scorers.scoring import score_rows
from eyechart.vlm import build_dataset, dump
from support.vlm_data import image_cell, write_benchmark

LANGUAGES = ("ar", "cn", "en", "pt", "ru", "tr")
OPTIONS = {"A": "cat", "B": "dog"}


def opened(name):
    return open_questions(resolve_dataset(name, "root"))


@pytest.fixture
def mmmb(lmu_data):
    for i, code in enumerate(LANGUAGES):
        rows = [{"index": k, "question": f"{code} {k}?", **OPTIONS, "answer": "AB"[k % 2]} for k in range(i + 1)]
        write_benchmark(lmu_data / f"MMMB_{code}.tsv", rows)


@pytest.fixture
def circular(lmu_data):
    """Each language has one question in two rotations."""
    turned = {"A": "dog", "B": "cat"}
    for code in LANGUAGES:
        rows = [{"index": 7, **OPTIONS, "answer": "A"}, {"index": 1000007, **turned, "answer": "B"}]
        write_benchmark(lmu_data / f"MMBench_dev_{code}.tsv", [row | {"question": f"{code}?"} for row in rows])


def test_rows_are_renumbered_and_know_their_part(mmmb):
    dataset = opened("MMMB")
    samples = list(iter_samples(dataset))

    assert [sample.id for sample in samples] == [str(i) for i in range(21)]
    assert samples[2].meta["SUB_DATASET"] == "MMMB_cn"
    assert samples[2].meta["original_index"] == 1
    assert "Question: cn 1?" in dataset.prompt(dataset.table.row("2"))[0].parts[-1]
    assert {notice.kind for notice in dataset.table.notices} == {"other_file"}


def test_images_are_those_of_the_part(mmmb, lmu_data):
    dataset = opened("MMMB")

    assert dataset.image_paths(dataset.table.row("2")) == [str(lmu_data / "images" / "MMMB_cn" / "1.png")]


def test_the_signature_is_that_of_all_parts(mmmb, lmu_data):
    before = opened("MMMB").signature()
    write_benchmark(lmu_data / "MMMB_tr.tsv", [{"index": 0, "question": "Other?", **OPTIONS, "answer": "A"}])

    assert opened("MMMB").signature() != before


def test_each_part_is_scored_as_alone_and_the_accuracy_is_that_of_all(mmmb):
    rows = [dict(row) | {"prediction": "A"} for row in opened("MMMB").table.rows]
    scored = score_rows(rows, known_benchmarks()["MMMB"])

    alone = {f"MMMB_{code}": (i // 2 + 1) / (i + 1) for i, code in enumerate(LANGUAGES)}
    assert {line["DATASET"]: line["Overall"] for line in scored.table} == pytest.approx(alone)
    assert scored.scorer.numbers(scored.table) == pytest.approx(alone)
    assert sum(scored.units.values()) == sum(i // 2 + 1 for i in range(6))
    assert len(scored.units) == 21
    assert scored.scorer.chance(scored.rows) == 0.5


def test_rotations_count_together_within_their_part(circular):
    rows = [dict(row) for row in opened("MTL_MMBench_DEV").table.rows]
    said = ["A", "B"] * 5 + ["A", "A"]  # the last language is wrong once
    scored = score_rows(
        [row | {"prediction": p} for row, p in zip(rows, said, strict=True)], known_benchmarks()["MTL_MMBench_DEV"]
    )

    assert [line["Overall"] for line in scored.table] == [1, 1, 1, 1, 1, 0]
    assert scored.units == {str(2 * i): float(i < 5) for i in range(6)}


def test_a_judge_is_asked_by_part(circular):
    rows = [dict(row) | {"prediction": "hm"} for row in opened("MTL_MMBench_DEV").table.rows]
    scorer = score_rows(rows, known_benchmarks()["MTL_MMBench_DEV"]).scorer
    scores = [scorer.read(row, "hm" if i else "B") for i, row in enumerate(rows)]

    assert scorer.worth_judging(rows, scores) == list(range(2, 12))  # the first question is lost already


def test_pairs_of_images_stand_in_two_columns(lmu_data):
    names = ("State_Invariance", "State_Comparison", "Spatial_Perception", "Instance_Comparison", "Detailed_Difference")
    colors = [(1, 2, 3), (200, 2, 3)]
    cells = {f"image{i + 1}": image_cell(color=color) for i, color in enumerate(colors)}
    paths = {"image1_path": "one.png", "image2_path": "two.png"}
    row = {"index": 0, "query": "Same?\n(A) yes\n(B) no", "response": "B", **cells, **paths}
    lmu_data.mkdir()
    for name in names:
        write_tsv(lmu_data / f"{name}.tsv", RowTable([row]))
    dataset = opened("M4Bench")
    rows = [dict(row) | {"prediction": "(B) no"} for row in dataset.table.rows]

    parts = dataset.prompt(dataset.table.row("3"))[0].parts
    assert [part.read() for part in parts[:2]] != [parts[0].read()] * 2
    assert parts[2] == "Same?\n(A) yes\n(B) no"
    assert score_rows(rows, known_benchmarks()["M4Bench"]).table == {f"{name}:acc": 100.0 for name in names}


def test_the_class_of_the_original_evaluates_it(mmmb, tmp_path):
    dataset = build_dataset("MMMB")
    dump([{"index": row["index"], "prediction": "A"} for row in dataset.questions.rows], tmp_path / "m_MMMB.tsv")

    assert type(dataset).__name__ == "ConcatDataset"
    assert list(dataset.evaluate(tmp_path / "m_MMMB.tsv")["DATASET"]) == [f"MMMB_{code}" for code in LANGUAGES]
