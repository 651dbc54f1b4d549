"""Typed and validated settings of ``run_task``, from EvalScope's dicts and files of both generations."""

from eyechart.compat.evalscope.schema import ClipConfig, ClipEval, MtebConfig, MtebEval
from eyechart.compat.evalscope.task_config import TaskConfig

__all__ = ["ClipConfig", "ClipEval", "MtebConfig", "MtebEval", "TaskConfig"]
