"""``build_dataset``: from a name to a dataset object, and what is known of a name without opening it."""

from __future__ import annotations

import logging
import sys
import warnings
from collections.abc import Iterator
from inspect import signature
from typing import Any

from eyechart.compat.vlmevalkit import datasets
from eyechart.compat.vlmevalkit.video import VideoBaseDataset
from eyechart.datasets.questions.benchmarks import known_benchmarks
from eyechart.datasets.questions.folders import lmu_data_root
from eyechart.datasets.questions.own_tables import class_of, table_file, with_metric
from eyechart.datasets.questions.reader import question_names, refuse_unscored
from eyechart.datasets.questions.tsv import read_header
from eyechart.datasets.registry import BENCHMARKS
from eyechart.errors import unknown_name

__all__ = ["DATASET_MODALITY", "DATASET_TYPE", "build_dataset", "infer_dataset_basename"]


def build_dataset(dataset_name: str, *, metric: str = "", **kwargs: Any) -> Any:
    """Open a benchmark by name, by the name that a class of the script gives it, or a TSV file by path.

    Args:
        dataset_name: Name or path.
        metric: Compares open answers, for a table of one's own.
        kwargs: Arguments of the dataset class; those that it does not have are left out, as in the original.

    Raises:
        UnknownNameError: If nobody knows the name and there is no such file.
        UsageError: If a metric is given for a benchmark that has its own, or the benchmark is not scored.
    """
    dataset = _open(dataset_name, kwargs)
    for notice in getattr(dataset, "notices", ()):
        if notice.kind in ("other_file", "other_rules"):
            logging.getLogger("eyechart.vlm").warning(notice.message)
    if metric:
        with_metric(dataset.benchmark, metric)
        dataset.metric = metric
    return dataset


def DATASET_TYPE(dataset: str, *, default: str = "MCQ") -> str:  # noqa: N802 - the original's name
    """Return the kind of a benchmark: MCQ, Y/N, VQA, Caption, MT, ..."""
    own = _own_class(dataset)
    if own is not None:
        return str(own.TYPE)
    if dataset in known_benchmarks():
        return known_benchmarks()[dataset].kind
    if "openended" in dataset.lower():
        return "VQA"
    warnings.warn(f"{dataset} is no benchmark that is known here: taken for {default}.", stacklevel=2)
    return default


def DATASET_MODALITY(dataset: str | None, *, default: str = "IMAGE") -> str:  # noqa: N802 - the original's name
    """Return what a benchmark asks about: IMAGE, VIDEO or TEXT."""
    known = known_benchmarks().get(dataset or "")
    made = _own_class(dataset or "") or (datasets.class_for(known) if known else None)
    if made is not None:
        return str(made.MODALITY)
    warnings.warn(f"{dataset} is no benchmark that is known here: taken for {default}.", stacklevel=2)
    return default


def infer_dataset_basename(dataset_name: str) -> str:
    """Return a name without what follows its last underscore."""
    return dataset_name.rpartition("_")[0]


def _open(name: str, arguments: dict[str, Any]) -> Any:
    known, own = known_benchmarks().get(name), _own_class(name)
    if own is not None:
        return _made(own, name, arguments)
    if known is not None:
        return _made(datasets.class_for(known), name, arguments)
    if name in BENCHMARKS.names():
        return BENCHMARKS.load(name)(name)
    refuse_unscored(name)
    path = table_file(name)
    if path is None:
        place = lmu_data_root() / f"{name}.tsv"
        raise unknown_name("benchmark", name, question_names(), advice=f"Or put your own table at {place}.")
    return _made(getattr(datasets, class_of(read_header(path), path)), path.stem, {**arguments, "file": path})


def _made(made: Any, name: str, arguments: dict[str, Any]) -> Any:
    taken = signature(made.__init__).parameters
    return made(name, **{key: value for key, value in arguments.items() if key in taken})


def _own_class(name: str) -> Any:
    """Return the class of the script or of a file that it imported whose benchmark has this name; the last one."""
    return next((one for one in reversed([*_classes()]) if name in one.supported_datasets()), None)


def _classes() -> Iterator[Any]:
    """Yield the classes that are not ours."""
    left: list[Any] = [datasets.ImageBaseDataset, VideoBaseDataset]
    for one in left:
        left += one.__subclasses__()
        if not one.__module__.startswith("eyechart.") and _is_loaded(one):
            yield one


def _is_loaded(one: Any) -> bool:
    """Tell whether a class is what its module holds; one whose file was read anew may be in memory for a while."""
    module, inner = sys.modules.get(one.__module__), "." in one.__qualname__
    return module is not None and (inner or getattr(module, one.__qualname__, None) is one)
