"""Where a number came from."""

import sys

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
