"""Small helpers under the names that VLMEvalKit's ``smp.misc`` and ``smp.log`` give them. Nothing is evaluated."""

from __future__ import annotations

import ast
import json
import logging
import operator
import os
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, MutableMapping
from datetime import datetime
from pathlib import Path
from typing import Any

from eyechart.compat.vlmevalkit.files import HFCacheRoot
from eyechart.metrics.cells import literal_list
from eyechart.metrics.cells import text_list as toliststr
from eyechart.metrics.texts.vqa_text import clean_punctuation as process_punctuation

__all__ = [
    "bincount",
    "cn_string",
    "dict_merge",
    "extract_json_objects",
    "get_cache_path",
    "get_cuda_visible_devices",
    "get_gpu_memory",
    "get_logger",
    "get_rank_and_world_size",
    "gpt_key_set",
    "is_number",
    "istype",
    "listinstr",
    "modelscope_flag_set",
    "process_punctuation",
    "proxy_set",
    "setup_logger",
    "splitlen",
    "timestr",
    "to_number",
    "toliststr",
    "version_cmp",
]

_CHINESE = re.compile("[\u4e00-\u9fff]")
_PROXIES = ("http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY")
_CUT = {"second": None, "minute": -2, "hour": -4, "day": -6}


def listinstr(lst: Iterable[str], s: str) -> bool:
    """Tell whether one of the parts occurs in a text."""
    return any(part in s for part in lst)


def istype(s: Any, type: type) -> bool:  # noqa: A002 - the original's name
    """Tell whether a value, or the literal that a text is, has a type, such as a list or an integer."""
    if isinstance(s, type):
        return True
    if type is list:
        return isinstance(s, str) and literal_list(s) is not None
    try:
        return isinstance(s, str) and len(s) < 100 and isinstance(ast.literal_eval(s), type)
    except (ValueError, SyntaxError):
        return False


def cn_string(s: str) -> bool:
    """Tell whether a text holds a Chinese character."""
    return _CHINESE.search(s) is not None


def splitlen(s: str, sym: str = "/") -> int:
    """Count the parts of a text."""
    return len(s.split(sym))


def bincount(lst: Iterable[Any]) -> defaultdict[Any, int]:
    """Count how often each value occurs."""
    counts: defaultdict[Any, int] = defaultdict(int)
    for item in lst:
        counts[item] += 1
    return counts


def dict_merge(dct: MutableMapping[str, Any], merge_dct: MutableMapping[str, Any]) -> None:
    """Put one dict into another, dicts inside them too."""
    for key, value in merge_dct.items():
        if isinstance(dct.get(key), dict) and isinstance(value, dict):
            dict_merge(dct[key], value)
        else:
            dct[key] = value


def extract_json_objects(text: str, decoder: json.JSONDecoder = json.JSONDecoder()) -> Iterator[Any]:  # noqa: B008 - the original's signature; it holds no state
    """Yield the JSON objects that a text holds."""
    place = text.find("{")
    while place >= 0:
        try:
            found, end = decoder.raw_decode(text, place)
        except (ValueError, RecursionError):
            end = place + 1
        else:
            yield found
        place = text.find("{", end)


def timestr(granularity: str = "second") -> str:
    """Return the time as digits, down to a second, minute, hour or day."""
    return datetime.now().strftime("%Y%m%d%H%M%S")[: _CUT[granularity]]  # noqa: DTZ005 - local time, as the original


def version_cmp(v1: str, v2: str, op: str = "eq") -> bool:
    """Compare two versions by an operator: eq, lt, le, gt, ge or ne."""
    from packaging import version

    return bool(getattr(operator, op)(version.parse(v1), version.parse(v2)))


def is_number(value: Any) -> bool:
    """Tell whether a value is a number, and not true or false."""
    return to_number(value) is not None


def to_number(value: Any) -> float | int | None:
    """Return a number, also one of numpy's, as Python's; None for anything else."""
    plain = value.item() if hasattr(value, "item") else value
    return plain if isinstance(plain, int | float) and not isinstance(plain, bool) else None


def get_logger(name: str | None = None) -> logging.Logger:
    """Return the logger of a module, below ``vlmeval``."""
    inside = name is not None and name.partition(".")[0] == "vlmeval"
    return logging.getLogger(name if inside else f"vlmeval.{name}" if name else "vlmeval")


def setup_logger(
    log_file: str | None = None, log_level: str = "INFO", console: bool = True, reset: bool = False
) -> logging.Logger:
    """Let the logger of ``vlmeval`` write to the terminal and to a file; what was set up stays unless ``reset``."""
    logger = get_logger()
    if logger.handlers and not reset:
        return logger
    logger.handlers.clear()
    logger.setLevel(log_level.upper())
    if log_file:
        Path(log_file).parent.mkdir(parents=True, exist_ok=True)
    wanted: list[logging.Handler] = [logging.StreamHandler()] if console else []
    wanted += [logging.FileHandler(log_file)] if log_file else []
    for handler in wanted:
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
        logger.addHandler(handler)
    logger.propagate = False
    return logger


def proxy_set(s: str) -> None:
    """Let everything that this process fetches go through a proxy."""
    os.environ.update(dict.fromkeys(_PROXIES, s))


def get_rank_and_world_size() -> tuple[int, int]:
    """Return which process this is, and of how many, as launchers say."""
    return int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))


def get_cuda_visible_devices() -> list[int] | None:
    """List the GPUs that this process may use, None if nothing is said about it."""
    given = os.environ.get("CUDA_VISIBLE_DEVICES")
    return None if given is None else [int(number) for number in given.split(",") if number]


def get_gpu_memory() -> list[int]:
    """List the free memory of each GPU in MiB; none without GPUs."""
    import torch

    return [torch.cuda.mem_get_info(i)[0] >> 20 for i in range(torch.cuda.device_count())]


def gpt_key_set() -> bool:
    """Tell whether there is a key for OpenAI's models."""
    return bool(os.environ.get("OPENAI_API_KEY"))


def modelscope_flag_set() -> bool:
    """Tell whether data come from ModelScope instead of Hugging Face."""
    return os.environ.get("VLMEVALKIT_USE_MODELSCOPE", "").lower() in ("1", "true")


def get_cache_path(repo_id: str, branch: str = "main", repo_type: str = "datasets") -> str | None:
    """Return the folder of a repository that was downloaded from the Hugging Face hub, None if there is none."""
    folder = Path(HFCacheRoot()) / f"{repo_type}--{repo_id.replace('/', '--')}"
    named = folder / "refs" / branch
    if not named.is_file():
        return None
    snapshot = folder / "snapshots" / named.read_text().strip()
    return str(snapshot) if snapshot.is_dir() else None
