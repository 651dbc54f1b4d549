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

from support.doc_pages import (
    CHINESE,
    FENCE,
    PAGES,
    PROGRAMS,
    ROOT,
    blocks,
    commands,
    original_of,
    repeats_its_original,
)

OUR_COMMANDS = {name: str(Path(sys.executable).parent / name) for name in (*PROGRAMS, "python")} | {
    "python3": sys.executable
}
"""As they are installed: a program does not see the working folder by itself, as ``python -m`` would."""
NOT_RUN = {"make", "pip", "cat", "ls", "open", "apt-get", "npm"}
"""Set-up steps, and commands that only look."""


def user():
    """Return the environment of somebody who installed the package and knows nothing of this folder."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


def run(words, folder):
    done = subprocess.run(
        words, cwd=folder, capture_output=True, text=True, timeout=240, stdin=subprocess.DEVNULL, env=user()
    )
    assert done.returncode == 0, f"{shlex.join(words)}\n{done.stdout}\n{done.stderr}"


RUN = [page for page in PAGES if not repeats_its_original(page)]
"""A Chinese page with the examples of the English one is run there."""


@pytest.mark.parametrize("page", RUN, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_examples_on_the_page_run(page, tmp_path, monkeypatch):
    monkeypatch.setenv("LMUData", str(tmp_path / "LMUData"))
    for language, options, body in blocks(page):
        if "skip" in options:
            continue
        if "file" in options:
            target = tmp_path / options["file"]
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(body, encoding="utf-8")
        elif language == "python":
            run([sys.executable, "-c", body], tmp_path)
        elif language == "console":
            for program, *words in commands(body):
                if program not in NOT_RUN:
                    run([OUR_COMMANDS[program], *words], tmp_path)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_to_files_of_the_project_lead_somewhere(page):
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    for target in re.findall(r"\]\(([^)#\s]+)", text):
        if "://" not in target:
            assert (page.parent / target).exists(), target


@pytest.mark.parametrize("page", CHINESE, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_chinese_page_and_its_original_know_each_other(page):
    assert re.search(rf"\[English\]\([./]*{original_of(page).name}\)", page.read_text(encoding="utf-8"))
    assert original_of(page).is_file()
