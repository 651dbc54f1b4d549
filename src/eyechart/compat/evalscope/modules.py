"""The modules of EvalScope that are served, and by which of ours."""

_RUN = "eyechart.compat.evalscope.main"
_CONFIG = "eyechart.compat.evalscope"
MODULES = {
    "evalscope": (_CONFIG, _RUN),
    "evalscope.run": (_RUN,),
    "evalscope.config": (_CONFIG,),
}
