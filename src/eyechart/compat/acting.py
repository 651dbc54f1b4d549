"""Scripts written for another tool, run by ours: its import names are served by our modules, for one process only.

Each surface has a table ``MODULES`` in its ``modules.py``: a module's name in the original -> the modules of ours whose
public names it shows. Nothing is changed on disk, and a real package of that name stays as it is. Where the table says
``OWN_FILES``, a module that is not in it may be a file on ``sys.path``: what people add to that tool in its folders.
"""

from __future__ import annotations

import runpy
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

from eyechart.errors import UsageError, unknown_name

SURFACES = {
    "clip_benchmark": "eyechart.compat.clip_benchmark.modules",
    "evalscope": "eyechart.compat.evalscope.modules",
    "vlmeval": "eyechart.compat.vlmevalkit.modules",
}
"""The packages that can be stood in for, and where the table of their modules is."""
SPAWNED = Path(__file__).parent / "spawned"
"""A folder for each package, for workers that start as new processes: they have our ``sys.path``, not our finders."""


def act_as(name: str) -> None:
    """Serve ``import <name>`` from now on, whether or not the real package is installed.

    Raises:
        UsageError: If the name is not known, or the real package has been imported already.
    """
    if name not in SURFACES:
        raise unknown_name("package to act as", name, SURFACES)
    if any(isinstance(finder, _Finder) and finder.package == name for finder in sys.meta_path):
        return
    if name in sys.modules:
        raise UsageError(
            f"{name} has been imported already.", advice=f"Call act_as({name!r}) before anything imports it."
        )
    table = import_module(SURFACES[name])
    sys.meta_path.insert(0, _Finder(name, table.MODULES, own_files=getattr(table, "OWN_FILES", False)))
    if str(SPAWNED / name) not in sys.path:
        sys.path.insert(0, str(SPAWNED / name))


def take_over(name: str) -> None:
    """Put our package in the place of the module that is being imported from ``SPAWNED``."""
    del sys.modules[name]
    act_as(name)
    import_module(name)


def run_script(path: str, arguments: Sequence[str]) -> None:
    """Run a script as ``python path arguments`` would."""
    if not Path(path).is_file():
        raise UsageError(f"There is no script {path}.", advice="Modules are run with -m MODULE.")
    sys.argv[:] = [path, *arguments]
    sys.path.insert(1, str(Path(path).resolve().parent))  # behind SPAWNED: ours wins in workers, too
    runpy.run_path(path, run_name="__main__")


def run_module(name: str, arguments: Sequence[str]) -> int:
    """Run a module as ``python -m name arguments`` would; of a served module, its ``main``."""
    sys.argv[:] = [name, *arguments]
    sys.path.insert(1, "")
    if not any(isinstance(finder, _Finder) and name in finder.modules for finder in sys.meta_path):
        if not _is_there(name):
            raise UsageError(f"There is no module {name}.", advice="Scripts are run by their path, without -m.")
        runpy.run_module(name, run_name="__main__", alter_sys=True)
        return 0
    served = import_module(name)
    if not hasattr(served, "main"):
        raise UsageError(f"{name} has no main() that could be run.")
    return int(served.main() or 0)


def _is_there(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:  # not even the package
        return False


class _Finder(MetaPathFinder):
    """Finds the modules of one package in its table; comes before all other finders."""

    def __init__(self, package: str, modules: Mapping[str, Sequence[str]], *, own_files: bool) -> None:
        self.package, self.modules, self.own_files = package, modules, own_files

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> ModuleSpec | None:  # noqa: ARG002
        if fullname.partition(".")[0] != self.package:
            return None
        inner = any(name.startswith(f"{fullname}.") for name in self.modules)
        if fullname not in self.modules and not inner:
            own = self._own_file(fullname) if self.own_files else None
            if own is not None:
                return own
            raise ModuleNotFoundError(
                f"Eyechart has no {fullname}; of {self.package} it has: {', '.join(sorted(self.modules))}.",
                name=fullname,
            )
        return ModuleSpec(fullname, _OursLoader(self.modules.get(fullname, ())), is_package=inner, origin="eyechart")

    def _own_file(self, fullname: str) -> ModuleSpec | None:
        """Find a module that is not in the table where Python would look for it, by its path from there."""
        for folder in sys.path:
            base = Path(folder or ".").absolute().joinpath(*fullname.split("."))
            for file, inner in ((base.with_name(f"{base.name}.py"), None), (base / "__init__.py", [str(base)])):
                if file.is_file():
                    return spec_from_file_location(fullname, file, submodule_search_locations=inner)
            if base.is_dir():  # a folder without __init__.py
                return ModuleSpec(fullname, _OursLoader(()), origin=str(base), is_package=True)
        return None


class _OursLoader(Loader):
    """Fills a module with the public names of ours."""

    def __init__(self, sources: Sequence[str]) -> None:
        self.sources = sources

    def exec_module(self, module: ModuleType) -> None:
        later: dict[str, ModuleType] = {}
        for source in self.sources:
            ours = import_module(source)
            names = getattr(ours, "__all__", None) or [name for name in vars(ours) if not name.startswith("_")]
            vars(module).update({name: vars(ours)[name] for name in names if name in vars(ours)})
            later |= {name: ours for name in names if name not in vars(ours)}

        def made_when_asked_for(name: str) -> Any:
            if name not in later:
                raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}")
            return getattr(later[name], name)

        # `import *` takes all names, also those that are made when they are asked for.
        shown = [name for name in vars(module) if not name.startswith("_")]
        vars(module).update({"__getattr__": made_when_asked_for, "__all__": [*dict.fromkeys([*shown, *later])]})
