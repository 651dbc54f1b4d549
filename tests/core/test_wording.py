"""Advice in the words of whoever called: flags, keys of a config, arguments of Python."""

import json
from pathlib import Path

import pytest

from eyechart import evaluate, run_task
from eyechart.calls.settings import ARGUMENTS
from eyechart.cli import main
from eyechart.compat.evalscope.main import CONFIG_KEYS
from eyechart.errors import DataError, EyechartError


@pytest.mark.parametrize(
    ("flag", "key", "argument"),
    [
        ("use --on-error skip.", "use on_error: skip.", "use on_error='skip'."),
        ("Check --dataset_root.", "Check data_dir.", "Check dataset_root."),
        ("--limit 20 is enough", "limit: 20 is enough", "limit=20 is enough"),
        ("Choose another --output, or", "Choose another work_dir, or", "Choose another output, or"),
        ("pip install --no-deps x", "pip install --no-deps x", "pip install --no-deps x"),
        ("Leave --folds out.", "Leave --folds out.", "Leave folds out."),
    ],
)
def test_a_setting_has_the_name_of_the_surface(flag, key, argument):
    assert (CONFIG_KEYS.of(flag), ARGUMENTS.of(flag)) == (key, argument)


def test_the_same_mistake_is_told_in_three_ways(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("image_queries.jsonl").write_bytes('{"image_path": "a.png", "query": ["汉字"]}\n'.encode("gbk"))
    eval_ = {"models": [{"model_name": "eyechart-tiny"}], "dataset_name": ["custom"], "data_dir": "."}
    config = {"eval_config": {"tool": "clip_benchmark", "eval": eval_}}

    with pytest.raises(DataError) as by_config:
        run_task(config)
    with pytest.raises(EyechartError) as by_argument:
        evaluate(dataset=["custom"], dataset_root=".", model=["eyechart-tiny"])
    assert main(["eval", "--dataset", "custom", "--dataset_root", ".", "--model", "eyechart-tiny"]) == 1
    Path("task.json").write_text(json.dumps(config))
    assert main(["run", "task.json"]) == 1

    by_flag, by_file = capsys.readouterr().err.split("eyechart: ")[1:]
    assert "or give encoding: gbk. It may be GBK" in str(by_config.value)
    assert "or give encoding='gbk'. It may be GBK" in str(by_argument.value)
    assert "or give --encoding gbk. It may be GBK" in by_flag
    assert "or give encoding: gbk. It may be GBK" in by_file
