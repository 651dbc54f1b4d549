"""The digest of somebody's own code: of the module that an object is from, and of what that imports.

Installed libraries and Python's own modules do not count: their versions are elsewhere. The package that the object
itself is from counts wherever it is.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import inspect
import secrets
import site
import sys
import sysconfig
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

from eyechart.io.digests import DIGEST_SIZE, digest_bytes

OURS = Path(__file__).resolve().parent.parent


def code_digest(obj: Any) -> str:
    """Return a text that changes with the code behind a function, class or instance.

    Code without a file (typed into a shell, made by ``exec``) gets a digest that is never seen again.
    """
    thing = _defined(obj)
    module = inspect.getmodule(thing)
    start = _file_of(module) if module is not None else None
    if module is None or start is None:
        return secrets.token_hex(DIGEST_SIZE)
    state = hashlib.blake2b(digest_size=DIGEST_SIZE)
    state.update(f"{module.__name__}:{getattr(thing, '__qualname__', '')}".encode())
    for name, path in sorted(_own_modules(module.__name__, start).items()):
        state.update(f"\0{name}\0".encode() + digest_bytes(path.read_bytes()))
    return state.hexdigest()


def is_own(obj: Any) -> bool:
    """Tell whether an object is of somebody's own code, and not of an installed library."""
    module = inspect.getmodule(_defined(obj))
    if module is None or module.__name__ in sys.builtin_module_names:
        return module is None
    path = _file_of(module)
    return path is None or _is_own(path)


def _defined(obj: Any) -> Any:
    """Return the function or class behind an object."""
    while isinstance(obj, functools.partial):
        obj = obj.func
    obj = inspect.unwrap(obj) if callable(obj) else obj
    return obj if inspect.isclass(obj) or inspect.isroutine(obj) else type(obj)


def _own_modules(name: str, path: Path) -> dict[str, Path]:
    """Follow imports from a module, wherever in the file they stand, as far as they lead to code of one's own."""
    package = name.partition(".")[0]
    found: dict[str, Path] = {}
    waiting = [(name, path)]
    while waiting:
        here, file = waiting.pop()
        if here in found:
            continue
        found[here] = file
        for imported in _imports(here, file):
            place = _find(imported)
            if place is not None and (imported.partition(".")[0] == package or _is_own(place)):
                waiting.append((imported, place))
    return found


def _imports(name: str, path: Path) -> Iterator[str]:
    """Yield the modules that a file may import: what its statements name, and the packages around it."""
    yield from _with_parents(name)
    if path.suffix != ".py":
        return
    parent = name if path.name == "__init__.py" else name.rpartition(".")[0]
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError, RecursionError):
        return  # whoever imports it will say what is wrong
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from _with_parents(alias.name)
        elif isinstance(node, ast.ImportFrom):
            outer = parent.split(".")[: len(parent.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*outer, *([node.module] if node.module else [])])
            yield from _with_parents(base)
            yield from (f"{base}.{alias.name}" for alias in node.names)


def _with_parents(name: str) -> Iterator[str]:
    parts = name.split(".")
    yield from (".".join(parts[: i + 1]) for i in range(len(parts)))


def _find(name: str) -> Path | None:
    """Return the file of a module, importing nothing."""
    if name in sys.modules:
        return _file_of(sys.modules[name])
    outer, _, last = name.rpartition(".")
    if not outer:
        spec = _spec(last)
        return Path(spec.origin) if spec is not None and spec.origin and Path(spec.origin).is_file() else None
    places = [place for folder in _folders(outer) for place in (folder / f"{last}.py", folder / last / "__init__.py")]
    return next((place for place in places if place.is_file()), None)


def _folders(package: str) -> list[Path]:
    """Return where the modules of a package are."""
    known = getattr(sys.modules.get(package), "__path__", None)
    if known is not None:
        return [Path(folder) for folder in known]
    outer, _, last = package.rpartition(".")
    if outer:
        return [folder / last for folder in _folders(outer)]
    spec = _spec(package)
    return [Path(folder) for folder in (spec.submodule_search_locations or ())] if spec is not None else []


def _spec(name: str) -> ModuleSpec | None:
    try:
        return find_spec(name) if name else None
    except (ImportError, ValueError):
        return None


def _file_of(module: ModuleType) -> Path | None:
    file = getattr(module, "__file__", None)
    return Path(file) if file and Path(file).is_file() else None


def _is_own(path: Path) -> bool:
    real = path.resolve()
    return not any(real.is_relative_to(folder) for folder in _installed())


@functools.cache
def _installed() -> tuple[Path, ...]:
    """Return where installed code is: Python's own, packages, and Eyechart itself."""
    names = ("stdlib", "platstdlib", "purelib", "platlib")
    paths = [sysconfig.get_path(name) for name in names]
    paths += [*site.getsitepackages(), site.getusersitepackages()]
    return (OURS, *(Path(path).resolve() for path in paths if path))
