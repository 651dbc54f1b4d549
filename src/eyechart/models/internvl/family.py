"""The ``internvl`` family: InternVL-C and InternVL-G under the six names of their authors' evaluation code.

The name decides three things: the form of the checkpoint (a ``.pth`` file, or with ``_hf`` a folder), which of the
two image vectors is taken (C, G), and the image transform (classification crops, retrieval squashes).
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType

from eyechart.errors import ModelError, UsageError, missing_extra, unknown_name
from eyechart.models import hub
from eyechart.models.identity import content_identity
from eyechart.models.internvl.encoder import InternVLEncoder, Variant
from eyechart.models.internvl.loading import HEADS, files_read
from eyechart.models.internvl.read_sizes import CONFIG
from eyechart.models.internvl.tokens import find_vocabulary
from eyechart.models.internvl.weights import weight_files
from eyechart.models.towers.device_options import DEVICE_OPTIONS
from eyechart.types import ModelSpec

LIBRARIES = ("torchvision", "sentencepiece")
"""They make pixels and tokens."""
GIVE = "Give the checkpoint with --pretrained: internvl_c_13b_224px.pth, or for a name with _hf InternVL-14B-224px."
VARIANTS = {
    f"internvl_{letter}_{task}{suffix}": Variant(letter.upper(), bool(suffix), task == "classification")
    for letter, suffix in (("c", ""), ("c", "_hf"), ("g", "_hf"))
    for task in ("classification", "retrieval")
}


class InternVLFamily:
    """Loads both forms of checkpoint."""

    auto_precision = "half"
    """As its authors do on a GPU: float32 takes 50 GB."""
    own_options = MappingProxyType({"tokenizer": str, **dict.fromkeys(HEADS, int), **DEVICE_OPTIONS})

    def check(self, spec: ModelSpec) -> None:
        """Refuse a missing library, an unknown name, a missing checkpoint, or one of the other form."""
        missing = next((name for name in ("torch", *LIBRARIES) if find_spec(name) is None), None)
        if missing:
            raise missing_extra(missing, "transformers")
        if spec.name not in VARIANTS:
            raise unknown_name("InternVL model", spec.name, VARIANTS)
        if not spec.pretrained:
            raise UsageError(f"{spec.name} is the name of a network, not of its weights.", advice=GIVE)
        (_check_folder if VARIANTS[spec.name].folder else _check_file)(spec)

    def identity(self, spec: ModelSpec) -> str | None:
        """Name the content of the files that are read, where they are on this machine."""
        here = Path(spec.pretrained)
        if not here.exists():
            # What a hub's client fetched may not be all of it yet.
            return content_identity([hub.cached_place(spec.pretrained, spec), *_given(spec)], *LIBRARIES)
        return content_identity(files_read(here, find_vocabulary(spec, here)), *LIBRARIES)

    def load(self, spec: ModelSpec) -> InternVLEncoder:
        """Load network and tokenizer."""
        return InternVLEncoder(spec, VARIANTS[spec.name])


def _given(spec: ModelSpec) -> list[Path]:
    return [Path(spec.options["tokenizer"])] if spec.options.get("tokenizer") else []


def _check_file(spec: ModelSpec) -> None:
    path = Path(spec.pretrained)
    if path.is_dir():
        raise UsageError(
            f"{spec.name} reads a .pth file, but {path} is a folder.", advice=f"Use --model {spec.name}_hf."
        )
    if not path.is_file():
        raise ModelError(f"There is no checkpoint {path}.", advice="Check the path after --pretrained.")
    find_vocabulary(spec, path)


def _check_folder(spec: ModelSpec) -> None:
    path = Path(spec.pretrained)
    given = set(HEADS) & set(spec.options)
    if given:
        raise UsageError(f"{', '.join(sorted(given))}: for a .pth file only. A folder's {CONFIG} says it.")
    if path.is_file():
        raise UsageError(
            f"{spec.name} reads a folder, but {path} is a file.",
            advice=f"Use --model {spec.name.removesuffix('_hf')}." if "_c_" in spec.name else "",
        )
    if path.is_dir():
        if not (path / CONFIG).is_file():
            raise ModelError(f"{path} holds no {CONFIG}.", advice="Download the whole folder.")
        weight_files(path)
        find_vocabulary(spec, path)
    elif spec.pretrained.startswith((".", "/", "~")) or spec.pretrained.count("/") != 1 or path.parent.is_dir():
        raise ModelError(
            f"There is no folder {spec.pretrained}.", advice="Check the path after --pretrained, or give a hub id."
        )
    else:
        hub.check(spec)
