"""`eyechart eval --dry-run`: what would be done, without doing any of it."""

import json
import os
import socket

import pytest

from eyechart.cli import main
from support.data import png


@pytest.fixture
def place(tmp_path, monkeypatch):
    """Photos of one's own, a cache of one's own, and no network at all."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EYECHART_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    for name, color in (("cat", 1), ("dog", 2)):
        (tmp_path / "photos" / name).mkdir(parents=True)
        (tmp_path / "photos" / name / "1.png").write_bytes(png(color))

    def refuse(*_):
        raise AssertionError("asked the network")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    return tmp_path


def dry(capsys, *words):
    assert main(["eval", *words, "--dry-run"]) == 0
    return capsys.readouterr().out


def test_jobs_and_samples_are_told_and_nothing_is_written(place, capsys):
    before = sorted(place.rglob("*"))

    dry(capsys, "photos", "ViT-B-32:openai")
    assert sorted(place.rglob("*")) == before, "not even names that the library knows"
    printed = dry(capsys, "photos", "eyechart-tiny", "--output", "out/{dataset}.json")

    assert "1 job\n" in printed
    assert "eyechart-tiny on photos (en, zeroshot_classification), 2 samples -> out/photos.json" in printed
    assert "to download: nothing" in printed
    assert "GB free" in printed
    assert "time: unknown" in printed
    assert sorted(place.rglob("*")) == before


def test_a_limit_counts(place, capsys):
    assert ", 1 sample ->" in dry(capsys, "photos", "eyechart-tiny", "--limit", "1")


def test_time_and_disk_are_those_of_past_runs(place, capsys):
    assert main(["eval", "photos", "eyechart-tiny", "--quiet", "--output", "out/a.json"]) == 0
    result = json.loads((place / "out" / "a.json").read_text())
    result["provenance"]["seconds"] = 600.0  # of 2 samples
    del result["checksum"]
    (place / "out" / "a.json").write_text(json.dumps(result))

    printed = dry(capsys, "photos", "eyechart-tiny", "--output", "out/b.json", "--limit", "1")

    assert ", 1 sample, about 5 min -> out/b.json" in printed
    assert "time: about 5 min for all jobs, based on past results (1)" in printed
    size = result["model_card"]["embedding_dim"] * 4 / 1e6
    assert f"vectors about {size:,.1f} MB" in printed


def test_what_is_there_would_be_skipped(place, capsys):
    words = ["photos", "eyechart-tiny", "--output", "out/a.json", "--skip-existing"]
    assert main(["eval", *words, "--quiet"]) == 0
    capsys.readouterr()

    assert "skipped if unchanged -> out/a.json" in dry(capsys, *words)


def test_what_would_be_written_over_is_told(place, capsys):
    words = ["photos", "eyechart-tiny", "--output", "out/a.json"]
    assert main(["eval", *words, "--quiet"]) == 0

    assert "-> out/a.json (overwritten)\n" in dry(capsys, *words)
    printed = dry(capsys, "demo/garments", *words[1:])
    assert "-> out/a.json\n" in printed
    assert "out/a.json holds the result of photos eyechart-tiny" in printed


def test_what_is_not_here_is_listed_with_its_source(place, capsys):
    printed = dry(capsys, "photos", "cifar10", "MMBench_DEV_EN", "ViT-B-32:openai")

    assert "3 jobs\n" in printed
    assert "ViT-B-32 openai on cifar10 (en), after its download" in printed
    downloads = printed.partition("to download\n")[2]
    assert "  ViT-B-32 openai (open_clip, huggingface)\n" in downloads
    assert "  cifar10 (https://huggingface.co/datasets/" in downloads
    assert "MMBench_DEV_EN.tsv)" in downloads
    assert not (place / "hub").exists()


def test_with_offline_what_is_not_here_is_an_error_as_in_the_run(place, capsys):
    assert main(["eval", "cifar10", "eyechart-tiny", "--dry-run", "--offline"]) == 1
    assert "--offline disables downloads" in capsys.readouterr().err


def test_with_offline_a_model_that_is_not_here_is_not_promised(place, capsys):
    printed = dry(capsys, "photos", "org/name", "--offline")

    assert "missing, and --offline disables downloads\n  org/name (transformers, huggingface)\n" in printed
    assert "to download" not in printed


def test_wrong_settings_are_refused_as_in_the_run(place, capsys):
    assert main(["eval", "photos", "ViT-B-32:opnai", "--dry-run"]) == 2
    assert "Did you mean openai?" in capsys.readouterr().err


def test_the_libraries_are_told_to_ask_nothing_for_as_long_as_it_lasts(place, capsys):
    before = dict(os.environ)

    dry(capsys, "photos", "eyechart-tiny")

    assert dict(os.environ) == before
