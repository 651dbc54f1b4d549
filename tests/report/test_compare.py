"""Comparisons are paired on sample ids, corrected for many benchmarks, and refused where they would mislead."""

from __future__ import annotations

import argparse
import json
from dataclasses import replace

import numpy as np
import pytest

from eyechart import stats
from eyechart.cli import compare as command
from eyechart.errors import UsageError
from eyechart.report.compare import compare
from eyechart.report.load import load_results
from eyechart.report.pairing import RecordsCache
from eyechart.report.ranking import not_separable, rank_models
from eyechart.report.records import metric_rows, read_columns, unit_scores
from eyechart.report.table import Column, make_table
from support.make_results import MODELS, Made, classification, questions, retrieval, write

WEAK, STRONG, EQUAL = MODELS[0], MODELS[2], MODELS[4]
TASK = "zeroshot_classification"


def made(flags):
    """A classification in which the samples are right or wrong as told."""
    records = [
        {"id": f"s{i}", "label": i % 2, "prediction": i % 2 if ok else 1 - i % 2, "rank": 1 if ok else 2, "correct": ok}
        for i, ok in enumerate(flags)
    ]
    return Made({"acc1": float(np.mean(flags))}, {}, {}, records)


def table_of(folder):
    return make_table(load_results([folder]).found)


def run(*arguments):
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    return command.run(parser.parse_args([str(argument) for argument in arguments]))


def two(folder, first, second, dataset="d", task=TASK, **parts_of_second):
    write(folder, WEAK, dataset, task, first)
    write(folder, STRONG, dataset, task, second, **parts_of_second)
    return folder


def row(table, model):
    return next(i for i, other in enumerate(table.models) if other.name == model.name)


def compare_two(folder, **options):
    table = table_of(folder)
    return compare(table, row(table, WEAK), row(table, STRONG), **options).lines


def test_interval_and_p_value_are_those_of_one_test(tmp_path):
    first = made([True] * 40 + [False] * 20)
    second = made([True] * 38 + [False] * 2 + [True] * 15 + [False] * 5)

    (line,) = compare_two(two(tmp_path, first, second))

    assert (line.only_first, line.only_second) == (2, 15)
    expected = stats.paired_test([r["correct"] for r in second.records], [r["correct"] for r in first.records])
    assert (line.p_value, line.low, line.high) == pytest.approx((expected.p_value, *expected.interval))
    assert line.p_value == pytest.approx(stats.mcnemar_exact(2, 15), rel=0.5)
    assert line.difference == pytest.approx(13 / 60)
    assert line.low < 13 / 60 < line.high
    assert line.verdict == "better"


def test_samples_are_paired_by_id_not_by_position(tmp_path):
    first, second = made([True, False] * 30), made([True, False] * 30)
    shuffled = replace(second, records=list(reversed(second.records)))

    (line,) = compare_two(two(tmp_path, first, shuffled))

    assert (line.only_first, line.only_second, line.p_value) == (0, 0, 1.0)


def test_samples_that_one_model_lacks_are_left_out_and_counted(tmp_path):
    first, second = made([True] * 50), made([True] * 50)
    shorter = replace(second, records=second.records[3:])

    (line,) = compare_two(two(tmp_path, first, shorter, data={"fingerprint": "data-d-50"}))

    assert (line.n, line.unmatched) == (47, 3)


def test_captions_of_one_image_are_one_unit(tmp_path):
    table = table_of(two(tmp_path, retrieval(WEAK, n=80), retrieval(STRONG, n=80), task="zeroshot_retrieval"))
    lines = {line.metric: line for line in compare(table, row(table, WEAK), row(table, STRONG)).lines}
    by_caption = lines["image_retrieval_recall@1"]

    columns = [read_columns(table.cells[row(table, model), 0].result) for model in (STRONG, WEAK)]
    rows = [metric_rows(part, "image_retrieval_recall@1").values for part in columns]
    unclustered = stats.paired_test(*rows)

    assert (by_caption.n, by_caption.units, by_caption.test) == (400, 80, "paired score test")
    assert by_caption.high - by_caption.low > unclustered.interval.high - unclustered.interval.low
    assert lines["text_retrieval_recall@1"].units == 80


def test_answers_that_could_not_be_judged_count_for_neither(tmp_path):
    first, second = questions(WEAK, n=200), questions(STRONG, n=200)
    unjudged = {r["id"] for part in (first, second) for r in part.records if r["correct"] is None}

    (line,) = compare_two(two(tmp_path, first, second, task="multiple_choice"))

    assert unjudged
    assert line.n == 200 - len(unjudged)


def test_p_values_are_corrected_over_the_benchmarks(tmp_path):
    for name, lost in (("easy", 3), ("hard", 8), ("same", 0)):
        two(tmp_path, made([True] * 40 + [False] * lost), made([True] * (40 + lost)), dataset=name)

    lines = compare_two(tmp_path)

    assert [line.p_holm for line in lines] == stats.holm([line.p_value for line in lines])
    assert {line.benchmark.dataset: line.verdict for line in lines} == {
        "easy": "not separable",
        "hard": "better",
        "same": "not separable",
    }


@pytest.mark.parametrize(
    ("parts", "named"),
    [
        ({"data": {"fingerprint": "other"}}, "dataset"),
        ({"data": {"split": "train"}}, "split"),
        ({"data": {"templates_digest": "other"}}, "prompts"),
        ({"data": {"prompts_digest": "other"}}, None),
    ],
)
def test_different_data_or_prompts_are_refused_and_named(tmp_path, parts, named):
    folder = two(tmp_path, made([True] * 9), made([True] * 9), **parts)

    if named is None:  # only one of the two tells its prompts in this way: nothing to check
        assert compare_two(folder)
        return
    with pytest.raises(UsageError, match=f"d: {named}"):
        compare_two(folder)


def test_another_task_version_or_limit_is_refused_and_named(tmp_path):
    folder = two(tmp_path, made([True] * 9), made([True] * 9))
    path = next(folder.glob("*Snellen-L*.json"))
    body = json.loads(path.read_text())
    body["job"] |= {"settings": {"task_version": 2}, "limit": 9}
    path.write_text(json.dumps(body))

    with pytest.raises(UsageError, match="d: samples, task version"):
        compare_two(folder)


def test_prompts_may_differ_on_purpose(tmp_path, capsys):
    folder = two(tmp_path, made([True] * 9), made([True] * 9), data={"templates_digest": "other"})

    assert run(folder, "--allow-different", "prompts") == 0
    assert "not separable" in capsys.readouterr().out


def test_another_dataset_cannot_be_allowed(tmp_path):
    folder = two(tmp_path, made([True] * 9), made([True] * 9))

    with pytest.raises(UsageError, match="cannot be paired"):
        run(folder, "--allow-different", "dataset")
    with pytest.raises(UsageError, match="Unknown aspect"):
        run(folder, "--allow-different", "prompt")


def test_results_of_different_benchmarks_are_refused(tmp_path):
    first = write(tmp_path, WEAK, "cats", TASK, made([True] * 9))
    second = write(tmp_path, STRONG, "dogs", TASK, made([True] * 9))

    with pytest.raises(UsageError, match="no benchmark in common: cats against dogs"):
        run(first, second)


def test_results_without_records_cannot_be_paired(tmp_path):
    for model in ("a", "b"):
        body = {"dataset": "d", "model": model, "pretrained": "", "task": TASK, "metrics": {"acc1": 0.5}}
        (tmp_path / f"{model}.json").write_text(json.dumps(body))

    with pytest.raises(UsageError, match="no samples in common"):
        run(tmp_path / "a.json", tmp_path / "b.json")


def test_one_model_alone_is_refused(tmp_path):
    with pytest.raises(UsageError, match="Only one model"):
        run(write(tmp_path, WEAK, "d", TASK, made([True] * 9)))


def test_the_same_model_from_two_folders_is_compared(tmp_path, capsys):
    before = write(tmp_path / "before", WEAK, "d", TASK, made([True] * 9 + [False]))
    after = write(tmp_path / "after", WEAK, "d", TASK, made([True] * 10))

    assert run(before, after, "--json") == 0

    (comparison,) = json.loads(capsys.readouterr().out)["comparisons"]
    assert "before" in comparison["baseline"]
    assert comparison["lines"][0]["difference"] == pytest.approx(0.1)


def test_the_json_goes_to_a_file_and_holds_every_number(suite, tmp_path, capsys):
    output = tmp_path / "comparison.json"

    assert run(suite, "--baseline", "Snellen-L chart2b", "--output", output) == 0

    body = json.loads(output.read_text())
    assert len(body["comparisons"]) == 5
    assert {len(comparison["lines"]) for comparison in body["comparisons"]} == {11}
    assert len(body["ranking"]["models"]) == 6
    text = capsys.readouterr().out
    assert "paired score test" in text
    assert "Ranks over 9 benchmarks" in text


def test_an_unknown_baseline_is_named_with_the_nearest(suite):
    with pytest.raises(UsageError, match="Snellen-L chart2b"):
        run(suite, "--baseline", "Snellen-L chart2")


def test_rank_intervals_part_the_weak_from_the_strong(suite):
    table = table_of(suite)

    ranking = rank_models(table, RecordsCache(table))

    ranks = {table.models[m].name: rank for m, rank in zip(ranking.models, ranking.ranks, strict=True)}
    assert ranks["Tumbling-E"] == (6, 6)
    assert ranks["Snellen-L"].low == 1


def test_a_benchmarks_best_and_those_not_separable_from_it(tmp_path):
    write(tmp_path, STRONG, "d", TASK, made([True] * 90 + [False] * 10))
    write(tmp_path, EQUAL, "d", TASK, made([True] * 88 + [False] * 11 + [True]))
    write(tmp_path, WEAK, "d", TASK, made([True] * 30 + [False] * 70))
    table = table_of(tmp_path)

    marks = not_separable(table, Column(0, "acc1"), RecordsCache(table))

    assert {table.models[m].name: mark for m, mark in marks.items()} == {
        "Snellen-L": True,
        "Landolt-L": True,
        "Snellen-S": False,
    }


@pytest.mark.parametrize(
    ("build", "task", "metrics"),
    [
        (lambda: classification(WEAK, n=150, classes=7), TASK, ["acc1"]),
        (lambda: classification(WEAK, n=150, classes=7), TASK, ["acc5"]),
        (lambda: classification(WEAK, n=150, classes=7), TASK, ["mean_per_class_recall"]),
        (lambda: retrieval(WEAK, n=40), "zeroshot_retrieval", ["image_retrieval_recall@5"]),
        (
            lambda: retrieval(WEAK, n=40),
            "zeroshot_retrieval",
            ["image_retrieval_recall@1", "text_retrieval_recall@1"],
        ),
        (lambda: questions(WEAK, n=80), "multiple_choice", ["acc"]),
    ],
)
def test_the_mean_over_images_is_the_metric(tmp_path, build, task, metrics):
    result = load_results([write(tmp_path, WEAK, "d", task, build())]).found[0].result

    _, values = unit_scores(read_columns(result), metrics)

    assert values.mean() == pytest.approx(np.mean([result.metrics[metric] for metric in metrics]))
