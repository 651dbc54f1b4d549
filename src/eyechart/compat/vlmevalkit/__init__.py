"""VLMEvalKit's surface: dataset classes, model classes and helpers under the names that it gives them.

A dataset or model class written for VLMEvalKit works after changing its import line to `eyechart.vlm`, or unchanged in
`eyechart as vlmeval SCRIPT`.
"""

# ruff: noqa: F403 - each module says in __all__ what it gives; the surface is all of them
from eyechart.compat.vlmevalkit import (
    build,
    choices,
    datasets,
    files,
    frames,
    images,
    messages,
    misc,
    models,
    progress,
    served_models,
    video,
)
from eyechart.compat.vlmevalkit.build import *
from eyechart.compat.vlmevalkit.choices import *
from eyechart.compat.vlmevalkit.datasets import *
from eyechart.compat.vlmevalkit.files import *
from eyechart.compat.vlmevalkit.frames import *
from eyechart.compat.vlmevalkit.images import *
from eyechart.compat.vlmevalkit.messages import *
from eyechart.compat.vlmevalkit.misc import *
from eyechart.compat.vlmevalkit.models import *
from eyechart.compat.vlmevalkit.progress import *
from eyechart.compat.vlmevalkit.served_models import *
from eyechart.compat.vlmevalkit.video import *
from eyechart.datasets.questions.folders import lmu_data_root
from eyechart.datasets.questions.rows import Record
from eyechart.datasets.questions.rows import RowTable as Table

__all__ = ["Record", "Table", "lmu_data_root"]
__all__ += build.__all__
__all__ += choices.__all__
__all__ += datasets.__all__
__all__ += files.__all__
__all__ += frames.__all__
__all__ += images.__all__
__all__ += messages.__all__
__all__ += misc.__all__
__all__ += models.__all__
__all__ += progress.__all__
__all__ += served_models.__all__
__all__ += video.__all__
