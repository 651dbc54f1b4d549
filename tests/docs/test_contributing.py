"""The map and the walks of CONTRIBUTING.md: every name in them exists, and the first walk is what happens."""

import inspect
import re
import sys
import threading
from importlib import import_module
from pathlib import Path

import pytest

from eyechart.cli import main
from eyechart.session import Session

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
WALKS = PAGE.partition("## Three walks")[2].partition("## ")[0]
NAMES = re.findall(r"`((?:[a-z_]+|Session)(?:\.\w+)+)`", WALKS)


def resolve(name):
    """Return the module, class or function that a dotted name stands for; ``predict`` is a method of the task."""
    if name.startswith("Session."):
        return getattr(Session, name.partition(".")[2])
    parts = name.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            found = import_module(".".join(["eyechart", *parts[:cut]]))
        except ModuleNotFoundError:
            continue
        for part in parts[cut:]:
            classes = inspect.getmembers(found, inspect.isclass)
            owners = [found, *(one for _, one in classes if one.__module__ == found.__name__)]
            found = next(vars(one)[part] for one in owners if part in vars(one))
        return found
    raise AssertionError(name)


@pytest.mark.parametrize("name", sorted(set(NAMES)))
def test_every_name_of_the_walks_exists(name):
    assert resolve(name)


@pytest.mark.parametrize("path", sorted(set(re.findall(r"`([\w/]+\.py)`", PAGE))))
def test_every_file_that_is_named_exists(path):
    assert (ROOT / path).is_file() or (ROOT / "src" / "eyechart" / path).is_file()


def test_an_image_takes_the_first_walk(tmp_path, monkeypatch):
    first = WALKS.partition("A question of a generative benchmark")[0]
    steps = [resolve(name) for name in re.findall(r"`((?:[a-z_]+|Session)(?:\.\w+)+)`", first)]
    called = []

    def watch(frame, event, _):
        if event == "call":
            called.append((frame.f_code.co_filename, frame.f_code.co_qualname))

    monkeypatch.chdir(tmp_path)
    threading.setprofile(watch)
    sys.setprofile(watch)
    try:
        assert main(["eval", "demo/garments", "eyechart-tiny", "--limit", "1", "--quiet", "--output", "r.json"]) == 0
    finally:
        sys.setprofile(None)
        threading.setprofile(None)

    place = 0
    for step in steps:
        code = getattr(step, "__code__", None)
        file = code.co_filename if code else inspect.getsourcefile(step)
        prefix = code.co_qualname if code else getattr(step, "__qualname__", "")
        place = next(
            (i for i in range(place, len(called)) if called[i][0] == file and called[i][1].startswith(prefix)), None
        )
        assert place is not None, step
