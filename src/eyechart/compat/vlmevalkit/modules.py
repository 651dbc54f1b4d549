"""The modules of VLMEvalKit that are served, and by which of ours.

Its own modules import all names from each other, and files written for it take a name from wherever they saw it. So
each module shows the whole surface, with the modules that ``from ..smp import *`` brings.
"""

_ALL = ("eyechart.compat.vlmevalkit", "eyechart.compat.vlmevalkit.standard")
_NAMES = """
api api.base api.gpt config constant
dataset dataset.image_base dataset.image_caption dataset.image_mcq dataset.image_mt dataset.image_shortqa
dataset.image_vqa dataset.image_yorn dataset.text_base dataset.text_mcq dataset.video_base
dataset.video_concat_dataset dataset.utils dataset.utils.judge_util dataset.utils.multiple_choice
smp smp.file smp.log smp.misc smp.status_report smp.vlm
tools utils utils.matching_util utils.mp_util
vlm vlm.base
"""
MODULES = {"vlmeval": _ALL} | {f"vlmeval.{name}": _ALL for name in _NAMES.split()}
OWN_FILES = True
"""A file of one's own in a folder such as ``vlmeval/dataset`` is part of the package, as where it was written."""
