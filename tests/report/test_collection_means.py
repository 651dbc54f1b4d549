"""Means over published collections, by the rules of their leaderboards."""

from statistics import fmean

import numpy as np
import pytest

from eyechart.report.collection_means import collection_means
from eyechart.report.compare_text import collections_text
from eyechart.report.loader import LoadedResult
from eyechart.report.result_table import make_table
from eyechart.report.table_formats import matrix
from eyechart.results import Result
from eyechart.types import Metric

MIEB, PAGES = {"MIEB(lite)": 5, "MIEB(eng)": 200}, {"ViDoRe(v3)": 3}
TASKS = {
    **{f"mteb/z{i}": ("ZeroShotClassification", MIEB) for i in range(3)},
    **{f"mteb/c{i}": ("Compositionality", MIEB) for i in range(2)},
    **{f"mteb/v{i}": ("DocumentUnderstanding", PAGES) for i in range(3)},
}


def table(models, tasks=TASKS, leave_out=()):
    rng = np.random.default_rng(0)
    scores = {(model, name): float(rng.random()) for model in models for name in tasks}
    found = []
    for (model, name), value in scores.items():
        if (model, name) not in leave_out:
            kind, collections = tasks[name]
            data = {"measures": kind, "collections": collections, "split": "test"}
            metrics = {"acc": Metric(value, primary=True), "main_score": Metric(value)}
            found.append(LoadedResult(Result(name, model, "", "mteb", "en", metrics, data=data)))
    return make_table(found), scores


def test_mieb_averages_over_task_types_and_vidore_over_tasks():
    made, scores = table(["m"])

    found = {one.name: one for one in collection_means(made)}

    types = {kind: fmean(scores["m", name] for name in TASKS if f"/{kind}" in name) for kind in "zcv"}
    assert found["MIEB(lite)"].values == (pytest.approx((types["z"] + types["c"]) / 2),)
    assert found["MIEB(lite)"].groups["Compositionality"] == (pytest.approx(types["c"]),)
    assert found["ViDoRe(v3)"].values == (pytest.approx(types["v"]),)
    assert found["MIEB(eng)"].values == (None,)  # 5 of 200 tasks
    assert not found["MIEB(eng)"].notable


def test_the_mean_by_task_type_is_that_of_mtebs_leaderboard():
    polars, mteb = pytest.importorskip("polars"), pytest.importorskip("mteb")
    from mteb.benchmarks._create_table import _get_means_per_types

    members = [task.metadata for task in mteb.get_benchmark("MIEB(lite)").tasks]
    made, scores = table(["m"], {f"mteb/{one.name}": (one.type, {"MIEB(lite)": 51}) for one in members})
    means, _ = _get_means_per_types([one.name for one in members])
    row = polars.DataFrame({one.name: [scores["m", f"mteb/{one.name}"]] for one in members}).select(means).row(0)

    [found] = collection_means(made)

    assert found.size == len(members) == 51
    assert found.values == (pytest.approx(fmean(row)),)


def test_a_model_without_all_tasks_has_no_mean_and_the_tables_say_why():
    made, _ = table(["a", "b"], leave_out={("b", "mteb/z1")})

    found = {one.name: one for one in collection_means(made)}
    grid = matrix(made, made.columns())

    assert found["MIEB(lite)"].present == (5, 4)
    assert found["MIEB(lite)"].values[1] is None
    assert grid.header[-2:] == ("MIEB(lite)", "ViDoRe(v3)") or set(grid.header[-2:]) == {"MIEB(lite)", "ViDoRe(v3)"}
    assert "only 4 of the 5 tasks of MIEB(lite)" in grid.note
    assert "2 tasks whose data are private" in grid.note
    assert any("Compositionality" in text for text in collections_text(made))
