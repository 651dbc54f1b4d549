"""Ctrl-C and SIGTERM end a command in order: what was computed is stored, nothing else is left behind."""

import os
import signal
import subprocess
import sys
import time

import pytest
from safetensors.numpy import load_file

from support.data import write_classification

MODEL = """
import os, signal, time
from pathlib import Path
import numpy as np

class Encoder:
    count = 0

    def encode_images(self, images):
        type(self).count += len(images)
        if type(self).count > 8:  # more than the probes of the fingerprint
            {then}
        return [np.asarray(image.resize((2, 2))).astype(np.float32).ravel() + 1 for image in images]

    def encode_texts(self, texts):
        return [[float(ord(c)) for c in (text + 12 * "x")[:12]] for text in texts]
"""
ITSELF = "os.kill(os.getpid(), signal.{name})"
WAIT = "Path(f'waiting-{os.getpid()}').touch(); time.sleep(600)"


def start(folder, then, *words):
    (folder / "own_model.py").write_text(MODEL.format(then=then))
    write_classification(folder / "data", n=32)
    command = [sys.executable, "-m", "eyechart", "eval", "--model", "python:own_model:Encoder", "--dataset", "wds/x"]
    command += ["--dataset_root", "data", "--batch_size", "1", "--num_workers", "1", "--output", "out/", *words]
    environment = {**os.environ, "EYECHART_CACHE": str(folder / "cache")}
    return subprocess.Popen(command, cwd=folder, env=environment, stderr=subprocess.PIPE, text=True)


def stored(folder):
    return sum(len(load_file(part)["keys"]) for part in (folder / "cache").rglob("image/*.safetensors"))


@pytest.mark.parametrize(("name", "word"), [("SIGINT", "interrupted"), ("SIGTERM", "terminated")])
def test_a_signal_stores_what_was_computed(tmp_path, name, word):
    process = start(tmp_path, ITSELF.format(name=name))
    _, errors = process.communicate()

    assert process.returncode == 128 + getattr(signal, name)
    assert f"eyechart: {word}; run the same command to resume." in errors
    assert "Traceback" not in errors
    assert 1 <= stored(tmp_path) <= 8
    assert list((tmp_path / "out").iterdir()) == []

    again = start(tmp_path, "pass")
    again.communicate()
    assert again.returncode == 0
    assert len(list((tmp_path / "out").iterdir())) == 2


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_processes_store_what_they_computed_when_their_parent_is_ended(tmp_path, number):
    process = start(tmp_path, WAIT, "--processes", "2")
    while process.poll() is None and len(list(tmp_path.glob("waiting-*"))) < 2:
        time.sleep(0.02)
    process.send_signal(number)
    _, errors = process.communicate()

    assert process.returncode == 128 + number
    assert "Traceback" not in errors
    assert 2 <= stored(tmp_path) <= 16
    for marker in tmp_path.glob("waiting-*"):
        with pytest.raises(ProcessLookupError):
            os.kill(int(marker.name.rpartition("-")[2]), 0)
