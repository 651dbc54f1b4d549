"""The modules of VLMEvalKit that are served, and by which of ours."""

_ALL = "eyechart.compat.vlmevalkit"
MODULES = {
    "vlmeval": (_ALL,),
    "vlmeval.dataset": (_ALL,),
    "vlmeval.dataset.image_base": (_ALL,),
    "vlmeval.smp": (_ALL,),
    "vlmeval.vlm": (_ALL,),
    "vlmeval.vlm.base": (_ALL,),
    "vlmeval.api": (_ALL,),
    "vlmeval.api.base": (_ALL,),
}
