"""`eyechart selftest`: a small real model, from a hub on loopback or a folder, and made tables of published numbers."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import eyechart
from eyechart.cli import main
from eyechart.python_api.selftest import near_samples
from support.data import write_classification
from support.hub_server import hub_serving

SAMPLES = 300


@pytest.fixture(scope="module")
def hub_root(zoo, tmp_path_factory):
    """A model and a dataset as repositories of a hub; every label is what the model predicts in float32."""
    root = tmp_path_factory.mktemp("hub")
    model = Path(shutil.copytree(zoo.case("clip").parts[0].parent, root / "owner" / "clip"))
    data, digits = root / "clip-benchmark" / "wds_mnist", tuple("0123456789")
    write_classification(data, n=SAMPLES, classes=digits)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EYECHART_CACHE", str(root / "cache"))
        settings = {"dataset_root": str(data), "output": str(root / "result.json"), "device": "cpu", "progress": False}
        (result,) = eyechart.evaluate(str(model), "wds/mnist", **settings)
    write_classification(data, classes=digits, labels=[one["prediction"] for one in result.iter_records()])
    return root


def table(path, published, *, decimals=4, model="owner/clip"):
    column = {
        "dataset": "mnist",
        "task": "zeroshot_classification",
        "language": "en",
        "metric": "acc1",
        "primary": True,
    }
    body = {"models": [[model, "", {}]], "columns": [column], "values": [[published]], "decimals": decimals}
    path.write_text(json.dumps(body))
    return str(path)


def arguments(hub_root, tmp_path, published):
    local = [str(hub_root / "owner" / "clip"), "--dataset-root", str(hub_root / "clip-benchmark" / "wds_mnist")]
    named = ["--dataset", "wds/mnist", "--published-as", "owner/clip"]
    return ["selftest", *local, *named, "--reference", table(tmp_path / "published.json", published)]


def in_a_process(words, tmp_path, **environment):
    more = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "HF_HOME": str(tmp_path / "hf"), **environment}
    command = [sys.executable, "-W", "ignore", "-m", "eyechart", *words]
    return subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env={**os.environ, **more})


def test_a_number_repeated_with_model_and_data_from_a_hub(hub_root, tmp_path):
    reference = table(tmp_path / "published.json", 1.0)
    with hub_serving(hub_root) as server:
        words = ["selftest", "owner/clip", "--dataset", "mnist", "--reference", reference]
        done = in_a_process(words, tmp_path, HF_ENDPOINT=server.url)

    assert done.returncode == 0, done.stderr
    assert "mnist acc1: 1.00000, published 1 (published): equal" in done.stdout
    assert {"model.safetensors", "config.json"} <= {name for name, _ in server.fetched}


def test_a_difference_that_samples_near_the_decision_explain(hub_root, tmp_path, capsys):
    assert main(arguments(hub_root, tmp_path, 1 - 1 / SAMPLES)) == 0

    text = capsys.readouterr().out
    assert "published 0.996667 (published): within precision" in text
    assert "Rounding and precision explain the differences" in text


def test_a_difference_that_precision_does_not_explain_with_causes_to_check(hub_root, tmp_path, capsys):
    assert main(arguments(hub_root, tmp_path, 0.9)) == 1

    text = capsys.readouterr().out
    assert "published 0.9 (published): different" in text
    assert f"data: {SAMPLES} samples, split test, known as mnist ({SAMPLES} samples)" in text
    for cause in (
        "templates: 2, from 'a photo of a {c}.'",
        "class names: 10, from '0' to '9'",
        "QuickGELU",
        "crop_size",
    ):
        assert cause in text


@pytest.mark.slow
@pytest.mark.timeout(900)  # ten evaluations and four processes
def test_a_device_measured_against_the_cpu(hub_root, tmp_path):
    model = str(hub_root / "owner" / "clip")
    words = [*arguments(hub_root, tmp_path, 1.0), "--device", "cpu,cpu", "--output", "figures.json"]
    table(tmp_path / "published.json", 1.0, model=model)

    done = in_a_process([*words, "--published-as", model], tmp_path, HOME=str(hub_root))

    assert done.returncode == 0, done.stderr
    text = (tmp_path / "figures.json").read_text()
    assert str(hub_root) not in text
    body = json.loads(text)
    assert body["model"] == "~/owner/clip"
    parts = body["hardware"]
    assert [part["passed"] for part in parts.values()] == [None, True, None, True, True]
    assert parts["drift fp32"]["largest_difference"] == 0
    assert 1e-4 < parts["drift bf16"]["largest_difference"] < 0.1
    assert 0 < parts["back-off"]["reduced_to"] < parts["back-off"]["batch"]
    assert parts["several devices"]["images_per_second"] is None  # child processes encoded all images
    assert body["environment"]["versions"]["torch"]


def test_only_samples_that_could_turn_in_the_needed_direction_count():
    def record(correct, first, second, label):
        return {"correct": correct, "scores": [first, second], "label_score": label}

    near, far = record(True, 0.30, 0.2985, 0.30), record(True, 0.30, 0.29, 0.30)
    wrong, lost = record(False, 0.30, 0.299, 0.299), record(False, 0.30, 0.299, 0.1)

    assert near_samples([near, far, wrong, lost], 0.001, correct=True) == 1
    assert near_samples([near, far, wrong, lost], 0.0007, correct=True) == 0
    assert near_samples([near, far, wrong, lost], 0.001, correct=False) == 1


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--published-as", "owner/clap"], "Did you mean owner/clip?"),
        (["--dataset", "cifar10"], "Unknown published dataset: 'cifar10'.\nKnown: mnist."),
        (["--device", "cuda:99"], "The device cuda:99 is not available"),
        (["--dataset-root", "nowhere"], "There is no folder nowhere."),
        (["--reference", "damaged.json"], "damaged.json is not a table of published results"),
    ],
)
def test_what_cannot_run_ends_with_code_2(hub_root, tmp_path, monkeypatch, capsys, words, reason):
    monkeypatch.chdir(tmp_path)
    Path("damaged.json").write_text('{"models": []}')

    assert main([*arguments(hub_root, tmp_path, 1.0), *words]) == 2
    assert reason in capsys.readouterr().err
