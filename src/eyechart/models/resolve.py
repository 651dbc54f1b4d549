"""From a model name to the family that loads it: known names, collections, encoders, generators and rerankers."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from eyechart.demo import MODELS
from eyechart.errors import ModelError, UsageError, import_extra, unknown_name
from eyechart.messages import UserMessage, join
from eyechart.models.family import families_in, is_internvl, sees
from eyechart.models.registry import FAMILIES, OWN_GENERATORS
from eyechart.plugins import PYTHON
from eyechart.types import Role

Row = tuple[str, str, str]


def has_open_clip() -> bool:
    """Whether open_clip is installed."""
    return find_spec("open_clip") is not None


def known_models() -> Iterator[Row]:
    """Yield name, family and a short description of each model; those of open_clip if it is installed."""
    yield from ((name, "onnx", "embedded: small, for trying things out") for name in MODELS)
    if not has_open_clip():
        yield "ViT-B-32:openai", "open_clip", "and many more: pip install 'eyechart[open-clip]'"
        return
    from eyechart.models.encoders.open_clip_files import tags

    by_name = tags()
    for name in sorted(open_clip_names()):
        yield from (
            (f"{name}:{tag}", "open_clip", _download_location(source)) for tag, source in by_name.get(name, {}).items()
        )
        if name not in by_name:
            yield name, "open_clip", UserMessage("architecture only: pass a checkpoint with {--pretrained}")


def _download_location(source: dict[str, str]) -> str:
    return source.get("hf_hub", "").rstrip("/") or source.get("url", "").partition("?")[0]


COLLECTIONS: dict[str, tuple[tuple[str, str], ...]] = {
    "openai": (
        ("ViT-B-32", "openai"),
        ("ViT-B-16", "openai"),
        ("ViT-L-14", "openai"),
        ("ViT-L-14-336", "openai"),
    ),
    "openclip_base": (
        ("ViT-B-32-quickgelu", "laion400m_e32"),
        ("ViT-B-32", "laion2b_e16"),
        ("ViT-B-32", "laion2b_s34b_b79k"),
        ("ViT-B-16", "laion400m_e32"),
        ("ViT-B-16-plus-240", "laion400m_e32"),
        ("ViT-L-14", "laion400m_e32"),
        ("ViT-L-14", "laion2b_s32b_b82k"),
        ("ViT-H-14", "laion2b_s32b_b79k"),
        ("ViT-g-14", "laion2b_s12b_b42k"),
    ),
    "openclip_multilingual": (
        ("xlm-roberta-base-ViT-B-32", "laion5b_s13b_b90k"),
        ("xlm-roberta-large-ViT-H-14", "frozen_laion5b_s13b_b90k"),
    ),
}
"""Architecture and tag, as CLIP_benchmark lists them."""

EVERYTHING = ("openclip_all", "openclip_full")
"""Every model of the installed open_clip; the second name is used in CLIP_benchmark's documentation."""


def collection_names() -> list[str]:
    """List the collections."""
    return [*COLLECTIONS, *EVERYTHING]


def expand_collection(name: str) -> list[tuple[str, str]] | None:
    """Return the models of a collection, or None if there is no such collection."""
    if name in EVERYTHING:
        return list(import_extra("open_clip", "open-clip").list_pretrained())
    return list(COLLECTIONS[name]) if name in COLLECTIONS else None


# Find the family that loads a model by its name, for encoders, generators and rerankers.


EMBEDDED = "eyechart-tiny"
"""Default ONNX model: the first that ships with the package."""
PREFIXES = {"hf-hub:": "open_clip", "local-dir:": "open_clip", "internvl_": "internvl"}
CHECKPOINTS = (".pt", ".pth", ".bin", ".safetensors", ".ckpt")
WITH_TAGS = frozenset({"open_clip", "internvl"})
"""Families whose models are an architecture and weights, which may be written as one name."""
HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+")
HUB_FAMILIES: dict[Role, str] = {
    "encoder": "transformers",
    "generator": "transformers",
    "reranker": "cross-encoder",
}
"""Default family of ``org/name`` on a hub."""


@dataclass(frozen=True, slots=True)
class ResolvedModel:
    """A model with the family that loads it."""

    family: str
    name: str
    pretrained: str = ""
    factory: str = ""
    """``module.path:factory`` of the family ``python``."""
    notice: str = ""
    """Describes a guess; empty if the family is certain."""


def resolve_model(
    name: str, pretrained: str = "", *, family: str | None = None, role: Role = "encoder", address: str = ""
) -> ResolvedModel:
    """Find the family of a model.

    Args:
        name: Name as given by the user.
        pretrained: Tag, checkpoint, folder or address as given by the user.
        family: Family as given by the user; None means auto.
        role: The role of the model.
        address: Server address, if any.

    Raises:
        UsageError: If the name is unknown, or several families could load it.
    """
    name, pretrained = split_tag(name, pretrained, family=family, address=address)
    for text in (name, family or ""):
        if text.startswith(PYTHON):
            return ResolvedModel("python", name, pretrained, factory=text.removeprefix(PYTHON))
    known = FAMILIES[role].names()
    if family is not None:
        check_family(family, role)
        return ResolvedModel(family, name, pretrained)
    request = _Request(
        name, pretrained, role, address or (pretrained if pretrained.startswith(("http://", "https://")) else "")
    )
    found = next((found for rule in RULES for found in rule(request)), None)
    if found is None:
        raise _unknown(request)
    if found not in known:
        raise UsageError(
            "{name} belongs to the family {found}, which has no {role}s.",
            advice="Families with {role}s: {known}.",
            name=name,
            found=found,
            role=role,
            known=", ".join(known),
        )
    notice = ""
    if found == HUB_FAMILIES[role] and not Path(name).exists():
        notice = UserMessage(
            "{name} is loaded from the hub with {family}. "
            "Other families can be selected with {--model_type}: {others}.",
            name=name,
            family=found,
            others=", ".join(other for other in known if other != found),
        )
    return ResolvedModel(found, name, pretrained, notice=notice)


def split_tag(name: str, pretrained: str = "", *, family: str | None = None, address: str = "") -> tuple[str, str]:
    """Split ``architecture:weights``, as in ``ViT-B-32:openai``; other names stay whole.

    Names of servers (``llava:7b``), paths, ``hf-hub:`` and ``python:`` also contain colons: only names that start with
    an architecture, or belong to a family that has them, are split.

    Raises:
        UsageError: If weights are given twice.
    """
    architecture, colon, tag = name.partition(":")
    if not colon:
        return name, pretrained
    known = architecture.replace("/", "-") in open_clip_names() or architecture.startswith("internvl_")
    tagged = known if family is None else family in WITH_TAGS
    whole = f"{architecture}:" in (*PREFIXES, PYTHON) or tag.startswith("//") or len(architecture) == 1
    if not tagged or whole or address or Path(name).exists():
        return name, pretrained
    if not tag:
        raise UsageError(
            "{name!r} ends with a colon.", advice="Add the weights, as in {name}openai, or omit the colon.", name=name
        )
    if pretrained and pretrained != tag:
        raise UsageError(
            "{name} and {--pretrained={tag}} both select weights.",
            advice="Omit one of them.",
            name=name,
            tag=pretrained,
        )
    return architecture, tag


def check_family(family: str, *roles: Role) -> None:
    """Refuse a family that is not registered for one of these roles (default: any role)."""
    registries = [FAMILIES[role] for role in roles or FAMILIES]
    known = {name for registry in registries for name in registry.names()}
    if family not in known:
        raise unknown_name(registries[0].word, family, known)


def check_sees(name: str) -> None:
    """Refuse a folder with a text-only model for a task with images."""
    if Path(name).is_dir() and not sees(Path(name)):
        raise UsageError(
            "{name} encodes texts only: it has no image processor.", advice="Use a CLIP-like model.", name=name
        )


def holds_weights(name: str) -> bool:
    """Whether an open_clip name includes weights, not only an architecture."""
    return name.startswith(("hf-hub:", "local-dir:")) or Path(name).is_dir()


def open_clip_names() -> frozenset[str]:
    """Return the architectures of the installed open_clip, without importing it.

    If it is imported, architectures added with ``open_clip.add_model_config`` are included.
    """
    library, loaded = find_spec("open_clip"), sys.modules.get("open_clip")
    if library is None or library.origin is None:
        return frozenset()
    return _architectures(Path(library.origin)) | frozenset(loaded.list_models() if loaded else ())


@dataclass(frozen=True)
class _Request:
    name: str
    pretrained: str
    role: Role
    address: str


def _by_prefix(request: _Request) -> Iterator[str]:
    yield from (family for prefix, family in PREFIXES.items() if request.name.startswith(prefix))
    if MODELS.keys() & {request.name, request.pretrained} or request.name.endswith(".onnx"):
        yield "onnx"


def _by_folder(request: _Request) -> Iterator[str]:
    folder = Path(request.name)
    if not folder.is_dir():
        return
    if request.role == "encoder" and is_internvl(folder):
        raise UsageError(
            "{path} contains InternVL-C and InternVL-G, for classification and for retrieval.",
            advice="Choose one: {--model} internvl_g_retrieval_hf {--pretrained={path}} (or c, or classification).",
            path=folder,
        )
    families = [*families_in(folder, request.role), *(["api"] if request.address else [])]
    if not families:
        raise UsageError(
            "Unknown kind of model folder: {path}.",
            advice="Set its family with {--model_type}: {list}.",
            path=folder,
            list=", ".join(FAMILIES[request.role].names()),
        )
    if len(families) > 1:
        raise UsageError(
            "Several families can load {path}: {list}.",
            advice="Choose one with {--model_type}.",
            path=folder,
            list=", ".join(families),
        )
    yield families[0]


def _by_file(request: _Request) -> Iterator[str]:
    path = Path(request.name)
    if path.suffix == ".json" and path.is_file():
        yield "open_clip"
    elif path.is_file() or request.name.endswith(CHECKPOINTS):
        raise UsageError(
            "{path} is a checkpoint file of unknown architecture.",
            advice="Pass the architecture as {--model}, the file as {--pretrained}, and {--model_type=open_clip}.",
            path=path,
        )


def _by_registered_name(request: _Request) -> Iterator[str]:
    if request.name.replace("/", "-") in open_clip_names() and request.role != "reranker":
        yield "open_clip"
    registry = FAMILIES[request.role]
    if request.name in registry.names() and request.name not in registry.built_in:
        yield request.name
    if request.role == "generator" and request.name in OWN_GENERATORS.names():
        yield "python"


def _by_place(request: _Request) -> Iterator[str]:
    if request.address:
        yield "api"
    if request.name.startswith((".", "/", "~")):
        raise ModelError("File or folder not found: {path}.", advice="Check the path.", path=request.name)
    if HUB_ID.fullmatch(request.name):
        yield HUB_FAMILIES[request.role]
    if request.pretrained and request.role != "reranker":
        # A tag or a checkpoint belongs to an architecture; open_clip reports unknown ones.
        yield "open_clip"


RULES: tuple[Callable[[_Request], Iterator[str]], ...] = (
    _by_prefix,
    _by_folder,
    _by_file,
    _by_registered_name,
    _by_place,
)
"""Rules in order of precedence; the first family found is used."""


def _unknown(request: _Request) -> UsageError:
    known = FAMILIES[request.role]
    names = [*MODELS, *open_clip_names()] if request.role == "encoder" else OWN_GENERATORS.names()
    advice = UserMessage(
        "If a library can load it, select the library with {--model_type}: {names}.", names=", ".join(known.names())
    )
    if find_spec("open_clip") is None:
        advice = join((advice, "For models of open_clip: pip install 'eyechart[open-clip]'"))
    name = request.name.partition(":")[0] if request.role == "encoder" else request.name
    if name in MODELS and name != request.name:
        return UsageError("{name} has no selectable weights.", advice="Use {name} without a colon.", name=name)
    return unknown_name("model", name, names, advice=advice)


@cache
def _architectures(library: Path) -> frozenset[str]:
    return frozenset(path.stem for path in (library.parent / "model_configs").glob("*.json"))
