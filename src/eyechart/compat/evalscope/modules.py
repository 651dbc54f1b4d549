"""The modules of EvalScope that are served, and by which of ours."""

_RUN = "eyechart.compat.evalscope.main"
_CONFIG = "eyechart.compat.evalscope.task_config"
_CONSTANTS = "eyechart.compat.evalscope.constants"
_LOGGER = "eyechart.compat.evalscope.log"
MODULES = {
    "evalscope": (_CONFIG, _RUN),
    "evalscope.run": (_RUN, _CONFIG),
    "evalscope.config": (_CONFIG,),
    "evalscope.constants": (_CONSTANTS,),
    "evalscope.utils": (_LOGGER,),
    "evalscope.utils.logger": (_LOGGER,),
}
