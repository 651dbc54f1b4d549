"""What people see fits a terminal of 80 columns, and names are whole; a pipe gets every column, one line a row."""

import subprocess
import sys

import pytest

from eyechart.io.terminal import text_width
from support.terminal import in_terminal

TINY = ["--model_type", "onnx", "--model", "eyechart-tiny", "--pretrained", "eyechart-tiny"]


def widest(text):
    return max(text_width(line) for part in text.split("\n") for line in part.split("\r"))


@pytest.mark.parametrize(
    "words",
    ["list datasets", "list tasks", "list collections", "list languages", "info imagenet1k", "info zeroshot_retrieval"],
)
@pytest.mark.parametrize("columns", [80, 120])
def test_lists_and_descriptions(tmp_path, words, columns):
    code, shown = in_terminal(words.split(), columns, tmp_path)

    assert code == 0
    assert widest(shown) <= columns


def test_a_list_says_what_it_has_no_room_for_and_a_pipe_has_it(tmp_path):
    words = ["list", "datasets", "--kind", "multilabel"]
    _, shown = in_terminal(words, 60, tmp_path)
    piped = subprocess.run([sys.executable, "-m", "eyechart", *words], capture_output=True, text=True, check=True)

    assert "No room for" in shown
    assert "NEEDS" in " ".join(shown.split("No room for")[1].split())
    assert "voc2007_multilabel" in shown
    (line,) = [line for line in piped.stdout.splitlines() if line.startswith("voc2007_multilabel")]
    assert "download" in line


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Return what a run of two jobs and the commands for its results print in 80 columns."""
    folder = tmp_path_factory.mktemp("run")
    words = ["eval", *TINY, "--dataset", "demo/garments", "demo/scenes", "--limit", "40", "--metrics", "full"]
    code, shown = in_terminal([*words, "--recall_k", "1", "5", "10"], 80, folder)
    assert code == 0, shown
    return folder, shown


def test_a_run(run):
    _, shown = run
    lines = shown.split("\n")

    assert widest(shown) <= 80
    assert "1/2 eyechart-tiny on demo/garments: acc1 " in shown
    assert "2/2 eyechart-tiny on demo/scenes: image_retrieval_recall@1" in shown
    for name in ("mean_per_class_recall", "image_retrieval_recall@10", "image_retrieval_true_recall@10"):
        assert any(line.split()[:1] == [name] for line in lines), name
    assert "To see them: `eyechart report results/ -o report.html`" in " ".join(shown.split())


def test_finished_bars_look_finished(run):
    _, shown = run

    last = [line for line in shown.replace("\r", "\n").split("\n") if line.startswith("reading demo/garments")][-1]
    assert "100 %  40 in " in last
    assert "?" not in last


@pytest.mark.parametrize(
    "words", ["build -o -", "build --layout matrix -o -", "report --output page.html", "cache ls", "info results"]
)
def test_commands_for_results(run, words):
    folder, _ = run

    _, shown = in_terminal(words.split(), 80, folder)

    assert widest(shown) <= 80


def test_an_error_is_wrapped_between_words(tmp_path):
    code, shown = in_terminal(["eval", "--dataset", "nosuch", *TINY], 60, tmp_path)

    assert code == 2
    assert widest(shown) <= 60
    assert "`eyechart list datasets`" in shown


def test_quiet_shows_the_table_and_nothing_else(tmp_path):
    words = ["eval", *TINY, "--dataset", "demo/garments", "--limit", "20", "--quiet"]
    code, shown = in_terminal(words, 80, tmp_path)

    assert code == 0
    assert shown.split()[:2] == ["metric", "value"]
    assert "reading" not in shown
    assert "To see it" not in shown
