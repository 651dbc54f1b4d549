"""From a name to the family that loads it: encoders, generators and rerankers, whoever asks."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from eyechart.demo import MODELS
from eyechart.errors import ModelError, UsageError, unknown_name
from eyechart.models.folders import families_in, is_internvl, sees
from eyechart.models.registry import FAMILIES, OWN_GENERATORS
from eyechart.plugins import PYTHON
from eyechart.types import Role

EMBEDDED = "eyechart-tiny"
"""The model that stands for ONNX where none is named: the first that ships inside the package."""
PREFIXES = {"hf-hub:": "open_clip", "local-dir:": "open_clip", "internvl_": "internvl"}
CHECKPOINTS = (".pt", ".pth", ".bin", ".safetensors", ".ckpt")
WITH_TAGS = frozenset({"open_clip", "internvl"})
"""Families whose models are an architecture and weights, which can be written as one name."""
HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+")
HUB_FAMILIES: dict[Role, str] = {
    "encoder": "transformers",
    "generator": "transformers",
    "reranker": "cross-encoder",
}
"""Who loads ``org/name`` from a hub, where nothing else says so."""


@dataclass(frozen=True, slots=True)
class ResolvedModel:
    """A model as it was asked for, and the family that loads it."""

    family: str
    name: str
    pretrained: str = ""
    factory: str = ""
    """Where the family is ``python``: ``module.path:factory``."""
    notice: str = ""
    """What was guessed; empty if the name, its files or the user left no doubt."""


def resolve_model(
    name: str, pretrained: str = "", *, family: str | None = None, role: Role = "encoder", address: str = ""
) -> ResolvedModel:
    """Find the family of a model.

    Args:
        name: As the user wrote it.
        pretrained: Tag, checkpoint, folder or address, as the user wrote it.
        family: As the user wrote it; None to find out.
        role: What the model shall do.
        address: Of a server, where one was given.

    Raises:
        UsageError: If nobody knows the name, or several families could load it.
    """
    name, pretrained = split_tag(name, pretrained, family=family, address=address)
    for text in (name, family or ""):
        if text.startswith(PYTHON):
            return ResolvedModel("python", name, pretrained, factory=text.removeprefix(PYTHON))
    known = FAMILIES[role].names()
    if family is not None:
        check_family(family, role)
        return ResolvedModel(family, name, pretrained)
    asked = _Asked(name, pretrained, role, address or (pretrained if _is_address(pretrained) else ""))
    found = next((found for rule in RULES for found in rule(asked)), None)
    if found is None:
        raise _unknown(asked)
    if found not in known:
        raise UsageError(
            f"{name} is a model of the family {found}, which has no {role}s.",
            advice=f"Families with {role}s: {', '.join(known)}.",
        )
    return ResolvedModel(found, name, pretrained, notice=_notice(asked, found))


def split_tag(name: str, pretrained: str = "", *, family: str | None = None, address: str = "") -> tuple[str, str]:
    """Split ``architecture:weights``, as in ``ViT-B-32:openai``; any other name stays whole.

    Servers have names with colons (``llava:7b``), and so have paths, ``hf-hub:`` and ``python:``: only what begins with
    an architecture, or is of a family that has them, is split.

    Raises:
        UsageError: If weights are given twice.
    """
    architecture, colon, tag = name.partition(":")
    known = architecture.replace("/", "-") in open_clip_names() or architecture.startswith("internvl_")
    tagged = known if family is None else family in WITH_TAGS
    whole = f"{architecture}:" in (*PREFIXES, PYTHON) or tag.startswith("//") or len(architecture) == 1
    if not colon or not tagged or whole or address or Path(name).exists():
        return name, pretrained
    if not tag:
        raise UsageError(f"{name!r} ends with a colon.", advice=f"Name the weights: {name}openai, or leave it out.")
    if pretrained and pretrained != tag:
        raise UsageError(
            f"{name} names its weights, and so does --pretrained {pretrained}.", advice="Leave one of them out."
        )
    return architecture, tag


def check_family(family: str, *roles: Role) -> None:
    """Refuse a family that nobody has registered for one of these roles; without a role, for any."""
    registries = [FAMILIES[role] for role in roles or FAMILIES]
    known = {name for registry in registries for name in registry.names()}
    if family not in known:
        raise unknown_name(registries[0].word, family, known)


def check_sees(name: str) -> None:
    """Refuse a folder whose model reads texts only, where images are to be seen."""
    if Path(name).is_dir() and not sees(Path(name)):
        raise UsageError(f"{name} reads texts only: it has no image processor.", advice="Give a CLIP-like model.")


def holds_weights(name: str) -> bool:
    """Tell whether a name of open_clip stands for weights, too, and not only for an architecture."""
    return name.startswith(("hf-hub:", "local-dir:")) or Path(name).is_dir()


def open_clip_names() -> frozenset[str]:
    """Return the architectures that the installed open_clip knows, without importing it.

    If it has been imported, those that were added since (``open_clip.add_model_config``) are among them.
    """
    library, loaded = find_spec("open_clip"), sys.modules.get("open_clip")
    if library is None or library.origin is None:
        return frozenset()
    return _architectures(Path(library.origin)) | frozenset(loaded.list_models() if loaded else ())


@dataclass(frozen=True)
class _Asked:
    name: str
    pretrained: str
    role: Role
    address: str


def _by_prefix(asked: _Asked) -> Iterator[str]:
    yield from (family for prefix, family in PREFIXES.items() if asked.name.startswith(prefix))
    if MODELS.keys() & {asked.name, asked.pretrained} or asked.name.endswith(".onnx"):
        yield "onnx"


def _by_folder(asked: _Asked) -> Iterator[str]:
    folder = Path(asked.name)
    if not folder.is_dir():
        return
    if asked.role == "encoder" and is_internvl(folder):
        raise UsageError(
            f"{folder} holds InternVL-C and InternVL-G, for classification and for retrieval.",
            advice=f"Say which: --model internvl_g_retrieval_hf --pretrained {folder} (or c, or classification).",
        )
    families = [*families_in(folder, asked.role), *(["api"] if asked.address else [])]
    if not families:
        raise UsageError(
            f"{folder} is not the folder of a model that is known here.",
            advice=f"Name its family with --model_type: {', '.join(FAMILIES[asked.role].names())}.",
        )
    if len(families) > 1:
        raise UsageError(
            f"{folder} could be loaded by {' or '.join(families)}.", advice="Choose one of them with --model_type."
        )
    yield families[0]


def _by_file(asked: _Asked) -> Iterator[str]:
    path = Path(asked.name)
    if path.suffix == ".json" and path.is_file():
        yield "open_clip"
    elif path.is_file() or asked.name.endswith(CHECKPOINTS):
        raise UsageError(
            f"{path} is a checkpoint file: its architecture is not known.",
            advice="Give the architecture as --model, the file as --pretrained, and --model_type open_clip.",
        )


def _by_registered_name(asked: _Asked) -> Iterator[str]:
    if asked.name.replace("/", "-") in open_clip_names() and asked.role != "reranker":
        yield "open_clip"
    registry = FAMILIES[asked.role]
    if asked.name in registry.names() and asked.name not in registry.built_in:
        yield asked.name
    if asked.role == "generator" and asked.name in OWN_GENERATORS.names():
        yield "python"


def _by_place(asked: _Asked) -> Iterator[str]:
    if asked.address:
        yield "api"
    if asked.name.startswith((".", "/", "~")):
        raise ModelError(f"There is no file or folder {asked.name}.", advice="Check the path.")
    if HUB_ID.fullmatch(asked.name):
        yield HUB_FAMILIES[asked.role]
    if asked.pretrained and asked.role != "reranker":
        # A tag or a checkpoint belongs to an architecture; open_clip says which ones it has.
        yield "open_clip"


RULES: tuple[Callable[[_Asked], Iterator[str]], ...] = (
    _by_prefix,
    _by_folder,
    _by_file,
    _by_registered_name,
    _by_place,
)
"""Tried in order; the first family that one of them names is taken."""


def _unknown(asked: _Asked) -> UsageError:
    known = FAMILIES[asked.role]
    names = [*MODELS, *open_clip_names()] if asked.role == "encoder" else OWN_GENERATORS.names()
    advice = f"If a library knows it, name the library with --model_type: {', '.join(known.names())}."
    if find_spec("open_clip") is None:
        advice += " The names of open_clip need: pip install 'eyechart[open-clip]'"
    name = asked.name.partition(":")[0] if asked.role == "encoder" else asked.name
    if name in MODELS and name != asked.name:
        return UsageError(f"{name} has no weights to choose.", advice=f"Write {name} alone, without a colon.")
    return unknown_name("model", name, names, advice=advice)


def _notice(asked: _Asked, family: str) -> str:
    if family != HUB_FAMILIES[asked.role] or Path(asked.name).exists():
        return ""
    others = ", ".join(other for other in FAMILIES[asked.role].names() if other != family)
    return f"{asked.name} is taken for a model of {family} on a hub. Others with --model_type: {others}."


def _is_address(text: str) -> bool:
    return text.startswith(("http://", "https://"))


@cache
def _architectures(library: Path) -> frozenset[str]:
    return frozenset(path.stem for path in (library.parent / "model_configs").glob("*.json"))
