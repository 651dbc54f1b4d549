"""What the project says of itself outside its code: badges, citation, changelog, Dockerfile and workflows are true.

Their form is checked by `make lint` (hadolint, the schemas of GitHub's workflows and of citation files).
"""

import importlib.util
import json
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


SPEED = {
    "zero-shot classification, 2,000 images": ("classification", 0),
    "the prompts alone": ("text_side", 0),
    "the same images with other templates": ("classification", 1),
    "the same run again": ("classification", 2),
    "recall@1, 5, 10 in both directions": ("scores", 0),
}
"""Rows of the README's table of speed, and where `make bench` wrote what was measured."""


@pytest.mark.parametrize("row", SPEED)
def test_the_readme_s_speeds_are_those_that_were_measured(row):
    part, place = SPEED[row]
    make_metric = json.loads((ROOT / "benchmarks/results/speed.json").read_text())[part]["rows"][place]
    line = re.search(rf"^\| {re.escape(row)}.*$", (ROOT / "README.md").read_text(), re.MULTILINE)[0]

    shown = [cell.strip(" s") for cell in line.strip("| ").split("|")[1:]]
    for text, name in zip(shown, ("peer wall s", "ours wall s", "wall ratio"), strict=True):
        digits = len(text.partition(".")[2])
        assert abs(float(text) - make_metric[name]) <= 0.5 * 10**-digits + 1e-9, (row, name)


def test_the_readme_counts_benchmarks_as_the_list_does():
    listed = (ROOT / "docs/vlm-benchmarks.md").read_text()
    scored, refused = re.search(r"^(\d+) names are scored.* (\d+) are refused", listed, re.MULTILINE).groups()

    for page in ("README.md", "docs/limits.md", "docs/from-vlmevalkit.md"):
        text = (ROOT / page).read_text()
        assert set(re.findall(r"(\d+) (?:of VLMEvalKit's|names are scored)", text)) <= {scored}
        assert set(re.findall(r"(\d+) (?:benchmark )?names of", text)) <= {refused}
    assert f"{scored} of VLMEvalKit's" in (ROOT / "README.md").read_text()


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


def test_the_source_distribution_holds_the_package_and_what_describes_it_but_no_tests(tmp_path):
    import tarfile

    from hatchling.builders.sdist import SdistBuilder

    archive = next(SdistBuilder(str(ROOT)).build(directory=str(tmp_path)))  # rejects unknown classifiers
    with tarfile.open(archive) as package:
        names = {name.partition("/")[2] for name in package.getnames()}

    described = {"README.md", "LICENSE", "CHANGELOG.md", "CITATION.cff", "SECURITY.md", "constraints.txt"}
    assert {name for name in names if not name.startswith("src/eyechart/")} - {".gitignore"} == {
        *described, "pyproject.toml", "PKG-INFO",
    }  # fmt: skip
    here = {
        path.relative_to(ROOT).as_posix() for path in (ROOT / "src").rglob("*.*") if "__pycache__" not in path.parts
    }
    assert {
        name for name in here if Path(name).suffix in {".py", ".toml", ".json", ".xz", ".js", ".css", ".onnx"}
    } <= names
