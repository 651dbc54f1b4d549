"""The 54 evaluation commands of InternVL's page, word for word, on small data in its layout and small checkpoints."""

import json
import shlex
import shutil
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from eyechart.cli import main
from eyechart.datasets import prompt_pack
from eyechart.report.loader import load_results
from eyechart.report.reference import load_publication, published_tables
from eyechart.report.result_table import make_table
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


@contextmanager
def again(page, monkeypatch):
    """Be where the commands ran, with their cache."""
    folder, _ = page
    monkeypatch.chdir(folder)
    monkeypatch.setenv("EYECHART_CACHE", str(folder / "cache"))
    monkeypatch.setattr(prompt_pack, "templates", first_template(prompt_pack.templates))
    yield


@contextmanager
def without_modules(package):
    """Forget a package's modules at the end, so that other tests may import them from elsewhere."""
    yield
    for name in [name for name in sys.modules if name.partition(".")[0] == package]:
        del sys.modules[name]


def first_template(templates):
    """80 templates for 1000 classes in five languages would take minutes: one of each set is enough here."""
    return lambda *key, **how: (templates(*key, **how) or ())[:1]


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
        patch.setattr(prompt_pack, "templates", first_template(prompt_pack.templates))
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
    return {item.result.identity: item.result for item in found.found}


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
    assert {name for name, value in result["metrics"].items() if value is not None} == wanted - few


def test_no_result_is_lost_and_each_has_its_records(page):
    folder, _ = page

    found = results(folder)

    assert len(found) == 54
    for result in found.values():
        assert not result.altered
        assert sum(1 for _ in result.iter_records()) == result.record_info["count"] > 0


def test_the_switch_is_in_the_settings_and_a_notice_says_what_it_changed(page):
    for result in results(page[0]).values():
        assert result.job["settings"]["like"] == "internvl"
        (notice,) = [notice["message"] for notice in result.notices if notice["kind"] == "like"]
        assert "recall_k 1 5 10 instead of 5" in notice


def test_captions_of_flickr_and_coco_are_cleaned_those_of_xtd_are_not(page):
    cleaned = {result.dataset: result.job["caption_cleaning"] for result in results(page[0]).values()}

    assert {name: how for name, how in cleaned.items() if how} == {
        "flickr30k": "internvl",
        "mscoco_captions": "internvl",
    }


def test_on_a_second_run_everything_is_skipped(page, monkeypatch, capsys):
    folder, _ = page
    before = (folder / "result.json").read_bytes()

    with again(page, monkeypatch):
        codes = [main([*words_of(command), "--skip_existing"]) for command in COMMANDS[::9]]

    assert set(codes) == {0}
    assert capsys.readouterr().err.count("skipped, done before") == len(codes)
    assert (folder / "result.json").read_bytes() == before


def test_the_same_through_eyechart_as(page, monkeypatch):
    folder, _ = page
    words = words_of(COMMANDS[31])

    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path])
    with again(page, monkeypatch), without_modules("clip_benchmark"):
        code = main(["as", "clip_benchmark", "-m", "clip_benchmark.cli", *words, "--output", "as.json"])

    (own,) = load_results([folder / "as.json"]).found
    assert code == 0
    assert own.result.metrics == results(folder)[own.result.identity].metrics


def test_models_in_one_file_are_compared_on_what_they_have_in_common(page, monkeypatch, capsys):
    monkeypatch.chdir(page[0])

    code = main(["compare", "result.json", "result_g.json", "--baseline", "internvl_c_retrieval", "--json"])

    said = capsys.readouterr()
    assert code == 0
    assert [one["model"].split()[0] for one in json.loads(said.out)["comparisons"]] == ["internvl_g_retrieval_hf"]
    assert "skipped: internvl_c_classification" in said.err


def test_the_report_shows_them_beside_the_published_ones(page, monkeypatch):
    folder, _ = page
    monkeypatch.chdir(folder)

    assert main(["report", "result.json", "result_g.json", "--reference", "internvl", "-o", "report.html"]) == 0

    table = make_table([*load_results(["result.json", "result_g.json"]).found, *load_publication("internvl").found])
    rows = {
        part.title: [table.models[row].name for row, _ in part.rows] for part in published_tables("internvl", table)
    }
    assert rows["ImageNet variants and ObjectNet"] == ["internvl_c_classification", "InternVL-C"]
    assert rows["Flickr30K and COCO"] == ["internvl_c_retrieval", "internvl_g_retrieval_hf", "InternVL-C", "InternVL-G"]
