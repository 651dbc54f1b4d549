"""Run scripts written for another tool: Eyechart's modules are imported under its names, in this process only.

`SURFACES` lists the modules of each package and their sources. Nothing changes on disk; an installed package of that
name is unaffected. For packages in `WITH_USER_FILES`, a module that is not listed may be a file on ``sys.path``: users
of that tool add files to its folders.
"""

import runpy
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

from eyechart.errors import UsageError, unknown_name

_SMP = """
OrderedDict=collections:OrderedDict Path=pathlib:Path base64=base64 copy=copy cp=copy csv=csv datetime=datetime
defaultdict=collections:defaultdict hashlib=hashlib io=io json=json logging=logging math=math mimetypes=mimetypes
mp=multiprocessing os=os osp=os.path random=random rd=random re=re shutil=shutil string=string sys=sys time=time
warnings=warnings np=numpy pd=pandas Image=PIL.Image requests=requests tqdm=tqdm:tqdm
"""
"""Names that files written for VLMEvalKit get from ``from ..smp import *`` without importing them."""
_VLMEVAL = """
api api.base api.gpt config constant
dataset dataset.image_base dataset.image_caption dataset.image_mcq dataset.image_mt dataset.image_shortqa
dataset.image_vqa dataset.image_yorn dataset.text_base dataset.text_mcq dataset.video_base
dataset.video_concat_dataset dataset.utils dataset.utils.judge_util dataset.utils.multiple_choice
smp smp.file smp.log smp.misc smp.status_report smp.vlm
tools utils utils.matching_util utils.mp_util
vlm vlm.base
"""
"""VLMEvalKit's modules import all names from each other, so each of ours exposes the whole surface."""
_DATASETS = "eyechart.compat.clip_benchmark.datasets"
_METRICS = "eyechart.compat.clip_benchmark.metrics"
_MODELS = "eyechart.compat.clip_benchmark.models"
_RUN, _CONFIG = "eyechart.compat.evalscope.main", "eyechart.compat.evalscope.task_config"

SURFACES: dict[str, dict[str, Sequence[str]]] = {
    "clip_benchmark": {
        "clip_benchmark": ("eyechart.compat.clip_benchmark",),
        "clip_benchmark.datasets.builder": (_DATASETS, "default_collate=torch.utils.data:default_collate"),
        "clip_benchmark.metrics.captioning": (f"evaluate={_METRICS}:evaluate_captions",),
        "clip_benchmark.metrics.image_caption_selection": (f"evaluate={_METRICS}:evaluate_selection",),
        "clip_benchmark.metrics.linear_probe": ("eyechart.compat.clip_benchmark.linear_probe",),
        "clip_benchmark.metrics.zeroshot_classification": (_METRICS, f"evaluate={_METRICS}:evaluate_classification"),
        "clip_benchmark.metrics.zeroshot_retrieval": (_METRICS, f"evaluate={_METRICS}:evaluate_retrieval"),
        "clip_benchmark.model_collection": (_MODELS,),
        "clip_benchmark.models": (_MODELS,),
        "clip_benchmark.models.japanese_clip": (_MODELS,),
        "clip_benchmark.models.open_clip": (_MODELS,),
    },
    "evalscope": {
        "evalscope": (_CONFIG, _RUN),
        "evalscope.run": (_RUN, _CONFIG),
        "evalscope.config": (_CONFIG,),
        "evalscope.constants": (_CONFIG,),
        "evalscope.utils": (_RUN,),
        "evalscope.utils.logger": (_RUN,),
    },
    "vlmeval": {
        name: ("eyechart.compat.vlmevalkit", *_SMP.split())
        for name in ("vlmeval", *(f"vlmeval.{inner}" for inner in _VLMEVAL.split()))
    },
}
"""For each package its modules; for each module its sources: ``module`` exposes that module's public names, and
``name=module`` or ``name=module:attribute`` exposes one object, imported on first use and omitted if its library is not
installed. `eyechart.cli.act_as` adds the modules that are command lines."""
WITH_USER_FILES = frozenset({"vlmeval"})
"""Packages to which user files in a folder such as ``vlmeval/dataset`` belong."""
SPAWNED = Path(__file__).parent / "spawned"
"""A folder per package for spawned workers: they inherit ``sys.path`` but not our finders."""


def serve(name: str) -> None:
    """Put a finder of our modules in front of all others (see `eyechart.compat.act_as`)."""
    if name not in SURFACES:
        raise unknown_name("package to act as", name, SURFACES)
    if any(isinstance(finder, _Finder) and finder.package == name for finder in sys.meta_path):
        return
    if name in sys.modules:
        raise UsageError(
            "{name} has already been imported.", advice="Call act_as({name!r}) before anything imports it.", name=name
        )
    sys.meta_path.insert(0, _Finder(name))
    if str(SPAWNED / name) not in sys.path:
        sys.path.insert(0, str(SPAWNED / name))


def run_script(path: str, arguments: Sequence[str]) -> None:
    """Run a script as ``python path arguments`` would."""
    if not Path(path).is_file():
        raise UsageError("Script not found: {path}.", advice="To run a module, use -m MODULE.", path=path)
    sys.argv[:] = [path, *arguments]
    sys.path.insert(1, str(Path(path).resolve().parent))  # after SPAWNED: ours wins in workers, too
    runpy.run_path(path, run_name="__main__")


def run_module(name: str, arguments: Sequence[str]) -> int:
    """Run a module as ``python -m name arguments`` would; of a served module, its ``main``."""
    sys.argv[:] = [name, *arguments]
    sys.path.insert(1, "")
    if any(isinstance(finder, _Finder) and name in finder.modules for finder in sys.meta_path):
        served = import_module(name)
        if not hasattr(served, "main"):
            raise UsageError("{name} has no main() to run.", name=name)
        return int(served.main() or 0)
    found = None
    with suppress(ModuleNotFoundError):  # not even the package
        found = find_spec(name)
    if found is None:
        raise UsageError("Module not found: {name}.", advice="To run a script, pass its path without -m.", name=name)
    sys.modules.pop(f"{name}.__main__", None)  # ours, if `eyechart` itself is run: runpy warns of a second copy
    runpy.run_module(name, run_name="__main__", alter_sys=True)
    return 0


class _Finder(MetaPathFinder, Loader):
    """Finds and fills the modules of one package in `SURFACES`, ahead of all other finders."""

    def __init__(self, package: str) -> None:
        self.package, self.modules = package, SURFACES[package]

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> ModuleSpec | None:  # noqa: ARG002
        if fullname.partition(".")[0] != self.package:
            return None
        inner = any(name.startswith(f"{fullname}.") for name in self.modules)
        if fullname not in self.modules and not inner:
            *parents, _ = fullname.split(".")
            folders = [str(Path(folder or ".").absolute().joinpath(*parents)) for folder in sys.path]
            if self.package in WITH_USER_FILES and (user_file := PathFinder.find_spec(fullname, folders)):
                return user_file
            raise ModuleNotFoundError(
                f"Eyechart has no {fullname}; of {self.package} it has: {', '.join(sorted(self.modules))}.",
                name=fullname,
            )
        return ModuleSpec(fullname, self, is_package=inner, origin="eyechart")

    def exec_module(self, module: ModuleType) -> None:
        later: dict[str, tuple[str, str]] = {}
        """Names imported on first use: module and attribute; without an attribute, the module itself."""
        for source in self.modules.get(module.__name__, ()):
            name, _, target = source.rpartition("=")
            place, _, attribute = target.partition(":")
            if not name:
                ours = import_module(place)
                names = getattr(ours, "__all__", None) or [name for name in vars(ours) if not name.startswith("_")]
                vars(module).update({name: vars(ours)[name] for name in names if name in vars(ours)})
                later |= {name: (place, name) for name in names if name not in vars(ours)}
            elif find_spec(place.partition(".")[0]):
                later[name] = (place, attribute)

        def import_later(name: str) -> Any:
            if name not in later:
                raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}")
            place, attribute = later[name]
            found = import_module(place)
            return getattr(found, attribute) if attribute else found

        # `import *` takes all names, including those that are imported later.
        shown = [name for name in vars(module) if not name.startswith("_")]
        vars(module).update({"__getattr__": import_later, "__all__": [*dict.fromkeys([*shown, *later])]})
