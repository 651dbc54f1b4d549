"""One config: captions by a generator, text encoders on the captions, CLIP-like models on the images, one table."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from eyechart import run_task
from eyechart.api.errors import BudgetExceededError
from eyechart.errors import EyechartError, UsageError
from eyechart.report.retrieval_comparison import Route, compare
from eyechart.results import read_result
from support.clipart import describe, write_clipart
from support.openai_server import OpenAIServer
from support.text_models import minilm


def config(server, data, **values):
    vlm = {"model_name": "scripted-vlm", "api_base": server.api_base, "api_key": "sk-secret", "prompt": "Describe it"}
    reranker = {"model_name": "scripted-reranker", "api_base": server.api_base, "is_cross_encoder": True}
    return {
        "work_dir": "outputs",
        "eval_config": {
            "tool": "clip_benchmark",
            "eval": {
                "task": "retrieval_comparison",
                "dataset_name": "custom",
                "data_dir": data,
                "models": [{"model_name": "eyechart-tiny"}],
                "caption_models": [vlm],
                "text_models": [{"model_name_or_path": minilm()}, reranker],
                "recall_k": [1, 5, 10],
                "verbose": False,
                **values,
            },
        },
    }


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """The whole chain on real drawings, run once."""
    folder = tmp_path_factory.mktemp("comparison")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("EYECHART_CACHE", str(folder / "cache"))
        data = write_clipart(Path("drawings"))
        with OpenAIServer(models=("scripted-vlm", "scripted-reranker"), answer=describe) as server:
            results = run_task(config(server, data))
    return folder, results


def table(folder):
    return json.loads((folder / "outputs" / "custom_retrieval_comparison.json").read_text())


def test_every_way_gets_its_result_and_one_row(finished):
    folder, results = finished

    assert [(result.model, result.task) for result in results] == [
        ("scripted-vlm", "image_caption"),
        ("eyechart-tiny", "zeroshot_retrieval"),
        (f"scripted-vlm + {minilm()}", "text_retrieval"),
        (f"scripted-vlm + {minilm()} + scripted-reranker", "text_retrieval"),
    ]
    rows = table(folder)["rows"]
    assert {(row["search_in"], row["model"]) for row in rows} == {
        ("images", "eyechart-tiny"),
        ("captions", f"scripted-vlm + {minilm()}"),
        ("captions", f"scripted-vlm + {minilm()} + scripted-reranker"),
    }


def test_the_table_says_what_the_results_say(finished):
    folder, results = finished

    rows = {row["model"]: row for row in table(folder)["rows"]}
    for result in results[1:]:
        name = "image_retrieval_recall@" if result.task == "zeroshot_retrieval" else "hit_rate_at_"
        for k in (1, 5, 10):
            assert rows[result.model]["recall"][str(k)] == pytest.approx(result.metrics[f"{name}{k}"])


def test_real_descriptions_beat_a_model_that_has_never_seen_a_drawing(finished):
    folder, _ = finished

    best, *_, worst = table(folder)["rows"]
    assert best["search_in"] == "captions"
    assert worst["model"] == "eyechart-tiny"
    assert worst["p_value"] < 0.01
    assert best["p_value"] is None


def test_the_table_is_there_for_people_and_for_spreadsheets(finished):
    folder, _ = finished

    text = (folder / "outputs" / "custom_retrieval_comparison.md").read_text()
    assert "Retrieval of the 60 images of custom by 120 text queries." in text
    assert "| search in | model | recall@1 | recall@5 | recall@10 | behind the best @1 | p |" in text
    with (folder / "outputs" / "custom_retrieval_comparison.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    assert [float(row["recall@5"]) for row in rows] == [row["recall"]["5"] for row in table(folder)["rows"]]
    assert text in (folder / "outputs" / "logs" / "eval_log.log").read_text()


def test_results_say_whose_captions_were_searched(finished):
    _, results = finished

    assert results[2].details["captions_by"] == "scripted-vlm"
    assert results[2].details["caption_prompt"] == "Describe it"


def test_one_config_equals_separate_configs_in_a_list(finished, here):
    _, results = finished
    data = write_clipart(Path("drawings"))
    with OpenAIServer(models=("scripted-vlm",), answer=describe) as server:
        vlm = {"model_name": "scripted-vlm", "api_base": server.api_base, "prompt": "Describe it"}
        captions = {
            "models": [vlm],
            "dataset_name": "custom",
            "data_dir": data,
            "task": "image_caption",
            "verbose": False,
        }
        search = {"dataset_path": "outputs/scripted-vlm/custom/retrieval_data", "verbosity": 0}
        _, found = run_task(
            [
                {"eval_config": {"tool": "clip_benchmark", "eval": captions}},
                {"eval_config": {"tool": "MTEB", "models": [{"model_name_or_path": minilm()}], "eval": search}},
            ]
        )

    assert found.metrics == pytest.approx(results[2].metrics, abs=1e-9)


def test_each_dataset_has_a_table_of_its_own(here):
    names = [write_clipart(Path(name), 5) for name in ("one", "two")]
    evaluated = {"task": "retrieval_comparison", "dataset_name": names, "models": [{"model_name": "eyechart-tiny"}]}
    results = run_task({"eval_config": {"tool": "clip_benchmark", "eval": {**evaluated, "verbose": False}}})

    for name, result in zip(names, results, strict=True):
        [row] = json.loads(Path(f"outputs/{name}_retrieval_comparison.json").read_text())["rows"]
        assert row["result"] == str(result.path)


def test_a_run_that_is_done_needs_no_server(here):
    data = write_clipart(Path("drawings"), 5)
    with OpenAIServer(models=("scripted-vlm", "scripted-reranker"), answer=describe) as server:
        wanted = config(server, data, skip_existing=True)
        done = run_task(wanted)
    stamps = [result.path.stat().st_mtime_ns for result in done]

    again = run_task(wanted)  # the server is gone

    assert [result.path.stat().st_mtime_ns for result in again] == stamps


def test_texts_that_were_lost_are_written_again_and_found_to_be_the_same(here):
    data = write_clipart(Path("drawings"), 5)
    with OpenAIServer(models=("scripted-vlm", "scripted-reranker"), answer=describe) as server:
        run_task(config(server, data, skip_existing=True))
        Path("outputs/scripted-vlm/custom/retrieval_data/corpus.jsonl").unlink()

        *_, last = run_task(config(server, data, skip_existing=True))

    assert last.details["documents"] == 5
    assert last.path.stat().st_mtime_ns < Path("outputs/scripted-vlm/custom_image_caption.json").stat().st_mtime_ns


def test_nothing_is_searched_when_its_server_is_gone(here):
    data = write_clipart(Path("drawings"), 5)
    with OpenAIServer(models=("scripted-vlm",), answer=describe) as server, pytest.raises(EyechartError):
        run_task(config(server, data))  # nobody serves the reranker

    assert not server.paid


def test_captions_and_results_of_an_earlier_run_do_not_stand_in_for_those_that_fail(here):
    data = write_clipart(Path("drawings"), 5)
    with OpenAIServer(models=("scripted-vlm", "scripted-reranker"), answer=describe) as server:
        *_, first = run_task(config(server, data))
        longer = config(server, data, max_requests=2)
        longer["eval_config"]["eval"]["caption_models"][0]["prompt"] = "Describe it at length"
        with pytest.raises(BudgetExceededError):
            run_task(longer)

    assert [row["model"] for row in table(here)["rows"]] == ["eyechart-tiny"]
    assert "Failed routes that are not shown: 2." in Path("outputs/custom_retrieval_comparison.md").read_text()
    assert read_result(first.path).details["caption_prompt"] == "Describe it"


def test_two_configs_of_one_run_do_not_write_one_result(here):
    data = write_clipart(Path("drawings"), 5)
    evaluated = {"dataset_name": "custom", "data_dir": data, "models": [{"model_name": "eyechart-tiny"}]}
    configs = [{"eval_config": {"tool": "clip_benchmark", "eval": {**evaluated, "limit": n}}} for n in (3, 4)]

    with pytest.raises(UsageError, match="Two jobs would write"):
        run_task(configs)


def test_a_dry_run_only_counts_captions(here):
    data = write_clipart(Path("drawings"), 5)
    with OpenAIServer(models=("scripted-vlm", "scripted-reranker")) as server:
        [result] = run_task(config(server, data, dry_run=True))

    assert result.metrics["requests"] == 5
    assert not server.requests


def test_nothing_is_paid_when_a_text_model_is_missing(here):
    data = write_clipart(Path("drawings"), 5)
    with OpenAIServer(models=("scripted-vlm",)) as server:
        with pytest.raises(EyechartError, match="Checkpoint not found"):
            run_task(config(server, data, text_models=[{"model_name_or_path": "./nowhere"}]))
        with pytest.raises(UsageError, match="All models are rerankers"):
            run_task(config(server, data, text_models=[{"model_name_or_path": minilm(), "is_cross_encoder": True}]))

    assert not server.requests


def ways(*hits, images=60):
    """Ways with one query per image, found at once or at rank 100."""
    return [
        Route("images", f"m{i}", {(str(j), 0): 1.0 if hit else 100.0 for j, hit in enumerate(row)}, Path(f"{i}.json"))
        for i, row in enumerate(hits)
    ]


def test_ways_that_answer_alike_are_not_told_apart_and_clear_differences_are():
    rng = np.random.default_rng(0)
    good = rng.random(300) < 0.8
    close = good.copy()
    close[:3] = ~close[:3]
    poor = rng.random(300) < 0.3

    p_values = {row["model"]: row["p_value"] for row in compare("x", ways(good, close, poor), [1, 5])["rows"]}

    leader = next(model for model, p_value in p_values.items() if p_value is None)
    assert leader in ("m0", "m1")
    assert p_values["m1" if leader == "m0" else "m0"] > 0.05
    assert p_values["m2"] < 0.001


def test_a_k_that_covers_the_gallery_does_not_decide():
    table = compare("x", ways([True] * 4, [True, False, True, False]), [5, 1])

    assert table["main_k"] == 1
    assert [row["model"] for row in table["rows"]] == ["m0", "m1"]


@pytest.mark.parametrize(("images", "main"), [(5, 1), (6, 5), (2, 1), (1, 5)])
def test_the_main_k_is_smaller_than_the_gallery(images, main):
    ranks = {(str(i), 0): 1.0 for i in range(images)}

    assert compare("x", [Route("images", "m", ranks, Path("r.json"))], [5, 1])["main_k"] == main
