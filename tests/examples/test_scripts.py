"""The short examples are run as a user runs them: installed package, fresh folder, nothing from the network."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
SCRIPTS = ["own_vectors.py", "torch_module.py"]
NOTEBOOKS = ["compare_two_models.ipynb", "tour.ipynb"]
SHORT = [*SCRIPTS, "compare_two_models.ipynb"]
MOST_LINES, MOST_BYTES = 10, 100_000
EXECUTE = "from nbclient.cli import main; main()"


def run(words, folder):
    """Run a program of somebody who installed the package and knows nothing of this folder."""
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    env |= {"HF_HUB_OFFLINE": "1", "HF_HOME": str(folder / "hf"), "EYECHART_CACHE": str(folder / "cache")}
    done = subprocess.run([sys.executable, *words], cwd=folder, capture_output=True, text=True, timeout=240, env=env)
    assert done.returncode == 0, done.stderr
    return done.stdout


def cells(path):
    return [cell for cell in json.loads(path.read_text())["cells"] if cell["cell_type"] == "code"]


def code_of(path):
    if path.suffix == ".py":
        return path.read_text().partition('"""\n\n')[2]  # without its title
    return "\n".join("".join(cell["source"]) for cell in cells(path))


@pytest.mark.parametrize("name", SHORT)
def test_a_short_example_is_short(name):
    lines = [line for line in code_of(EXAMPLES / name).splitlines() if line.strip()]

    assert 0 < len(lines) <= MOST_LINES
    assert all(len(line) <= 120 for line in lines)


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_prints_numbers(name, tmp_path):
    shutil.copy(EXAMPLES / name, tmp_path)

    printed = run([name], tmp_path)
    assert {"own_vectors.py": "image_retrieval_recall@5", "torch_module.py": "acc1"}[name] in printed
    assert {path.name for path in tmp_path.iterdir()} <= {name, "hf", "cache"}, "something was left behind"


def shape(outputs):
    """Say what a cell shows, and not how large it is or how long it took."""
    return sorted((output["output_type"], *sorted(output.get("data", {}))) for output in outputs)


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_notebook_runs_and_shows_what_it_shows_in_the_project(name, tmp_path):
    shutil.copy(EXAMPLES / name, tmp_path)
    run(["-c", EXECUTE, name, "--inplace"], tmp_path)

    kept, made = cells(EXAMPLES / name), cells(tmp_path / name)
    assert [cell["execution_count"] for cell in made] == list(range(1, len(made) + 1))
    for before, after in zip(kept, made, strict=True):
        assert before["source"] == after["source"]
        assert shape(before["outputs"]) == shape(after["outputs"]), "".join(after["source"])
    texts = [
        text for cell in kept for output in cell["outputs"] for text in output.get("data", {}).get("text/plain", ())
    ]
    assert not [text for text in texts if "Error" in text or str(Path.home()) in text]
    assert (EXAMPLES / name).stat().st_size < MOST_BYTES


def test_progress_is_shown_in_a_notebook():
    """Bars of HTML that need no widgets; the name of a step cannot end the element that it stands in."""
    (first, *_) = cells(EXAMPLES / "tour.ipynb")
    page = "".join("".join(output["data"]["text/html"]) for output in first["outputs"] if "display_id" not in output)

    assert '<progress value="600" max="600"></progress> images of demo/garments: 600 of 600' in page
