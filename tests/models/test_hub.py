"""Models from the two hubs, through the hubs' own clients, against a stand-in server on loopback."""

import dataclasses
import os
import shutil
import subprocess
import sys

import numpy as np
import pytest

from eyechart.errors import ModelError, UnknownNameError
from eyechart.models.registry import ENCODERS
from eyechart.types import ModelSpec
from support.hub_server import COMMIT, hub_serving
from support.zoo import TEXTS, load


@pytest.fixture
def hub(zoo, tmp_path, monkeypatch):
    """Serve small models as owner/name."""
    for name in ("clip", "open_clip-siglip"):
        shutil.copytree(zoo.case(name).parts[0].parent, tmp_path / "hub" / "owner" / name)
    with hub_serving(tmp_path / "hub") as server:
        monkeypatch.setenv("HF_ENDPOINT", server.url)
        monkeypatch.setenv("MODELSCOPE_ENDPOINT", server.url)
        monkeypatch.setenv("MODELSCOPE_HOME", str(tmp_path / "modelscope"))
        monkeypatch.setenv("HF_HUB_DISABLE_PROGRESS_BARS", "1")
        yield server


def test_transformers_from_modelscope(hub, zoo, tmp_path):
    options = {"hub": "modelscope", "revision": "v1", "cache_dir": str(tmp_path / "kept")}

    encoder = load(ModelSpec("transformers", "owner/clip", options=options))

    np.testing.assert_array_equal(encoder.encode_texts(TEXTS), zoo.encoder("clip").encode_texts(TEXTS))
    assert encoder.card.fingerprint == zoo.encoder("clip").card.fingerprint
    assert any((tmp_path / "kept").rglob("model.safetensors"))


def test_open_clip_at_a_pinned_revision(hub, zoo, tmp_path):
    spec = ModelSpec(
        "open_clip", "hf-hub:owner/open_clip-siglip", options={"revision": COMMIT, "cache_dir": str(tmp_path)}
    )

    encoder = load(spec)

    assert encoder.card.fingerprint == zoo.encoder("open_clip-siglip").card.fingerprint
    assert (tmp_path / "models--owner--open_clip-siglip" / "snapshots" / COMMIT).is_dir()


def test_transformers_from_hugging_face(hub, tmp_path):
    # In a process of its own: the library reads the address of the hub only when it is imported.
    code = (
        "import sys; from eyechart import plugins; from eyechart.types import ModelSpec\n"
        "family = ENCODERS.load('transformers')()\n"
        "options = {'revision': sys.argv[2], 'cache_dir': sys.argv[1]}\n"
        "spec = ModelSpec('transformers', 'owner/clip', options=options)\n"
        "family.check(spec); print(family.load(spec).card.fingerprint)"
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code, str(tmp_path / "kept"), COMMIT],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "HF_HOME": str(tmp_path / "home")},
    )

    assert done.returncode == 0, done.stderr
    assert len(done.stdout.strip()) == 32
    assert any((tmp_path / "kept").rglob(f"{COMMIT}/model.safetensors"))


@pytest.mark.parametrize("which", ["huggingface", "modelscope"])
def test_a_model_that_the_hub_does_not_have(hub, which, tmp_path):
    options = {"hub": which, "revision": COMMIT, "cache_dir": str(tmp_path)}

    with pytest.raises(ModelError, match=f"Cannot get owner/nothing from {which}"):
        load(ModelSpec("open_clip", "hf-hub:owner/nothing", options=options))


def test_an_unknown_hub():
    with pytest.raises(UnknownNameError, match="Did you mean modelscope"):
        load(ModelSpec("transformers", "owner/clip", options={"hub": "modelscop"}))


@pytest.mark.parametrize(("family", "name"), [("transformers", "owner/clip"), ("open_clip", "hf-hub:owner/clip")])
def test_a_model_is_remembered_only_at_a_pinned_revision(family, name):
    loader = ENCODERS.load(family)()
    moving = ModelSpec(family, name)

    assert loader.identity(moving) is None
    assert loader.identity(dataclasses.replace(moving, options={"revision": "main"})) is None
    assert loader.identity(dataclasses.replace(moving, options={"revision": COMMIT})) is not None
