"""The 54 evaluation commands of InternVL's page, word for word, on small data in its layout and small checkpoints."""

import json
import shlex
import shutil
import time
from pathlib import Path

import pytest

from eyechart.cli import main
from eyechart.datasets import prompt_pack
from eyechart.report.load import load_results
from support.seed_data import write_seed_data
from support.seed_models import write_seed_models

COMMANDS = (Path(__file__).parent.parent / "data" / "internvl_commands.txt").read_text().splitlines()
START = ["CUDA_VISIBLE_DEVICES=0", "python3", "clip_benchmark/cli.py"]
CLASSIFICATION = {"acc1", "acc5", "mean_per_class_recall"}
RETRIEVAL = {f"{kind}_retrieval_recall@{k}" for kind in ("image", "text") for k in (1, 5, 10)}
FEW_CLASSES = {
    "renderedsst2",
    "cifar10",
    "cifar100",
    "cars",
    "dtd",
    "fgvc_aircraft",
    "food101",
    "pets",
    "stl10",
    "sun397",
}
"""Sets that have fewer than five classes here: no acc5."""


def words_of(command):
    """Split a command as a shell does; ``python3 clip_benchmark/cli.py`` is ``clip_benchmark`` here."""
    words = shlex.split(command)
    assert words[:3] == START
    return words[3:]


def flag(words, name):
    joined = [word.split("=")[1] for word in words if word.startswith(f"--{name}=")]
    return joined[0] if joined else words[words.index(f"--{name}") + 1]


@pytest.fixture(scope="module")
def page(tmp_path_factory, wheel):
    """Run all commands, one after the other, in one folder; return it with what each ended with."""
    folder = tmp_path_factory.mktemp("page")
    (folder / "cache" / "prompts").mkdir(parents=True)
    shutil.copy(wheel, folder / "cache" / "prompts")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("EYECHART_CACHE", str(folder / "cache"))
        whole = prompt_pack.templates
        # 80 templates for 1000 classes in five languages would take minutes: one of each set is enough here.
        patch.setattr(prompt_pack, "templates", lambda *key, **how: (whole(*key, **how) or ())[:1])
        write_seed_data(folder / "data", patch)
        write_seed_models(folder / "pretrained")
        ended = {}
        for command in COMMANDS:
            start = time.perf_counter()
            code = main(words_of(command), program="clip_benchmark")
            ended[command] = code, time.perf_counter() - start
        yield folder, ended


def results(folder):
    found = load_results([folder / "result.json", folder / "result_g.json"])
    assert found.skipped == ()
    return [item.result for item in found.found]


def test_there_are_54_different_ones():
    assert len(set(COMMANDS)) == 54


@pytest.mark.parametrize("command", COMMANDS)
def test_the_command_ends_well_and_its_line_has_the_metrics_of_the_page(page, command):
    folder, ended = page
    words = words_of(command)
    names = tuple(flag(words, name) for name in ("dataset", "model", "pretrained", "task", "language"))

    assert ended[command][0] == 0
    lines = (json.loads(line) for line in (folder / flag(words, "output")).read_text().splitlines())
    keys = ("dataset", "model", "pretrained", "task", "language")
    (result,) = [line for line in lines if tuple(line[key] for key in keys) == names]
    wanted = RETRIEVAL if names[3] == "zeroshot_retrieval" else CLASSIFICATION
    few = {"acc5"} if names[0] in FEW_CLASSES else set()
    assert set(result["metrics"]) == wanted - few
