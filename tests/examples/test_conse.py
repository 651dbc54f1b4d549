"""The example package: installed by pip into a folder of its own, with real weights, on real images."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from eyechart.results import read_result

EXAMPLE = Path(__file__).parents[2] / "examples" / "conse"


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """Build and install the package with pip, offline."""
    target = tmp_path_factory.mktemp("site")
    options = ["--no-deps", "--no-build-isolation", "--no-index", "--quiet", "--target", str(target)]
    subprocess.run([sys.executable, "-m", "pip", "install", *options, str(EXAMPLE)], check=True)
    return target


def test_a_model_that_is_no_clip_from_a_third_partys_package(installed, tmp_path):
    from PIL import Image
    from skimage import data

    images = {"cat": data.chelsea(), "rocket": data.rocket(), "cup of coffee": data.coffee()}
    for name, pixels in images.items():
        (tmp_path / "photos" / name).mkdir(parents=True)
        Image.fromarray(pixels).save(tmp_path / "photos" / name / "image.png")

    words = ["--model_type", "conse", "--model", "conse", "--dataset", "photos", "--output", "r.json", "--quiet"]
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "eyechart", "eval", *words],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(installed), *filter(None, sys.path)])},
    )

    assert done.returncode == 0, done.stderr
    result = read_result(tmp_path / "r.json")
    assert result.metrics["acc1"] == 1.0
    assert (result.model_card["family"], result.model_card["embedding_dim"]) == ("conse", 384)


def test_the_readme_tells_the_number_of_the_saved_result():
    result = json.loads((EXAMPLE / "cifar10.json").read_text())
    low, high = result["intervals"]["acc1"]
    readme = (EXAMPLE / "README.md").read_text()

    assert result["counts"] == {"failed": 0, "listed": 10000, "scored": 10000}
    assert f"{result['metrics']['acc1']:.4f}" in readme
    assert re.search(rf"{low:.4f}.*{high:.4f}", readme)
