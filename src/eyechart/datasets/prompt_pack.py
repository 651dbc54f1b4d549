"""The prompt pack: class names and templates of CLIP_benchmark 1.6.2, read from its wheel as a zip archive.

Published CLIP scores use exactly these texts, typos included, so they are pinned by digest. The wheel is never
installed or imported. ``python -m pip download`` gets it once, from the index the user has configured.
"""

import hashlib
import json
import subprocess
import sys
import tempfile
import zipfile
import zlib
from functools import cache, lru_cache
from importlib import resources
from pathlib import Path
from typing import Any

from eyechart.errors import DataError, NotHereError
from eyechart.io.files import cache_root, write_atomic
from eyechart.languages import canonical
from eyechart.messages import UserMessage

REQUIREMENT = "clip-benchmark==1.6.2"
WHEEL = "clip_benchmark-1.6.2-py2.py3-none-any.whl"
FOLDER = "clip_benchmark/datasets/"
TIMEOUT = 600

LANGUAGES = {"en": "en", "zh": "cn", "ja": "jp", "it": "it", "ar": "ar"}
"""Language codes in the pack's file names, by canonical code."""

MAX_MEMBER = 64 * 1024 * 1024


@cache
def digests() -> dict[str, str]:
    """Return the SHA-256 of every file that is read."""
    text = resources.files(__package__).joinpath("prompt_pack.sha256").read_text(encoding="ascii")
    return {name: digest for digest, name in map(str.split, text.splitlines())}


def classnames(key: str, language: str, *, offline: bool = False) -> tuple[str, ...] | None:
    """Return the pack's class names for a key, or None."""
    return _texts("{}_classnames.json", key, language, offline=offline)


def templates(key: str, language: str, *, offline: bool = False) -> tuple[str, ...] | None:
    """Return the pack's templates for a key, or None."""
    return _texts("{}_zeroshot_classification_templates.json", key, language, offline=offline)


def babel_classes(language: str, *, offline: bool = False) -> tuple[tuple[int, ...], tuple[str, ...]] | None:
    """Return Babel-ImageNet's ImageNet indices and class names for a language."""
    found = read_member("babel_imagenet.json", offline=offline).get(canonical(language).upper())
    return (tuple(found[0]), tuple(found[1])) if found else None


def read_member(name: str, *, offline: bool = False) -> Any:
    """Read a JSON file of the pack, downloading the wheel if it is not cached."""
    return _read(str(pack_path(offline=offline)), name)


def pack_path(*, offline: bool = False) -> Path:
    """Return the cached wheel, downloading it the first time."""
    path = cache_root() / "prompts" / WHEEL
    if not path.is_file():
        if offline:
            raise _missing(path, UserMessage("it is not cached, and {--offline} disables downloads"))
        _download(path)
    return path


def _texts(file: str, key: str, language: str, *, offline: bool) -> tuple[str, ...] | None:
    code = LANGUAGES.get(canonical(language))
    if code is None:
        return None
    found = read_member(file.format(code), offline=offline).get(key)
    return tuple(found) if found else None


@lru_cache(maxsize=8)
def _read(path: str, name: str) -> Any:
    try:
        with zipfile.ZipFile(path) as archive:
            member = archive.getinfo(FOLDER + name)
            if member.file_size > MAX_MEMBER:
                raise zipfile.BadZipFile(f"it unpacks to {member.file_size} bytes")
            data = archive.read(member)
    except (OSError, KeyError, zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError) as error:
        raise DataError(
            "Cannot read {name} in the prompt pack {path} ({reason}).",
            advice="Delete the file to download it again.",
            name=name,
            path=path,
            reason=error,
        ) from error
    if hashlib.sha256(data).hexdigest() != digests()[name]:
        raise DataError(
            "{name} in the prompt pack {path} differs from the published file (SHA-256 mismatch).",
            advice="Delete the pack to download it again.",
            name=name,
            path=path,
        )
    return json.loads(data)


def _download(path: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="eyechart-") as folder:
        command = [sys.executable, "-m", "pip", "download", "--no-deps", "--quiet", "--dest", folder, REQUIREMENT]
        try:
            done = subprocess.run(  # noqa: S603 - our own interpreter and constant arguments, no shell
                command, capture_output=True, text=True, timeout=TIMEOUT, check=False
            )
        except subprocess.TimeoutExpired as error:
            raise _missing(path, UserMessage("pip did not finish within {n} seconds", n=TIMEOUT)) from error
        fetched = Path(folder) / WHEEL
        if done.returncode or not fetched.is_file():
            lines = [line for line in done.stderr.splitlines() if line.strip()]
            raise _missing(
                path, UserMessage("pip failed: {reason}", reason=lines[-1].strip() if lines else "no output")
            )
        write_atomic(path, fetched.read_bytes())


def _missing(path: Path, why: str) -> NotHereError:
    return NotHereError(
        "Cannot download the class names and templates of {requirement}: {why}.",
        advice="Run `python -m pip download --no-deps {requirement}` on a machine with network access and save the "
        "file as {path}, or set {--custom_classname_file} and {--custom_template_file}.",
        source=f"class names and templates, {REQUIREMENT}",
        requirement=REQUIREMENT,
        why=why,
        path=path,
    )
