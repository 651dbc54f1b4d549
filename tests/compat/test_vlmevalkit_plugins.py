"""Benchmarks and model classes of an installed package."""

import os
import subprocess
import sys

import pytest

from support.vlm_data import write_benchmark

PYPROJECT = """
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "eyechart-shapes"
version = "1.0"

[project.entry-points."eyechart.benchmarks"]
ShapeBench = "shapes:ShapeBench"

[project.entry-points."eyechart.vlms"]
guesser = "shapes:Guesser"

[tool.hatch.build.targets.wheel]
include = ["shapes.py"]
"""
MODULE = """
from eyechart.vlm import BaseModel, ImageMCQDataset, load

class ShapeBench(ImageMCQDataset):
    def evaluate(self, eval_file, **judge_kwargs):
        data = load(eval_file)
        hits = [p == a for p, a in zip(data['prediction'], data['answer'])]
        return {'Shapes': [100 * sum(hits) / len(hits)]}

class Guesser(BaseModel):
    def generate_inner(self, message, dataset=None):
        return 'A'
"""


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    source, target = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("site")
    (source / "pyproject.toml").write_text(PYPROJECT)
    (source / "shapes.py").write_text(MODULE)
    command = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation", "--target"]
    subprocess.run([*command, str(target), str(source)], check=True, capture_output=True, text=True)
    return target


def test_a_package_brings_a_benchmark_and_a_model(package, lmu_data, tmp_path):
    rows = [{"index": i, "question": "q", "A": "circle", "B": "square", "answer": "AB"[i % 2]} for i in range(4)]
    write_benchmark(lmu_data / "ShapeBench.tsv", rows)
    command = [
        *(sys.executable, "-m", "eyechart", "eval", "--dataset", "ShapeBench"),
        *("--model_type", "python", "--model", "guesser", "--output", str(tmp_path / "r.json")),
    ]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(package), *sys.path])}

    done = subprocess.run(command, env=environment, capture_output=True, text=True)

    assert done.returncode == 0, done.stderr
    assert "Shapes" in done.stdout
    assert "50.0" in done.stdout
