"""From a model name to the family that loads it: known names, collections, encoders, generators and rerankers."""

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path

from eyechart.demo import MODELS
from eyechart.errors import ModelError, UsageError, import_extra, unknown_name
from eyechart.messages import UserMessage, join
from eyechart.models.family import families_in, is_internvl, open_clip_names, sees
from eyechart.models.registry import FAMILIES, OWN_GENERATORS
from eyechart.plugins import PYTHON
from eyechart.types import IN_MEMORY, Role


def has_open_clip() -> bool:
    """Whether open_clip is installed."""
    return find_spec("open_clip") is not None


def known_models() -> Iterator[tuple[str, str, str]]:
    """Yield name, family and a short description of each model; those of open_clip if it is installed."""
    yield from ((name, "onnx", "embedded: small, for trying things out") for name in MODELS)
    if not has_open_clip():
        return
    from eyechart.models.encoders.open_clip import tags

    by_name = tags()
    for name in sorted(open_clip_names()):
        for tag, source in by_name.get(name, {}).items():
            place = source.get("hf_hub", "").rstrip("/") or source.get("url", "").partition("?")[0]
            yield f"{name}:{tag}", "open_clip", place
        if name not in by_name:
            yield name, "open_clip", UserMessage("architecture only: pass a checkpoint with {--pretrained}")


EVERYTHING = ("openclip_all", "openclip_full")
"""Every model of the installed open_clip; the second name is used in CLIP_benchmark's documentation."""


@cache
def model_collections() -> dict[str, list[list[str]]]:
    """Return the collections of models: pairs of architecture and tag."""
    return tomllib.loads(files(__package__).joinpath("collections.toml").read_text(encoding="utf-8"))


def collection_names() -> list[str]:
    """List the collections."""
    return [*model_collections(), *EVERYTHING]


def expand_collection(name: str) -> list[tuple[str, str]] | None:
    """Return the models of a collection, or None if there is no such collection."""
    if name in EVERYTHING:
        return list(import_extra("open_clip", "open-clip").list_pretrained())
    members = model_collections().get(name)
    return None if members is None else [(architecture, tag) for architecture, tag in members]


EMBEDDED = "eyechart-tiny"
"""Default ONNX model: the first that ships with the package."""
PREFIXES = {"timm:": "timm", "hf-hub:": "open_clip", "local-dir:": "open_clip", "internvl_": "internvl"}
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
    """Find the family of a model; refuse an unknown name, and one that several families could load.

    ``pretrained`` is a tag, checkpoint, folder or address; ``family`` None means auto; ``address`` is the server's.
    """
    name, pretrained = split_tag(name, pretrained, family=family, address=address)
    for text in (name, family or ""):
        if text.startswith(PYTHON):
            return ResolvedModel("python", name, pretrained, factory=text.removeprefix(PYTHON))
    if family is not None:
        check_family(family, role)
        return ResolvedModel(family, name, pretrained)
    address = address or (pretrained if pretrained.startswith(("http://", "https://")) else "")
    found = next(_candidates(name, pretrained, role, address), None)
    known = [one for one in FAMILIES[role].names() if one != IN_MEMORY]
    if found is None:
        plain = name.partition(":")[0] if role == "encoder" else name
        if plain in MODELS and plain != name:
            raise UsageError("{name} has no selectable weights.", advice="Use {name} without a colon.", name=plain)
        advice = UserMessage(
            "If a server has it, name the server with {--api_base=URL}. If a library can load it, select the library "
            "with {--model_type}: {names}.",
            names=", ".join(known),
        )
        if not has_open_clip():
            advice = join((advice, "For models of open_clip: pip install 'eyechart[open-clip]'"))
        names = [*MODELS, *open_clip_names()] if role == "encoder" else OWN_GENERATORS.names()
        raise unknown_name("model", plain, names, advice=advice)
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
            "{name} is loaded from the hub with {family}. Other families can be selected with {--model_type}: "
            "{others}.",
            name=name,
            family=found,
            others=", ".join(other for other in known if other != found),
        )
    return ResolvedModel(found, name, pretrained, notice=notice)


def split_tag(name: str, pretrained: str = "", *, family: str | None = None, address: str = "") -> tuple[str, str]:
    """Split ``architecture:weights``, as in ``ViT-B-32:openai``; other names stay whole.

    Names of servers (``llava:7b``), paths, ``hf-hub:`` and ``python:`` also contain colons: only names that start with
    an architecture, or belong to a family that has them, are split. Weights that are given twice are refused.
    """
    architecture, colon, tag = name.partition(":")
    if not colon:
        return name, pretrained
    config = architecture.endswith(".json") and Path(architecture).is_file()
    known = config or architecture.replace("/", "-") in open_clip_names() or architecture.startswith("internvl_")
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


def _candidates(name: str, pretrained: str, role: Role, address: str) -> Iterator[str]:
    """Yield the families that may load a model, in order of precedence."""
    yield from (family for prefix, family in PREFIXES.items() if name.startswith(prefix))
    if MODELS.keys() & {name, pretrained} or name.endswith(".onnx"):
        yield "onnx"
    yield from _families_of_file(name, role, address)
    if name.replace("/", "-") in open_clip_names() and role != "reranker":
        yield "open_clip"
    registry = FAMILIES[role]
    if name in registry.names() and name not in registry.built_in:
        yield name
    if role == "generator" and name in OWN_GENERATORS.names():
        yield "python"
    if address:
        yield "api"
    if name.startswith((".", "/", "~")):
        raise ModelError("File or folder not found: {path}.", advice="Check the path.", path=name)
    if HUB_ID.fullmatch(name):
        yield HUB_FAMILIES[role]
    if pretrained and role != "reranker":
        # A tag or a checkpoint belongs to an architecture; open_clip reports unknown ones.
        yield "open_clip"


def _families_of_file(name: str, role: Role, address: str) -> list[str]:
    """Return the family that loads a file or folder, if it is one."""
    path = Path(name)
    if not path.is_dir():
        if path.suffix == ".json" and path.is_file():
            return ["open_clip"]
        if path.is_file() or name.endswith(CHECKPOINTS):
            raise UsageError(
                "{path} is a checkpoint file of unknown architecture.",
                advice="Pass the architecture as {--model}, the file as {--pretrained}, and {--model_type=open_clip}.",
                path=path,
            )
        return []
    if role == "encoder" and is_internvl(path):
        raise UsageError(
            "{path} contains InternVL-C and InternVL-G, for classification and for retrieval.",
            advice="Choose one: {--model} internvl_g_retrieval_hf {--pretrained={path}} (or c, or classification).",
            path=path,
        )
    families = [*families_in(path, role), *(["api"] if address else [])]
    if not families:
        raise UsageError(
            "Unknown kind of model folder: {path}.",
            advice="Set its family with {--model_type}: {list}.",
            path=path,
            list=", ".join(FAMILIES[role].names()),
        )
    if len(families) > 1:
        raise UsageError(
            "Several families can load {path}: {list}.",
            advice="Choose one with {--model_type}.",
            path=path,
            list=", ".join(families),
        )
    return families
