"""``track_progress_rich``: a function over many inputs, several at a time; results survive an interruption."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from contextlib import ExitStack
from os import cpu_count
from pathlib import Path
from typing import Any

from eyechart.compat.vlmevalkit.files import dump, load
from eyechart.io.progress import choose_progress

__all__ = ["track_progress_rich"]


def track_progress_rich(
    func: Callable[..., Any],
    tasks: Sequence[Any] = (),
    nproc: int | None = 1,
    save: str | None = None,
    keys: Sequence[Hashable] | None = None,
    use_process: bool = False,
    **_: Any,
) -> list[Any]:
    """Call a function for each task: a dict is its keyword arguments, a list or tuple its arguments, else the only one.

    Args:
        func: What is called.
        tasks: What it is called with.
        nproc: How many calls at a time; None for one per core.
        save: A file that gets the results by key, each as soon as it is there; what it held before stays.
        keys: A key for each task.
        use_process: In processes instead of threads.

    Returns:
        The results in the order of the tasks.
    """
    if not callable(func):
        raise TypeError("func must be a callable object")
    if keys is not None and len(keys) != len(tasks):
        raise AssertionError(f"{len(keys)} keys for {len(tasks)} tasks")
    if nproc is not None and nproc < 1:
        raise AssertionError("nproc must be a positive number")
    saved: dict[Hashable, Any] = dict(load(save)) if save and Path(save).is_file() else {}
    results: list[Any] = [None] * len(tasks)
    with ExitStack() as stack:
        pool: Executor = ProcessPoolExecutor(nproc) if use_process else ThreadPoolExecutor(nproc or cpu_count())
        workers = stack.enter_context(pool)
        bar = stack.enter_context(choose_progress(quiet=False).step("tasks", len(tasks)))
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
