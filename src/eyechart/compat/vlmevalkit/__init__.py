"""VLMEvalKit's Python API: dataset classes, model classes and helpers under its names.

A dataset or model class written for VLMEvalKit works after changing its import line to `eyechart.vlm`, or unchanged
with `eyechart as vlmeval SCRIPT`.
"""

# ruff: noqa: F403 - each module declares its names in __all__; this package exports all of them
from eyechart.compat.vlmevalkit import build, datasets, evaluation, files, helpers, models
from eyechart.compat.vlmevalkit.build import *
from eyechart.compat.vlmevalkit.datasets import *
from eyechart.compat.vlmevalkit.evaluation import *
from eyechart.compat.vlmevalkit.files import *
from eyechart.compat.vlmevalkit.helpers import *
from eyechart.compat.vlmevalkit.models import *
from eyechart.datasets.questions.benchmark_files import lmu_data_root
from eyechart.datasets.questions.row_table import Record
from eyechart.datasets.questions.row_table import RowTable as Table

__all__ = ["Record", "Table", "lmu_data_root"]
__all__ += build.__all__
__all__ += datasets.__all__
__all__ += evaluation.__all__
__all__ += files.__all__
__all__ += helpers.__all__
__all__ += models.__all__
