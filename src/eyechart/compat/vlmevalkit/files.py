"""Files and their names, under the names that VLMEvalKit's ``smp.file`` gives these functions."""

from __future__ import annotations

import hashlib
import mimetypes
import os
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from eyechart.compat.vlmevalkit.checkpoint import read_checkpoint, write_checkpoint
from eyechart.compat.vlmevalkit.frames import to_frame
from eyechart.datasets.questions import messages, tables
from eyechart.datasets.questions.download import fetch
from eyechart.datasets.questions.folders import image_folder, lmu_data_root
from eyechart.datasets.questions.rows import as_table
from eyechart.errors import DataError, UsageError
from eyechart.io.files import write_atomic
from eyechart.io.untrusted import is_file, read_text
from eyechart.metrics.texts.choices import FAILED

__all__ = [
    "FAIL_MSG",
    "INFER_FAIL_MSG",
    "RUN_STATUS_NAME",
    "HFCacheRoot",
    "LMUDataRoot",
    "MMBenchOfficialServer",
    "download_file",
    "dump",
    "fetch_aux_files",
    "file_size",
    "get_eval_file_format",
    "get_eval_file_path",
    "get_file_extension",
    "get_intermediate_file_path",
    "get_pred_file_format",
    "get_pred_file_path",
    "img_root_map",
    "last_modified",
    "load",
    "localize_df",
    "ls",
    "md5",
    "mrlines",
    "mwlines",
    "parse_file",
]

FAIL_MSG = "Failed to obtain answer."
INFER_FAIL_MSG = FAILED.removesuffix(" via API")
RUN_STATUS_NAME = "status.json"
UNITS = {"GB": 2**30, "MB": 2**20, "KB": 2**10}
STEPS = (
    (("_tmp", "_response", "_processed"), "pkl"),
    (("_rating", "_config", "_meta"), "json"),
)
"""The formats of files between two steps of an evaluation, by the end of their names."""
TABLES = ("_acc", "_fine", "_metrics")
"""Ends of the names of tables of scores."""
KEYS_OF_TESTS = {
    "MMBench_TEST_EN": "MMBench",
    "MMBench_TEST_CN": "MMBench_CN",
    "MMBench_TEST_EN_V11": "MMBench_V11",
    "MMBench_TEST_CN_V11": "MMBench_CN_V11",
}
"""Test sets without answers, and the tables of those who have them."""


def load(f: str | Path, fmt: str | None = None) -> Any:
    """Read a file by its suffix (or ``fmt``): JSON as it is, a table as a data frame where pandas is installed.

    Unlike the original, the words NA, None and nan are words, and nothing is ever unpickled: see `checkpoint`.
    """
    path = Path(f)
    if fmt and path.suffix != f".{fmt}":
        raise UsageError(f"load reads by the suffix: {path} is no .{fmt} file.", advice=f"Rename it to end in .{fmt}.")
    if path.suffix == ".pkl":
        return read_checkpoint(path)
    if path.suffix == ".txt":
        return read_text(path)
    found = tables.load(path)
    return found if path.suffix == ".json" else to_frame(found)


def dump(data: Any, f: str | Path, **_: Any) -> None:
    """Write a table, a data frame or a dict to a file, in the format of its suffix."""
    path = Path(f)
    if path.suffix == ".pkl":
        write_checkpoint(path, data)
    elif path.suffix == ".txt":
        write_atomic(path, str(data).encode())
    else:
        tables.dump(data, path)


def LMUDataRoot() -> str:  # noqa: N802 - the original's name
    """Return the folder of benchmarks as a text, and make it."""
    root = lmu_data_root()
    root.mkdir(parents=True, exist_ok=True)
    return str(root)


def HFCacheRoot() -> str:  # noqa: N802 - the original's name
    """Return the folder in which the Hugging Face hub's library keeps its copies."""
    given = os.environ.get("HF_HUB_CACHE") or os.environ.get("HUGGINGFACE_HUB_CACHE")
    home = os.environ.get("HF_HOME") or "~/.cache/huggingface"
    return str(Path(given or f"{home}/hub").expanduser())


def img_root_map(dataset: str) -> str:
    """Name the folder of a benchmark's images."""
    return image_folder(dataset).name


def MMBenchOfficialServer(dataset_name: str) -> bool:  # noqa: N802 - the original's name
    """Tell whether the answers to a test set of MMBench are here, as they are where it is scored officially."""
    names = [dataset_name, KEYS_OF_TESTS.get(dataset_name, dataset_name)]
    if not {*names} & {*KEYS_OF_TESTS, *KEYS_OF_TESTS.values()}:
        return False
    found = (tables.load_table(path) for name in names if (path := lmu_data_root() / f"{name}.tsv").is_file())
    return any("answer" in table and all(cell is not None for cell in table["answer"]) for table in found)


def download_file(url: str, filename: str | None = None) -> str:
    """Download a file, whole or not at all, and return where it is."""
    return str(fetch(url, Path(filename or url.rsplit("/", 1)[-1])))


def parse_file(s: str) -> tuple[str | None, str]:
    """Return the MIME type and the place of a text that may be a path, a data URL or a URL; None for any other text."""
    kind, value = messages.parse_file(s)
    if kind == "url":
        return kind, value
    return (mimetypes.guess_type(value)[0] or "unknown", value) if is_file(Path(value)) else (None, s)


def md5(s: str) -> str:
    """Digest a file, or a text where there is no such file."""
    state = hashlib.md5(usedforsecurity=False)
    if is_file(Path(s)):
        with Path(s).open("rb") as stream:
            while block := stream.read(1 << 20):
                state.update(block)
    else:
        state.update(s.encode())
    return state.hexdigest()


def file_size(f: str, unit: str = "GB") -> float:
    """Return a file's size."""
    return Path(f).stat().st_size / UNITS[unit]


def last_modified(pth: str) -> str:
    """Return when a file was changed: year (two digits), month, day, hour, minute, second."""
    return time.strftime("%y%m%d%H%M%S", time.localtime(Path(pth).stat().st_mtime))


def ls(dirname: str = ".", match: str | Sequence[str] = (), mode: str = "all", level: int = 1) -> list[str]:
    """List a folder ``level`` folders down; names contain each text of ``match``, or do not if it starts with ``!``."""
    if mode not in ("all", "dir", "file") or level < 1:
        raise AssertionError(f"mode is all, dir or file, and level 1 or more, not {mode!r} and {level!r}")
    found = [str(path) for path in sorted(Path(dirname).iterdir())]
    if level > 1:
        return [path for folder in found if Path(folder).is_dir() for path in ls(folder, match, mode, level - 1)]
    for part in filter(None, [match] if isinstance(match, str) else match):
        without = part.startswith("!")
        found = [path for path in found if (part[without:] in path) != without]
    return [path for path in found if mode == "all" or Path(path).is_dir() == (mode == "dir")]


def mrlines(fname: str, sp: str = "\n") -> list[str]:
    """Read the lines of a file, without empty ones at its end."""
    return read_text(Path(fname)).rstrip(sp).split(sp)


def mwlines(lines: Iterable[str], fname: str) -> None:
    """Write lines to a file."""
    write_atomic(Path(fname), "\n".join(lines).encode())


def get_file_extension(file_path: str) -> str:
    """Return what follows the last dot."""
    return str(file_path).rsplit(".", 1)[-1]


def get_pred_file_format() -> str:
    """Return the format of files of predictions: ``$PRED_FORMAT``, else xlsx."""
    return _format("PRED_FORMAT", ("xlsx", "tsv", "json"))


def get_eval_file_format() -> str:
    """Return the format of tables of scores: ``$EVAL_FORMAT``, else csv."""
    return _format("EVAL_FORMAT", ("csv", "json"))


def _format(variable: str, known: Sequence[str]) -> str:
    given = os.environ.get(variable, "").lower() or known[0]
    if given not in known:
        raise UsageError(f"{variable} is {given!r}.", advice=f"Known: {', '.join(known)}.")
    return given


def get_pred_file_path(work_dir: str, model_name: str, dataset_name: str, use_env_format: bool = True) -> str:
    """Name the file of a model's predictions."""
    kind = get_pred_file_format() if use_env_format else "xlsx"
    return str(Path(work_dir) / f"{model_name}_{dataset_name}.{kind}")


def get_eval_file_path(eval_file: str, judge_model: str, use_env_format: bool = True) -> str:
    """Name the file of a judge's scores, beside the predictions."""
    return _beside(eval_file, f"_{judge_model}", get_eval_file_format() if use_env_format else "xlsx")


def get_intermediate_file_path(eval_file: str, suffix: str, target_format: str | None = None) -> str:
    """Name a file between two steps, beside the predictions; its format follows from the suffix."""
    usual = get_eval_file_format() if suffix.endswith(TABLES) else get_pred_file_format()
    known = next((kind for ends, kind in STEPS if suffix.endswith(ends)), usual)
    return _beside(eval_file, suffix, target_format or known)


def _beside(file: str, suffix: str, kind: str) -> str:
    return f"{str(file).removesuffix(Path(file).suffix)}{suffix}.{kind}"


def fetch_aux_files(eval_file: str) -> list[str]:
    """List the files that belong to a file of predictions: those of its folder whose names start with its own."""
    file = Path(eval_file)
    return [path for path in ls(str(file.parent), mode="file") if Path(path).name.startswith(file.stem)]


def localize_df(data: Any, dname: str, nproc: int = 32) -> Any:  # noqa: ARG001 - the original's signature
    """Write a table's images to the image folder; return the table with their paths in place of the images."""
    from eyechart.datasets.questions.question_table import QuestionTable

    table = as_table(data)
    if "image" not in table:
        raise DataError(f"{dname}: there is no column 'image' to write images from.")
    questions = QuestionTable(dname, table, skip_noimg=False)
    paths = [questions.write_images(row) for row in questions.rows]
    questions.data["image_path"] = [path[0] if len(path) == 1 else path for path in paths]
    questions.data.pop("image")
    return to_frame(questions.data)
