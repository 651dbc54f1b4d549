"""Texts of others on the terminal: seen as they are, never obeyed."""

import ast
import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eyechart.cli import main
from eyechart.cli.list import show_columns
from eyechart.cli.run_output import result_lines, show_profiles
from eyechart.io.progress import PlainProgress, RichProgress
from eyechart.io.terminal import make_console, visible, write_message, write_output
from eyechart.io.text_tables import columns_of, lay_out
from eyechart.results import Result
from eyechart.types import Metric
from support.data import write_classification

EVIL = "\x1b]0;title\x07\x1b[2J\x9b31m\u202e\x7f[bold red]x[/bold red][/y]:smiley:"
"""Sets the title, clears the screen, turns the writing around, and is no proper markup."""
SEEN = r"\x1b]0;title\x07\x1b[2J\x9b31m\u202e\x7f[bold red]x[/bold red][/y]:smiley:"
ORDERS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
SOURCES = sorted((Path(__file__).parent.parent.parent / "src").rglob("*.py"))


def result(**changes):
    body = {
        "dataset": "d",
        "model": "m",
        "pretrained": "p",
        "task": "t",
        "language": "en",
        "values": {"acc1": Metric(0.5)},
    }
    return Result(**body | changes)


@given(st.text(st.characters(categories=["Cc", "Cf", "Cs", "Lu", "Zs"])))
def test_no_text_keeps_what_a_terminal_obeys(text):
    assert not ORDERS.search(visible(text))
    assert visible(visible(text)) == visible(text)
    visible(text).encode()


@pytest.mark.parametrize("text", ["plain", "two\nlines\tand a tab", "größer 猫 \U0001f431 \u05d0\u200f", "[bold]\\x1b"])
def test_other_text_stays_as_it_is(text):
    assert visible(text) == text


def test_messages_are_made_visible_everywhere_and_output_only_on_a_terminal():
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    for write, kind, expected in (
        (write_message, Terminal, SEEN),
        (write_message, io.StringIO, SEEN),  # a log is opened in a terminal later
        (write_output, Terminal, SEEN),
        (write_output, io.StringIO, EVIL),  # a program wants the data
    ):
        stream = kind()
        write(EVIL, stream)
        assert stream.getvalue() == expected


def test_half_a_character_does_not_end_a_command():
    write_output("\ud800", io.TextIOWrapper(io.BytesIO(), "utf-8"))
    write_message("\ud800 \u2192", io.TextIOWrapper(io.BytesIO(), "ascii"))


# --------------------------------------------------------------------------------------- what is shown, part by part


@pytest.fixture
def console():
    return make_console(file=io.StringIO(), width=1000)


def test_the_table_of_results_shows_names_as_text(console):
    for line in result_lines([result(model=EVIL, dataset=EVIL, language=EVIL, values={EVIL: Metric(0.5)})]):
        console.print(line)

    text = console.file.getvalue()
    assert text.count(SEEN) == 4
    assert not ORDERS.search(text)


def test_a_line_break_in_a_name_makes_no_row(console):
    honest = result_lines([result(model="a forged   100 %", values={"acc1": Metric(0.5)})])
    evil = result_lines([result(model="a\nforged   100 %", values={"acc1\r\n": Metric(0.5)})])

    assert len(evil) == len(honest)
    assert not any("\n" in line or "\r" in line for line in evil)


def test_the_profile_shows_names_as_text(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "300")

    show_profiles([result(dataset=EVIL, provenance={"profile": {"total": 1.0}})])

    assert SEEN in capsys.readouterr().out


def test_colours_of_our_own_stay():
    console = make_console(file=io.StringIO(), force_terminal=True, color_system="standard")
    console.print(EVIL, style="yellow")

    assert console.file.getvalue() == f"\x1b[33m{SEEN}\x1b[0m\n"


def test_columns_show_names_as_text(capsys):
    show_columns([["a\nb", EVIL], ["c", "d"]], ["NAME", EVIL])

    shown = capsys.readouterr()
    assert shown.out.splitlines() == [f"a b   {EVIL}", "c     d"]
    assert SEEN in shown.err


def test_a_table_has_a_line_for_each_row():
    lines = lay_out(columns_of("benchmark", "metric"), [("a\nforged", "acc1\r")], None)

    assert lines == [["benchmark  metric"], ["a forged   acc1"]]


def test_a_table_on_a_terminal_is_as_wide_as_what_is_seen_in_it():
    (head, row) = lay_out(columns_of("benchmark", "metric"), [(EVIL, "acc1")], 300)

    assert head[0].index("metric") == row[0].index("acc1") == len(SEEN) + 2


def test_progress_in_a_log_shows_names_as_text():
    progress = PlainProgress(io.StringIO())

    with progress.step(EVIL, 3) as bar:
        bar.advance(3)
    progress.say(EVIL)

    assert progress.stream.getvalue().count(SEEN) == 2
    assert not ORDERS.search(progress.stream.getvalue())


def test_progress_on_a_terminal_shows_names_as_text():
    progress = RichProgress()
    progress.console = make_console(file=io.StringIO(), force_terminal=True, width=300, color_system=None)

    with progress.step(EVIL, 3) as bar:
        bar.advance(3)
        progress.say(f"say {EVIL}")

    text = progress.console.file.getvalue()
    assert f"say {SEEN}" in text
    assert text.count(SEEN) >= 2
    assert "\x1b]0;" not in text


def test_errors_show_names_as_text(tmp_path, capsys):
    with pytest.raises(SystemExit):
        main(["build", "x", f"--{EVIL}".replace(" ", "")])
    main(["build", str(tmp_path / EVIL.replace("/", ""))])
    main(["eval", "--dataset", EVIL, "--model_type", EVIL])

    text = capsys.readouterr().err
    assert text.count(r"\x1b]0;title\x07") >= 3
    assert not ORDERS.search(text)


# ------------------------------------------------------------------------------------------- whole, in a terminal


def in_a_terminal(*words, term="dumb", folder="."):
    """Run our program in a pseudo-terminal and return all that it wrote there."""
    import pty

    master, slave = pty.openpty()
    source = str(Path(main.__code__.co_filename).parent.parent.parent)
    process = subprocess.Popen(
        [sys.executable, "-m", "eyechart", *words],
        stdin=slave, stdout=slave, stderr=slave, cwd=folder,
        env=os.environ | {"TERM": term, "PYTHONPATH": source, "COLUMNS": "200"},
    )  # fmt: skip
    os.close(slave)
    written = bytearray()
    try:
        while block := os.read(master, 65536):
            written += block
    except OSError:
        pass  # how Linux says that nobody writes any more
    finally:
        os.close(master)
    return process.wait(), written.decode().replace("\r\n", "\n")


def test_a_table_in_a_terminal(tmp_path):
    body = {"dataset": EVIL, "model": EVIL, "pretrained": "p", "task": "t", "metrics": {"acc1": 0.5}}
    (tmp_path / "a.json").write_text(json.dumps(body))
    (tmp_path / f"{EVIL.replace('/', '')}.json").write_text("{")

    code, text = in_a_terminal("build", str(tmp_path), "-o", "-")

    assert code == 0
    assert text.count(SEEN) == 3
    assert "skipped" in text
    assert not ORDERS.search(text)


def test_an_evaluation_in_a_terminal(tmp_path):
    folder = tmp_path / EVIL.replace("/", "")
    write_classification(folder, classes=("cat", "dog"))

    code, text = in_a_terminal(
        "eval", "--model_type", "onnx", "--model", "eyechart-tiny", "--pretrained", "eyechart-tiny",
        "--dataset", str(folder), "--output", "r.json", "--profile", term="xterm", folder=tmp_path,
    )  # fmt: skip

    assert code == 0, text
    assert r"\x1b]0;title\x07" in text
    assert not re.search("\x1b\\]|\x1b\\[2J|[\x07\x9b\u202e]", text)


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.name)
def test_there_is_no_other_way_to_the_terminal(path):
    if path.name == "terminal.py":
        return
    calls = {ast.unparse(node.func) for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)}

    assert not calls & {"print", "sys.stdout.write", "sys.stderr.write", "Console", "rich.print"}
