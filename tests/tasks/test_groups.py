"""Figures by group: any column of metadata, any task."""

import json

import numpy as np
import pytest
from PIL import Image

import eyechart
from eyechart.errors import DataError
from eyechart.tasks.label_metrics import group_rules, score_with_groups
from eyechart.tasks.registry import load_task
from support.encoders import literal_encoder
from support.tasks import make_context

TINY = {"model_type": "onnx", "model": ["eyechart-tiny"], "pretrained": ["eyechart-tiny"]}
COLOURS = {"1 0 0": "#ff0000", "0 1 0": "#00ff00", "0 0 1": "#0000ff"}
RED, GREEN, BLUE = COLOURS


def write_table(root, rows):
    """Write a table of images: true class, colour, region."""
    root.mkdir(parents=True, exist_ok=True)
    lines = []
    for i, (label, colour, region) in enumerate(rows):
        Image.new("RGB", (8 + i, 8), COLOURS[colour]).save(root / f"{i}.png")
        lines.append({"image": f"{i}.png", "label": label, "region": region})
    (root / "rows.jsonl").write_text("\n".join(map(json.dumps, lines)))
    (root / "zeroshot_classification_templates.txt").write_text("{c}\n")
    return root / "rows.jsonl"


# North: 3 of 3 right. South: 1 of 2. Nowhere: 0 of 1.
ROWS = [
    (RED, RED, "north"),
    (GREEN, GREEN, "north"),
    (BLUE, BLUE, "north"),
    (RED, RED, "south"),
    (RED, BLUE, "south"),
    (GREEN, RED, "nowhere"),
]


def scored(path, tmp_path, *columns, known=None, task="zeroshot_classification"):
    context = make_context(path, literal_encoder(), tmp_path, reader="table")
    task = load_task(task)
    settings = task.Settings.picked({"groups": group_rules(columns, known or {})})
    return score_with_groups(task, task.predict(context, settings), settings)


def test_every_group_gets_the_tasks_own_figures(tmp_path):
    outcome = scored(write_table(tmp_path / "data", ROWS), tmp_path, "region")

    groups = outcome.details["groups"]["region"]
    assert {group: (row["n"], row["acc1"]) for group, row in groups.items()} == {
        "north": (3, 1.0),
        "south": (2, 0.5),
        "nowhere": (1, 0.0),
    }


def test_the_worst_group_is_a_metric_with_its_own_interval(tmp_path):
    outcome = scored(write_table(tmp_path / "data", ROWS[:5]), tmp_path, "region")

    worst = outcome.metrics["acc1_worst_region"]
    assert (worst.value, worst.n) == (0.5, 2)
    assert worst.low < 0.5 < worst.high
    assert outcome.metrics["acc1"].value == 0.8


@pytest.mark.parametrize("blank", ["", " ", None, float("nan")])
def test_samples_without_a_value_are_in_no_group_and_counted(tmp_path, blank):
    rows = [*ROWS[:5], (GREEN, RED, blank), (RED, GREEN, blank)]

    outcome = scored(write_table(tmp_path / "data", rows), tmp_path, "region")

    assert set(outcome.details["groups"]["region"]) == {"north", "south"}
    assert outcome.metrics["acc1_worst_region"].value == 0.5
    assert [notice.message for notice in outcome.notices if notice.kind == "no_group"] == [
        "2 samples have no region, hence no group."
    ]


def test_the_catalogue_may_skip_groups_and_name_the_metric_as_datacomp_does(tmp_path):
    known = {"field": "region", "skip": ["nowhere"], "metric": "acc_worst_region"}

    outcome = scored(write_table(tmp_path / "data", ROWS), tmp_path, known=known)

    assert outcome.metrics["acc_worst_region"].value == 0.5
    assert "nowhere" in outcome.details["groups"]["region"]


def test_a_task_without_an_accuracy_has_not_datacomps_metric(tmp_path):
    known = {"field": "region", "metric": "acc_worst_region"}

    outcome = scored(write_table(tmp_path / "data", ROWS), tmp_path, known=known, task="clustering")

    assert "nmi_worst_region" in outcome.metrics
    assert "acc_worst_region" not in outcome.metrics


def test_without_a_column_nothing_changes(tmp_path):
    assert "groups" not in scored(write_table(tmp_path / "data", ROWS), tmp_path).details


@pytest.mark.parametrize("task", ["zeroshot_classification", "clustering"])
def test_it_works_for_any_task_with_labels(tmp_path, task):
    outcome = scored(write_table(tmp_path / "data", ROWS), tmp_path, "region", task=task)

    assert any(name.endswith("_worst_region") for name in outcome.metrics)


def test_retrieval_groups_are_queries_in_the_whole_gallery(tmp_path):
    root = tmp_path / "data"
    root.mkdir()
    lines = []
    for i, (caption, colour, region) in enumerate(ROWS[:3] + ROWS[4:5]):
        Image.new("RGB", (8 + i, 8), COLOURS[colour]).save(root / f"{i}.png")
        lines.append({"image_path": f"{i}.png", "query": [f"image {i}: {caption}"], "region": region})
    (root / "image_queries.jsonl").write_text("\n".join(map(json.dumps, lines)))
    context = make_context(root, literal_encoder(), tmp_path, reader="jsonl")
    task = load_task("zeroshot_retrieval")
    settings = task.Settings.picked({"recall_k": [1], "groups": group_rules(["region"], {})})

    outcome = score_with_groups(task, task.predict(context, settings), settings)

    groups = outcome.details["groups"]["region"]
    # The southern caption says red, its image is blue; the northern blue image now ties with it.
    assert groups["south"]["image_retrieval_recall@1"] == 0.0
    assert groups["north"]["image_retrieval_recall@1"] == pytest.approx(2 / 3)
    assert outcome.metrics["image_retrieval_recall@1_worst_region"].value == 0.0


def test_the_command_takes_columns_and_the_result_has_the_table(tmp_path):
    path = write_table(tmp_path / "data", ROWS)

    (result,) = eyechart.evaluate(
        **TINY, dataset=[str(path)], group_by=["region"], output=str(tmp_path / "result.json")
    )

    assert set(result.details["groups"]["region"]) == {"north", "south", "nowhere"}
    assert "acc1_worst_region" in result.metrics


def test_a_column_that_is_not_there_is_an_error_that_names_those_that_are(tmp_path):
    path = write_table(tmp_path / "data", ROWS)

    with pytest.raises(DataError, match=r"No sample has a column 'regoin'.*\n.*region"):
        eyechart.evaluate(**TINY, dataset=[str(path)], group_by=["regoin"], output=str(tmp_path / "result.json"))


def test_whole_numbers_are_written_without_a_point():
    from eyechart.manifest import Entry
    from eyechart.tasks.label_metrics import _groups

    entries = [Entry(str(i), 0, (), (), {"year": value}) for i, value in enumerate((3.0, 3, "3", 3.5))]

    assert {name: rows.tolist() for name, rows in _groups(entries, "year").items()} == {"3": [0, 1, 2], "3.5": [3]}
    assert np.concatenate(list(_groups(entries, "year").values())).size == 4


def test_images_of_one_class_are_clustered_right_by_chance(tmp_path):
    outcome = scored(
        write_table(tmp_path / "data", [row for row in ROWS if row[0] == RED]), tmp_path, task="clustering"
    )

    assert {name: (metric.value, metric.chance) for name, metric in outcome.metrics.items()} == dict.fromkeys(
        ("nmi", "ari", "cluster_acc"), (1.0, 1.0)
    )
