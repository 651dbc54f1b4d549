"""Third parties' packages, really installed by pip into a folder of their own."""

import os
import subprocess
import sys
import textwrap

import pytest

from eyechart import plugins
from eyechart.datasets.registry import READERS
from eyechart.errors import UnknownNameError, UsageError
from eyechart.models.registry import ENCODERS, GENERATORS, RERANKERS
from eyechart.tasks.registry import TASKS

PYPROJECT = """
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "eyechart-mean-colour"
version = "1.0"

[project.entry-points."eyechart.models"]
mean_colour = "mean_colour:Family"

[project.entry-points."eyechart.datasets"]
two_images = "mean_colour:open_images"

[tool.hatch.build.targets.wheel]
include = ["mean_colour.py"]
"""
MODULE = '''
"""A model that sees mean colours, and a dataset of two images."""
import io
import numpy as np
from PIL import Image
from eyechart.io.images import ImageRef
from eyechart.types import DatasetInfo, ModelCard, Sample

COLOURS = {"red": (255, 0, 0), "blue": (0, 0, 255)}

class Family:
    def check(self, spec): pass
    def identity(self, spec): return None
    def load(self, spec): return Encoder()

class Encoder:
    card = ModelCard("mean_colour", "mean_colour", "1", "mean", embedding_dim=3)
    def prepare_image(self, image):
        return np.asarray(image.convert("RGB"), np.float32).mean((0, 1))
    def encode_images(self, batch):
        return batch
    def encode_texts(self, texts, *, language="en"):
        return np.array([COLOURS[next(c for c in COLOURS if c in text)] for text in texts], np.float32)
    def truncated(self, texts):
        return [False] * len(texts)

class Images:
    name = "both"
    info = DatasetInfo("two", "classification", classnames=("red", "blue"), templates=("{c}",))
    def shards(self): return [self]
    def signature(self): return "1"
    def __iter__(self):
        for label, colour in enumerate(COLOURS.values()):
            stream = io.BytesIO()
            Image.new("RGB", (4, 4), colour).save(stream, "PNG")
            yield Sample(str(label), ImageRef("made", data=stream.getvalue()), label=label)

def open_images(spec):
    return Images()
'''


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """Build and install the package with pip, offline."""
    source, target = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("site")
    (source / "pyproject.toml").write_text(PYPROJECT)
    (source / "mean_colour.py").write_text(MODULE)
    options = ["--no-deps", "--no-build-isolation", "--no-index", "--quiet", "--target", str(target)]
    subprocess.run([sys.executable, "-m", "pip", "install", *options, str(source)], check=True)
    return target


def python(code, site, cwd):
    path = os.pathsep.join([str(site), *filter(None, sys.path)])
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": path},
    )


def test_a_model_and_a_dataset_of_another_package_work_by_name(installed, tmp_path):
    code = """
        from eyechart.models.registry import ENCODERS
        from eyechart.run import run_job
        from eyechart.session import Session
        from eyechart.types import DatasetSpec, Job, ModelSpec
        from pathlib import Path
        assert "mean_colour" in ENCODERS.names()
        job = Job(ModelSpec("mean_colour", "m"), DatasetSpec("two", "two_images", ""), "zeroshot_classification", {},
                  Path("r.json"))
        print(run_job(job, Session()).metrics["acc1"])
    """

    done = python(code, installed, tmp_path)

    assert (done.stdout.strip(), done.stderr) == ("1.0", "")


def test_a_broken_plugin_names_its_package(installed, tmp_path):
    (installed / "mean_colour.py").rename(installed / "away.py")
    try:
        done = python(
            """
            from eyechart.errors import UsageError
            from eyechart.models.registry import ENCODERS
            try:
                ENCODERS.load("mean_colour")
            except UsageError as error:
                print(error)
            """,
            installed,
            tmp_path,
        )
    finally:
        (installed / "away.py").rename(installed / "mean_colour.py")

    assert "of the package 'eyechart-mean-colour' cannot be loaded" in done.stdout


def test_an_unknown_name_lists_the_nearest():
    with pytest.raises(UnknownNameError, match="Did you mean onnx"):
        ENCODERS.load("onix")


@pytest.mark.parametrize("registry", [ENCODERS, GENERATORS, RERANKERS, READERS, TASKS], ids=lambda one: one.group)
def test_every_built_in_can_be_imported(registry):
    for name in registry.built_in:
        assert callable(registry.load(name))


def test_an_object_of_ones_own_is_found_in_the_working_folder(tmp_path, monkeypatch):
    (tmp_path / "my_folder_module.py").write_text("class Thing:\n    pass\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])

    assert TASKS.load("python:my_folder_module:Thing").__name__ == "Thing"
    for wrong in ("python:my_folder_module", "python:my_folder_module:Nothing", "python:no_such_module:Thing"):
        with pytest.raises(UsageError):
            TASKS.load(wrong)


def test_usage_reporting_is_off_unless_the_user_set_a_variable(monkeypatch):
    for name in plugins.USAGE_REPORTING_OFF:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_HUB_DISABLE_TELEMETRY", "0")

    TASKS.load("zeroshot_classification")

    assert os.environ["HF_HUB_DISABLE_TELEMETRY"] == "0"
    others = {name: value for name, value in plugins.USAGE_REPORTING_OFF.items() if name != "HF_HUB_DISABLE_TELEMETRY"}
    assert {name: os.environ.get(name) for name in others} == others
