"""Where results go: short names in one folder, unless the user or another tool's switch says otherwise."""

import json
import os
import signal
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path

import pytest

from eyechart.cli import COMMANDS, main
from eyechart.outputs import place_of
from eyechart.types import ModelSpec
from support.data import png, write_classification, write_retrieval

TINY = ["--model_type", "onnx", "--model", "eyechart-tiny", "--pretrained", "eyechart-tiny"]
FEW = ["--limit", "20"]


@pytest.fixture
def place(tmp_path, monkeypatch):
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def run(*words, program="eyechart"):
    return main(["eval", *TINY, "--dataset", "demo/garments", *FEW, *words], program=program)


def files(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*.json"))


def test_results_go_into_one_folder_under_short_names(place):
    assert run("--dataset", "demo/garments", "demo/scenes", "--language", "en", "de", "--quiet") == 0
    assert run("--task", "zeroshot_classification", "clustering", "--quiet") == 0

    assert files(place) == [
        "results/demo_garments_eyechart-tiny.json",
        "results/demo_garments_eyechart-tiny_clustering.json",
        "results/demo_garments_eyechart-tiny_de.json",
        "results/demo_scenes_eyechart-tiny.json",
        "results/demo_scenes_eyechart-tiny_de.json",
    ]


@pytest.mark.parametrize(("output", "made"), [("new/", []), ("there", ["there"]), ("by/{language}/", [])])
def test_a_folder_as_output_holds_files_of_those_names(place, output, made):
    for name in made:
        (place / name).mkdir()

    assert run("--output", output, "--quiet") == 0

    folder = output.replace("{language}", "en").rstrip("/")
    assert files(place) == [f"{folder}/demo_garments_eyechart-tiny.json"]


def test_the_home_folder_is_meant_by_its_sign(place, monkeypatch):
    monkeypatch.setenv("HOME", str(place / "home"))

    assert run("--output", "~/r/", "--quiet") == 0

    assert files(place) == ["home/r/demo_garments_eyechart-tiny.json"]


@pytest.mark.parametrize(
    ("model", "pretrained", "name"),
    [
        ("tiny-vit.json", "epoch_1.pt", "photos_tiny-vit_epoch_1.json"),
        ("image.onnx", "text.onnx", "photos_image_text.json"),
        ("ViT-B-32", "laion2b_s34b_b79k", "photos_ViT-B-32_laion2b_s34b_b79k.json"),
        ("org/model-v1.5", "", "photos_org_model-v1.5.json"),
    ],
)
def test_a_name_has_no_suffix_of_the_models_file(place, model, pretrained, name):
    spec = ModelSpec("open_clip", model, pretrained)

    assert place_of(None, spec, "photos", "en", "zeroshot_classification", usual_task=True).name == name


def test_data_of_the_same_name_in_two_places_have_two_files(place, tmp_path_factory):
    elsewhere = [tmp_path_factory.mktemp("a") / "photos", tmp_path_factory.mktemp("b") / "photos"]
    for folder in (*elsewhere, place / "my" / "photos"):
        write_classification(folder)

    assert run("--dataset", *map(str, elsewhere), "./my/photos/", "--quiet") == 0

    names = files(place / "results")
    assert names[0] == "my_photos_eyechart-tiny.json"
    assert [name.startswith("photos-") for name in names[1:]] == [True, True]


@pytest.mark.parametrize(
    ("program", "words", "expected"),
    [
        ("clip_benchmark", [], "demo_garments_eyechart-tiny_eyechart-tiny_en_zeroshot_classification.json"),
        (
            "eyechart",
            ["--like", "clip_benchmark", "--no_amp"],
            "demo_garments_eyechart-tiny_eyechart-tiny_en_zeroshot_classification.json",
        ),
        ("eyechart", ["--like", "internvl", "--precision", "fp32"], "result.json"),
        ("clip_benchmark", ["--like", "internvl", "--precision", "fp32"], "result.json"),
        ("clip_benchmark", ["--output", "mine.json"], "mine.json"),
    ],
)
def test_switches_of_other_tools_keep_their_names(place, program, words, expected):
    assert run(*words, "--quiet", program=program) == 0

    assert files(place) == [expected]


def test_quiet_keeps_the_table_and_under_the_name_of_clip_benchmark_prints_nothing(place, capsys):
    assert run("--quiet") == 0
    ours = capsys.readouterr()
    assert run("--quiet", program="clip_benchmark") == 0
    theirs = capsys.readouterr()

    assert "acc1" in ours.out
    assert ours.err == theirs.out == theirs.err == ""


def test_clip_benchmark_alone_prints_its_help(capsys):
    assert main([], program="clip_benchmark") == 0
    assert capsys.readouterr().out.startswith("usage: clip_benchmark ")


def test_the_demo_ends_with_the_address_of_its_report(place, capsys):
    assert main(["demo", "--output", "with space"]) == 0

    said = capsys.readouterr()
    page = place / "with space" / "report.html"
    assert page.is_file()
    assert f"The report: open {page.as_uri()} in a browser.\n" in said.out
    assert "%20" in page.as_uri()
    assert "eyechart report" not in said.out + said.err  # no advice to make what was just made


def test_eyechart_alone_prints_every_command_once_by_group(capsys):
    assert main([]) == 0

    printed = capsys.readouterr().out
    assert "examples:\n  eyechart eval photos/ ViT-B-32:openai\n" in printed
    assert [sum(line.startswith(f"  {name} ") for line in printed.splitlines()) for name in COMMANDS] == [1] * len(
        COMMANDS
    )
    assert max(map(len, printed.splitlines())) <= 80


def test_the_help_under_the_names_of_clip_benchmark_is_true_for_them(capsys):
    def shown(*words, program):
        with pytest.raises(SystemExit):
            main([*words], program=program)
        return " ".join(capsys.readouterr().out.split())

    theirs = shown("eval", "--help-all", program="clip_benchmark")
    ours = shown("eval", "--help-all", program="eyechart")
    assert "(default: {dataset}_{pretrained}_{model}_{language}_{task}.json)" in theirs
    assert "--quiet print only errors" in theirs
    assert "(default: results/)" in ours
    assert "(default: results/)" not in theirs
    assert "--quiet print only the table and errors" in ours
    assert shown("export", "--help", program="clip_benchmark_export_wds").startswith(
        "usage: clip_benchmark_export_wds [-h]"
    )


def test_a_run_says_what_it_writes_over(place, capsys):
    def said(*words):
        assert run(*words) == 0
        return capsys.readouterr().err

    name = "results/demo_garments_eyechart-tiny.json"
    assert "overwriting" not in said()
    assert f"{name} already contains this result; overwriting it\n" in said()
    assert f"{name} was made with different settings (limit 20, now 10); overwriting it\n" in said("--limit", "10")


def test_data_that_changed_are_named_when_their_result_is_written_over(place, capsys):
    captions = [["a red shirt"], ["a blue shirt"], ["a hat"]]
    write_retrieval(place / "shop", captions=captions)
    assert run("--dataset", "shop", "--quiet") == 0
    write_retrieval(place / "shop", captions=[*captions[:2], ["a cap"]])

    assert run("--dataset", "shop") == 0

    said_now = capsys.readouterr().err
    assert "results/shop_eyechart-tiny.json was made with different data; overwriting it\n" in said_now


def test_a_result_of_something_else_is_not_written_over(place, capsys):
    assert run("--output", "r.json", "--quiet") == 0
    before = (place / "r.json").read_bytes()

    assert run("--dataset", "demo/scenes", "--output", "r.json") == 1

    assert "not overwritten" in capsys.readouterr().err
    assert (place / "r.json").read_bytes() == before


def test_spellings_of_one_path_have_one_result(place, capsys):
    write_classification(place / "photos")
    for name in ("photos", "./photos", "photos/"):
        assert run("--dataset", name) == 0

    assert files(place / "results") == ["photos_eyechart-tiny.json"]
    assert capsys.readouterr().err.count("overwriting") == 2


def test_labels_and_captions_of_one_table_have_two_results(place):
    for number in range(3):
        (place / f"{number}.png").write_bytes(png(number))
    rows = "".join(f"{number}.png,{kind},a {kind}\n" for number, kind in enumerate(("bag", "coat", "hat")))
    (place / "shop.csv").write_text(f"image,label,caption\n{rows}")

    assert run("--dataset", "shop.csv", "--task", "zeroshot_classification", "zeroshot_retrieval", "--quiet") == 0
    assert run("--dataset", "shop.csv", "--label-column", "label", "--quiet") == 0
    assert run("--dataset", "shop.csv", "--caption-column", "caption", "--quiet") == 0

    assert files(place / "results") == ["shop.csv_eyechart-tiny.json", "shop.csv_eyechart-tiny_zeroshot_retrieval.json"]


def test_readers_take_that_folder_if_nothing_is_named(place, capsys):
    assert main(["build"]) == main(["compare"]) == main(["report"]) == main(["serve"]) == 2
    assert capsys.readouterr().err.count("results/") >= 3
    assert run("--language", "en", "de", "--quiet") == 0

    assert main(["build", "-o", "table.csv"]) == main(["report"]) == 0

    assert len((place / "table.csv").read_text().splitlines()) == 3
    assert (place / "report.html").stat().st_size > 100_000
    assert json.loads((place / "results/demo_garments_eyechart-tiny_de.json").read_text())["language"] == "de"


def test_the_last_line_says_how_to_see_it(place, capsys):
    assert run("--output", "r.json") == 0
    assert capsys.readouterr().err.endswith("To see it: `eyechart report r.json -o report.html`\n")

    assert run("--language", "en", "de", "--output", "my results/") == 0
    assert capsys.readouterr().err.endswith(
        "2 results are in my results/. To see them: `eyechart report 'my results/' -o report.html`\n"
    )


@pytest.mark.parametrize(
    "name", ["n" * 250 + ".json", "n" * 300 + ".json", "\u6a21" * 80 + ".json", "d" * 300 + "/r.json"]
)
def test_a_name_that_is_too_long_for_the_records_is_refused_before_the_evaluation(place, capsys, monkeypatch, name):
    monkeypatch.setenv("EYECHART_CACHE", str(place / "cache"))
    assert run("-o", name) == 2
    assert "The output name is too long" in capsys.readouterr().err
    assert not (place / "cache" / "embeddings").exists()


def test_the_longest_name_is_written_with_its_records(place):
    assert run("--output", "n" * 231 + ".json", "--quiet") == 0

    assert {path.suffix for path in place.iterdir()} == {".json", ".jsonl"}


def eyechart(*words, **streams):
    return subprocess.run([sys.executable, "-m", "eyechart", *words], stderr=subprocess.PIPE, text=True, **streams)


def test_a_closed_standard_output_is_not_written_to(place):
    words = ("eval", *TINY, "--dataset", "demo/garments", *FEW, "--quiet")
    done = eyechart(*words, preexec_fn=lambda: os.close(1))

    assert (done.returncode, done.stderr) == (0, "")
    assert files(place) == ["results/demo_garments_eyechart-tiny.json"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="Linux only")
@pytest.mark.parametrize("words", [("list", "tasks"), ("eval", *TINY, "--dataset", "demo/garments", *FEW, "--quiet")])
def test_an_output_that_cannot_be_written_is_told_in_one_line(place, words):
    with Path("/dev/full").open("w") as full:
        done = eyechart(*words, stdout=full)

    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == "eyechart: cannot write the output (No space left on device)."
    assert "Traceback" not in done.stderr


AT_IMPORT = """
import os, signal, sys

wanted = sys.argv.pop(1)

class Interrupt:
    def find_spec(self, name, *_):
        if name == wanted:
            sys.meta_path.remove(self)
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupt())
sys.argv[0] = "eyechart"
from eyechart.__main__ import main
sys.exit(main())
"""


@pytest.mark.parametrize("module", ["eyechart.cli.flags.parser", "eyechart.cli.eval", "numpy", "eyechart.run"])
def test_an_interrupt_during_an_import_prints_no_traceback(place, module):
    words = [sys.executable, "-c", AT_IMPORT, module, "eval", *TINY, "--dataset", "demo/garments"]
    done = subprocess.run(words, capture_output=True, text=True)

    assert done.returncode in (130, -signal.SIGINT)
    assert "Traceback" not in done.stderr
    assert "KeyboardInterrupt" not in done.stderr


def test_the_installed_commands_start_where_an_interrupt_is_handled():
    scripts = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]["scripts"]

    assert {value.partition(":")[0] for value in scripts.values()} == {"eyechart.__main__"}
    for value in scripts.values():
        assert callable(getattr(import_module("eyechart.__main__"), value.partition(":")[2]))
