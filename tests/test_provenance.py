"""Where a number came from."""

import json
import sys

import numpy as np
import pytest

from eyechart.cli import main
from eyechart.io.secrets import redact_command
from eyechart.provenance import compute_facts, provenance, reset_peak_memory


def test_the_command_is_kept_without_its_secrets(monkeypatch):
    command = ["eyechart", "eval", "--max_tokens", "512", "--api_key_variable", "MY_KEY", "--hf-token", "s3cret"]
    monkeypatch.setattr(
        sys, "argv", [*command, "--password=s3cret", "--model_option", "api_key=s3cret", "--dataset", "d"]
    )

    kept = provenance()["command"]

    assert "s3cret" not in kept
    assert "--max_tokens 512 --api_key_variable MY_KEY" in kept
    assert kept.endswith("--dataset d")


def test_the_versions_are_those_of_today_in_every_result():
    first = provenance()["versions"]
    first["numpy"] = "changed by whoever got it"

    assert provenance()["versions"]["numpy"] == sys.modules["numpy"].__version__


def test_the_device_is_named_and_peak_memory_is_that_of_the_job():
    ballast = np.ones(40_000_000)  # 320 MB that an earlier job used
    before = compute_facts("cpu")["peak_memory"]
    del ballast
    reset_peak_memory()
    facts = compute_facts("cpu")

    assert facts["device_name"]
    assert "peak_gpu_memory" not in facts
    if sys.platform == "linux":
        assert before - facts["peak_memory"] > 200_000_000
    assert facts["peak_memory"] > 20_000_000


@pytest.mark.parametrize(("model", "precision"), [("eyechart-tiny", "fp32"), ("eyechart-tiny-int8", "int8")])
def test_a_result_tells_device_unit_and_real_precision(model, precision, tmp_path, monkeypatch):
    monkeypatch.setenv("EYECHART_CACHE", str(tmp_path / "cache"))
    words = ["eval", "demo/garments", model, "--limit", "20", "--quiet", "--output", str(tmp_path / "r.json")]

    assert main(words) == 0
    first = json.loads((tmp_path / "r.json").read_text())
    assert main(words) == 0
    again = json.loads((tmp_path / "r.json").read_text())

    told = first["provenance"]
    assert (told["device"], told["precision"], told["throughput_unit"]) == ("cpu", precision, "images/s")
    assert told["device_name"] == compute_facts("cpu")["device_name"]
    assert told["peak_memory"] > 20_000_000
    assert first["model_card"]["precision"] == "fp32"  # part of the fingerprint, which stays as it was
    assert again["provenance"]["device"] is None  # every vector was cached
    assert "throughput" not in again["provenance"]
    assert again["job"]["identity"] == first["job"]["identity"]


@pytest.mark.parametrize(
    ("word", "shown"),
    [
        ("https://me:hunter2@host/data?token=x", "https://host/data"),
        ("--dataset-root=https://host:81/data?token=x", "--dataset-root=https://host:81/data"),
        ("http://me:pw@host:port/x", "***"),
        ("https://Host/Data", "https://Host/Data"),
        ("hf://datasets/Org/name@main", "hf://datasets/Org/name@main"),
        ("sk-of-the-environment", "***"),
        ("model=sk-of-the-environment,x", "model=***,x"),
    ],
)
def test_the_command_is_kept_without_credentials_in_addresses_and_keys_in_use(word, shown, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-environment")

    assert redact_command(["eyechart", word]) == ["eyechart", shown]
