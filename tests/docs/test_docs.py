"""Every example on a documentation page is run, in order, in a fresh folder.

A fenced block says by its first line what it is:

    ```python                  a script that is run
    ```console                 lines that start with "$ " are run; what follows is what they print, for the reader
    ```yaml file=task.yaml     a file that the reader is told to write (any language)
    ```console skip            not run: it needs a network or an hour; the page says so
"""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(r"^```(?P<info>[^\n`]*)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
OUR_COMMANDS = {
    "eyechart": ["-m", "eyechart"],
    "clip_benchmark": ["-c", "import sys; from eyechart.cli import main_clip_benchmark as main; sys.exit(main())"],
    "clip_benchmark_export_wds": [
        "-c",
        "import sys; from eyechart.cli import main_export_wds as main; sys.exit(main())",
    ],
    "python": [],
    "python3": [],
}
NOT_RUN = {"make", "pip", "cat", "ls", "open", "apt-get", "npm"}
"""Set-up steps, and commands that only look."""


def blocks(page):
    for found in FENCE.finditer(page.read_text(encoding="utf-8")):
        language, *options = found["info"].split() or [""]
        yield language, dict(option.partition("=")[::2] for option in options), found["body"]


def commands(body):
    """Yield the commands of a console block, continued lines joined."""
    for line in body.replace("\\\n", " ").splitlines():
        if line.startswith("$ "):
            yield shlex.split(line[2:], comments=True)


def run(words, folder):
    done = subprocess.run(
        [sys.executable, *words], cwd=folder, capture_output=True, text=True, timeout=240, stdin=subprocess.DEVNULL
    )
    assert done.returncode == 0, f"{shlex.join(words)}\n{done.stdout}\n{done.stderr}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_examples_on_the_page_run(page, tmp_path, monkeypatch):
    monkeypatch.setenv("LMUData", str(tmp_path / "LMUData"))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT / "src"), str(tmp_path)]))
    for language, options, body in blocks(page):
        if "skip" in options:
            continue
        if "file" in options:
            target = tmp_path / options["file"]
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(body, encoding="utf-8")
        elif language == "python":
            run(["-c", body], tmp_path)
        elif language == "console":
            for program, *words in commands(body):
                if program not in NOT_RUN:
                    run([*OUR_COMMANDS[program], *words], tmp_path)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_to_files_of_the_project_lead_somewhere(page):
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    for target in re.findall(r"\]\(([^)#\s]+)", text):
        if "://" not in target:
            assert (page.parent / target).exists(), target
