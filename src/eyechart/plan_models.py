"""The models requested by a run's settings, with their options."""

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from importlib.util import find_spec
from itertools import product
from pathlib import Path

from eyechart.config import Config
from eyechart.errors import UnknownNameError, UsageError, did_you_mean
from eyechart.io.safe_parse import is_file, read_text, split_lines
from eyechart.models.access import Access, priced
from eyechart.models.family import check_options
from eyechart.models.registry import FAMILIES, GENERATORS
from eyechart.models.resolve import (
    EMBEDDED,
    ResolvedModel,
    check_family,
    collection_names,
    expand_collection,
    holds_weights,
    resolve_model,
    split_tag,
)
from eyechart.plugins import PYTHON
from eyechart.settings.evaluation import BatchSettings
from eyechart.settings.generation import QuestionSettings
from eyechart.types import IN_MEMORY, NO_OBJECTS, InMemoryObject, ModelSpec, Role

DEFAULTS = {
    "open_clip": ("ViT-B-32-quickgelu", "laion400m_e32"),
    "ja_clip": ("ViT-B-32-quickgelu", "rinna/japanese-clip-vit-b-16"),
    "onnx": (EMBEDDED, ""),
}
"""Default ``--model`` and ``--pretrained`` by family; ja_clip's architecture name is CLIP_benchmark's."""
MAX_BATCH = 8
"""Maximum conversations per forward pass of a generator."""
ACCESS = ("api_key_variable", "concurrency", "timeout", "tries")
"""Settings of `QuestionSettings` that ``--model_option`` can override; ``batch`` sets the texts per request."""
NEEDS_NAME = "{--{setting}} applies to models given by name; {name} is an object."
RequestedModel = tuple[str | None, str, str | None]
"""Family, name and pretrained; None if not given."""


def model_specs(
    config: Config,
    role: Role = "encoder",
    say: Callable[[str], object] = warnings.warn,
    given: Mapping[str, InMemoryObject] = NO_OBJECTS,
    requested: Sequence[RequestedModel] | None = None,
) -> list[ModelSpec]:
    """Return the models of ``--pretrained_model``, or every pair of ``--model`` and ``--pretrained``, deduplicated.

    ``say`` is called with a message for every guess; ``given`` has in-memory objects by their names in the settings.
    """
    objects = [name for name in config.model if name in given]
    if not objects:
        return _named_specs(config, role, say, requested)
    for setting in ("pretrained_model", *(("pretrained", "model_type") if objects == config.model else ())):
        if getattr(config, setting):
            raise UsageError(NEEDS_NAME, setting=setting, name=objects[0])
    specs: list[ModelSpec] = []
    for name in config.model:  # keep the caller's order, which is that of the results
        named = config.replaced(model=[name])
        found = [_object_spec(config, role, name, given[name])] if name in given else _named_specs(named, role, say)
        specs += [spec for spec in found if spec not in specs]
    return specs


def _object_spec(config: Config, role: Role, name: str, given: InMemoryObject) -> ModelSpec:
    """Return the spec of an in-memory object; one made by `load_model` keeps its spec."""
    if role != "encoder":
        text = "{name}: Python objects are only supported as encoders; this task needs a {role}."
        raise UsageError(text, advice="Pass a model by name or as python:module:factory.", name=name, role=role)
    for setting in ("precision", "device"):
        if getattr(config, setting) != "auto":
            advice = "Move or convert the object before passing it."
            raise UsageError(NEEDS_NAME, advice=advice, setting=setting, name=name)
    known = getattr(given.thing, "spec", None)
    return known if isinstance(known, ModelSpec) else ModelSpec(IN_MEMORY, name, options={IN_MEMORY: given})


def _named_specs(
    config: Config, role: Role, say: Callable[[str], object], requested: Sequence[RequestedModel] | None = None
) -> list[ModelSpec]:
    questions, given = config.questions, config.model_options
    address = str(questions.api_base or given.get("api_base") or "")
    unused = questions.mode == "eval" if role == "generator" else bool(config.predictions)  # scored without the model
    models: dict[ResolvedModel, None] = {}
    for family, name, pretrained in requested_models(config) if requested is None else requested:
        try:
            found = resolve_model(name, pretrained or "", family=family, role=role, address=address)
        except UnknownNameError:
            if not unused or family is not None:
                raise
            found = ResolvedModel("api" if role == "generator" else "open_clip", name, pretrained or "")
        untold = pretrained is None and not found.pretrained and found.family == "open_clip"
        if untold and not unused and not holds_weights(name):
            found = replace(found, pretrained=DEFAULTS["open_clip"][1])
        models[found] = None
    named = {name: getattr(config, name) for name in ("revision", "hub", "trust_remote_code", "compile")}
    named = {"cache_dir": config.model_cache_dir, **named}
    specs = []
    for model in models:
        if model.notice:
            say(model.notice)
        kind = FAMILIES[role].load(model.family)
        options = {key: value for key, value in given.items() if key not in (*ACCESS, "batch")}
        options |= {key: value for key, value in named.items() if value}
        check_options(kind, model.family, options)
        options |= {"factory": model.factory} if model.factory else {}
        if model.family == "api" and questions.api_base:
            options["api_base"] = questions.api_base
        access = priced(access_of(config, role), questions.prices, model.name)
        precision = _precision(config, kind)
        specs.append(ModelSpec(model.family, model.name, model.pretrained, precision, config.device, options, access))
    return specs


def _precision(config: Config, family: type) -> str:
    """Resolve ``half``, and ``auto``: float32 unless the family has another default."""
    wanted: str = getattr(family, "auto_precision", "fp32") if config.precision == "auto" else config.precision
    if wanted != "half":
        return wanted
    if config.device == "cpu" or find_spec("torch") is None:
        return "fp32"
    from eyechart.models.towers.torch_tools import choose_devices

    return "fp16" if all(device.startswith("cuda") for device in choose_devices(config.device)) else "fp32"


def with_generation(config: Config, spec: ModelSpec, benchmark: str, max_tokens: int | None) -> tuple[ModelSpec, str]:
    """Return a generator's spec with generation settings or the benchmark's own, and its name for results and files."""
    wished = {"temperature": config.questions.temperature, "max_tokens": config.questions.max_tokens or max_tokens}
    settings = {key: None if value == "default" else value for key, value in wished.items() if value is not None}
    options = {**spec.options, "settings": {**spec.options.get("settings", {}), **settings}}
    if getattr(GENERATORS.load(spec.family), "wants_benchmark", False):
        options["dataset"] = benchmark
    path = Path(spec.name)
    return replace(spec, options=options), path.name if path.exists() else spec.name.removeprefix(PYTHON)


def access_of(config: Config, role: Role) -> Access:
    """Return the access settings of models: key, concurrency, timeout, batch size."""
    own = config.model_options
    wished = QuestionSettings(**{name: own[name] for name in ACCESS if name in own})
    questions = config.questions.replaced(**{name: getattr(wished, name) for name in wished.given})
    size = min(config.batch_size, MAX_BATCH) if role == "generator" else config.batch_size
    return Access(
        key_variable=questions.api_key_variable,
        batch_size=BatchSettings(batch_size=own.get("batch", size)).batch_size,
        **{name: getattr(questions, name) for name in ("concurrency", "timeout", "tries", "since")},
    )


def list_entries(names: Iterable[str], known: Callable[[str], object] = lambda _: False) -> Iterator[str]:
    """Yield names; a file is replaced by the names in it, one per line, unless its own name is known."""
    for name in names:
        path = Path(name)
        if not known(name) and is_file(path):
            lines = (line.strip() for line in split_lines(read_text(path, UsageError)))
            yield from (line for line in lines if line and not line.startswith("#"))
        else:
            yield name


def requested_models(config: Config) -> list[RequestedModel]:
    """Return family, name and pretrained of each model; None where not given."""
    family = config.model_type
    if family is not None and not family.startswith(PYTHON):
        check_family(family)
    listed = [pair for entry in list_entries(config.pretrained_model) for pair in _pairs(entry)]
    if listed:
        return [(family, *pair) for pair in listed]
    if not config.model:
        return _without_name(family, config.pretrained)
    default = DEFAULTS[family][1] if family in DEFAULTS and family != "open_clip" else None
    weights: list[str | None] = [*config.pretrained] or [default]
    return [(family, *pair) for pair in product(config.model, weights)]


def _without_name(family: str | None, pretrained: list[str]) -> list[RequestedModel]:
    """Return the default models if ``--model`` is not given."""
    if family is not None and family.startswith(PYTHON):
        return [(family, family, weights) for weights in pretrained or [""]]
    name, default = DEFAULTS.get(family or "open_clip", ("", ""))
    if family is None:
        both = ((weights, Path(weights).is_dir()) for weights in pretrained or [default])
        return [(None, weights, "") if folder else ("open_clip", name, weights) for weights, folder in both]
    if name:
        return [(family, name, weights) for weights in pretrained or [default]]
    if not pretrained:
        raise UsageError("{--model_type={family}} needs a model.", advice="Specify it with {--model}.", family=family)
    return [(family, weights, "") for weights in pretrained]  # no architectures: the weights are the model


def _pairs(entry: str) -> list[tuple[str, str]]:
    """Parse an entry of ``--pretrained_model``: a collection, ``model,pretrained`` or ``model:pretrained``."""
    collection = expand_collection(entry)
    if collection is not None:
        return collection
    name, comma, pretrained = entry.partition(",")
    if comma:
        return [(name.strip(), pretrained.strip())]
    if split_tag(entry) != (entry, ""):
        return [(entry, "")]
    text = "{--pretrained_model}: {entry!r} is not 'model,pretrained', a list file or a collection."
    advice = did_you_mean(entry, collection_names(), "For example: ViT-B-32,openai.")
    raise UsageError(text, advice=advice, entry=entry)
