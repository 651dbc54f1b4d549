"""The table at the end of a run says everything about a number, and cuts no name, however narrow the terminal is."""

from __future__ import annotations

from dataclasses import replace

import pytest

from eyechart import read_result
from eyechart.cli.run_output import result_lines, show_reports
from eyechart.run import JobReport
from eyechart.types import Metric


@pytest.fixture
def shown(monkeypatch, capsys):
    """Show results on a terminal of 80 columns; return its lines."""
    monkeypatch.setattr("eyechart.cli.run_output.width_of", lambda _: 80)

    def show(*results):
        show_reports([JobReport(None, result=result) for result in results], quiet=False)
        return capsys.readouterr().out.splitlines()

    return show


@pytest.fixture
def result(small_suite):
    return read_result(small_suite / "harbour_Snellen-B_en_zeroshot_classification.json")


def row(lines, metric):
    return next(line for line in lines if line.split()[:1] == [metric])


def test_a_metric_has_its_value_interval_chance_size_and_what_is_missing(shown, result):
    lines = shown(result)

    metric = result.values["acc1"]
    assert "Snellen-B on wds/harbour (en, zeroshot_classification)" in lines
    assert row(lines, "acc1").split() == [
        "acc1", f"{100 * metric.value:.2f}", "%", f"{100 * metric.low:.2f}", "-", f"{100 * metric.high:.2f}",
        "2.50", "83", "1", "failed",
    ]  # fmt: skip


@pytest.mark.parametrize(("own", "name"), [("ndcg@10", "map@3"), ("ndcg_at_10", "map_at_3")])
def test_a_retrieval_task_of_mteb_has_a_few_lines(shown, result, own, name):
    values = {key: Metric(0.5, primary=key == "mrr@5") for key in (own, "mrr@5", name, "test/french/ndcg_at_10")}
    lines = shown(replace(result, task="mteb", values=values | {"main_score": Metric(0.5)}))

    assert row(lines, own)
    assert row(lines, "main_score")
    assert not any(name in line or "french" in line for line in lines)
    assert any("mrr@5" in line for line in lines) == (own == "ndcg@10")
    assert row(shown(replace(result, task="mteb", values={name: Metric(0.5)})), name)


@pytest.mark.parametrize("name", ["image_retrieval_true_recall@10_worst_country", "m" * 100])
def test_no_name_is_cut_at_80_columns(shown, result, name):
    lines = shown(replace(result, values={name: Metric(0.5, 0.4, 0.6, 0.1, 100)}))

    assert name in "".join(lines)
    assert "50.00 %" in "".join(lines)


def test_the_names_that_tasks_write_fit_into_80_columns(shown, small_suite):
    lines = shown(*(read_result(path) for path in sorted(small_suite.glob("*.json"))))

    assert max(map(len, lines)) <= 80


@pytest.mark.parametrize(("n", "shown"), [(5, "5"), (None, "83")])
def test_a_metric_without_a_count_of_its_own_has_that_of_the_scored_samples(result, n, shown):
    counts = {**result.counts, "scored": 83}

    header, _, first, *_ = result_lines(
        [replace(result, counts=counts, failures=(), values={"acc1": Metric(0.5, n=n)})]
    )

    assert header.split()[-1] == "n"
    assert shown in first.split()
    assert not ({"5", "83"} - {shown}) & set(first.split())


def test_the_best_that_can_be_reached_has_a_column_if_any_metric_has_it(result):
    assert "best" not in result_lines([result])[0]

    metrics = {**result.values, "acc1": replace(result.values["acc1"], best=0.95)}
    header, _, first, *_ = result_lines([replace(result, values=metrics)])

    assert header.split()[-2:] == ["best", "n"]
    assert "2.50  95.00  83" in first


def test_what_is_no_fraction_is_shown_as_it_is(result):
    metrics = {"CIDEr": Metric(0.5, 0.4, 0.6, points=True), "median_rank": Metric(3.0, lower_is_better=True)}

    _, _, points, rank, *_ = result_lines([replace(result, values=metrics)])

    assert points.split()[:5] == ["CIDEr", "0.5000", "0.4000", "-", "0.6000"]
    assert rank.split()[:2] == ["median_rank", "3.0000"]
