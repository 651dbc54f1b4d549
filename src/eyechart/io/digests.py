"""Digests of files, remembered while a file looks untouched, and digests of Python code."""

import ast
import functools
import hashlib
import inspect
import io
import json
import os
import pkgutil
import re
import secrets
import shutil
import site
import sys
import sysconfig
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, lru_cache
from importlib.machinery import ModuleSpec
from importlib.metadata import distributions
from importlib.util import find_spec
from itertools import accumulate
from pathlib import Path
from types import ModuleType
from typing import Any
from zipimport import zipimporter

from eyechart.errors import DataError
from eyechart.io.files import cache_root, write_cached
from eyechart.io.safe_parse import DAMAGED

DIGEST_SIZE = 16
DIGESTS, SHARDS = "digests", "shards"
"""Folders of the cache with digests of files and indexes of shards."""
SETTLED = 2_000_000_000
"""Nanoseconds after its last change from which a file is cached."""
WRITTEN_BACK = 60_000_000_000
"""Nanoseconds after which the kernel has written back changed pages. Until then, writes through a memory mapping may
leave all times of a file unchanged, unless it is flushed."""
MAX_FLUSHED = 128
"""Recently changed files flushed per run, some milliseconds each; further ones are not cached."""
_FORM = 2
_PLAIN = 5
"""Length of a state without sampled blocks."""
_BLOCK = 1 << 20
_SAMPLES, _SAMPLE_BYTES = 16, 4096

State = list[int]
"""Size, modification time, change time, inode and device of a file; for weights, and on a filesystem without reliable
change times, also a digest of sampled blocks."""

_new_digest = functools.partial(hashlib.blake2b, digest_size=DIGEST_SIZE)


def digest_bytes(data: bytes) -> bytes:
    """Return the 16-byte BLAKE2b digest that is the key of content in the stores."""
    return _new_digest(data).digest()


def file_digest(path: Path, *, weights: bool = False) -> bytes:
    """Return the content digest of a file, from the cache if the file is unchanged.

    With ``weights`` (files of a model), a file also counts as changed if sampled blocks differ, and is always read on a
    filesystem without reliable change times.
    """
    try:
        state = file_state(path, sampled=weights)
        cached = not (weights and weak_filesystem(path))
        found = known_digest(path, state) if cached else None
        if found is None:
            with path.open("rb") as stream:
                found = hashlib.file_digest(stream, _new_digest).digest()
            if cached:
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
    """Read a file once; return its content and digest, which is cached."""
    state = file_state(path)
    data = path.read_bytes()
    found = digest_bytes(data)
    keep_digest(path, state, found)
    return data, found


def keep_digest(path: Path, state: State, digest: bytes) -> None:
    """Cache the digest of a file whose reading began in this state, unless the file changed meanwhile."""
    if file_state(path, sampled=len(state) > _PLAIN) == state and is_settled(state):
        books = _books(cache_root())
        folder, name = _split(path)
        books.book(folder)[name] = (state, digest.hex())
        books.changed.add(folder)


def files_digest(files: Iterable[Path], root: Path, *, weights: bool = False) -> str:
    """Return one digest of the names (relative to ``root``) and contents of files, independent of their order."""
    state = _new_digest()
    for path in sorted(files):
        name = os.path.relpath(path, root).encode("utf-8", "surrogateescape")
        state.update(name + b"\0" + file_digest(path, weights=weights))
    return state.hexdigest()


def remember_digests() -> None:
    """Save new digests for the next run."""
    books = _books(cache_root())
    for folder in sorted(books.changed):
        body = {"form": _FORM, "folder": folder, "files": books.book(folder)}
        write_cached(books.file(folder), json.dumps(body, ensure_ascii=True).encode())
    books.changed.clear()


def forget_digests() -> None:
    """Delete the cached digests and indexes of files, so that every file is read again."""
    for folder in (DIGESTS, SHARDS):
        shutil.rmtree(cache_root() / folder, ignore_errors=True)
    _books.cache_clear()


@dataclass
class _DigestBooks:
    """Cache of digests and file states, one JSON file per folder."""

    root: Path
    changed: set[str] = field(default_factory=set)
    flushed: set[tuple[int, ...]] = field(default_factory=set)
    """States of files whose next write through a memory mapping changes their times."""
    _books: dict[str, dict[str, tuple[State, str]]] = field(default_factory=dict)

    def book(self, folder: str) -> dict[str, tuple[State, str]]:
        """Return state and digest by name of file; empty if the cache is damaged or of another version."""
        if folder in self._books:
            return self._books[folder]
        found = {}
        with suppress(OSError, *DAMAGED):
            body = json.loads(self.file(folder).read_bytes())
            if body["form"] == _FORM and body["folder"] == folder:
                files = body["files"].items()
                found = {name: ([*map(int, state)], bytes.fromhex(text).hex()) for name, (state, text) in files}
        return self._books.setdefault(folder, found)  # several threads may read images

    def file(self, folder: str) -> Path:
        return self.root / DIGESTS / f"{digest_bytes(os.fsencode(folder)).hex()}.json"


def _split(path: Path) -> tuple[str, str]:
    return os.path.split(os.path.abspath(path))  # noqa: PTH100 - without file system access


_books = cache(_DigestBooks)


class DigestedStream(io.BufferedReader):
    """A file that is digested while it is read, mostly forward; skipped ranges are read, too."""

    def __init__(self, path: Path) -> None:
        state = file_state(path)
        super().__init__(path.open("rb").detach())
        self.path, self._state = path, state
        self._digest, self._reached = _new_digest(), 0

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


def file_state(path: Path, *, sampled: bool = False) -> State:
    """Return the attributes that change with a file's content."""
    found = path.stat()
    state, flushed = _times(found), _books(cache_root()).flushed
    if _age(state) <= WRITTEN_BACK and tuple(state) not in flushed and len(flushed) < MAX_FLUSHED:
        # Write it back: the kernel then changes its times with the next write through a mapping.
        with suppress(OSError), path.open("rb") as stream:
            os.fsync(stream.fileno())
            state = _times(path.stat())
            flushed.add(tuple(state))
    weak = weak_filesystem(path, found.st_dev)
    return [*state, _sample(path, found, weak)] if weak or sampled else state


def is_settled(state: State) -> bool:
    """Whether the last change is old enough that another one would be noticed."""
    age = _age(state)
    return age > WRITTEN_BACK or (age > SETTLED and tuple(state[:_PLAIN]) in _books(cache_root()).flushed)


def _times(found: os.stat_result) -> State:
    return [found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino, found.st_dev]


def _age(state: State) -> int:
    return time.time_ns() - max(state[1], state[2])


def _sample(path: Path, found: os.stat_result, weak: str) -> int:
    """Digest blocks spread over a file, all of a small one, and what identifies a weak filesystem."""
    size, state = found.st_size, _new_digest(weak.encode())
    if weak and hasattr(os, "statvfs"):
        whole = os.statvfs(path)
        identity = [whole.f_fsid, whole.f_blocks, whole.f_files]
        with suppress(OSError):  # the image behind a loop device
            device = f"{os.major(found.st_dev)}:{os.minor(found.st_dev)}"
            image = Path(f"/sys/dev/block/{device}/loop/backing_file").read_text().rstrip("\n")
            identity += _times(Path(image).stat())
        state.update(repr(identity).encode())
    step = max(_SAMPLE_BYTES, -(-(size - _SAMPLE_BYTES) // (_SAMPLES - 1)))
    with path.open("rb", buffering=0) as stream:
        for start in range(0, max(size, 1), step):
            stream.seek(min(start, max(0, size - _SAMPLE_BYTES)))
            state.update(stream.read(_SAMPLE_BYTES))
    return int.from_bytes(state.digest()[:8])


# Filesystems without reliable change times. In a reproducible image (squashfs, erofs, iso9660, a loop device), two
# versions of a file may have equal size, times, inode and device; FAT, 9p and FUSE may store no change time at all.

_RELIABLE = re.compile(
    "apfs|bcachefs|beegfs|btrfs|ceph|ext[234]|f2fs|gfs2|gpfs|jfs|lustre|nfs4?|ocfs2|ramfs|tmpfs|ubifs|wekafs|xfs|zfs"
)
"""Types of filesystems that set the change time of a file whenever it is written."""
_MOUNTS = Path("/proc/self/mountinfo")
_weak: dict[int, str] = {}


def weak_filesystem(path: Path, device: int | None = None) -> str:
    """Return the type of a file's filesystem if its change times are not reliable, else an empty text."""
    device = path.stat().st_dev if device is None else device
    if device not in _weak:
        try:
            table = _MOUNTS.read_text(errors="surrogateescape").splitlines()
            _weak[device] = weak_mount(table, device, os.path.realpath(path))
        except (OSError, ValueError):  # not Linux: the volume of the home folder is reliable
            _weak[device] = "" if Path.home().stat().st_dev == device else sys.platform
    return _weak[device]


def weak_mount(table: list[str], device: int | None, path: str) -> str:
    """Look up a device, or a path where devices differ (btrfs, overlay), in the lines of ``/proc/self/mountinfo``."""
    mounts = []
    for line in table:
        first, _, last = line.partition(" - ")
        number, _, point = first.split(" ")[2:5]
        point = re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), point)
        mounts.append((os.makedev(*map(int, number.split(":"))), point.rstrip("/"), last))
    inside = [mount for mount in mounts if f"{path}/".startswith(f"{mount[1]}/")]
    found = [mount for mount in mounts if mount[0] == device] or sorted(inside, key=lambda mount: len(mount[1]))
    if not found:
        return "unknown"
    kind, source, options = found[-1][2].split(" ", 2)  # options of the filesystem, not of the mount
    layers = re.findall(r"(?<=[=:])/[^,:]*", ",".join(re.findall(r"(?:lower|upper)dir\+?=[^,]*", options)))
    if kind == "overlay" and layers:  # they may be invisible in a container
        others = [line for line, mount in zip(table, mounts, strict=True) if mount[0] != found[-1][0]]
        return kind if any(weak_mount(others, None, layer) for layer in layers) else ""
    is_image = source.startswith("/dev/loop") or (source.startswith("/dev/") and "ro" in options.split(","))
    return kind if is_image or not _RELIABLE.fullmatch(kind) else ""


# Digest of user code: of the module that defines an object, and of what it imports.
#
# Installed libraries and the standard library are excluded: their versions are recorded separately. The package of
# the object is always included. Nothing depends on the folder that a package is in.

OURS = Path(__file__).resolve().parent.parent
_BODIES = ("body", "orelse", "finalbody", "handlers", "cases")
"""Fields of a syntax tree with statements."""


def code_digest(*objects: Any) -> str:
    """Return a digest that changes with the code behind functions, classes or instances.

    Code without a file (typed into a shell, made by ``exec``) gets a random digest.
    """
    names, starts = list[str](), dict[str, Path]()
    for thing in map(_defined, objects):
        module = inspect.getmodule(thing)
        start = _file_of(module) if module is not None else None
        if module is None or start is None:
            return secrets.token_hex(DIGEST_SIZE)
        names.append(f"{module.__name__}:{getattr(thing, '__qualname__', '')}")
        starts[module.__name__] = start
    state = _new_digest("\0".join(sorted(names)).encode())
    for name, digest in sorted(_module_digests(starts).items()):
        state.update(f"\0{name}\0".encode() + digest)
    return state.hexdigest()


def editable_digest(module: str) -> str:
    """Digest the package of a module if it is user code, such as an editable install; nothing is imported."""
    path = _find(module)
    if path is None or _is_installed(module, path):
        return ""
    return digest_bytes(repr(sorted(_package_digests(module, path).items())).encode()).hex()


def is_user_code(obj: Any) -> bool:
    """Whether an object is user code rather than part of an installed library."""
    module = inspect.getmodule(_defined(obj))
    if module is None or getattr(module.__spec__, "origin", None) in ("built-in", "frozen"):
        return module is None
    path = _file_of(module)
    return path is None or not _is_installed(module.__name__, path)


def _defined(obj: Any) -> Any:
    while isinstance(obj, functools.partial):
        obj = obj.func
    obj = inspect.unwrap(obj) if callable(obj) else obj
    return obj if inspect.isclass(obj) or inspect.isroutine(obj) else type(obj)


def _module_digests(starts: dict[str, Path]) -> dict[str, bytes]:
    """Digest modules and, of user code, what they import; an installed package is digested as a whole."""
    found: dict[str, bytes] = {}
    waiting = list(starts.items())
    while waiting:
        name, file = waiting.pop()
        if name in found:
            continue
        if _is_installed(name, file):
            found |= _package_digests(name, file) if name in starts else {}
            continue
        data = _read(file) or b""
        found[name] = digest_bytes(data)
        places = ((imported, _find(imported)) for imported in _imports(name, file.name, data, found[name]))
        waiting += [(imported, place) for imported, place in places if place is not None]
    return found


def _package_digests(name: str, path: Path) -> dict[str, bytes]:
    """Digest all source files of the top-level package of a module."""
    root, top = _root(name, path), name.partition(".")[0]
    recorded = (root / file for file in _recorded(root) if file.startswith(f"{top}/") and file.endswith(".py"))
    files = [*(root / top).rglob("*.py")] or [*recorded] or [path]
    digests = (file_digest(file) if file.is_file() else digest_bytes(_read(file) or b"") for file in files)
    return {file.relative_to(root).as_posix(): digest for file, digest in zip(files, digests, strict=True)}


_imported: dict[tuple[str, str, bytes], tuple[str, ...]] = {}


def _imports(name: str, file: str, data: bytes, digest: bytes) -> tuple[str, ...]:
    """Return the modules that a file may import: those named in its statements, and its parent packages."""
    key = (name, file, digest)
    if key not in _imported:
        found, waiting = [*_with_parents(name)], list[Any]()
        parent = (name if file == "__init__.py" else name.rpartition(".")[0]).split(".")
        if file.endswith(".py"):
            with suppress(SyntaxError, ValueError, RecursionError):  # importing it reports the error
                waiting.append(ast.parse(data))
        while waiting:
            node = waiting.pop()
            for part in _BODIES:
                inner = getattr(node, part, None)
                waiting += inner if isinstance(inner, list) else ()
            if isinstance(node, ast.Import):
                found += [outer for alias in node.names for outer in _with_parents(alias.name)]
            elif isinstance(node, ast.ImportFrom):
                outer = parent[: len(parent) - node.level + 1] if node.level else []
                base = ".".join([*outer, *([node.module] if node.module else [])])
                found += [*_with_parents(base), *(f"{base}.{alias.name}" for alias in node.names)]
        _imported[key] = tuple(dict.fromkeys(found))
    return _imported[key]


def _with_parents(name: str) -> Iterator[str]:
    return accumulate(name.split("."), "{}.{}".format)


def _find(name: str) -> Path | None:
    """Return the file of a module without importing it."""
    if name in sys.modules:
        return _file_of(sys.modules[name])
    spec = _spec(name)
    return Path(spec.origin) if spec is not None and spec.has_location and spec.origin else None


def _spec(name: str) -> ModuleSpec | None:
    outer = name.rpartition(".")[0]
    with suppress(ImportError, ValueError):
        if not outer:
            return find_spec(name) if name else None
        known = getattr(sys.modules.get(outer), "__path__", None)
        known = known or getattr(_spec(outer), "submodule_search_locations", None) or ()
        finders = map(pkgutil.get_importer, known)
        return next(filter(None, (finder.find_spec(name) for finder in finders if finder)), None)
    return None


def _file_of(module: ModuleType) -> Path | None:
    file = getattr(module, "__file__", None)
    return Path(file) if file and (Path(file).is_file() or _read(Path(file)) is not None) else None


def _read(path: Path) -> bytes | None:
    """Read a source file, which may be inside a zip file (a zipapp, a wheel on PYTHONPATH); None if it is missing."""
    with suppress(OSError):
        if path.is_file():
            return path.read_bytes()
        finder = pkgutil.get_importer(str(path.parent))
        return finder.get_data(str(path)) if isinstance(finder, zipimporter) else None
    return None


def _root(name: str, path: Path) -> Path:
    """Return the folder that contains the top-level package or module."""
    depth = name.count(".") + (path.name == "__init__.py")
    return path.parents[min(depth, len(path.parents) - 1)]


@lru_cache(maxsize=1 << 16)
def _is_installed(name: str, path: Path) -> bool:
    """Whether a module is in the standard library, a folder of installed packages, Eyechart, or a RECORD file."""
    real = path.resolve()
    if not {"site-packages", "dist-packages"}.isdisjoint(real.parts) or any(map(real.is_relative_to, _libraries())):
        return True
    root = _root(name, real)
    return real.relative_to(root).as_posix() in _recorded(root)


@cache
def _libraries() -> tuple[Path, ...]:
    paths = [sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    paths += [*site.getsitepackages(), site.getusersitepackages()]
    return (OURS, *(Path(path).resolve() for path in paths if path))


@cache
def _recorded(root: Path) -> frozenset[str]:
    """Return the files of all distributions in a folder (``pip install --target``) or zip file.

    The RECORD of an editable install does not list the code.
    """
    records = [found.read_text("RECORD") or "" for found in distributions(path=[str(root)])]
    return frozenset(line.partition(",")[0].strip('"') for text in records for line in text.splitlines())
