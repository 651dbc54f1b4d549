"""Configs of both generations, in every form in which they are written, and what is said about wrong ones."""

import argparse
import json
import traceback
from pathlib import Path

import pytest
import yaml

from eyechart import run_task
from eyechart.api import Budget
from eyechart.compat.evalscope import ClipConfig, MtebConfig, TaskConfig, task_config
from eyechart.compat.evalscope.main import read_configs
from eyechart.compat.evalscope.models import text_spec
from eyechart.compat.evalscope.schema import Requests, TextModel
from eyechart.errors import EyechartError, UsageError

CLIP = {
    "eval_backend": "RAGEval",
    "eval_config": {
        "tool": "clip_benchmark",
        "eval": {
            "models": [{"model_name": "AI-ModelScope/chinese-clip-vit-large-patch14-336px"}],
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
FIRST_GENERATION = {
    "work_dir": "outputs",
    "eval_backend": "RAGEval",
    "eval_config": {
        "tool": "MTEB",
        "model": [
            {
                "model_name_or_path": "AI-ModelScope/m3e-base",
                "pooling_mode": None,
                "max_seq_length": 512,
                "prompt": "",
                "model_kwargs": {"torch_dtype": "auto"},
                "encode_kwargs": {"batch_size": 128},
            }
        ],
        "eval": {
            "tasks": ["CustomRetrieval"],
            "dataset_path": "custom_eval/text/retrieval",
            "verbosity": 2,
            "overwrite_results": True,
            "topk": 5,
            "limits": 500,
        },
    },
}
SECOND_GENERATION = {
    "work_dir": "outputs",
    "eval_backend": "RAGEval",
    "eval_config": {
        "tool": "mteb",
        "models": [{"model_name": "text-embedding-v3", "api_base": "http://localhost:1/v1", "dimensions": 1024}],
        "eval": {
            "custom_tasks": [{"name": "CustomRetrieval", "data_path": "my_retrieval_data"}],
            "overwrite_results": True,
            "limits": 500,
        },
    },
}


def changed(config, **values):
    """Return the config with other values in its innermost part."""
    copy = json.loads(json.dumps(config))
    copy["eval_config"]["eval"].update(values)
    return copy


def test_the_documented_dict_gives_its_values_and_the_defaults():
    [config] = read_configs(CLIP)

    assert isinstance(config.eval_config, ClipConfig)
    settings = config.eval_config.eval
    assert settings.dataset_name == ["muge", "flickr8k"]
    assert (settings.limit, settings.batch_size, settings.recall_k) == (1000, 128, [5, 1, 10])
    assert str(config.folder) == "outputs"


def test_a_file_a_typed_config_a_namespace_and_a_list_give_the_same_as_the_dict(tmp_path):
    (tmp_path / "a.yaml").write_text(yaml.safe_dump(CLIP))
    (tmp_path / "b.json").write_text(json.dumps(CLIP))
    [expected] = read_configs(CLIP)

    forms = [str(tmp_path / "a.yaml"), tmp_path / "b.json", expected, argparse.Namespace(**CLIP)]

    assert read_configs(forms) == [expected] * 4


def test_the_inner_part_alone_and_an_inner_part_in_a_file_or_a_string_are_enough(tmp_path):
    inner = CLIP["eval_config"]
    (tmp_path / "inner.yaml").write_text(yaml.safe_dump(inner))
    [expected] = read_configs({"eval_config": inner})

    assert read_configs(tmp_path / "inner.yaml") == [expected]
    assert read_configs({"eval_config": str(tmp_path / "inner.yaml")}) == [expected]
    assert read_configs({"eval_config": json.dumps(inner)}) == [expected]


def test_the_first_generation_of_text_retrieval():
    [config] = read_configs(FIRST_GENERATION)

    assert isinstance(config.eval_config, MtebConfig)
    settings = config.eval_config.eval
    assert [(task.name, task.data_path) for task in settings.custom_tasks] == [
        ("CustomRetrieval", "custom_eval/text/retrieval")
    ]
    assert (settings.task_names, settings.top_k, settings.limit) == ([], 5, 500)
    assert config.eval_config.models[0].model_name_or_path == "AI-ModelScope/m3e-base"


def test_the_second_generation_of_text_retrieval():
    [config] = read_configs(SECOND_GENERATION)

    assert isinstance(config.eval_config, MtebConfig)
    assert config.eval_config.models[0].model_name_or_path == "text-embedding-v3"
    assert config.eval_config.eval.custom_tasks[0].data_path == "my_retrieval_data"


@pytest.mark.parametrize("tool", ["clip_benchmark", "CLIP_Benchmark", "CLIP_BENCHMARK"])
def test_the_case_of_the_tool_does_not_matter(tool):
    [config] = read_configs({"eval_config": {**CLIP["eval_config"], "tool": tool}})

    assert config.eval_config.tool == "clip_benchmark"


def test_where_results_go():
    assert str(read_configs({**CLIP, "work_dir": "mine"})[0].folder) == "mine"
    assert str(read_configs(changed(CLIP, output_dir="there"))[0].folder) == "there"
    assert str(read_configs({**CLIP, "use_cache": "earlier", "work_dir": "mine"})[0].folder) == "earlier"
    assert str(read_configs({**CLIP, "output_dir": "top"})[0].folder) == "top"


@pytest.mark.parametrize(
    ("config", "said"),
    [
        (
            changed(CLIP, dataset_nmae=["x"]),
            "eval_config.eval.dataset_nmae: unknown setting; did you mean dataset_name",
        ),
        (changed(CLIP, models=[{"model_nam": "x"}]), "did you mean model_name"),
        ({**CLIP, "workdir": "x"}, "workdir: unknown setting; did you mean work_dir"),
        (changed(SECOND_GENERATION, overwrite_result=True), "did you mean overwrite_results"),
        (changed(CLIP, limit=0), "eval_config.eval.limit: Input should be greater than or equal to 1"),
        (changed(CLIP, models=[]), "models: at least one is required"),
        (changed(CLIP, text_models=[{"model_name": "x"}]), "require task: retrieval_comparison"),
        (changed(CLIP, task="retrieval_comparison", caption_models=[{"model_name": "x"}]), "must be set together"),
        (changed(CLIP, dataset_name=[]), "eval_config.eval.dataset_name"),
        ({"eval_config": {"tool": "clip_bench", "eval": {}}}, "Did you mean clip_benchmark"),
        ({"eval_backend": "RAGEvl", "eval_config": CLIP["eval_config"]}, "Did you mean RAGEval"),
        ({"eval_backend": "RAGEval"}, "has no eval_config"),
        ({"eval_config": {"tool": "MTEB", "models": [{"model_name": "x"}], "eval": {}}}, "no task"),
        ({**CLIP, "work_dir": "a", "output_dir": "b"}, "both output_dir and work_dir"),
        ([], "Empty list"),
        (42, "not int"),
    ],
)
def test_a_wrong_config_is_refused_with_what_to_write_instead(config, said):
    with pytest.raises(UsageError) as refusal:
        read_configs(config)

    assert said in str(refusal.value)


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("c.toml", "", "unsupported file type"),
        ("c.json", "{", "not valid JSON"),
        ("c.yaml", "a: [", "line 1 is not valid YAML"),
        ("c.yaml", "just words", "contains no settings"),
        ("c.yaml", "!!python/object/apply:os.getcwd []", "not valid YAML"),
        ("missing.yaml", None, "Cannot read"),
        ("c.yaml", "prompt: 猫在睡觉".encode("gbk"), "c.yaml, line 1: not UTF-8 .*\n.*It may be GBK"),
    ],
)
def test_a_wrong_file_is_refused(tmp_path, name, content, said):
    if content is not None:
        (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())

    with pytest.raises(UsageError, match=said):
        read_configs(tmp_path / name)


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
@pytest.mark.parametrize("name", ["c.yaml", "c.json"])
def test_a_file_may_begin_with_a_byte_order_mark(tmp_path, name, encoding):
    (tmp_path / name).write_text(json.dumps(CLIP), encoding=encoding)
    assert read_configs(tmp_path / name) == read_configs(CLIP)


def test_a_key_is_in_no_message_and_no_representation():
    key = "sk-very-secret-0123456789"
    good = changed(CLIP, models=[{"model_name": "m", "api_base": "http://localhost/v1", "api_key": key}])
    bad = changed(CLIP, models=[{"model_name": 5, "api_base": "http://localhost/v1", "api_key": key, "api_ky": key}])

    [config] = read_configs(good)
    with pytest.raises(UsageError) as refusal:
        read_configs(bad)

    assert config.eval_config.eval.models[0].api_key.reveal() == key
    shown = "".join(traceback.format_exception(refusal.value))  # with whatever led to it
    assert key not in repr(config) + str(config.model_dump()) + shown


def test_a_typed_config_can_be_built_in_code():
    config = TaskConfig(
        work_dir="outputs",
        eval_config={"tool": "clip_benchmark", "eval": {"models": [{"model_name": "m"}], "dataset_name": "custom"}},
    )

    assert read_configs(config) == [config]
    assert config.eval_config.eval.dataset_name == ["custom"]


def documented(**model):
    """The config that EvalScope's MTEB page builds in code, for a model behind an API."""
    return TaskConfig(
        eval_backend="RAGEval",
        eval_config={
            "tool": "MTEB",
            "model": [
                {
                    "model_name": "text-embedding-v3",
                    "api_base": "https://dashscope.aliyuncs.com/compatible-mode/v1",
                    "api_key": KEY,
                    "dimensions": 1024,
                    "encode_kwargs": {"batch_size": 10},
                    **model,
                }
            ],
            "eval": {"tasks": ["T2Retrieval"], "verbosity": 2, "overwrite_results": True, "limits": 30},
        },
    )


KEY = "sk-proj-Zx81-very-secret-0123456789"


def test_a_config_built_in_code_takes_the_names_of_the_documentation():
    config = documented()

    [model] = config.eval_config.models
    assert (config.eval_config.tool, model.model_name_or_path, model.api_key.reveal()) == (
        "mteb",
        "text-embedding-v3",
        KEY,
    )
    assert (config.eval_config.eval.task_names, config.eval_config.eval.limit) == (["T2Retrieval"], 30)
    assert TaskConfig(**{**CLIP, "eval_config": json.dumps(CLIP["eval_config"])}) == read_configs(CLIP)[0]
    assert TaskConfig(eval_config=config.eval_config) == config
    assert KEY not in "".join([repr(config), str(config), str(config.model_dump()), f"{config!r}"])


@pytest.mark.parametrize(
    "model",
    [
        {"api_base": f"https://host/{KEY}/v1"},
        {"api_base": f"https://host/v1?key={KEY}"},
        {"api_base": "https://host/v1?key=short"},
        {"api_base": f"https://user:{KEY}@host/v1"},
        {"api_base": "https://user:pass@host/v1"},
        {"api_base": KEY},
        {"model_name": KEY},
        {"model_name": f"org/{KEY}"},
        {"prompt": f"Bearer {KEY}"},
        {"prompts": {"query": KEY}},
        {"model_kwargs": {"anything": [KEY]}},
        {"dimensions": KEY},
        {"hub": KEY},
        {KEY: 1},
        {"api_key": [KEY]},
        {"api_key": "another-declared-key", "model_name": "another-declared-key"},
        {"api_ky": KEY},
    ],
)
def test_a_key_in_the_wrong_place_is_refused_and_not_repeated(model):
    with pytest.raises(UsageError) as refusal:
        documented(**model)

    shown = "".join(traceback.format_exception(refusal.value))
    assert "very-secret" not in shown
    assert "another-declared" not in shown
    assert "user:pass" not in shown


@pytest.mark.parametrize("name", ["AI-ModelScope/chinese-clip-vit-large-patch14-336px", "sk-learn-like/model-v12",
    "jinaai/jina-embeddings-v3", "hf-hub:timm/ViT-SO400M-14-SigLIP-384", "laion2b_s32b_b82k", "BAAI/bge-reranker-v2-m3",
    "models--a--b/snapshots/5c38ec7c405ec4b44b94cc5a9bb96e735b38267a"])  # fmt: skip
def test_names_of_models_are_not_taken_for_keys(name):
    assert documented(model_name=name).eval_config.models[0].model_name_or_path == name


def test_the_placeholder_of_the_documentation_is_no_secret():
    # api_key: "xxx", as printed: a word that may stand anywhere.
    assert documented(api_key="xxx", prompt="xxx").eval_config.models[0].prompt == "xxx"


@pytest.mark.parametrize("name", sorted(task_config.elsewhere("keys")))
def test_every_top_level_key_of_evalscope_gets_an_answer(name):
    with pytest.raises(UsageError) as refusal:
        read_configs({**CLIP, name: "anything"})

    assert str(refusal.value) == f"{name}: {task_config.elsewhere('keys')[name]}."


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"eval_backend": "Native", "model": "x", "datasets": ["gsm8k"]}, "eyechart eval --dataset NAME"),
        ({"eval_backend": "VLMEvalKit", "eval_config": {"data": ["MME"]}}, "eyechart as vlmeval"),
        ({"eval_backend": "OpenCompass"}, "OpenCompass is for LLM benchmarks; use it directly"),
        ({"eval_backend": "ThirdParty"}, "use EvalScope"),
        ({"eval_config": {"tool": "RAGAS", "eval": {}}}, "tool: MTEB with custom_tasks"),
        (changed(CLIP, metrics=["recall"]), "eval_config.eval.metrics: all metrics of a task are computed; recall_k"),
        (changed(CLIP, api_base="http://localhost/v1"), "set it in the model's entry in eval_config"),
    ],
)
def test_what_is_elsewhere_is_said(values, said):
    with pytest.raises(UsageError) as refusal:
        read_configs(values)

    assert said in str(refusal.value)


def test_a_task_without_its_underscore_is_recognised():
    with pytest.raises(UsageError, match="image_caption"):
        run_task(changed(CLIP, dataset_name=["demo/scenes"], task="imagecaption"))


def test_debug_logs_the_plan_in_full_and_where_an_error_comes_from(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    entry = {"model_name": "eyechart-tiny", "api_key": KEY}
    quiet = changed(CLIP, models=[entry], dataset_name=["demo/scenes"], verbose=False, limit=3)

    run_task({**quiet, "work_dir": "quiet"})
    run_task({**quiet, "work_dir": "debug", "debug": True})
    Path("image_queries.jsonl").write_text('{"image_path": "a.png", "query": ["a"]}\n')
    Path("a.png").write_bytes(b"not an image")
    with pytest.raises(EyechartError):
        run_task({**changed(quiet, dataset_name=["custom"], data_dir="."), "work_dir": "broken", "debug": True})

    plain, full, broken = (Path(name, "logs/eval_log.log").read_text() for name in ("quiet", "debug", "broken"))
    assert "DEBUG" not in plain
    assert "DEBUG: Planned: {'model': {'family': 'onnx', 'name': 'eyechart-tiny'" in full
    assert "'limit': 3" in full
    assert "versions" in full
    assert "Traceback" in broken
    assert KEY not in plain + full + broken


@pytest.mark.parametrize("config", [KEY, {"eval_config": KEY}, {**CLIP, "work_dir": KEY}, {**CLIP, "seed": KEY}])
def test_a_key_in_the_place_of_a_config_is_not_repeated(config):
    with pytest.raises(UsageError) as refusal:
        read_configs(config)

    assert "very-secret" not in "".join(traceback.format_exception(refusal.value))


WRITTEN = """
agent_config: null
analysis_report: false
api_key: '**********'
api_url: null
chat_template: null
collect_perf: true
dataset_args: {}
dataset_dir: /home/someone/.cache/modelscope/hub/datasets
dataset_hub: modelscope
datasets: []
debug: false
dry_run: false
enable_progress_tracker: false
eval_backend: RAGEval
eval_batch_size: 1
eval_config:
  eval: {custom_tasks: null, encode_kwargs: null, hub: modelscope, languages: null, limits: null,
         output_folder: outputs, overwrite_results: true, splits: null, task_names: [T2Retrieval],
         task_types: null, top_k: 10}
  models:
  - {api_base: null, api_key: null, dimensions: null, encode_kwargs: {batch_size: 32}, hub: modelscope,
     is_cross_encoder: false, max_seq_length: 512, model_kwargs: {}, model_name: null, model_name_or_path: m,
     pooling_mode: null, prompt: null, prompts: null}
  tool: mteb
eval_type: mock_llm
evalscope_version: 1.14.1
generation_config: {batch_size: 1}
ignore_errors: false
judge:
  aggregation: mean
  contract: {prompt_template: null, score_mapping: null, score_type: pattern, system_prompt: null}
  min_valid_judges: 1
  models: []
  position_swap: auto
  repeats: 1
  strategy: auto
limit: null
model: text_generation
model_args: {}
model_id: text_generation
model_task: text_generation
no_timestamp: false
repeats: 1
rerun_review: false
sandbox: {default_config: {}, enabled: false, engine: docker, manager_config: {}, pool_size: null}
sandbox_manager_config: {}
sandbox_type: docker
seed: 42
stream: null
timeout: null
use_cache: null
use_sandbox: false
work_dir: ./outputs
"""
"""The task_config.yaml of EvalScope 1.14.1 for a text model, with all the keys it writes."""


def test_the_config_that_evalscope_writes_is_read(tmp_path):
    (tmp_path / "task_config.yaml").write_text(WRITTEN)

    [config] = read_configs(str(tmp_path / "task_config.yaml"))

    assert config.eval_config.models[0].model_name_or_path == "m"
    assert config.eval_config.models[0].prompts == {}
    assert (config.eval_config.eval.task_names, config.eval_config.eval.languages) == (["T2Retrieval"], [])
    assert (config.no_timestamp, config.work_dir) == (False, "./outputs")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("limit: 5", "limit: use eval_config.eval.limit"),
        ("model: Qwen/Qwen3-VL", "model: models are entries of eval_config"),
        ("dataset_dir: /data", "dataset_dir: use eval_config.eval.cache_dir"),
        ("judge: {strategy: llm}", "judge: set the judge"),
        ("sandbox: {enabled: true}", "sandbox: model output is never executed"),
        ("repeats: 4", "repeats: to ask a generative model"),
        ("datasets: [gsm8k]", "datasets: use eval_config"),
    ],
)
def test_a_key_of_another_backend_that_says_something_is_still_refused(tmp_path, line, said):
    kept = [one for one in WRITTEN.splitlines() if one.partition(":")[0] != line.partition(":")[0]]
    nested = [one for one in kept if not one.startswith("  ")]
    inner = WRITTEN[WRITTEN.index("eval_config:") : WRITTEN.index("eval_type:")]
    text = "\n".join([one for one in nested if one not in ("eval_config:", "judge:")]) + f"\n{inner}{line}\n"
    (tmp_path / "task_config.yaml").write_text(text)

    with pytest.raises(UsageError) as refused:
        read_configs(str(tmp_path / "task_config.yaml"))

    assert str(refused.value).startswith(said)
    assert len(str(refused.value).splitlines()) == 1


@pytest.mark.parametrize("name", ["split", "batch_size", "recall_k", "verbose", "hub", "encoding", "cache_dir"])
def test_null_means_not_given(name):
    [given], [absent] = read_configs(changed(CLIP, **{name: None})), read_configs(CLIP)

    assert getattr(given.eval_config.eval, name) == getattr(absent.eval_config.eval, name)


@pytest.mark.parametrize(("given", "batch"), [({}, 32), ({"batch_size": 7}, 7)])
def test_the_batch_size_of_a_text_encoder_is_the_configs(given, batch, tmp_path):
    entry = TextModel(model_name_or_path=str(tmp_path), revision="main")

    spec = text_spec(entry, Requests(), Budget(), given)

    assert spec.access.batch_size == batch
    assert not {"hub", "revision"} & spec.options.keys()  # a folder is not downloaded


def test_a_text_encoder_that_is_no_folder_is_of_a_hub():
    spec = text_spec(TextModel(model_name_or_path="org/model", revision="v2"), Requests(), Budget(), {})

    assert spec.options["revision"] == "v2"
