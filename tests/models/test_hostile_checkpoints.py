"""Files that are given as weights: nothing in them is run, and nobody is told to run it."""

import dataclasses
import gc
import io
import os
import pickle
import re

import numpy as np
import pytest
import torch

from eyechart.errors import ModelError
from eyechart.models.towers.checkpoints import load_error, read_state
from support import zoo_open_clip
from support.zoo import load

UNSAFE = re.compile("weights_only|allow_pickle|torch.load|pickle.load|trust")
"""Words of libraries that advise to load a file without protection."""


class Code:
    """Unpickled, it would make a folder."""

    def __reduce__(self):
        return os.mkdir, ("pwned",)


def saved(value, **options):
    stream = io.BytesIO()
    torch.save(value, stream, **options)
    return stream.getvalue()


def archive(**arrays):
    stream = io.BytesIO()
    np.savez(stream, **arrays)
    return stream.getvalue()


REFUSED = {
    "a pickle": pickle.dumps(Code(), protocol=2),
    "a new pickle": pickle.dumps(Code(), protocol=4),
    "a pickle in an archive": saved({"state_dict": Code()}),
    "an old checkpoint": saved({"state_dict": Code()}, _use_new_zipfile_serialization=False),
    "a whole module": saved(torch.nn.Linear(2, 2)),
    "settings beside the weights": saved({"w": torch.zeros(1), "path": Code()}),
    "the oldest form": b"\0" * 2048,
    "a reduce of nothing": b"\x80\x02K\x01K\x02R.",
    "an append to nothing": b"a",
    "a text": b"hello",
    "a page": b"<!DOCTYPE html><html>Not found</html>",
    "a pointer": b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n",
    "half a checkpoint": saved({"w": torch.zeros(1000)})[:2000],
    "nothing": b"",
    "numpy arrays": archive(a=np.zeros(3)),
    "numpy objects": archive(a=np.array([Code()], dtype=object)),
    "numbered weights": saved({1: torch.zeros(1)}),
    "a list": saved([torch.zeros(1)]),
}


@pytest.mark.parametrize("name", ["w.pt", "w.bin", "w.npz", "w.safetensors"])
@pytest.mark.parametrize("kind", REFUSED)
def test_what_is_no_checkpoint_is_an_error_that_names_it_and_gives_no_unsafe_advice(kind, name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).write_bytes(REFUSED[kind])

    with pytest.raises(ModelError, match=re.escape(str(tmp_path / name))) as caught:
        read_state(tmp_path / name)
    assert not UNSAFE.search(str(caught.value))
    assert not (tmp_path / "pwned").exists()


@pytest.mark.parametrize("kind", ["a pickle", "a pickle in an archive", "a whole module", "the oldest form"])
def test_a_pickle_is_refused_with_advice_that_keeps_you_safe(kind, tmp_path):
    (tmp_path / "w.pt").write_bytes(REFUSED[kind])

    with pytest.raises(ModelError, match=r"refused.*(?s:.)*as \.safetensors, or convert .* in a sandbox"):
        read_state(tmp_path / "w.pt")


@pytest.mark.parametrize("kind", [Exception, OSError, RuntimeError, ValueError, KeyError, ImportError])
def test_advice_of_a_library_to_load_without_protection_is_not_passed_on(kind):
    error = kind("Weights only load failed. Re-running `torch.load` with `weights_only` set to `False` will succeed.")

    assert not UNSAFE.search(str(load_error("w.pt", error)))


@pytest.fixture(scope="module")
def open_clip(tmp_path_factory):
    return zoo_open_clip.CASES["open_clip"](tmp_path_factory.mktemp("open_clip")).spec


@pytest.mark.filterwarnings("ignore:Detected pickle protocol", "ignore:unclosed file")  # the library closes no .npz
@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("w.npz", "numpy arrays"),
        ("w.npy", "numpy objects"),
        ("w.npz", "a text"),
        ("w.pt", "numpy arrays"),
        ("w.pt", "a new pickle"),
        ("w.pt", "an append to nothing"),
        ("w.pt", "the oldest form"),
    ],
)
def test_open_clip_with_such_a_file(open_clip, kind, name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).write_bytes(REFUSED[kind])

    with pytest.raises(ModelError, match=name) as caught:
        load(dataclasses.replace(open_clip, pretrained=str(tmp_path / name)))
    message = str(caught.value)
    del caught  # with it go the library's frames, and the file that they hold open
    gc.collect()

    assert not UNSAFE.search(message)
    assert not (tmp_path / "pwned").exists()
