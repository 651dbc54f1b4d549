"""Extras are spelt in one way, which every pip finds: as in the metadata, without an underscore."""

import re
import tomllib
from pathlib import Path

import pytest

from eyechart.cli.flags.parser import table

ROOT = Path(__file__).parent.parent.parent
KNOWN = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"])
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
CODE = sorted((ROOT / "src").rglob("*.py"))


def test_no_extra_has_an_underscore():
    assert not [name for name in KNOWN if "_" in name]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_pages_name_extras_that_exist(path):
    named = re.findall(r"(?:eyechart|'\.)\[([a-z_,-]+)\]", path.read_text())

    assert {name for names in named for name in names.split(",")} <= KNOWN


def test_messages_name_extras_that_exist():
    text = "\n".join(path.read_text() for path in CODE)
    named = re.findall(r"eyechart\[([a-z_-]+)\]", text)
    named += re.findall(r"(?:import_extra|missing_extra)\([^()]*?, \"([a-z_-]+)\"\)", text)

    assert len(named) > 20
    assert {*named, *(extra for extra, _ in table("extras").values())} <= KNOWN
