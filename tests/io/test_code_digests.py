"""The digest of somebody's own code: what it covers, and what it leaves to the versions of libraries."""

import ast
import functools
import os
import subprocess
import sys
import zipfile

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
            "import own_whole.part\n"
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
        "own_whole/__init__.py": "",
        "own_whole/part.py": "",
        "own_late.py": "something = 1\n",
    }
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    for name in [name for name in sys.modules if name.startswith(("own_pkg", "own_side", "own_whole", "own_late"))]:
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
        "own_whole/__init__.py",
        "own_whole/part.py",
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
    names = digests._module_digests({"own_pkg.model": package / "own_pkg" / "model.py"})
    model(package)

    assert {name.partition(".")[0] for name in names} == {"own_pkg", "own_side", "own_whole", "own_late"}


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


LIBRARY = {
    "big_lib/__init__.py": "from big_lib import layers\n",
    "big_lib/layers.py": "import big_lib.far\nclass Layer:\n    pass\n",
    "big_lib/far.py": "FAR = 1\n",
    "big_lib-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: big-lib\nVersion: 1.0\n",
    "big_lib-1.0.dist-info/RECORD": "big_lib/__init__.py,,\nbig_lib/layers.py,,\nbig_lib/far.py,,\n",
}
"""An installed library: its files and its RECORD."""


def install(folder, layout):
    """Install the library in one of the ways in which Python finds it; return the entry of the path."""
    usual = {"a plain install": "env/lib/python3/site-packages", "Debian": "usr/dist-packages"}
    target = folder / usual.get(layout, "target")
    for name, text in LIBRARY.items():
        path = target / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    if layout == "links to a store":  # uv with link-mode=symlink
        linked = folder / "env" / "site-packages"
        linked.mkdir(parents=True)
        (linked / "big_lib").symlink_to(target / "big_lib")
        return linked
    if layout == "a zip file":
        with zipfile.ZipFile(folder / "app.pyz", "w") as archive:
            for name, text in LIBRARY.items():
                archive.writestr(name, text)
        return folder / "app.pyz"
    return target


LAYOUTS = ["a plain install", "Debian", "pip install --target", "links to a store", "a zip file"]


@pytest.fixture
def imported(tmp_path, monkeypatch):
    """Import a class of the library from a folder, for as long as the test needs it."""

    def of(place, name="big_lib.layers"):
        forget()
        monkeypatch.syspath_prepend(str(place))
        return __import__(name, fromlist=["Layer"]).Layer

    def forget():
        for name in [name for name in sys.modules if name.startswith(("big_lib", "uses_lib"))]:
            del sys.modules[name]

    yield of
    forget()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_library_is_installed_wherever_it_is_installed(tmp_path, imported, layout):
    assert not is_user_code(imported(install(tmp_path, layout)))


def test_the_digest_does_not_depend_on_where_a_library_is_installed(tmp_path, imported):
    found = set()
    for number, layout in enumerate(LAYOUTS):
        found.add(code_digest(imported(install(tmp_path / str(number), layout))))

    assert len(found) == 1


def test_an_editable_install_is_user_code_and_every_line_counts(tmp_path, imported):
    source, info = tmp_path / "checkout" / "src", tmp_path / "site-packages" / "big_lib-1.0.dist-info"
    for name, text in LIBRARY.items():
        if "dist-info" not in name:
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            (source / name).write_text(text)
    info.mkdir(parents=True)
    (info / "RECORD").write_text("__editable__.big_lib.pth,,\n")  # pip writes it elsewhere, without the code
    layer = imported(source)
    before = code_digest(layer)
    (source / "big_lib" / "far.py").write_text("FAR = 2\n")

    assert is_user_code(layer)
    assert code_digest(layer) != before


def test_the_identity_of_a_model_includes_the_code_of_editable_libraries_only(tmp_path, monkeypatch):
    from eyechart.models.family import content_identity

    place = install(tmp_path, "pip install --target")
    monkeypatch.syspath_prepend(str(place))
    installed = content_identity([], "big-lib")
    (place / "big_lib" / "far.py").write_text("FAR = 2\n")
    assert content_identity([], "big-lib") == installed

    digests._is_installed.cache_clear()
    digests._recorded.cache_clear()
    (place / "big_lib-1.0.dist-info" / "RECORD").write_text("__editable__.big_lib.pth,,\n")
    editable = content_identity([], "big-lib")
    (place / "big_lib" / "far.py").write_text("FAR = 3\n")

    assert len({installed, editable, content_identity([], "big-lib")}) == 3
    assert "big_lib" not in sys.modules


def test_user_code_in_a_zip_file_has_a_digest_of_its_content(tmp_path, imported):
    digests_of = []
    for number, text in enumerate(["FAR = 1\n", "FAR = 1\n", "FAR = 2\n"]):
        place = tmp_path / f"{number}.zip"
        with zipfile.ZipFile(place, "w") as archive:
            for name, content in LIBRARY.items():
                if "dist-info" not in name:
                    archive.writestr(name, text if name.endswith("far.py") else content)
        layer = imported(place)
        assert is_user_code(layer)
        digests_of.append(code_digest(layer))

    assert digests_of[0] == digests_of[1] != digests_of[2]


def test_another_version_of_an_installed_package_is_other_code(tmp_path, imported):
    place = install(tmp_path, "pip install --target")
    before = code_digest(imported(place))
    (place / "big_lib" / "far.py").write_text("FAR = 2\n")

    assert code_digest(imported(place)) != before


def test_the_imports_of_installed_code_are_not_parsed(tmp_path, imported, monkeypatch):
    place = install(tmp_path, "pip install --target")
    (tmp_path / "uses_lib.py").write_text("from big_lib.layers import Layer as Base\nclass Layer(Base):\n    pass\n")
    sys.path.insert(0, str(tmp_path))
    parsed, parse = [], ast.parse
    monkeypatch.setattr(ast, "parse", lambda data: parsed.append(data) or parse(data))
    try:
        own = imported(place, "uses_lib")
        code_digest(own)
        code_digest(own, own())
        code_digest(imported(place))
    finally:
        sys.path.remove(str(tmp_path))

    assert [data[:12] for data in parsed] == [b"from big_lib"]  # each file once


def test_several_objects_have_one_digest_in_any_order(package):
    own = model(package)
    from own_pkg.model import make

    assert code_digest(own, make) == code_digest(make, own) != code_digest(own)


def test_a_library_on_pythonpath_or_in_a_pth_file_is_the_library_of_a_plain_install(tmp_path):
    show = (
        "import big_lib.layers\nfrom eyechart.io.digests import code_digest, is_user_code\n"
        "print(is_user_code(big_lib.layers.Layer), code_digest(big_lib.layers.Layer))\n"
    )
    plain, target = install(tmp_path / "a", "a plain install"), install(tmp_path / "b", "pip install --target")
    overlay = tmp_path / "overlay"
    overlay.mkdir()
    (overlay / "more.pth").write_text(f"{plain}\n")
    found = set()
    for path, first in ((plain, ""), (target, ""), (overlay, f"import site; site.addsitedir({str(overlay)!r})\n")):
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(path), str(digests.OURS.parent)])}
        run = subprocess.run([sys.executable, "-c", first + show], env=environment, capture_output=True, text=True)
        assert not run.returncode, run.stderr
        found.add(run.stdout)

    assert len(found) == 1
    assert found.pop().startswith("False")
