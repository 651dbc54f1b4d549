"""Which models a run's settings ask for, and with what options."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from typing import Any

from eyechart.config import Config, make_config
from eyechart.errors import UnknownNameError, UsageError, nearest
from eyechart.io.untrusted import is_file, read_text, split_lines
from eyechart.models.access import Access, priced
from eyechart.models.family import check_options
from eyechart.models.model_collections import collection_names, expand_collection
from eyechart.models.registry import FAMILIES, GENERATORS
from eyechart.models.resolve import EMBEDDED, ResolvedModel, check_family, holds_weights, resolve_model, split_tag
from eyechart.plugins import PYTHON
from eyechart.types import NOTHING_GIVEN, OBJECT, Given, ModelSpec, Role

DEFAULTS = {
    "open_clip": ("ViT-B-32-quickgelu", "laion400m_e32"),
    "ja_clip": ("ViT-B-32-quickgelu", "rinna/japanese-clip-vit-b-16"),
    "onnx": (EMBEDDED, ""),
}
"""``--model`` and ``--pretrained`` where they are not given. CLIP_benchmark gives ja_clip open_clip's name, too."""
MAX_BATCH = 8
"""Conversations per forward pass: far fewer than images per pass of an encoder."""
Asked = tuple[str | None, str, str | None]
ACCESS = ("api_key_variable", "concurrency", "timeout", "tries")
"""Settings of `QuestionSettings` that ``--model_option`` can set for one model; ``batch`` is texts per request."""


def model_specs(
    config: Config,
    role: Role = "encoder",
    say: Callable[[str], object] = warnings.warn,
    given: Mapping[str, Given] = NOTHING_GIVEN,
) -> list[ModelSpec]:
    """Return the models of ``--pretrained_model``, or every pair of ``--model`` and ``--pretrained``, each once.

    Args:
        config: The settings.
        role: What the models shall do.
        say: Told what was guessed.
        given: Objects of Python, by the names that the settings have for them.
    """
    objects = [name for name in config.model if name in given]
    if not objects:
        return _named_specs(config, role, say)
    for setting in ("pretrained_model", *(("pretrained", "model_type") if objects == config.model else ())):
        if getattr(config, setting):
            raise UsageError(f"--{setting} is for models that are named; {objects[0]} is an object.")
    specs: list[ModelSpec] = []
    for name in config.model:  # in the order of the caller, who takes results apart by it
        named = config.model_copy(update={"model": [name]})
        found = [_object_spec(config, role, name, given[name])] if name in given else _named_specs(named, role, say)
        specs += [spec for spec in found if spec not in specs]
    return specs


def _object_spec(config: Config, role: Role, name: str, given: Given) -> ModelSpec:
    """Describe an object, which stays where it is and as it is; one of `load_model` is the model that was named."""
    if role != "encoder":
        raise UsageError(
            f"{name} is an object, and objects encode; this task needs a {role}.",
            advice="Name a model, or write python:module:factory.",
        )
    for setting in ("precision", "device"):
        if getattr(config, setting) != "auto":
            raise UsageError(
                f"--{setting} is for models that are loaded by name; {name} is an object.",
                advice="It is used where it is, as it is: move or convert it before.",
            )
    known = getattr(given.thing, "spec", None)
    return known if isinstance(known, ModelSpec) else ModelSpec(OBJECT, name, options={OBJECT: given})


def _named_specs(config: Config, role: Role, say: Callable[[str], object]) -> list[ModelSpec]:
    specs = []
    for model in dict.fromkeys(_resolved(config, role)):
        if model.notice:
            say(model.notice)
        options = model_options(config)
        check_options(FAMILIES[role].load(model.family), model.family, options)
        options |= {"factory": model.factory} if model.factory else {}
        if model.family == "api" and config.questions.api_base:
            options["api_base"] = config.questions.api_base
        specs.append(
            ModelSpec(
                model.family,
                model.name,
                model.pretrained,
                _precision(config, FAMILIES[role].load(model.family)),
                config.device,
                options,
                priced(access_of(config, role), config.questions.prices, model.name),
            )
        )
    return specs


def _precision(config: Config, family: type) -> str:
    """Resolve ``half``, and ``auto``: float32 (a wrong digit is worse than a slow run) unless a family knows better."""
    wanted: str = getattr(family, "auto_precision", "fp32") if config.precision == "auto" else config.precision
    if wanted != "half":
        return wanted
    if config.device == "cpu" or find_spec("torch") is None:
        return "fp32"
    from eyechart.models.towers.torch_tools import choose_devices

    return "fp16" if all(device.startswith("cuda") for device in choose_devices(config.device)) else "fp32"


def with_generation(config: Config, spec: ModelSpec, benchmark: str) -> ModelSpec:
    """Return the same model as a generator, with its generation settings."""
    wished = {"temperature": config.questions.temperature, "max_tokens": config.questions.max_tokens}
    settings = {key: value for key, value in wished.items() if value is not None}
    options = {**spec.options, "settings": {**spec.options.get("settings", {}), **settings}}
    if getattr(GENERATORS.load(spec.family), "wants_benchmark", False):
        options["dataset"] = benchmark
    return replace(spec, options=options)


def access_of(config: Config, role: Role) -> Access:
    """Return how models are reached."""
    own = config.model_options
    size = min(config.batch_size, MAX_BATCH) if role == "generator" else config.batch_size
    questions = config.questions.model_dump() | {name: own[name] for name in ACCESS if name in own}
    checked = make_config({"batch_size": own.get("batch", size), "questions": questions})
    return Access(
        key_variable=checked.questions.api_key_variable,
        concurrency=checked.questions.concurrency,
        timeout=checked.questions.timeout,
        tries=checked.questions.tries,
        batch_size=checked.batch_size,
    )


def short_name(spec: ModelSpec) -> str:
    """Return a generator's name as it stands in results and file names."""
    return Path(spec.name).name if Path(spec.name).exists() else spec.name.removeprefix(PYTHON)


def model_options(config: Config) -> dict[str, Any]:
    """Collect what a family is told beyond the model's name; what was not asked for is left out."""
    named = {
        "cache_dir": config.model_cache_dir,
        "revision": config.revision,
        "hub": config.hub,
        "trust_remote_code": config.trust_remote_code,
        "compile": config.compile,
    }
    own = {key: value for key, value in config.model_options.items() if key not in (*ACCESS, "batch")}
    return {**own, **{key: value for key, value in named.items() if value}}


def list_entries(names: Iterable[str], known: Callable[[str], object] = lambda _: False) -> Iterator[str]:
    """Yield names; a file stands for the names in it, one a line, unless its own name is known for something else."""
    for name in names:
        path = Path(name)
        if not known(name) and is_file(path):
            lines = (line.strip() for line in split_lines(read_text(path, UsageError)))
            yield from (line for line in lines if line and not line.startswith("#"))
        else:
            yield name


def _resolved(config: Config, role: Role) -> Iterator[ResolvedModel]:
    address = str(config.questions.api_base or config.model_options.get("api_base") or "")
    for family, name, pretrained in asked_models(config):
        try:
            found = resolve_model(name, pretrained or "", family=family, role=role, address=address)
        except UnknownNameError:
            if role != "generator" or config.questions.mode != "eval" or family is not None:
                raise
            found = ResolvedModel("api", name, pretrained or "")  # its answers are there: nobody will be asked
        if pretrained is None and not found.pretrained and found.family == "open_clip" and not holds_weights(name):
            found = replace(found, pretrained=DEFAULTS["open_clip"][1])
        yield found


def asked_models(config: Config) -> list[Asked]:
    """Return family, name and pretrained of each model, None where it was not given.

    Raises:
        UsageError: If there is no such family or collection, or a family without a model.
    """
    family = config.model_type
    if family is not None and not family.startswith(PYTHON):
        check_family(family)
    listed = [pair for entry in list_entries(config.pretrained_model) for pair in _pairs(entry)]
    if listed:
        return [(family, *pair) for pair in listed]
    if not config.model:
        return list(_without_name(family, config.pretrained))
    default = DEFAULTS[family][1] if family in DEFAULTS and family != "open_clip" else None
    weights: list[str | None] = [*config.pretrained] or [default]
    return [(family, *pair) for pair in product(config.model, weights)]


def _without_name(family: str | None, pretrained: list[str]) -> Iterator[Asked]:
    """Say which models are meant where no ``--model`` is given."""
    if family is not None and family.startswith(PYTHON):
        yield from ((family, family, weights) for weights in pretrained or [""])
    elif family in DEFAULTS:
        name, default = DEFAULTS[family]
        yield from ((family, name, weights) for weights in pretrained or [default])
    elif family is not None and not pretrained:
        raise UsageError(f"--model_type {family} needs a model.", advice="Name it with --model.")
    elif family is not None:
        # A family without architectures: the weights are the model.
        yield from ((family, weights, "") for weights in pretrained)
    else:
        name, default = DEFAULTS["open_clip"]
        for weights in pretrained or [default]:
            yield (None, weights, "") if Path(weights).is_dir() else ("open_clip", name, weights)


def _pairs(entry: str) -> list[tuple[str, str]]:
    """Read an entry of ``--pretrained_model``: a collection, or ``model,pretrained``, or ``model:pretrained``."""
    collection = expand_collection(entry)
    if collection is not None:
        return collection
    name, comma, pretrained = entry.partition(",")
    if not comma and split_tag(entry) != (entry, ""):
        return [(entry, "")]
    if not comma:
        near = nearest(entry, collection_names())
        hint = f"Did you mean {' or '.join(near)}?" if near else "Write for example ViT-B-32,openai."
        raise UsageError(
            f"--pretrained_model: {entry!r} is not 'model,pretrained', a list file or a collection.", advice=hint
        )
    return [(name.strip(), pretrained.strip())]
