"""Tables and files under the names of VLMEvalKit's ``smp.file``: data frames, load and dump, file names."""

import hashlib
import math
import mimetypes
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from eyechart.datasets.questions import prediction_files, prompt_items
from eyechart.datasets.questions.benchmark_files import fetch, image_folder, lmu_data_root
from eyechart.datasets.questions.row_table import Cell, RowTable, as_table
from eyechart.errors import DataError, UsageError
from eyechart.io.files import hub_cache, write_atomic
from eyechart.io.safe_parse import is_file, parse_json, read_text, to_json
from eyechart.metrics.cell_values import LETTERS
from eyechart.metrics.choices import FAILED

__all__ = [
    "FAIL_MSG", "INFER_FAIL_MSG", "RUN_STATUS_NAME", "HFCacheRoot", "LMUDataRoot", "MMBenchOfficialServer", "d2df",
    "download_file", "dump", "fetch_aux_files", "file_size", "get_eval_file_format", "get_eval_file_path",
    "get_file_extension", "get_intermediate_file_path", "get_pred_file_format", "get_pred_file_path", "img_root_map",
    "last_modified", "load", "localize_df", "ls", "md5", "mrlines", "mwlines", "parse_file",
]  # fmt: skip

TEXTS = frozenset({"question", "hint", "answer", "prediction", "image", "image_path", *LETTERS})
"""Text columns: an answer 7 and a prediction 7 are the same, whatever the file's type."""
MARK = "__eyechart__"
"""Key of values that JSON does not have: tables, tuples, sets, and dicts with other keys than texts."""
FAIL_MSG = "Failed to obtain answer."
INFER_FAIL_MSG = FAILED.removesuffix(" via API")
RUN_STATUS_NAME = "status.json"
UNITS = {"GB": 2**30, "MB": 2**20, "KB": 2**10}
STEPS = ((("_tmp", "_response", "_processed"), "pkl"), (("_rating", "_config", "_meta"), "json"))
"""Formats of intermediate files, by the end of their names."""
TABLES = ("_acc", "_fine", "_metrics")
"""Name endings of score tables."""
KEYS_OF_TESTS = {
    "MMBench_TEST_EN": "MMBench",
    "MMBench_TEST_CN": "MMBench_CN",
    "MMBench_TEST_EN_V11": "MMBench_V11",
    "MMBench_TEST_CN_V11": "MMBench_CN_V11",
}
"""Test sets without answers, and the tables that contain them."""


def to_frame(table: RowTable) -> Any:
    """Convert to a data frame; a column of numbers becomes numeric if its texts can be restored exactly."""
    if find_spec("pandas") is None:
        return table
    import pandas as pd

    made = {}
    for name in table.columns:
        cells = table[name] if name in TEXTS else _numeric(table[name])
        plain = all(isinstance(cell, int | float) and not isinstance(cell, bool) for cell in cells)
        made[name] = pd.Series(cells, dtype=None if plain else object)
    return pd.DataFrame(made, columns=list(table.columns), index=range(len(table)))


def _numeric(cells: list[Cell]) -> list[Cell]:
    """Convert texts to numbers if all of them are exactly Python's notation of one."""
    texts = [cell for cell in cells if cell is not None]
    if not texts or not all(isinstance(cell, str) for cell in texts):
        return cells
    for kind, limit in ((int, 10**18), (float, math.inf)):
        try:
            numbers = {text: kind(text) for text in texts}
        except ValueError:
            continue
        if all(repr(number) == text and abs(number) < limit for text, number in numbers.items()):
            return [None if cell is None else numbers[cell] for cell in cells]
    return cells


def d2df(D: Mapping[str, Any]) -> Any:  # noqa: N803 - the original's name
    """Make a table with one row from a dict."""
    return to_frame(RowTable([D]))


def _marked(value: Any, path: Path) -> Any:
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if hasattr(value, "columns") or isinstance(value, RowTable):
        table = as_table(value)
        rows = [[_marked(row[name], path) for name in table.columns] for row in table.rows]
        return {MARK: "table", "columns": list(table.columns), "rows": rows}
    if hasattr(value, "tolist"):  # numpy scalars and arrays
        return _marked(value.tolist(), path)
    if isinstance(value, Mapping):
        plain = all(isinstance(key, str) for key in value) and MARK not in value
        items = [[_marked(key, path), _marked(item, path)] for key, item in value.items()]
        return dict(items) if plain else {MARK: "dict", "items": items}
    if isinstance(value, list | tuple | set | frozenset):
        items = [_marked(item, path) for item in value]
        kind = "tuple" if isinstance(value, tuple) else "set"
        return items if isinstance(value, list) else {MARK: kind, "items": items}
    raise DataError("{path}: cannot save a {type} in an intermediate file.", path=path, type=type(value).__name__)


def _unmarked(value: Any) -> Any:
    if isinstance(value, list):
        return [_unmarked(item) for item in value]
    if not isinstance(value, Mapping):
        return value
    kind = value.get(MARK)
    if kind is None:
        return {key: _unmarked(item) for key, item in value.items()}
    if kind == "table":
        rows = (dict(zip(value["columns"], map(_unmarked, row), strict=True)) for row in value["rows"])
        return to_frame(RowTable(rows, value["columns"]))
    if kind == "dict":
        return {_unmarked(key): _unmarked(item) for key, item in value["items"]}
    items = [_unmarked(item) for item in value["items"]]
    return tuple(items) if kind == "tuple" else set(items)


def load(f: str | Path, fmt: str | None = None) -> Any:
    """Read a file by its suffix (or ``fmt``): JSON as plain values, a table as a data frame if pandas is installed.

    Unlike the original, the words NA, None and nan stay texts, and nothing is unpickled: a ``.pkl`` is JSON.

    Raises:
        DataError: If the file does not exist, or is a real pickle.
    """
    path = Path(f)
    if fmt and path.suffix != f".{fmt}":
        raise UsageError(
            "{path} does not have the suffix .{fmt}.",
            advice="Rename the file; load chooses the format by suffix.",
            path=path,
            fmt=fmt,
        )
    if path.suffix == ".txt":
        return read_text(path)
    if path.suffix == ".pkl":
        if not path.is_file():
            raise DataError("File not found: {path}.", path=path)
        try:
            return _unmarked(parse_json(path.read_bytes().decode()))
        except (UnicodeDecodeError, DataError, ValueError) as error:
            raise DataError(
                "{path} was not written by Eyechart; pickles are not loaded because they can run arbitrary code.",
                advice="Delete it to repeat the step, or convert it to JSON with the tool that wrote it.",
                path=path,
            ) from error
    return parse_json(read_text(path)) if path.suffix == ".json" else to_frame(prediction_files.load_table(path))


def dump(data: Any, f: str | Path, **_: Any) -> None:
    """Write a table, a data frame or a dict in the format of the file's suffix."""
    path = Path(f)
    if path.suffix == ".pkl":
        write_atomic(path, (to_json(_marked(data, path)) + "\n").encode("utf-8", "backslashreplace"))
    elif path.suffix == ".txt":
        write_atomic(path, str(data).encode())
    else:
        prediction_files.dump(data, path)


def LMUDataRoot() -> str:  # noqa: N802 - the original's name
    """Create and return the folder of benchmarks."""
    root = lmu_data_root()
    root.mkdir(parents=True, exist_ok=True)
    return str(root)


def HFCacheRoot() -> str:  # noqa: N802 - the original's name
    """Return the cache folder of the Hugging Face client."""
    return str(hub_cache())


def img_root_map(dataset: str) -> str:
    """Return the name of a benchmark's image folder."""
    return image_folder(dataset).name


def MMBenchOfficialServer(dataset_name: str) -> bool:  # noqa: N802 - the original's name
    """Whether the answers to a test set of MMBench are available, as on its official server."""
    names = [dataset_name, KEYS_OF_TESTS.get(dataset_name, dataset_name)]
    if not {*names} & {*KEYS_OF_TESTS, *KEYS_OF_TESTS.values()}:
        return False
    found = (prediction_files.load_table(path) for name in names if (path := lmu_data_root() / f"{name}.tsv").is_file())
    return any("answer" in table and all(cell is not None for cell in table["answer"]) for table in found)


def download_file(url: str, filename: str | None = None) -> str:
    """Download a file atomically and return its path."""
    return str(fetch(url, Path(filename or url.rsplit("/", 1)[-1])))


def parse_file(s: str) -> tuple[str | None, str]:
    """Return MIME type and location of a path, data URL or URL; None and the text for anything else."""
    kind, value = prompt_items.parse_file(s, fetches=True)
    if kind == "url":
        return kind, value
    return (mimetypes.guess_type(value)[0] or "unknown", value) if is_file(Path(value)) else (None, s)


def md5(s: str) -> str:
    """Return the MD5 of a file, or of a text if there is no such file."""
    new = partial(hashlib.md5, usedforsecurity=False)
    if not is_file(Path(s)):
        return new(s.encode()).hexdigest()
    with Path(s).open("rb") as stream:
        return hashlib.file_digest(stream, new).hexdigest()


def file_size(f: str, unit: str = "GB") -> float:
    """Return a file's size."""
    return Path(f).stat().st_size / UNITS[unit]


def last_modified(pth: str) -> str:
    """Return the modification time of a file as ``%y%m%d%H%M%S``."""
    return time.strftime("%y%m%d%H%M%S", time.localtime(Path(pth).stat().st_mtime))


def ls(dirname: str = ".", match: str | Sequence[str] = (), mode: str = "all", level: int = 1) -> list[str]:
    """List a folder ``level`` levels deep; names contain each text of ``match``, or not if it starts with ``!``."""
    if mode not in ("all", "dir", "file") or level < 1:
        raise AssertionError(f"mode must be all, dir or file, and level at least 1, not {mode!r} and {level!r}")
    found = [str(path) for path in sorted(Path(dirname).iterdir())]
    if level > 1:
        return [path for folder in found if Path(folder).is_dir() for path in ls(folder, match, mode, level - 1)]
    for part in filter(None, [match] if isinstance(match, str) else match):
        without = part.startswith("!")
        found = [path for path in found if (part[without:] in path) != without]
    return [path for path in found if mode == "all" or Path(path).is_dir() == (mode == "dir")]


def mrlines(fname: str, sp: str = "\n") -> list[str]:
    """Read the lines of a file, without trailing empty ones."""
    return read_text(Path(fname)).rstrip(sp).split(sp)


def mwlines(lines: Iterable[str], fname: str) -> None:
    """Write lines to a file."""
    write_atomic(Path(fname), "\n".join(lines).encode())


def get_file_extension(file_path: str) -> str:
    """Return the text after the last dot."""
    return str(file_path).rsplit(".", 1)[-1]


def get_pred_file_format() -> str:
    """Return the format of prediction files: ``$PRED_FORMAT``, else xlsx."""
    return _format("PRED_FORMAT", ("xlsx", "tsv", "json"))


def get_eval_file_format() -> str:
    """Return the format of score tables: ``$EVAL_FORMAT``, else csv."""
    return _format("EVAL_FORMAT", ("csv", "json"))


def _format(variable: str, known: Sequence[str]) -> str:
    given = os.environ.get(variable, "").lower() or known[0]
    if given not in known:
        raise UsageError(
            "Unsupported {variable}: {value!r}.",
            advice="Known: {names}.",
            variable=variable,
            value=given,
            names=", ".join(known),
        )
    return given


def get_pred_file_path(work_dir: str, model_name: str, dataset_name: str, use_env_format: bool = True) -> str:
    """Return the path of a model's predictions."""
    kind = get_pred_file_format() if use_env_format else "xlsx"
    return str(Path(work_dir) / f"{model_name}_{dataset_name}.{kind}")


def get_eval_file_path(eval_file: str, judge_model: str, use_env_format: bool = True) -> str:
    """Return the path of a judge's scores, next to the predictions."""
    return _next_to(eval_file, f"_{judge_model}", get_eval_file_format() if use_env_format else "xlsx")


def get_intermediate_file_path(eval_file: str, suffix: str, target_format: str | None = None) -> str:
    """Return the path of an intermediate file next to the predictions; its format follows from the suffix."""
    usual = get_eval_file_format() if suffix.endswith(TABLES) else get_pred_file_format()
    known = next((kind for ends, kind in STEPS if suffix.endswith(ends)), usual)
    return _next_to(eval_file, suffix, target_format or known)


def _next_to(file: str, suffix: str, kind: str) -> str:
    return f"{str(file).removesuffix(Path(file).suffix)}{suffix}.{kind}"


def fetch_aux_files(eval_file: str) -> list[str]:
    """List the files that belong to a prediction file: those in its folder whose names start with its stem."""
    file = Path(eval_file)
    return [path for path in ls(str(file.parent), mode="file") if Path(path).name.startswith(file.stem)]


def localize_df(data: Any, dname: str, nproc: int = 32) -> Any:  # noqa: ARG001 - the original's signature
    """Write a table's images to the image folder; return the table with paths in place of images."""
    from eyechart.datasets.questions.question_table import QuestionTable

    table = as_table(data)
    if "image" not in table:
        raise DataError("{name} has no column 'image'.", name=dname)
    questions = QuestionTable(dname, table, skip_noimg=False)
    paths = [questions.write_images(row) for row in questions.rows]
    questions.data["image_path"] = [path[0] if len(path) == 1 else path for path in paths]
    questions.data.pop("image")
    return to_frame(questions.data)
