"""``build_dataset``: from a name to a dataset object."""

from __future__ import annotations

import logging
from typing import Any

from eyechart.compat.vlmevalkit import datasets
from eyechart.datasets.questions.benchmarks import known_benchmarks
from eyechart.datasets.questions.folders import lmu_data_root
from eyechart.datasets.questions.own_tables import class_of, table_file, with_metric
from eyechart.datasets.questions.reader import question_names, refuse_unscored
from eyechart.datasets.questions.tsv import read_header
from eyechart.datasets.registry import BENCHMARKS
from eyechart.errors import unknown_name


def build_dataset(name: str, *, metric: str = "", skip_noimg: bool = True) -> datasets.ImageBaseDataset:
    """Open a benchmark by name, or a TSV file by path.

    Raises:
        UnknownNameError: If nobody knows the name and there is no such file.
        UsageError: If a metric is given for a benchmark that has its own, or the benchmark is not scored.
    """
    dataset: datasets.ImageBaseDataset = _open(name, skip_noimg)
    for notice in getattr(dataset, "notices", ()):
        if notice.kind in ("other_file", "other_rules"):
            logging.getLogger("eyechart.vlm").warning(notice.message)
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
    refuse_unscored(name)
    path = table_file(name)
    if path is None:
        place = lmu_data_root() / f"{name}.tsv"
        raise unknown_name("benchmark", name, question_names(), advice=f"Or put your own table at {place}.")
    return getattr(datasets, class_of(read_header(path), path))(path.stem, skip_noimg, file=path)
