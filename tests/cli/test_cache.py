"""``eyechart cache``: what is kept, by model; whether it is sound; and less of it, never without a word."""

import json
import os
import pty
import shutil
import subprocess
import sys

import pytest

from eyechart.cli import main
from eyechart.store.answer_store import ResponseStore
from eyechart.types import Answer

PETS = "datasets/huggingface.co/ours--pets--main"
TINY = ["--model_type", "onnx", "--model", "eyechart-tiny", "--pretrained", "eyechart-tiny", "--quiet"]


@pytest.fixture
def cache(tmp_path, monkeypatch, capsys):
    """Return a cache with the vectors of a model, an answer, and a downloaded dataset."""
    place = tmp_path / "cache"
    monkeypatch.setenv("EYECHART_CACHE", str(place))
    monkeypatch.delenv("EYECHART_STORE", raising=False)
    monkeypatch.chdir(tmp_path)
    assert main(["eval", *TINY, "--dataset", "demo/garments", "--limit", "5"]) == 0
    ResponseStore(place / "responses").table("ab" * 16).add("key", Answer("yes"))
    pets = place / PETS
    (pets / ".eyechart").mkdir(parents=True)
    (pets / ".eyechart" / "0.tar.version").write_bytes(bytes(10))
    (pets / "0.tar").write_bytes(bytes(4990))
    capsys.readouterr()
    return place


def listed(capsys, *words):
    capsys.readouterr()
    assert main(["cache", "ls", "--json", *words]) == 0
    return json.loads(capsys.readouterr().out)


def parts(cache):
    return sorted((cache / "embeddings").rglob("[0-9]*.safetensors"))


def test_the_list_has_sizes_by_model_and_dataset(cache, capsys):
    found = {(row["kind"], row["name"]): row["bytes"] for row in listed(capsys)}

    assert found["embeddings", "eyechart-tiny"] == sum(part.stat().st_size for part in parts(cache))
    assert found["datasets", "ours--pets--main"] == 5000
    assert found["responses", "ab" * 16] > 0
    assert ("cards", "") in found
    assert [row["kind"] for row in listed(capsys, "--model", "eyechart-tiny")] == ["embeddings"]


def test_the_table_fits(cache, capsys, monkeypatch):
    monkeypatch.setattr("eyechart.cli.cache.width_of", lambda _: 80)

    assert main(["cache", "ls"]) == 0

    shown = capsys.readouterr()
    assert max(map(len, shown.out.splitlines())) <= 80
    assert "5.0 kB" in shown.out


def test_a_narrow_terminal_shows_every_column(cache, capsys, monkeypatch):
    monkeypatch.setattr("eyechart.cli.cache.width_of", lambda _: 40)

    assert main(["cache", "ls"]) == 0

    shown = " ".join(capsys.readouterr().out.split())
    assert "FILES 2" in shown  # the downloaded dataset


def test_clear_keeps_the_index_unless_it_is_named(cache, capsys):
    assert main(["cache", "clear", "--yes"]) == 0

    kinds = {row["kind"] for row in listed(capsys)}
    assert kinds == {"cards", "digests"}
    assert main(["cache", "clear", "--kind", "cards", "--yes"]) == 0
    assert {row["kind"] for row in listed(capsys)} == {"digests"}


def test_clear_by_kind_model_and_dataset(cache, capsys):
    assert main(["cache", "clear", "--dataset", "ours--pets", "--yes"]) == 0
    assert not (cache / PETS).exists()
    assert parts(cache)

    assert main(["cache", "clear", "--model", "eyechart-tiny", "--yes"]) == 0
    assert not parts(cache)
    assert [row["kind"] for row in listed(capsys, "--kind", "responses")] == ["responses"]

    assert main(["cache", "clear", "--kind", "responses", "--yes"]) == 0
    assert listed(capsys, "--kind", "responses") == []
    assert not list(cache.rglob(".removed-*"))


def test_what_was_removed_is_computed_again(cache, capsys):
    assert main(["cache", "clear", "--yes"]) == 0
    assert main(["eval", *TINY, "--dataset", "demo/garments", "--limit", "5"]) == 0
    assert parts(cache)


def test_nothing_is_removed_without_a_yes(cache, capsys):
    before = listed(capsys)

    assert main(["cache", "clear", "--dry-run"]) == 0
    assert main(["cache", "clear"]) == 2  # no terminal to confirm
    assert main(["cache", "clear", "--model", "eyechart-tony", "--yes"]) == 2
    assert main(["cache", "clear", "--kind", "vectors", "--yes"]) == 2

    assert "Did you mean eyechart-tiny?" in capsys.readouterr().err
    assert listed(capsys) == before


@pytest.mark.parametrize(("said", "gone"), [(b"n\n", False), (b"\n", False), (b"yes\n", True)])
def test_a_person_is_asked(cache, said, gone):
    ours, theirs = pty.openpty()
    os.write(ours, said)

    words = [sys.executable, "-m", "eyechart", "cache", "clear", "--kind", "datasets"]
    done = subprocess.run(words, stdin=theirs, capture_output=True, text=True)
    os.close(ours)
    os.close(theirs)

    assert "Remove 1 item?" in done.stderr
    assert (not (cache / PETS).exists(), done.returncode == 0) == (gone, gone)


def test_a_folder_that_is_no_table_of_ours_is_not_touched(cache, capsys, monkeypatch, tmp_path):
    (tmp_path / "disk" / "thesis").mkdir(parents=True)
    (tmp_path / "disk" / "thesis" / "text.tex").write_text("x")
    monkeypatch.setenv("EYECHART_STORE", str(tmp_path / "disk"))

    assert main(["cache", "clear", "--yes"]) == 0

    assert (tmp_path / "disk" / "thesis" / "text.tex").is_file()


def test_what_others_keep_in_the_folder_is_not_touched(cache, capsys, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    kept = ["images/cat.png", "images/2024/dog.png", "datasets/mine/0.tar", "datasets/mine/v1/0.tar", "cards/ace.json"]
    for name in (*kept, "mteb/scores.json", "open_clip/model.pt"):
        (cache / name).parent.mkdir(parents=True, exist_ok=True)
        (cache / name).write_text("x")
    (elsewhere / ".eyechart").mkdir(parents=True)
    (cache / "datasets" / "mine" / "link").symlink_to(elsewhere)
    ours = cache / "images" / f"{'ab' * 16}.png"
    ours.write_text("x")
    before = {path for path in (*cache.rglob("*"), *elsewhere.rglob("*")) if not path.is_relative_to(cache / PETS)}

    kinds = sorted({row["kind"] for row in listed(capsys)} - {"embeddings", "responses"})
    assert main(["cache", "clear", "--yes", "--kind", *kinds]) == 0

    gone = before - {*cache.rglob("*"), *elsewhere.rglob("*")}
    assert ours in gone
    assert {path.parent.name for path in gone} <= {"images", "cards", "digests", "shards"}
    assert all((cache / name).is_file() for name in kept)
    assert not (cache / PETS).exists()


@pytest.mark.parametrize("where", [100, -3])
def test_verify_finds_a_byte_that_changed(cache, capsys, where):
    assert main(["cache", "verify"]) == 0
    assert "All are intact." in capsys.readouterr().out
    part = parts(cache)[0]
    data = bytearray(part.read_bytes())
    data[where] ^= 1
    part.write_bytes(data)

    assert main(["cache", "verify"]) == 1

    told = capsys.readouterr().out
    assert str(part) in told.replace("\n", " ")
    assert "1 is damaged" in told


def test_verify_finds_vectors_of_another_model(cache, capsys):
    part = next(part for part in parts(cache) if part.parent.name == "text")
    other = part.parents[2] / ("ef" * 16) / "text"
    other.mkdir(parents=True)
    shutil.copy(part, other)

    assert main(["cache", "verify"]) == 1
    assert "belongs to another model or role" in " ".join(capsys.readouterr().out.split())


def test_verify_counts_the_parts_of_all_models(cache, capsys):
    for name in ("cd", "ef"):
        ResponseStore(cache / "responses").table(name * 16).add("key", Answer("yes"))

    assert main(["cache", "verify"]) == 0

    assert f"{len(parts(cache)) + 3} parts of vectors and answers" in capsys.readouterr().out


def test_verify_finds_an_answer_that_changed(cache, capsys):
    (file,) = (cache / "responses").rglob("*.jsonl")
    file.write_bytes(file.read_bytes().replace(b"yes", b"yet"))

    assert main(["cache", "verify", "--kind", "responses"]) == 1

    assert "1 damaged line\n" in capsys.readouterr().out


def test_small_files_of_vectors_are_merged_and_a_run_reads_them(cache, capsys, tmp_path):
    for limit in ("10", "15"):
        assert main(["eval", *TINY, "--dataset", "demo/garments", "--limit", limit, "--output", f"{limit}.json"]) == 0
    before = parts(cache)
    first = json.loads((tmp_path / "15.json").read_text())
    capsys.readouterr()

    assert main(["cache", "compact", "--dry-run"]) == 0
    assert "eyechart-tiny: 3 of 5 files would be merged into 1." in capsys.readouterr().out
    assert parts(cache) == before
    assert main(["cache", "compact", "--model", "eyechart-tiny"]) == 0
    assert "eyechart-tiny: 3 of 5 files were merged into 1." in capsys.readouterr().out
    assert len(parts(cache)) == 3  # images, texts, and which texts were cut
    assert main(["cache", "compact"]) == 0
    assert "Nothing to merge in 3 vector files" in capsys.readouterr().out

    assert main(["eval", *TINY, "--dataset", "demo/garments", "--limit", "15", "--output", "again.json"]) == 0
    again = json.loads((tmp_path / "again.json").read_text())
    assert again["metrics"] == first["metrics"]
    assert "throughput" not in again["provenance"]  # nothing was encoded
    assert again["notices"] == first["notices"]


def test_damaged_files_are_told_and_not_merged(cache, capsys):
    assert main(["eval", *TINY, "--dataset", "demo/garments", "--limit", "10"]) == 0
    broken = next(part for part in parts(cache) if part.parent.name == "image")
    broken.write_bytes(broken.read_bytes()[:-1])

    assert main(["cache", "compact"]) == 1

    told = capsys.readouterr().out.replace("\n", " ")
    assert str(broken) in told
    assert "Damaged files: 1. They were not changed" in told
    assert broken in parts(cache)


def test_a_store_elsewhere_is_left_alone(cache, capsys, monkeypatch):
    monkeypatch.setenv("EYECHART_STORE", "memory://elsewhere")

    assert main(["cache", "compact"]) == 0

    told = capsys.readouterr()
    assert "which is not listed here" in told.err
    assert "Nothing to merge in 0 vector files" in told.out
