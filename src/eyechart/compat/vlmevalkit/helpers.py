"""Helpers under the names of VLMEvalKit's ``smp`` and ``utils``: values, logs, images, parallel calls."""

from __future__ import annotations

import ast
import base64
import hashlib
import io
import json
import logging
import operator
import os
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from eyechart.compat.vlmevalkit.files import dump, load
from eyechart.datasets.questions.benchmark_files import decode_cell
from eyechart.errors import DataError
from eyechart.io.files import cache_root, cached_snapshot, write_cached
from eyechart.io.images import decode_image
from eyechart.io.progress import choose_progress
from eyechart.io.terminal import write_message
from eyechart.metrics.answers import clean_punctuation as process_punctuation
from eyechart.metrics.cell_values import is_missing, literal_list, text_list
from eyechart.metrics.cell_values import text_list as toliststr
from eyechart.scorers.judging.judge_forms import option_block

if TYPE_CHECKING:
    from PIL import Image

__all__ = [
    "bincount", "build_option_str", "cn_string", "concat_images_vlmeval", "decode_base64_to_image",
    "decode_base64_to_image_file", "dict_merge", "encode_image_file_to_base64", "encode_image_to_base64",
    "extract_json_objects", "get_cache_path", "get_cuda_visible_devices", "get_gpu_memory", "get_logger",
    "get_rank_and_world_size", "gpt_key_set", "is_number", "isimg", "istype", "listinstr", "mmqa_display",
    "modelscope_flag_set", "process_punctuation", "proxy_set", "read_ok", "rescale_img", "resize_image_by_factor",
    "setup_logger", "splitlen", "timestr", "to_number", "toliststr", "track_progress_rich", "version_cmp",
]  # fmt: skip

_CHINESE = re.compile("[\u4e00-\u9fff]")
_CUT = {"second": None, "minute": -2, "hour": -4, "day": -6}
SMALLER = 0.8
"""Factor by which an image is scaled down until its file is small enough."""


def listinstr(lst: Iterable[str], s: str) -> bool:
    """Whether a text contains one of the parts."""
    return any(part in s for part in lst)


def istype(s: Any, type: type) -> bool:  # noqa: A002 - the original's name
    """Whether a value, or the literal in a text, has a type such as list or int."""
    if isinstance(s, type):
        return True
    if type is list:
        return isinstance(s, str) and literal_list(s) is not None
    try:
        return isinstance(s, str) and len(s) < 100 and isinstance(ast.literal_eval(s), type)
    except (ValueError, SyntaxError):
        return False


def cn_string(s: str) -> bool:
    """Whether a text contains a Chinese character."""
    return _CHINESE.search(s) is not None


def splitlen(s: str, sym: str = "/") -> int:
    """Count the parts of a text."""
    return len(s.split(sym))


def bincount(lst: Iterable[Any]) -> defaultdict[Any, int]:
    """Count how often each value occurs."""
    return defaultdict(int, Counter(lst))


def dict_merge(dct: MutableMapping[str, Any], merge_dct: MutableMapping[str, Any]) -> None:
    """Merge one dict into another, recursively."""
    for key, value in merge_dct.items():
        if isinstance(dct.get(key), dict) and isinstance(value, dict):
            dict_merge(dct[key], value)
        else:
            dct[key] = value


def extract_json_objects(text: str, decoder: json.JSONDecoder = json.JSONDecoder()) -> Iterator[Any]:  # noqa: B008 - the original's signature; it holds no state
    """Yield the JSON objects in a text."""
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
    """Whether a value is a number and not a boolean."""
    return to_number(value) is not None


def to_number(value: Any) -> float | int | None:
    """Return a Python or numpy number as a Python number; None for anything else."""
    plain = value.item() if hasattr(value, "item") else value
    return plain if isinstance(plain, int | float) and not isinstance(plain, bool) else None


def get_logger(name: str | None = None) -> logging.Logger:
    """Return the logger of a module, below ``vlmeval``."""
    inside = name is not None and name.partition(".")[0] == "vlmeval"
    return logging.getLogger(name if inside else f"vlmeval.{name}" if name else "vlmeval")


def setup_logger(
    log_file: str | None = None, log_level: str = "INFO", console: bool = True, reset: bool = False
) -> logging.Logger:
    """Configure the ``vlmeval`` logger for terminal and file; an existing setup stays unless ``reset``."""
    logger = get_logger()
    if logger.handlers and not reset:
        return logger
    logger.handlers.clear()
    logger.setLevel(log_level.upper())
    if log_file:
        Path(log_file).parent.mkdir(parents=True, exist_ok=True)
    handlers: list[logging.Handler] = [logging.StreamHandler()] if console else []
    handlers += [logging.FileHandler(log_file)] if log_file else []
    for handler in handlers:
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
        logger.addHandler(handler)
    logger.propagate = False
    return logger


def proxy_set(s: str) -> None:
    """Route all downloads of this process through a proxy."""
    os.environ.update(dict.fromkeys(("http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY"), s))


def get_rank_and_world_size() -> tuple[int, int]:
    """Return rank and world size as set by launchers."""
    return int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))


def get_cuda_visible_devices() -> list[int] | None:
    """List the GPUs of ``CUDA_VISIBLE_DEVICES``; None if it is not set."""
    given = os.environ.get("CUDA_VISIBLE_DEVICES")
    return None if given is None else [int(number) for number in given.split(",") if number]


def get_gpu_memory() -> list[int]:
    """List the free memory of each GPU in MiB."""
    import torch

    return [torch.cuda.mem_get_info(i)[0] >> 20 for i in range(torch.cuda.device_count())]


def gpt_key_set() -> bool:
    """Whether an OpenAI key is set."""
    return bool(os.environ.get("OPENAI_API_KEY"))


def modelscope_flag_set() -> bool:
    """Whether downloads use ModelScope instead of Hugging Face."""
    return os.environ.get("VLMEVALKIT_USE_MODELSCOPE", "").lower() in ("1", "true")


def get_cache_path(repo_id: str, branch: str = "main", repo_type: str = "datasets") -> str | None:
    """Return the cached folder of a Hugging Face repository; None if it is not cached."""
    found = cached_snapshot(repo_type, repo_id, revision=branch)
    return None if found is None else str(found)


def encode_image_to_base64(
    img: Image.Image, target_size: int = -1, fmt: str = "JPEG", max_file_size: float = 1e9
) -> str:
    """Encode an image, scaled down to ``target_size`` on its longer side and ``max_file_size`` characters."""
    from PIL import Image

    image = img if img.mode in ("RGB", "L") else img.convert("RGB")
    if target_size > 0 and max(image.size) > target_size:
        image = image.copy()
        image.thumbnail((target_size, target_size), Image.Resampling.LANCZOS)
    while True:
        written = io.BytesIO()
        image.save(written, fmt)
        text = base64.b64encode(written.getvalue()).decode("ascii")
        if len(text) <= max_file_size or max(image.size) == 1:
            return text
        image = resize_image_by_factor(image, SMALLER)


def encode_image_file_to_base64(
    image_path: str | Path, target_size: int = -1, fmt: str = "JPEG", max_file_size: float = 1e9
) -> str:
    """Encode an image file; without a target size, small files are encoded unchanged."""
    data = Path(image_path).read_bytes()
    image = decode_image(data, str(image_path))
    if target_size <= 0 and len(data) * 4 / 3 <= max_file_size:
        return base64.b64encode(data).decode("ascii")
    return encode_image_to_base64(image, target_size, fmt, max_file_size)


def decode_base64_to_image(base64_string: str, target_size: int = -1) -> Image.Image:
    """Decode an image; palettes and transparency become RGB."""
    image = decode_image(decode_cell(base64_string, "base64 text"), "base64 text")
    if image.mode in ("RGBA", "P", "LA"):
        image = image.convert("RGB")
    if target_size > 0:
        image.thumbnail((target_size, target_size))
    return image


def decode_base64_to_image_file(base64_string: str, image_path: str | Path, target_size: int = -1) -> None:
    """Decode an image into a file in the format of its suffix."""
    Path(image_path).parent.mkdir(parents=True, exist_ok=True)
    decode_base64_to_image(base64_string, target_size).save(image_path)


def read_ok(img_path: str | Path) -> bool:
    """Whether a file exists and has an image header."""
    from PIL import Image

    try:
        with Image.open(img_path) as image:
            return min(image.size) > 0
    except (OSError, ValueError, Image.DecompressionBombError):
        return False


def isimg(s: str) -> bool:
    """Whether a text is the path of a file, or a URL."""
    return s.startswith("http") or Path(s).exists()


def mmqa_display(question: Mapping[str, Any], target_size: int = -1) -> None:
    """Show a row: its images in the system's viewer, its texts in the terminal."""
    row = {key.lower(): value for key, value in question.items()}
    cells = text_list(row.pop("image", None))
    paths = [] if cells else text_list(row.pop("image_path", None))
    cells += [encode_image_file_to_base64(path) for path in paths]
    for cell in cells:
        decode_base64_to_image(cell, target_size).show()
    lines = (f"{name.upper()}. {value}\n" for name, value in row.items() if not is_missing(value))
    write_message("".join(lines), sys.stdout)


def rescale_img(img: Image.Image, tgt: tuple[int, int]) -> Image.Image:
    """Scale an image to a width or a height; the other is -1."""
    width, height = img.size
    if tgt[0] != -1:
        return img.resize((tgt[0], int(tgt[0] / width * height)))
    return img.resize((int(tgt[1] / height * width), tgt[1]))


def resize_image_by_factor(img: Image.Image, factor: float = 1) -> Image.Image:
    """Scale an image, to at least one pixel."""
    return img.resize((max(1, int(img.width * factor)), max(1, int(img.height * factor))))


def concat_images_vlmeval(
    images: Sequence[str], target_size: int = -1, mode: Literal["h", "v"] = "h", return_image: bool = False
) -> Any:
    """Concatenate images horizontally (``h``) or vertically (``v``); return the path of the new image, or the image."""
    from PIL import Image

    found = [decode_image(Path(path).read_bytes(), str(path)) for path in images]
    if not found:
        raise DataError("No images to concatenate.")
    if target_size != -1:
        found = [rescale_img(one, (-1, target_size) if mode == "h" else (target_size, -1)) for one in found]
    wide, high = [one.width for one in found], [one.height for one in found]
    size = (sum(wide), max(high)) if mode == "h" else (max(wide), sum(high))
    whole = Image.new("RGB", size)
    for i, one in enumerate(found):
        whole.paste(one, (sum(wide[:i]), 0) if mode == "h" else (0, sum(high[:i])))
    if return_image:
        return whole
    written = io.BytesIO()
    whole.save(written, "PNG")
    path = cache_root() / "images" / f"{hashlib.sha256(written.getvalue()).hexdigest()}.png"
    if not path.is_file():
        write_cached(path, written.getvalue())
    return str(path)


def build_option_str(option_dict: Mapping[str, Any]) -> str:
    """Format options, one per line, as in the original's prompts."""
    return option_block({letter: text for letter, text in option_dict.items() if not is_missing(text)})


def track_progress_rich(
    func: Callable[..., Any],
    tasks: Sequence[Any] = (),
    nproc: int | None = 1,
    save: str | None = None,
    keys: Sequence[Hashable] | None = None,
    use_process: bool = False,
    **_: Any,
) -> list[Any]:
    """Call a function for each task (a dict of keyword arguments, a list of positional ones); return its results.

    ``nproc`` is the number of parallel calls, None for one per core. The file ``save`` gets the results by key, updated
    after each; previous content is kept.
    """
    if not callable(func):
        raise TypeError("func must be a callable object")
    if keys is not None and len(keys) != len(tasks):
        raise AssertionError(f"{len(keys)} keys for {len(tasks)} tasks")
    if nproc is not None and nproc < 1:
        raise AssertionError("nproc must be a positive number")
    saved: dict[Hashable, Any] = dict(load(save)) if save and Path(save).is_file() else {}
    results: list[Any] = [None] * len(tasks)
    pool: Executor = ProcessPoolExecutor(nproc) if use_process else ThreadPoolExecutor(nproc or os.cpu_count())
    with pool as workers, choose_progress(quiet=False).step("tasks", len(tasks)) as bar:
        places = {workers.submit(_call, func, task): i for i, task in enumerate(tasks)}
        for done in as_completed(places):
            place = places[done]
            results[place] = done.result()
            if save and keys is not None:
                saved[keys[place]] = results[place]
                dump(saved, save)
            bar.advance(1)
    if save:
        dump(saved, save)
    return results


def _call(func: Callable[..., Any], given: Any) -> Any:
    if isinstance(given, Mapping):
        return func(**given)
    return func(*given) if isinstance(given, list | tuple) else func(given)
