"""How many files of an unpacked VLMEvalKit import under ``eyechart as vlmeval``: its dataset modules and model files.

Each file is loaded in a separate process, under its own name, with our served packages as its parents. A module that
we do not serve is taken from the unpacked package, as if the user had copied it too. What fails is counted by its
cause: a library that is not installed here, or something that our surface lacks.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
import warnings
from collections import Counter
from importlib.abc import MetaPathFinder
from importlib.util import spec_from_file_location
from pathlib import Path

from eyechart.compat import act_as

GROUPS = {"dataset modules": ("dataset",), "model files": ("vlm", "api")}
COMMON = ("numpy", "pandas", "PIL.Image", "torch", "transformers", "requests")
"""Loaded once before forking: each file would load them again."""


class _Measured(MetaPathFinder):
    """Finds the measured file, even if we serve a module of that name."""

    def __init__(self, name: str, file: Path) -> None:
        self.name, self.file = name, file

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> object:  # noqa: ARG002
        return spec_from_file_location(fullname, self.file) if fullname == self.name else None


def main() -> int:
    """Load every file; print the counts and failures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("package", type=Path, help="the folder vlmeval of the unpacked package")
    parser.add_argument("--only", default="", help="files whose path has this text")
    args = parser.parse_args()
    package = args.package.absolute()
    if not (package / "dataset").is_dir():
        parser.error(f"{package} is not an unpacked vlmeval: it has no folder dataset")
    act_as("vlmeval")
    sys.path.append(str(package.parent))  # source of modules that we do not serve
    for library in COMMON:
        importlib.import_module(library)
    for group, folders in GROUPS.items():
        files = [file for folder in folders for file in sorted((package / folder).glob("*.py"))]
        found = {file: _load(package, file) for file in files if file.name != "__init__.py" and args.only in str(file)}
        counts = Counter(cause for cause, _ in found.values())
        print(
            f"{group}: {counts['works']} of {len(found)} import; "
            f"{counts['library']} need a library that is not installed, {counts['ours']} fail because of us"
        )
        for file, (cause, reason) in found.items():
            if cause != "works":
                print(f"  {cause:8} {file.relative_to(package)}: {reason}")
    return 0


def _load(package: Path, file: Path) -> tuple[str, str]:
    """Load a file in a forked process."""
    reads, writes = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reads)
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        os.write(writes, json.dumps(_import(package, file)).encode())
        os._exit(0)
    os.close(writes)
    with os.fdopen(reads, "rb") as stream:
        said = stream.read()
    os.waitpid(child, 0)
    cause, reason = json.loads(said) if said else ("ours", "the process ended")
    return cause, reason


def _import(package: Path, file: Path) -> tuple[str, str]:
    warnings.simplefilter("ignore")
    name = f"vlmeval.{'.'.join(file.relative_to(package).with_suffix('').parts)}"
    sys.meta_path.insert(0, _Measured(name, file))
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        missing = error.name or ""
        ours = missing.partition(".")[0] in ("vlmeval", "eyechart")
        return "ours" if ours else "library", f"no module {missing}"
    except BaseException as error:  # noqa: BLE001 - whatever a file raises is what is reported
        return "ours", f"{type(error).__name__}: {str(error)[:200]}"
    return "works", ""


if __name__ == "__main__":
    sys.exit(main())
