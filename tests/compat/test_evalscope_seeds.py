"""The dicts of EvalScope's documentation, unchanged, with small models and data where their names point.

``AI-ModelScope/chinese-clip-vit-large-patch14-336px`` is a folder here: a random Chinese-CLIP, saved by transformers.
"""

import json
from pathlib import Path

import pytest

from eyechart import run_task
from eyechart.cli import main
from support.data import write_classification, write_retrieval
from support.openai_server import OpenAIServer
from support.retrieval_data import read_rows
from support.zoo_transformers import chinese_clip

NAME = "AI-ModelScope/chinese-clip-vit-large-patch14-336px"
FOLDER = Path("outputs/chinese-clip-vit-large-patch14-336px")
MUGE = [["酸角汁饮料 整箱 云南"], ["达芬奇眼镜"], ["水钻蝴蝶结耳钉"], ["邓州黄酒"], ["斑马纹老虎椅"], ["布丁杯模具"],
        ["光之美少女盒蛋"], ["蓝莓模型"], ["少女心喝水杯"], ["炸面"], ["蓝牙耳机"], ["陶瓷花瓶"]]  # fmt: skip


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / NAME
    chinese_clip(folder)
    return folder


@pytest.fixture
def place(here, model):
    """A folder with the model under its documented name, and muge and flickr8k where EvalScope keeps them."""
    Path("AI-ModelScope").mkdir()
    Path(NAME).symlink_to(model)
    write_retrieval(Path("cache/muge"), captions=MUGE)
    write_retrieval(Path("cache/flickr8k"), captions=[[f"caption {i} {j}" for j in range(5)] for i in range(6)])
    return here


SEED_000 = {
    "eval_backend": "RAGEval",
    "eval_config": {
        "tool": "clip_benchmark",
        "eval": {
            "models": [
                {
                    "model_name": "AI-ModelScope/chinese-clip-vit-large-patch14-336px",
                }
            ],
            "dataset_name": ["muge", "flickr8k"],
            "split": "test",
            "batch_size": 128,
            "num_workers": 1,
            "verbose": True,
            "skip_existing": False,
            "output_dir": "outputs",
            "cache_dir": "cache",
            "limit": 1000,
        },
    },
}
SEED_001 = {
    "work_dir": "outputs",
    "eval_backend": "RAGEval",
    "eval_config": {
        "tool": "clip_benchmark",
        "eval": {
            "models": [
                {
                    "model_name": "AI-ModelScope/chinese-clip-vit-large-patch14-336px",
                }
            ],
            "dataset_name": ["muge", "flickr8k"],
            "split": "test",
            "batch_size": 128,
            "num_workers": 1,
            "verbose": True,
            "skip_existing": False,
            "cache_dir": "cache",
            "limit": 1000,
        },
    },
}
SEED_002_CUSTOM = {
    "eval_backend": "RAGEval",
    "eval_config": {
        "tool": "clip_benchmark",
        "eval": {
            "models": [
                {
                    "model_name": "AI-ModelScope/chinese-clip-vit-large-patch14-336px",
                }
            ],
            "dataset_name": ["custom"],
            "data_dir": "custom_eval/multimodal/text-image-retrieval",
            "split": "test",
            "batch_size": 128,
            "num_workers": 1,
            "verbose": True,
            "skip_existing": False,
            "limit": 1000,
        },
    },
}


def seed_002_captions(server):
    """The documented config; only the address is that of the test's server."""
    return {
        "eval_backend": "RAGEval",
        "eval_config": {
            "tool": "clip_benchmark",
            "eval": {
                "models": [
                    {
                        "model_name": "internvl2-8b",
                        "api_base": server.api_base,
                        "api_key": "xxx",
                        "prompt": "用中文描述这张图片",
                    }
                ],
                "dataset_name": ["muge"],
                "split": "test",
                "task": "image_caption",
                "batch_size": 2,
                "num_workers": 1,
                "verbose": True,
                "skip_existing": False,
                "limit": 10,
            },
        },
    }


@pytest.mark.parametrize("config", [SEED_000, SEED_001], ids=["000", "001"])
def test_muge_and_flickr8k(place, config):
    muge, flickr = run_task(task_cfg=config)

    body = json.loads((FOLDER / "muge_zeroshot_retrieval.json").read_text())
    assert {key: body[key] for key in ("dataset", "model", "task")} == {
        "dataset": "muge",
        "model": NAME,
        "task": "zeroshot_retrieval",
    }
    assert {"image_retrieval_recall@5", "text_retrieval_recall@5"} <= set(body["metrics"])
    assert set(body["metrics"]) == {f"{side}_retrieval_recall@{k}" for side in ("image", "text") for k in (1, 5, 10)}
    assert muge.metrics == body["metrics"]
    assert (FOLDER / "flickr8k_zeroshot_retrieval.json").is_file()
    assert flickr.counts["scored"] == 6


def test_custom_retrieval(place, custom):
    [result] = run_task(task_cfg=SEED_002_CUSTOM)

    body = json.loads((FOLDER / "custom_zeroshot_retrieval.json").read_text())
    assert (body["dataset"], body["model"], body["task"]) == ("custom", NAME, "zeroshot_retrieval")
    # Five images: whoever answers gets all of them among the first five. The result says so.
    assert result.metrics["image_retrieval_recall@5"] == 1.0
    assert any(notice["kind"] == "k_covers_gallery" for notice in result.notices)


def test_captions_of_muge(place):
    with OpenAIServer(models=("internvl2-8b",), answer=lambda _: "这是一张图片。") as server:
        [result] = run_task(task_cfg=seed_002_captions(server))

    assert result.facts == {
        "conversion_successful": True,
        "convertion_successful": True,
        "save_path": "outputs/internvl2-8b/muge/retrieval_data",
    }
    shown = sorted(
        str(path.relative_to("outputs/internvl2-8b")) for path in Path("outputs/internvl2-8b/muge").rglob("*")
    )
    documented = [
        "muge/muge_image_caption.json",
        "muge/retrieval_data",
        "muge/retrieval_data/corpus.jsonl",
        "muge/retrieval_data/qrels",
        "muge/retrieval_data/qrels/test.tsv",
        "muge/retrieval_data/queries.jsonl",
    ]
    assert set(documented) <= set(shown)
    assert set(shown) - set(documented) == {"muge/retrieval_data/qrels.jsonl"}
    queries = read_rows("outputs/internvl2-8b/muge/retrieval_data/queries.jsonl")
    assert [(row["_id"], row["text"]) for row in queries] == [(i, texts[0]) for i, texts in enumerate(MUGE[:10])]
    log = Path("outputs/logs/eval_log.log").read_text()
    assert "INFO: Write files to outputs/internvl2-8b/muge/retrieval_data" in log
    assert "INFO: Dump results to: outputs/internvl2-8b/muge_image_caption.json" in log


@pytest.mark.parametrize("limit", [1, 3, 12, 1000])
def test_the_limit_is_exact(place, limit):
    config = json.loads(json.dumps(SEED_001))
    config["eval_config"]["eval"] |= {"limit": limit, "batch_size": 2, "dataset_name": ["muge"]}

    [result] = run_task(config)

    assert result.counts["listed"] == min(limit, 12)


def test_recall_at_other_k_can_be_asked_for(place):
    config = json.loads(json.dumps(SEED_001))
    config["eval_config"]["eval"] |= {"recall_k": [3], "dataset_name": "muge"}

    [result] = run_task(config)

    assert set(result.metrics) == {"image_retrieval_recall@3", "text_retrieval_recall@3"}


def test_custom_retrieval_and_classification_in_one_config(place, custom):
    Path("my_pets/cat").mkdir(parents=True)
    Path("my_pets/dog").mkdir()
    from support.data import noise_image

    for i, name in enumerate(["cat", "dog", "cat"]):
        noise_image(i).save(f"my_pets/{name}/{i}.png")
    rows = [{"image": str(Path("my_pets/cat/0.png").absolute()), "label": "cat"}]
    rows.append({"image": str(Path("my_pets/dog/1.png").absolute()), "label": "dog"})
    Path("labels").mkdir()
    Path("labels/image_labels.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    write_classification(Path("shards"), n=6)
    config = json.loads(json.dumps(SEED_002_CUSTOM))
    config["eval_config"]["eval"] |= {"dataset_name": ["custom", "my_pets", "labels/image_labels.jsonl", "shards"]}
    config["eval_config"]["eval"]["data_dir"] = {"custom": custom}

    results = run_task(config)

    assert [(result.dataset, result.task) for result in results] == [
        ("custom", "zeroshot_retrieval"),
        ("my_pets", "zeroshot_classification"),
        ("labels/image_labels.jsonl", "zeroshot_classification"),
        ("shards", "zeroshot_classification"),
    ]
    assert all({"acc1", "mean_per_class_recall"} <= set(result.metrics) for result in results[1:])


@pytest.mark.parametrize("form", ["folders", "table"])
def test_custom_classification_under_the_name_custom(place, form):
    from support.data import noise_image

    Path("data/cat").mkdir(parents=True)
    noise_image(0).save("data/cat/0.png")
    Path("data/dog").mkdir()
    noise_image(1).save("data/dog/1.png")
    if form == "table":
        rows = [{"image": "cat/0.png", "label": "cat"}, {"image": "dog/1.png", "label": "dog"}]
        Path("data/image_labels.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    config = json.loads(json.dumps(SEED_002_CUSTOM))
    config["eval_config"]["eval"]["data_dir"] = "data"

    [result] = run_task(config)

    assert (result.task, result.counts["scored"]) == ("zeroshot_classification", 2)


def test_the_seed_of_a_config_reaches_the_task(here):
    evaluated = {"models": [{"model_name": "eyechart-tiny"}], "dataset_name": "demo/garments", "limit": 30}
    [result] = run_task(
        {"seed": 7, "eval_config": {"tool": "clip_benchmark", "eval": {**evaluated, "task": "clustering"}}}
    )

    assert result.job["settings"]["seed"] == 7


def test_skip_existing_looks_at_the_contents(place):
    config = json.loads(json.dumps(SEED_001))
    config["eval_config"]["eval"] |= {"skip_existing": True, "dataset_name": "muge"}
    run_task(config)
    path = FOLDER / "muge_zeroshot_retrieval.json"
    stamp = path.stat().st_mtime_ns

    run_task(config)
    assert path.stat().st_mtime_ns == stamp

    config["eval_config"]["eval"]["limit"] = 4
    run_task(config)
    assert json.loads(path.read_text())["counts"]["listed"] == 4


def test_a_timestamp_is_there_only_if_asked_for(place):
    config = {**SEED_001, "no_timestamp": False, "work_dir": "timed"}

    run_task(config)

    [folder] = Path("timed").iterdir()
    assert folder.name[:2] == "20"
    assert (folder / "chinese-clip-vit-large-patch14-336px" / "muge_zeroshot_retrieval.json").is_file()


def test_the_command_line_runs_a_file_and_shows_the_results(place, capsys):
    import yaml

    Path("task.yaml").write_text(yaml.safe_dump(SEED_001, allow_unicode=True), encoding="utf-8")

    code = main(["run", "task.yaml", "--work_dir", "mine", "--limit", "4"])

    shown = capsys.readouterr()
    assert code == 0
    assert "image_retrieval_recall@5" in shown.out
    assert json.loads(Path("mine/chinese-clip-vit-large-patch14-336px/muge_zeroshot_retrieval.json").read_text())


def test_the_command_line_estimates_without_asking(place, capsys):
    with OpenAIServer(models=("internvl2-8b",)) as server:
        Path("task.json").write_text(json.dumps(seed_002_captions(server)))
        code = main(["run", "task.json", "--dry-run", "--quiet"])

    assert code == 0
    assert "10 images, 10 requests, about" in capsys.readouterr().out
    assert not server.requests


def test_the_command_line_tells_what_is_wrong(place, capsys):
    Path("task.yaml").write_text("eval_config: {tool: clip_benchmark, eval: {modles: []}}")

    assert main(["run", "task.yaml"]) == 2
    assert "did you mean models" in capsys.readouterr().err


def test_the_config_is_kept_beside_the_results(place):
    import yaml

    run_task(SEED_001)

    assert yaml.safe_load(Path("outputs/configs/task_config.yaml").read_text()) == {
        **SEED_001,
        "eval_config": {**SEED_001["eval_config"], "eval": SEED_001["eval_config"]["eval"]},
    }
