"""The digest of somebody's own code: what it covers, and what it leaves to the versions of libraries."""

import functools
import sys

import pytest

from eyechart.io import digests
from eyechart.io.digests import code_digest, is_user_code


@pytest.fixture
def package(tmp_path, monkeypatch):
    """Write a small package with all kinds of imports, and let it be found."""
    files = {
        "own_pkg/__init__.py": "",
        "own_pkg/model.py": (
            "import json\nimport numpy\nfrom . import near\nfrom .deep import inner\nimport own_side.tool as t\n"
            "class Model:\n"
            "    def late(self):\n"
            "        from own_late import something\n"
            "def make(): return Model()\n"
        ),
        "own_pkg/near.py": "A = 1\n",
        "own_pkg/deep/__init__.py": "",
        "own_pkg/deep/inner.py": "from .. import unseen\n",
        "own_pkg/unseen.py": "",
        "own_pkg/stranger.py": "",
        "own_side/tool.py": "",
        "own_late.py": "something = 1\n",
    }
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    for name in [name for name in sys.modules if name.startswith(("own_pkg", "own_side", "own_late"))]:
        del sys.modules[name]


def model(package):
    from own_pkg.model import Model

    return Model


@pytest.mark.parametrize(
    "file",
    [
        "own_pkg/__init__.py",
        "own_pkg/model.py",
        "own_pkg/near.py",
        "own_pkg/deep/inner.py",
        "own_pkg/deep/__init__.py",
        "own_pkg/unseen.py",
        "own_side/tool.py",
        "own_late.py",
    ],
)
def test_every_file_that_may_be_run_counts(package, file):
    before = code_digest(model(package))
    (package / file).write_text((package / file).read_text() + "# changed\n")

    assert code_digest(model(package)) != before


def test_a_file_that_nothing_imports_does_not_count(package):
    before = code_digest(model(package))
    (package / "own_pkg" / "stranger.py").write_text("changed = 1")

    assert code_digest(model(package)) == before


def test_installed_libraries_do_not_count(package):
    names = digests._own_modules("own_pkg.model", package / "own_pkg" / "model.py")
    model(package)

    assert {name.partition(".")[0] for name in names} == {"own_pkg", "own_side", "own_late"}


def test_modules_that_were_not_imported_yet_are_not_imported_for_this(package):
    code_digest(model(package))

    assert "own_late" not in sys.modules


def test_instances_partials_and_wrapped_functions_are_what_is_behind_them(package):
    own = model(package)
    from own_pkg.model import make

    @functools.wraps(make)
    def wrapper():
        return make()

    assert code_digest(own()) == code_digest(own) != code_digest(make)
    assert code_digest(functools.partial(make)) == code_digest(wrapper) == code_digest(make)


def test_code_without_a_file_is_never_the_same():
    space = {"__name__": "nowhere"}
    exec("def made(): pass", space)  # noqa: S102 - what a notebook does

    assert code_digest(space["made"]) != code_digest(space["made"])


def test_a_class_of_a_library_is_not_ones_own(package):
    import numpy as np

    assert is_user_code(model(package))
    assert not is_user_code(np.ndarray)
    assert not is_user_code(functools.partial(print))
