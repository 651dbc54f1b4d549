"""A model on disk is the content of its files: what looks untouched but is not, is noticed."""

import hashlib
import os
import time

import pytest

from eyechart.io import digests
from eyechart.models.family import content_identity, model_files, place_digest
from eyechart.models.registry import FAMILIES
from eyechart.types import ModelSpec


@pytest.fixture
def folder(tmp_path):
    """Make the folder of a model; nothing of it is loaded here."""
    made = tmp_path / "model"
    for name in ("config.json", "model.safetensors", "tokenizer_config.json", "1_Pooling/config.json"):
        (made / name).parent.mkdir(parents=True, exist_ok=True)
        (made / name).write_bytes(b"one")
    (made / "config.json").write_text("{}")  # it tells whether the model has several vectors per input
    return made


def replace_unseen(path, content):
    """Put other content of the same length into a file, with the same time of change: rsync -t does that."""
    before = path.stat()
    other = path.with_name("other")
    other.write_bytes(content)
    os.utime(other, ns=(before.st_atime_ns, before.st_mtime_ns))
    other.replace(path)
    assert (path.stat().st_size, path.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)


@pytest.mark.parametrize(
    ("role", "family"),
    [
        ("encoder", "transformers"),
        ("encoder", "sentence-transformers"),
        ("generator", "transformers"),
        ("reranker", "cross-encoder"),
    ],
)
@pytest.mark.parametrize("file", ["model.safetensors", "tokenizer_config.json", "1_Pooling/config.json"])
def test_other_content_of_the_same_size_and_time_is_another_model(folder, role, family, file):
    loader, spec = FAMILIES[role].load(family)(), ModelSpec(family, str(folder))
    before = loader.identity(spec)
    assert loader.identity(spec) == before
    replace_unseen(folder / file, b"two")

    assert loader.identity(spec) not in (None, before)


def test_a_checkpoint_of_open_clip_is_known_by_its_content(zoo, tmp_path):
    weights = tmp_path / "weights.pt"
    weights.write_bytes(b"one")
    loader, spec = FAMILIES["encoder"].load("open_clip")(), ModelSpec("open_clip", "ViT-B-32", str(weights))
    before = loader.identity(spec)
    replace_unseen(weights, b"two")

    assert loader.identity(spec) not in (None, before)


@pytest.mark.parametrize("name", ["open_clip-siglip", "open_clip-xlmr"])
def test_the_tokenizer_that_an_open_clip_config_names_belongs_to_the_model(zoo, name, tmp_path):
    import json

    loader = FAMILIES["encoder"].load("open_clip")()
    tokenizer = tmp_path / "tokenizer"
    tokenizer.mkdir()
    (tokenizer / "config.json").write_text("{}")
    config = json.loads((zoo.case(name).parts[0].parent / "open_clip_config.json").read_text())["model_cfg"]
    for key in ("hf_tokenizer_name", "hf_model_name"):
        if key in config["text_cfg"]:
            config["text_cfg"][key] = str(tokenizer)
    (tmp_path / "architecture.json").write_text(json.dumps(config))
    spec = ModelSpec("open_clip", str(tmp_path / "architecture.json"), str(zoo.case(name).parts[0]))
    before = loader.identity(spec)
    (tokenizer / "config.json").write_text('{"a": 1}')

    assert loader.identity(spec) not in (None, before)
    (tokenizer / "config.json").unlink()
    tokenizer.rmdir()
    assert loader.identity(spec) is None


def test_what_is_not_on_this_machine_is_not_known(folder):
    assert content_identity([folder, None]) is None
    assert FAMILIES["encoder"].load("transformers")().identity(ModelSpec("transformers", "no-such/model")) is None


def test_another_version_of_a_library_is_another_model(folder, monkeypatch):
    before = content_identity([folder], "numpy", "no-such-library")
    monkeypatch.setattr("eyechart.models.family.version", lambda package: f"99 of {package}")

    assert content_identity([folder], "numpy", "no-such-library") != before


def test_a_copy_elsewhere_has_the_same_content_and_a_renamed_file_has_not(folder, tmp_path):
    import shutil

    copy = shutil.copytree(folder, tmp_path / "copy")
    assert place_digest(copy) == place_digest(folder)
    (copy / "config.json").rename(copy / "other.json")
    assert place_digest(copy) != place_digest(folder)


def test_links_are_followed_and_what_no_library_here_reads_is_left_out(folder, tmp_path):
    elsewhere = tmp_path / "blobs"
    elsewhere.mkdir()
    (elsewhere / "weights").write_bytes(b"one")
    (folder / "linked.safetensors").symlink_to(elsewhere / "weights")
    (folder / "0_Module").symlink_to(elsewhere, target_is_directory=True)
    (folder / "round").symlink_to(folder, target_is_directory=True)
    (folder / "to_nowhere").symlink_to(tmp_path / "nothing")
    os.mkfifo(folder / "pipe")
    for name in (".git/config", "flax_model.msgpack", "onnx/model.onnx", ".gitattributes"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(b"x")

    names = {str(path.relative_to(folder)) for path in model_files(folder)}

    assert {"linked.safetensors", "0_Module/weights", "config.json"} <= names
    assert not {name for name in names if "git" in name or "onnx" in name or "msgpack" in name}
    before = place_digest(folder)
    (elsewhere / "weights").write_bytes(b"two")
    assert place_digest(folder) != before


def test_a_file_that_is_known_is_not_read_again(folder, monkeypatch):
    monkeypatch.setattr(digests, "SETTLED", 0)
    time.sleep(0.01)
    first = place_digest(folder)
    digests._books.cache_clear()
    monkeypatch.setattr(hashlib, "file_digest", lambda stream, _: pytest.fail(f"{stream.name} was read again"))

    assert place_digest(folder) == first
