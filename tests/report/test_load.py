"""Results are found in files and folders, and read in the forms of other tools."""

from __future__ import annotations

import json

import pytest

from eyechart.errors import ResultError, UsageError
from eyechart.report.loader import load_results
from eyechart.results.fields import measures_of
from eyechart.tasks.registry import TASKS, load_task

CLIP_BENCHMARK = {
    "dataset": "cifar10",
    "model": "ViT-B-32",
    "pretrained": "openai",
    "task": "zeroshot_classification",
    "metrics": {"acc1": 0.9, "acc5": 0.99, "mean_per_class_recall": 0.89},
    "language": "en",
}


def put(path, body):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(body if isinstance(body, str) else json.dumps(body))
    return path


def only(path):
    loaded = load_results([path])
    assert len(loaded.found) == 1
    return loaded.found[0]


def test_a_folder_is_searched_to_any_depth_and_says_what_it_left_out(tmp_path):
    put(tmp_path / "a" / "b" / "r.json", CLIP_BENCHMARK)
    put(tmp_path / "a" / "config.json", {"hello": 1})
    put(tmp_path / "a" / "half.json", '{"dataset": "cif')
    put(tmp_path / "a" / "r.records.jsonl", '{"id": 1}\n')
    put(tmp_path / "a" / ".tmp-1-r.json", "{")

    loaded = load_results([tmp_path])

    assert [found.result.dataset for found in loaded.found] == ["cifar10"]
    assert [skipped.path.name for skipped in loaded.skipped] == ["config.json", "half.json"]


def test_a_named_file_must_be_a_result(tmp_path):
    with pytest.raises(ResultError, match="not a result"):
        load_results([put(tmp_path / "config.json", {"hello": 1})])
    with pytest.raises(ResultError, match="half-written"):
        load_results([put(tmp_path / "half.json", '{"dataset": "cif')])
    with pytest.raises(UsageError, match="no file or folder"):
        load_results([tmp_path / "absent"])


def test_an_empty_folder_is_an_error(tmp_path):
    with pytest.raises(ResultError, match="No results"):
        load_results([tmp_path])


def test_a_file_given_twice_counts_once(tmp_path):
    path = put(tmp_path / "r.json", CLIP_BENCHMARK)
    link = tmp_path / "same.json"
    link.symlink_to(path)

    assert len(load_results([tmp_path, path]).found) == 1


def test_clip_benchmark_json_with_bare_nan(tmp_path):
    body = json.dumps(CLIP_BENCHMARK).replace("0.99", "NaN")

    found = only(put(tmp_path / "r.json", body))

    assert found.origin == "CLIP_benchmark"
    assert found.result.metrics == {"acc1": 0.9, "mean_per_class_recall": 0.89}


def test_a_run_without_numbers_is_named_as_such(tmp_path):
    with pytest.raises(ResultError, match="produced no numbers"):
        load_results([put(tmp_path / "r.json", CLIP_BENCHMARK | {"metrics": None})])


@pytest.mark.parametrize(
    "damage",
    [{"intervals": {"acc1": [1]}}, {"intervals": 3}, {"notices": 5}, {"metric_values": {"acc1": 0.9}}],
)
def test_parts_of_the_wrong_type_are_an_error_of_the_file(tmp_path, damage):
    with pytest.raises(ResultError, match="damaged"):
        load_results([put(tmp_path / "r.json", CLIP_BENCHMARK | damage)])


def test_the_internvl_fork_appends_results_as_lines(tmp_path):
    lines = [CLIP_BENCHMARK | {"language": language} for language in ("en", "cn", "jp")]
    path = put(tmp_path / "result.json", "\n".join(map(json.dumps, lines)) + "\n")

    assert [found.result.language for found in load_results([path]).found] == ["en", "cn", "jp"]


def test_a_damaged_line_is_named_and_costs_no_other_result(tmp_path):
    path = put(tmp_path / "result.json", json.dumps(CLIP_BENCHMARK) + '\n{"dataset": \n')

    loaded = load_results([path])

    assert [item.result.dataset for item in loaded.found] == [CLIP_BENCHMARK["dataset"]]
    assert ["line 2" in skipped.reason for skipped in loaded.skipped] == [True]


def test_clip_benchmark_csv(tmp_path):
    text = (
        "acc1,dataset,model,pretrained,task,language,model_fullname,acc5\n"
        "0.9,cifar10,ViT-B-32,openai,zeroshot_classification,en,ViT-B-32 openai,\n"
    )

    result = only(put(tmp_path / "benchmark.csv", text)).result

    assert result.identity == ("cifar10", "ViT-B-32", "openai", "zeroshot_classification", "en")
    assert result.metrics == {"acc1": 0.9}


def test_a_model_that_is_called_like_a_number_is_no_metric(tmp_path):
    text = "dataset,model,pretrained,task,language,model_fullname,acc1\nd,7,,zeroshot_classification,en,7 ,0.5\n"

    assert only(put(tmp_path / "benchmark.csv", text)).result.metrics == {"acc1": 0.5}


def test_evalscope_clip_json_has_neither_pretrained_nor_language(tmp_path):
    body = {"dataset": "muge", "model": "chinese-clip", "task": "zeroshot_retrieval", "metrics": {"x": 0.5}}

    found = only(put(tmp_path / "muge_zeroshot_retrieval.json", body))

    assert (found.origin, found.result.language) == ("EvalScope", "en")


def test_evalscope_native_report(tmp_path):
    body = {
        "dataset_name": "mmmu",
        "model_name": "qwen",
        "metrics": [
            {"name": "acc", "num": 30, "score": 0.5, "categories": [{"name": ["art"], "num": 10, "score": 0.7}]},
        ],
    }

    result = only(put(tmp_path / "reports" / "qwen" / "mmmu.json", body)).result

    assert result.metrics == {"acc": 0.5, "acc|art": 0.7}
    assert result.counts == {"acc": 30}


def test_mteb_scores_take_the_model_from_the_folder(tmp_path):
    body = {
        "task_name": "CustomRetrieval",
        "mteb_version": "2.1",
        "scores": {"test": [{"main_score": 0.8, "ndcg_at_10": 0.8, "nauc_map_at_1_max": 0.1, "hf_subset": "default"}]},
    }

    result = only(put(tmp_path / "eval__my-model" / "master" / "CustomRetrieval.json", body)).result

    assert (result.model, result.dataset) == ("my-model", "CustomRetrieval")
    assert result.metrics == {"main_score": 0.8, "ndcg_at_10": 0.8}


def test_mteb_scores_of_several_languages_are_averaged_as_mteb_does(tmp_path):
    rows = [{"hf_subset": name, "main_score": score, "only": 1.0} for name, score in (("en", 0.9), ("de", 0.1))]
    del rows[1]["only"]
    body = {"task_name": "STS22", "mteb_version": "2.1", "scores": {"test": rows}}

    result = only(put(tmp_path / "m" / "master" / "STS22.json", body)).result

    assert result.metrics == {"main_score": 0.5, "en|main_score": 0.9, "de|main_score": 0.1}
    assert result.primary == ("main_score",)


def test_vlmevalkit_accuracy_in_fractions(tmp_path):
    path = put(
        tmp_path / "Qwen_VL_7B" / "Qwen_VL_7B_MMBench_DEV_EN_acc.csv", '"split","Overall","CP"\n"dev","0.61","0.7"\n'
    )

    found = only(path)

    assert (found.result.model, found.result.dataset) == ("Qwen_VL_7B", "MMBench_DEV_EN")
    assert found.result.metrics == {"Overall": 0.61, "CP": 0.7}
    assert found.result.data == {"split": "dev", "measures": "questions"}


def test_vlmevalkit_per_cent_become_fractions_and_rows_get_names(tmp_path):
    text = "split,aAcc,fAcc\nOverall,50.0,20.0\nVD,60.0,30.0\n"

    result = only(put(tmp_path / "m" / "m_HallusionBench_score.csv", text)).result

    assert result.metrics == {"aAcc": 0.5, "fAcc": 0.2, "VD|aAcc": 0.6, "VD|fAcc": 0.3}


def test_vlmevalkit_points_stay_points(tmp_path):
    result = only(put(tmp_path / "m" / "m_MME_score.csv", "perception,reasoning,OCR\n1500.5,300,120\n")).result

    assert result.metrics == {"perception": 1500.5, "reasoning": 300, "OCR": 120}


@pytest.mark.parametrize("order", [("dev", "validation"), ("validation", "dev")])
def test_vlmevalkit_splits_are_told_apart_whatever_their_order(tmp_path, order):
    lines = {"dev": "dev,0.44", "validation": "validation,0.51"}
    text = "\n".join(["split,Overall", *(lines[name] for name in order)]) + "\n"

    result = only(put(tmp_path / "m" / "m_MMMU_DEV_VAL_acc.csv", text)).result

    assert result.metrics == {"Overall": 0.51, "dev|Overall": 0.44}
    assert result.data["split"] == "validation"


@pytest.mark.parametrize(
    ("header", "cells", "said"),
    [
        ("acc1", '"0,885"', "acc1 is '0,885'"),
        ("acc1", "88.5 %", "acc1 is '88.5 %'"),
        ("acc1,acc1", "0.4,0.9", "the column 'acc1' occurs twice"),
        ("acc1", "0,885", "line 2 has more cells than the header"),
    ],
)
def test_a_table_that_a_spreadsheet_spoilt_is_refused(tmp_path, header, cells, said):
    text = f"dataset,model,task,{header}\nd,m,zeroshot_classification,{cells}\n"

    with pytest.raises(ResultError, match=said):
        load_results([put(tmp_path / "benchmark.csv", text)])


@pytest.mark.parametrize("name", ["", "Unnamed: 0"])
def test_the_row_numbers_of_pandas_are_no_metric(tmp_path, name):
    text = f"{name},dataset,model,task,acc1\n7,d,m,zeroshot_classification,0.5\n"

    assert only(put(tmp_path / "benchmark.csv", text)).result.metrics == {"acc1": 0.5}


def test_another_csv_is_not_a_result(tmp_path):
    with pytest.raises(ResultError, match="not a table of results"):
        load_results([put(tmp_path / "shopping.csv", "a,b\n1,2\n")])


def test_our_own_results_bring_their_records(suite):
    found = load_results([suite]).found

    assert {item.origin for item in found} == {"eyechart"}
    assert all(sum(1 for _ in item.result.iter_records()) == item.result.record_info["count"] for item in found)


def test_a_result_cannot_point_its_records_outside_its_folder(tmp_path):
    put(tmp_path / "secret.jsonl", '{"id": "secret"}\n')
    body = CLIP_BENCHMARK | {"schema": 1, "records": {"file": "../secret.jsonl", "count": 1}}

    result = only(put(tmp_path / "in" / "r.json", body)).result

    with pytest.raises((ResultError, FileNotFoundError)):
        list(result.iter_records())


@pytest.mark.parametrize("task", sorted(TASKS.built_in))
def test_old_results_stand_among_new_ones_of_the_same_task(task):
    """What a task measures is known for results of version 0.1, too, which do not tell."""
    assert measures_of(task) == (load_task(task).measures or task.replace("_", " "))


def test_models_share_the_class_names_of_a_dataset_unless_they_had_others(tmp_path):
    for model, names in {"a": ["cat", "dog"], "b": ["cat", "dog"], "c": ["Katze", "Hund"], "d": []}.items():
        put(tmp_path / f"{model}.json", CLIP_BENCHMARK | {"model": model, "details": {"classnames": names, "x": model}})

    details = {item.result.model: item.result.details for item in load_results(tmp_path).found}

    assert details["a"]["classnames"] is details["b"]["classnames"]
    assert details["c"]["classnames"] == ["Katze", "Hund"]
    assert details["d"] == {"classnames": [], "x": "d"}
    assert [details[model]["x"] for model in "abc"] == ["a", "b", "c"]
