"""What the project says of itself outside its code: badges, citation, changelog, Dockerfile and workflows are true.

Their form is checked by `make lint` (hadolint, the schemas of GitHub's workflows and of citation files).
"""

import importlib.util
import re
import tomllib
from pathlib import Path

import pytest
import yaml

import eyechart
from support.doc_pages import PROGRAMS

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
WORKFLOWS = {path.name: yaml.safe_load(path.read_text()) for path in sorted((ROOT / ".github/workflows").iterdir())}


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("badges", ROOT / "scripts" / "badges.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_badge_of_the_readme_is_a_file_that_says_what_is_true(script):
    shown = re.findall(r"!\[([^\]]*)\]\((docs/img/badge-\w+\.svg)\)", (ROOT / "README.md").read_text())

    facts = script.badges()
    assert {path for _, path in shown} == {f"docs/img/badge-{name}.svg" for name in facts}
    for name, value in facts.items():
        assert (ROOT / f"docs/img/badge-{name}.svg").read_text() == script.draw(name, value), "run scripts/badges.py"
    assert {alternative.lower() for alternative, _ in shown} == {
        f"{name} {value}".lower() for name, value in facts.items()
    }


def test_the_readme_asks_no_other_host_for_an_image():
    assert re.findall(r"!\[[^\]]*\]\(https?:[^)]*\)", (ROOT / "README.md").read_text()) == []


def test_the_citation_and_the_changelog_are_of_this_version():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    newest = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)[1]

    assert citation["version"] == newest == eyechart.__version__
    assert citation["license"] == PROJECT["license"]


def test_the_dockerfile_installs_extras_that_exist_and_copies_what_is_not_ignored():
    text = (ROOT / "Dockerfile").read_text()
    kept = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}

    assert {"core", "full"} <= set(re.findall(r"^FROM \S+ AS (\S+)$", text, re.MULTILINE))
    assert set(re.search(r'"\.\[([a-z,-]+)\]"', text)[1].split(",")) <= set(PROJECT["optional-dependencies"])
    copied = re.findall(r"^COPY (?!--from)(.+) \S+$", text, re.MULTILINE)
    assert {name for names in copied for name in names.split()} == kept
    assert all((ROOT / name).exists() for name in kept)


@pytest.mark.parametrize("name", WORKFLOWS)
def test_the_workflows_run_what_there_is(name):
    """A step that calls a make target, a script or a program of ours names one that exists."""
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    steps = [step["run"] for job in WORKFLOWS[name]["jobs"].values() for step in job["steps"] if "run" in step]

    assert steps
    for program, *words in (step.split() for step in steps):
        if program == "make":
            assert set(words) <= targets
        elif "/" in program:
            assert (ROOT / program).stat().st_mode & 0o100, program
        else:
            assert program in {*PROGRAMS, "python", "docker"}
