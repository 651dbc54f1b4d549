"""The settings of ``run_task``: EvalScope's dicts and files of both generations, checked and typed."""

from eyechart.compat.evalscope.read import read_configs
from eyechart.compat.evalscope.schema import ClipConfig, ClipEval, MtebConfig, MtebEval
from eyechart.compat.evalscope.task_config import TaskConfig

__all__ = ["ClipConfig", "ClipEval", "MtebConfig", "MtebEval", "TaskConfig", "read_configs"]
