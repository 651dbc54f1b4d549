"""Atomic file writes, safe file names, names as they are shown, and the cache of the Hugging Face client."""

import os
import re
import secrets
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any, BinaryIO

from eyechart.errors import DataError, EyechartError
from eyechart.io.safe_parse import likely_encoding
from eyechart.messages import UserMessage

TEMPORARY = ".tmp-"
"""Prefix of unfinished files; old ones may be deleted."""
UNFINISHED = ".part"
"""Suffix of unfinished files, so that no tool takes what a killed run leaves behind for a result."""
NOTES = ".eyechart"
"""Folder in each downloaded dataset that records version and digest of every requested file."""


class CacheError(EyechartError):
    """The cache folder is not writable."""


@contextmanager
def atomic_file(path: Path, *, durable: bool = True) -> Iterator[BinaryIO]:
    """Open a temporary file next to ``path`` that replaces it, flushed to disk, when the block ends.

    If the block raises, the temporary file is removed and ``path`` is unchanged. Without ``durable`` the replacement is
    still atomic but may be lost in a power cut: flushing takes milliseconds.
    """
    make_folder(path.parent)
    temporary = path.parent / f"{TEMPORARY}{os.getpid()}-{secrets.token_hex(6)}-{path.name[-100:]}{UNFINISHED}"
    try:
        with temporary.open("xb") as stream:
            yield stream
            stream.flush()
            if durable:
                os.fsync(stream.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    if durable:
        sync_folder(path.parent)


def write_atomic(path: Path, data: bytes, *, durable: bool = True) -> None:
    """Write ``data`` to ``path`` atomically."""
    with atomic_file(path, durable=durable) as stream:
        stream.write(data)


_keeps = ContextVar("keeps", default=True)


@contextmanager
def without_cache_writes() -> Iterator[None]:
    """Disable writing to the cache within the block."""
    token = _keeps.set(False)
    try:
        yield
    finally:
        _keeps.reset(token)


def write_cached(path: Path, data: bytes) -> None:
    """Write a cache file atomically, unless writing is disabled."""
    if _keeps.get():
        with explained("cache", path.parent):
            write_atomic(path, data)


def append_cached(path: Path, line: str) -> None:
    """Append a line to a cache file that only spares work, if writing is enabled and possible."""
    if _keeps.get():
        with suppress(OSError), (make_folder(path.parent) / path.name).open("a", encoding="utf-8") as stream:
            stream.write(f"{line}\n")


@contextmanager
def explained(what: str, folder: Path) -> Iterator[None]:
    """Turn a full disk or a folder without write permission into a `CacheError` with advice."""
    try:
        yield
    except OSError as error:
        text = "Cannot write to the {what} at {path} ({reason})."
        advice = "Free some space, or set EYECHART_CACHE to a writable folder. What was stored so far is kept."
        raise CacheError(text, advice=advice, what=what, path=folder, reason=error.strerror) from error


def sync_folder(folder: Path) -> None:
    """Make a rename in ``folder`` durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def cache_root() -> Path:
    """Return the cache folder: ``$EYECHART_CACHE``, else ``eyechart`` under ``$XDG_CACHE_HOME`` or ``~/.cache``."""
    if own := os.environ.get("EYECHART_CACHE"):
        return Path(own).expanduser()
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "eyechart"


def make_folder(path: Path, *, private: bool = False) -> Path:
    """Create a folder and its parents, accessible only to the owner if ``private`` or in the cache.

    ``mkdir(parents=True)`` would create parents with the default mode.
    """
    if not path.is_dir():
        missing = [folder for folder in (path, *path.parents) if not folder.exists()]
        for folder in reversed(missing):
            folder.mkdir(exist_ok=True, mode=0o700 if private or folder.is_relative_to(cache_root()) else 0o777)
        path.mkdir(exist_ok=True)
    return path


def open_plain(path: Path, mode: str, encoding: str | None = None) -> IO[Any]:
    """Open a file, refusing symbolic links, which may have been planted and can point anywhere."""

    def opener(name: str, flags: int) -> int:
        return os.open(name, flags | getattr(os, "O_NOFOLLOW", 0), 0o666)

    return open(path, mode, encoding=encoding, opener=opener)


# File and sample names: one spelling on every machine, without control characters.
#
# Names on disk are bytes, UTF-8 by convention. With another locale (``LC_ALL=C``), Python decodes non-ASCII bytes to
# lone surrogates, which cannot be printed; they are restored here.

_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
"""Control characters, which a terminal interprets, and lone surrogates, which no file can contain."""


def is_unsafe(name: str) -> bool:
    """Whether a name must not be shown or written unchanged."""
    return bool(_UNSAFE.search(name))


def check_name(name: str, what: str) -> None:
    """Reject a name that a terminal would interpret or that no result could contain."""
    if _UNSAFE.search(name):
        raise DataError("{what} {name!r} contains control characters.", advice="Rename it.", what=what, name=name)


def file_name(path: Path) -> str:
    """Return a file's name as text, which must be UTF-8 without control characters."""
    data = _bytes(path.name)
    try:
        name = data.decode()
    except UnicodeDecodeError as error:
        likely = likely_encoding(data)
        guess = UserMessage("Rename it. It may be {likely}: convmv -f {likely} -t UTF-8 --notest -r", likely=likely)
        advice = guess if likely else "Rename it."
        raise DataError("The name of {path} is not UTF-8.", advice=advice, path=shown(path)) from error
    if is_unsafe(name):
        check_name(name, f"In {shown(path.parent)}, the name")
    return name


def file_path(name: str) -> Path:
    """Return the path for a name that occurs in data."""
    return Path(os.fsdecode(name.encode("utf-8", "surrogatepass")))


def by_name(paths: Iterable[Path]) -> list[Path]:
    """Sort the files of a folder in the same order on every machine."""
    return sorted(paths, key=lambda path: _bytes(path.name))


def shown(path: object) -> str:
    """Return a path or an address as printable text."""
    return str(path).encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def _bytes(name: str) -> bytes:
    return name.encode("utf-8", "surrogateescape")


# The Hugging Face cache, read without the client and without network access.

OFFLINE = "HF_HUB_OFFLINE"


def hub_cache() -> Path:
    """Return the cache folder, resolved from the environment as the client does."""
    for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"):
        if os.environ.get(name):
            return Path(os.environ[name]).expanduser()
    base = os.environ.get("HF_HOME") or Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "huggingface"
    return Path(base).expanduser() / "hub"


def cached_snapshot(
    kind: str, repository: str, cache: str | Path | None = None, revision: str | None = None
) -> Path | None:
    """Return the folder of a repository (kind ``models`` or ``datasets``) in the cache; None if it is absent."""
    root = (Path(cache) if cache else hub_cache()) / f"{kind}--{repository.replace('/', '--')}"
    pointer = root / "refs" / (revision or "main")
    commit = pointer.read_text(encoding="utf-8").strip() if pointer.is_file() else revision or ""
    folder = root / "snapshots" / commit
    return folder if commit and folder.is_dir() else None


@contextmanager
def offline_hub(*, wanted: bool) -> Iterator[None]:
    """Put the client, and all libraries that load models with it, into offline mode."""
    before = os.environ.get(OFFLINE)
    if wanted:
        _set_offline("1")
    try:
        yield
    finally:
        if wanted:
            _set_offline(before)


@contextmanager
def one_connection_attempt() -> Iterator[None]:
    """Have the client, if it is imported, use its cache when a first connection fails: it repeats requests for 23 s."""
    client: Any = sys.modules.get("huggingface_hub")
    session: Any = client.get_session() if client else SimpleNamespace()
    failed = list[Exception]()

    def send(request: Any, **options: Any) -> Any:
        try:
            if failed:
                raise failed[0]
            response = type(session).send(session, request, **options)
        except Exception as error:
            if type(error).__name__ not in {"ConnectError", "ConnectTimeout"}:
                raise
            failed.append(error)
            raise client.errors.OfflineModeIsEnabled(str(error)) from error
        vars(session).pop("send", None)  # it is there: lost connections are retried
        return response

    session.send = send
    try:
        yield
    finally:
        vars(session).pop("send", None)


def _set_offline(value: str | None) -> None:
    """Set the environment variable, and the client's constant that was derived from it at import."""
    os.environ.pop(OFFLINE, None) if value is None else os.environ.update({OFFLINE: value})
    constants: Any = sys.modules.get("huggingface_hub.constants")
    if constants is not None:
        said = value or os.environ.get("TRANSFORMERS_OFFLINE") or ""
        constants.HF_HUB_OFFLINE = said.upper() in {"1", "ON", "YES", "TRUE"}
