"""From whatever ``run_task`` is given to typed configs: dicts, files, typed configs, lists of these."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path

from eyechart.compat.evalscope.secrets import refuse_misplaced
from eyechart.compat.evalscope.task_config import TaskConfig
from eyechart.errors import UsageError
from eyechart.io.configs.files import read_file


def read_configs(task_cfg: object) -> list[TaskConfig]:
    """Return the configs in the order given.

    Args:
        task_cfg: A dict as EvalScope's documentation prints it, the path of a YAML or JSON file, a `TaskConfig`, an
            argparse namespace, or a list of any of these.

    Raises:
        UsageError: With one line for each setting that is wrong, and the nearest name for an unknown one.
    """
    if isinstance(task_cfg, TaskConfig):
        return [task_cfg]
    if isinstance(task_cfg, argparse.Namespace):
        return read_configs({key: value for key, value in vars(task_cfg).items() if value is not None})
    if isinstance(task_cfg, str | Path):
        refuse_misplaced({"task_cfg": str(task_cfg)})
        return read_configs(read_file(Path(task_cfg)))
    if isinstance(task_cfg, list | tuple):
        if not task_cfg:
            raise UsageError("The list of configs is empty.")
        return [config for entry in task_cfg for config in read_configs(entry)]
    if isinstance(task_cfg, Mapping):
        return [TaskConfig.model_validate(dict(task_cfg))]
    raise UsageError(
        f"run_task takes a dict, a path, a TaskConfig or a list of these, not a {type(task_cfg).__name__}."
    )
