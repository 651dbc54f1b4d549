"""The defaults of other evaluations: a table that fills what is left open, is recorded and is told."""

import json

import pytest

from eyechart.cli import main, make_parser
from eyechart.cli.flags.eval_flags import settings_of
from eyechart.config import Config, make_config
from eyechart.errors import UsageError
from eyechart.plan import plan_jobs
from eyechart.settings.presets import PRESETS
from eyechart.settings.tasks import task_flags
from support.data import write_retrieval

TINY = {"model_type": "onnx", "model": ["eyechart-tiny"], "pretrained": ["eyechart-tiny"]}


def flags(*words):
    parser = make_parser("eyechart", "eval")
    return make_config(settings_of(parser.parse_args(["eval", *words])))


@pytest.mark.parametrize("style", PRESETS)
def test_a_style_only_sets_what_there_is(style):
    options = PRESETS[style].get("task_options", {})

    assert set(PRESETS[style]) - {"task_options"} <= set(Config.fields())
    assert set(options) <= set(task_flags())
    assert make_config({"like": style}).preset == make_config({"preset": style}).preset == style


def test_flags_that_a_style_may_set_are_left_open_by_the_command():
    """A default in the parser would look like the user's wish, and the style would never count."""
    parser = make_parser("eyechart", "eval")
    given = vars(parser.parse_args(["eval", "--dataset", "cifar10"]))

    for style in PRESETS.values():
        assert not {*style, *style.get("task_options", {})} & set(given)


@pytest.mark.parametrize(
    "words",
    [
        ["--preset", "internvl"],
        ["--like", "internvl"],
        ["--model_type", "internvl"],
        ["--model", "internvl_c_retrieval", "internvl_g_retrieval_hf"],
        ["--pretrained_model", "internvl_c_retrieval,x.pth"],
    ],
)
def test_internvl_s_defaults_hold_for_its_models_and_on_request(words):
    config = flags(*words)

    assert (config.preset, config.recall_k, config.append, config.precision) == ("internvl", [1, 5, 10], True, "half")


@pytest.mark.parametrize(
    "words",
    [
        ["--dataset", "cifar10"],
        ["--model", "internvl_c_retrieval", "ViT-B-32"],
        ["--model_type", "open_clip", "--model", "internvl_c_retrieval"],
        ["--model_type", "internvl", "--like", "eyechart"],
    ],
)
def test_elsewhere_our_own_hold(words):
    config = flags(*words)

    assert (config.preset, config.recall_k, config.append, config.precision) == ("eyechart", [5], False, "auto")
    assert config.notes() == ()


def test_what_the_user_says_counts_for_more_than_the_style():
    config = flags(
        "--like", "internvl", "--recall_k", "5", "--no-append", "--precision", "fp32", "--caption_cleaning", "none"
    )  # fmt: skip

    assert (config.recall_k, config.append, config.precision, config.caption_cleaning) == ([5], False, "fp32", "none")
    assert config.notes() == ()  # nothing is left that it changed


def test_the_peer_s_precision_draw_and_mean_over_classes():
    config = flags("--like", "clip_benchmark")

    assert config.precision == "amp"
    assert config.task_options["fewshot_draw"] == "clip_benchmark"
    assert config.task_options["empty_classes"] == "zero"
    assert flags("--like", "clip_benchmark", "--no_amp").precision == "fp32"
    assert flags("--like", "clip_benchmark", "--fewshot_draw", "eyechart").task_options["fewshot_draw"] == "eyechart"


def test_machines_of_a_cluster_do_not_share_a_file(caption_sets, capsys):
    words = "--model_type onnx --model eyechart-tiny --pretrained eyechart-tiny --append --engine ray --output r.json"
    data = ["--dataset", "wds/flickr30k", "wds/other", "--dataset_root", "data/{dataset}"]

    assert main(["eval", *words.split(), *data]) == 2
    assert "several machines" in capsys.readouterr().err


def test_options_of_a_style_are_no_error_where_no_task_knows_them(caption_sets):
    settings = {**TINY, "like": "clip_benchmark", "dataset": ["wds/other"], "dataset_root": "data/{dataset}"}

    (job,) = plan_jobs(make_config(settings), str)

    assert job.settings["like"] == "clip_benchmark"
    with pytest.raises(UsageError, match="nonsense"):
        plan_jobs(make_config({**settings, "task_options": {"nonsense": "zero"}}), str)


def test_an_unknown_style_is_refused():
    with pytest.raises(UsageError, match="preset"):
        make_config({"like": "internvt"})


def test_half_is_float16_on_a_gpu_and_float32_elsewhere(monkeypatch):
    import torch

    from eyechart.plan_models import model_specs

    def precision(**settings):
        return model_specs(make_config({**TINY, "precision": "half", **settings}))[0].precision

    assert precision(device="cpu") == "fp32"
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    for name in ("LOCAL_RANK", "SLURM_LOCALID"):
        monkeypatch.delenv(name, raising=False)
    assert precision() == "fp16"


@pytest.fixture
def caption_sets(tmp_path, monkeypatch):
    """Webdatasets under the names of the catalogue: flickr30k, mscoco_captions, and one of one's own."""
    monkeypatch.chdir(tmp_path)
    for name in ("flickr30k", "mscoco_captions", "other"):
        write_retrieval(tmp_path / "data" / name, captions=[["A cat ( black ) !"], ["A dog."]])
    return tmp_path


def test_captions_are_cleaned_by_the_name_of_the_dataset(caption_sets):
    names = ["flickr30k", "mscoco_captions", "wds/other"]
    settings = {**TINY, "like": "internvl", "dataset": names, "dataset_root": "data/{dataset}", "precision": "fp32"}

    jobs = plan_jobs(make_config(settings), str)
    by_flag = plan_jobs(make_config({**settings, "caption_cleaning": "internvl"}), str)
    none = plan_jobs(make_config({**settings, "caption_cleaning": "none"}), str)

    assert [job.dataset.options.get("caption_cleaning") for job in jobs] == ["internvl", "internvl", None]
    assert [job.dataset.options.get("caption_cleaning") for job in by_flag] == ["internvl"] * 3
    assert [job.dataset.options.get("caption_cleaning") for job in none] == [None] * 3


def test_a_run_tells_and_records_what_the_style_changed(caption_sets, capsys):
    words = "--model_type onnx --model eyechart-tiny --pretrained eyechart-tiny --like internvl --precision fp32"
    data = ["--dataset", "flickr30k", "wds/other", "--dataset_root", "data/{dataset}"]
    code = main(["eval", *words.split(), *data, "--output", "result.json"])

    assert code == 0
    said = capsys.readouterr().err
    lines = [json.loads(line) for line in (caption_sets / "result.json").read_text().splitlines()]
    assert [line["dataset"] for line in lines] == ["flickr30k", "wds/other"]
    for line in lines:
        assert line["job"]["settings"]["like"] == "internvl"
        (notice,) = [notice["message"] for notice in line["notices"] if notice["kind"] == "like"]
        assert notice == (
            "Defaults of the preset internvl (--preset): recall_k 1 5 10 instead of 5; caption_cleaning internvl for "
            "flickr30k, internvl for mscoco_captions; append on."
        )
        assert notice in said
