"""``build_dataset``: from a name to a dataset object."""

from __future__ import annotations

from typing import Any

from eyechart.compat.vlmevalkit import datasets
from eyechart.datasets.questions.benchmarks import known_benchmarks
from eyechart.datasets.questions.folders import lmu_data_root
from eyechart.datasets.questions.own_tables import class_of, table_file, with_metric
from eyechart.datasets.questions.reader import question_names
from eyechart.datasets.questions.tsv import read_header
from eyechart.datasets.registry import BENCHMARKS
from eyechart.errors import unknown_name


def build_dataset(name: str, *, metric: str = "", skip_noimg: bool = True) -> datasets.ImageBaseDataset:
    """Open a benchmark by name, or a TSV file by path.

    Raises:
        UnknownNameError: If nobody knows the name and there is no such file.
        UsageError: If a metric is given for a benchmark that has its own.
    """
    dataset: datasets.ImageBaseDataset = _open(name, skip_noimg)
    if metric:
        with_metric(dataset.benchmark, metric)
        dataset.metric = metric
    return dataset


def _open(name: str, skip_noimg: bool) -> Any:
    known = known_benchmarks().get(name)
    if known is not None:
        return datasets.class_for(known)(name, skip_noimg)
    if name in BENCHMARKS.names():
        return BENCHMARKS.load(name)(name)
    path = table_file(name)
    if path is None:
        place = lmu_data_root() / f"{name}.tsv"
        raise unknown_name("benchmark", name, question_names(), advice=f"Or put your own table at {place}.")
    return getattr(datasets, class_of(read_header(path), path))(path.stem, skip_noimg, file=path)
