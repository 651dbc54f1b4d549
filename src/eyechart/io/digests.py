"""Digests of files, remembered while a file looks untouched, and digests of Python code."""

from __future__ import annotations

import ast
import functools
import hashlib
import inspect
import io
import json
import os
import secrets
import site
import sys
import sysconfig
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

from eyechart.errors import DataError
from eyechart.io.files import cache_root, write_cached
from eyechart.io.safe_parse import DAMAGED

DIGEST_SIZE = 16
SETTLED = 2_000_000_000
"""Nanoseconds after its last change from which a file is cached."""
_FORM = 1
_BLOCK = 1 << 20

State = list[int]
"""Size, modification time, status change time, inode and device of a file."""


_new_digest = functools.partial(hashlib.blake2b, digest_size=DIGEST_SIZE)


def digest_bytes(data: bytes) -> bytes:
    """Return the 16-byte BLAKE2b digest that is the key of content in the stores."""
    return _new_digest(data).digest()


def file_digest(path: Path) -> bytes:
    """Return the content digest of a file, from the cache if the file is unchanged.

    Raises:
        DataError: If it cannot be read.
    """
    try:
        state = file_state(path)
        found = known_digest(path, state)
        if found is None:
            with path.open("rb") as stream:
                found = hashlib.file_digest(stream, _new_digest).digest()
            keep_digest(path, state, found)
    except OSError as error:
        raise DataError("Cannot read {path} ({reason}).", path=path, reason=error.strerror) from error
    return found


def known_digest(path: Path, state: State) -> bytes | None:
    """Return the cached digest of a file in this state; None if the file would have to be read."""
    folder, name = _split(path)
    known = _books(cache_root()).book(folder).get(name)
    return bytes.fromhex(known[1]) if known is not None and known[0] == state else None


def read_digested(path: Path) -> tuple[bytes, bytes]:
    """Read a file once; return its content and digest, which is cached.

    Raises:
        OSError: If it cannot be read.
    """
    state = file_state(path)
    data = path.read_bytes()
    found = digest_bytes(data)
    keep_digest(path, state, found)
    return data, found


def keep_digest(path: Path, state: State, digest: bytes) -> None:
    """Cache the digest of a file whose reading began in this state, unless the file changed meanwhile."""
    if file_state(path) == state and is_settled(state):
        books = _books(cache_root())
        folder, name = _split(path)
        books.book(folder)[name] = (state, digest.hex())
        books.changed.add(folder)


def files_digest(files: Iterable[Path], root: Path) -> str:
    """Return one digest of the names (relative to ``root``) and contents of files, independent of their order."""
    state = _new_digest()
    for path in sorted(files):
        state.update(os.path.relpath(path, root).encode("utf-8", "surrogateescape") + b"\0" + file_digest(path))
    return state.hexdigest()


def remember_digests() -> None:
    """Save new digests for the next run."""
    books = _books(cache_root())
    for folder in sorted(books.changed):
        body = {"form": _FORM, "folder": folder, "files": books.book(folder)}
        write_cached(books.file(folder), json.dumps(body, ensure_ascii=True).encode())
    books.changed.clear()


@dataclass
class _DigestBooks:
    """Cache of digests and file states, one JSON file per folder."""

    root: Path
    changed: set[str] = field(default_factory=set)
    _books: dict[str, dict[str, tuple[State, str]]] = field(default_factory=dict)

    def book(self, folder: str) -> dict[str, tuple[State, str]]:
        """Return state and digest by name of file; empty if the cache is damaged or of another version."""
        if folder in self._books:
            return self._books[folder]
        found = {}
        try:
            body = json.loads(self.file(folder).read_bytes())
            if body["form"] == _FORM and body["folder"] == folder:
                found = {
                    name: ([int(n) for n in state], bytes.fromhex(digest).hex())
                    for name, (state, digest) in body["files"].items()
                }
        except (OSError, *DAMAGED):
            pass
        return self._books.setdefault(folder, found)  # several threads may read images

    def file(self, folder: str) -> Path:
        """Return the cache file of a folder."""
        return self.root / "digests" / f"{digest_bytes(os.fsencode(folder)).hex()}.json"


def _split(path: Path) -> tuple[str, str]:
    return os.path.split(os.path.abspath(path))  # noqa: PTH100 - without file system access


_books = cache(_DigestBooks)


class DigestedStream(io.BufferedReader):
    """A file that is digested while it is read, mostly forward; skipped ranges are read, too."""

    def __init__(self, path: Path) -> None:
        state = file_state(path)
        super().__init__(path.open("rb").detach())
        self.path, self._state = path, state
        self._digest = _new_digest()
        self._reached = 0

    def read(self, size: int | None = -1, /) -> bytes:
        """Read like a file."""
        start = self.tell()
        data = super().read(size)
        if start + len(data) > self._reached:
            self._digest.update(data[self._reached - start :])
            self._reached = start + len(data)
        return data

    def seek(self, position: int, whence: int = os.SEEK_SET, /) -> int:
        """Set the position."""
        if position > self._reached:
            super().seek(self._reached)
            while self._reached < position and self.read(min(_BLOCK, position - self._reached)):
                pass
        return super().seek(position, whence)

    def keep(self) -> None:
        """Cache the digest of the file if all of it was read."""
        if self._reached == self._state[0]:
            keep_digest(self.path, self._state, self._digest.digest())


def file_state(path: Path) -> State:
    """Return the attributes that change with a file's content."""
    found = path.stat()
    return [found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino, found.st_dev]


def is_settled(state: State) -> bool:
    """Whether the last change is old enough that another one would be noticed."""
    return time.time_ns() - max(state[1], state[2]) > SETTLED


# Digest of user code: of the module that defines an object, and of what it imports.
#
# Installed libraries and the standard library are excluded: their versions are recorded separately. The package of
# the object is always included.


OURS = Path(__file__).resolve().parent.parent


def code_digest(obj: Any) -> str:
    """Return a digest that changes with the code behind a function, class or instance.

    Code without a file (typed into a shell, made by ``exec``) gets a random digest.
    """
    thing = _defined(obj)
    module = inspect.getmodule(thing)
    start = _file_of(module) if module is not None else None
    if module is None or start is None:
        return secrets.token_hex(DIGEST_SIZE)
    state = _new_digest()
    state.update(f"{module.__name__}:{getattr(thing, '__qualname__', '')}".encode())
    for name, path in sorted(_own_modules(module.__name__, start).items()):
        state.update(f"\0{name}\0".encode() + digest_bytes(path.read_bytes()))
    return state.hexdigest()


def is_user_code(obj: Any) -> bool:
    """Whether an object is user code rather than part of an installed library."""
    module = inspect.getmodule(_defined(obj))
    if module is None or module.__name__ in sys.builtin_module_names:
        return module is None
    path = _file_of(module)
    return path is None or _is_own(path)


def _defined(obj: Any) -> Any:
    while isinstance(obj, functools.partial):
        obj = obj.func
    obj = inspect.unwrap(obj) if callable(obj) else obj
    return obj if inspect.isclass(obj) or inspect.isroutine(obj) else type(obj)


def _own_modules(name: str, path: Path) -> dict[str, Path]:
    """Follow the imports of a module, nested ones included, as far as they lead to user code."""
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
    """Yield the modules that a file may import: those named in its statements, and its parent packages."""
    yield from _with_parents(name)
    if path.suffix != ".py":
        return
    parent = name if path.name == "__init__.py" else name.rpartition(".")[0]
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError, RecursionError):
        return  # importing it reports the error
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
    """Return the file of a module without importing it."""
    if name in sys.modules:
        return _file_of(sys.modules[name])
    outer, _, last = name.rpartition(".")
    if not outer:
        spec = _spec(last)
        return Path(spec.origin) if spec is not None and spec.origin and Path(spec.origin).is_file() else None
    places = [place for folder in _folders(outer) for place in (folder / f"{last}.py", folder / last / "__init__.py")]
    return next((place for place in places if place.is_file()), None)


def _folders(package: str) -> list[Path]:
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


@cache
def _installed() -> tuple[Path, ...]:
    """Return the folders of installed code: standard library, packages, and Eyechart."""
    names = ("stdlib", "platstdlib", "purelib", "platlib")
    paths = [sysconfig.get_path(name) for name in names]
    paths += [*site.getsitepackages(), site.getusersitepackages()]
    return (OURS, *(Path(path).resolve() for path in paths if path))
