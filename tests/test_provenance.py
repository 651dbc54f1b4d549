"""Where a number came from."""

import sys

import pytest

from eyechart.io.secrets import redact_command
from eyechart.provenance import provenance


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
