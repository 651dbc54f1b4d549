"""Families of user models: Python objects and `python:` factories as encoders or generators."""

import inspect
import io
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import Any

from eyechart.errors import DataError, EyechartError, ModelError, UsageError, first_line
from eyechart.io.digests import code_digest
from eyechart.io.files import cache_root, write_cached
from eyechart.io.images import ImageRef, to_upright
from eyechart.messages import UserMessage
from eyechart.metrics.answers import split_thinking
from eyechart.metrics.choices import CHAT_FAILED, FAILED
from eyechart.models.encoders.transformers import TransformersEncoder, check_pair
from eyechart.models.family import place_digest
from eyechart.models.objects import model_parts
from eyechart.models.objects.fingerprint import code_and_args_digest, state_digest
from eyechart.models.objects.object_encoders import PRECISIONS, ListEncoder, ModuleEncoder, SentenceLists
from eyechart.models.registry import OWN_GENERATORS
from eyechart.plugins import PYTHON, declared_identity, see_working_folder, split_user_name, user_object
from eyechart.types import Answer, Encoder, Message, ModelCard, ModelSpec, digest_json

WORD = "model"


class ObjectFamily:
    """Wraps an in-memory object passed to `eyechart.evaluate`."""

    own_options: Mapping[str, Any] = MappingProxyType({})

    def check(self, spec: ModelSpec) -> None:
        """Raise for an object that is not a model or lacks a part; nothing is computed."""
        model_parts.check_parts(model_parts.parts_of(_object(spec)))

    def identity(self, spec: ModelSpec) -> None:  # noqa: ARG002 - its weights may have changed since the last call
        """Return None: an in-memory object has no identity that outlives the call."""
        return

    def load(self, spec: ModelSpec) -> Encoder:
        """Wrap the object; it stays on its device and in its precision."""
        return wrap(spec, model_parts.parts_of(_object(spec)))


class PythonFamily:
    """Calls a factory in the user's code, named as ``python:module.path:factory``.

    The factory receives those of ``model_name``, ``pretrained``, ``cache_dir``, ``device``, ``precision`` and ``spec``
    that its signature has. It returns anything that can be passed to `eyechart.evaluate` as a model; a tuple
    ``(model, transform, tokenizer)``, as in CLIP_benchmark, is read in this order.
    """

    def check(self, spec: ModelSpec) -> None:
        """Raise if the name is not ``module:factory`` or the module does not exist; the module is not imported."""
        module, _ = split_user_name(target_of(spec), WORD)
        see_working_folder()
        try:
            found = sys.modules.get(module) or find_spec(module)  # functions of a script are in __main__
        except ModuleNotFoundError:
            found = None
        if found is None:
            raise UsageError(
                "Python module not found: {name!r}.",
                advice="It is searched for in sys.path and in the working directory.",
                name=module,
            )

    def identity(self, spec: ModelSpec) -> None:  # noqa: ARG002 - arbitrary code is probed every time
        """Return None: the result of running code is unknown beforehand."""
        return

    def load(self, spec: ModelSpec) -> Encoder:
        """Call the factory and wrap its result."""
        factory = user_object(target_of(spec), WORD)
        if not callable(factory):
            raise UsageError(
                "{spec} is a {type}, not a function or class.", spec=target_of(spec), type=type(factory).__name__
            )
        made = factory(**accepted(factory, spec))
        try:
            in_order = isinstance(made, tuple) and len(made) == 3 and model_parts.is_module(made[0])
            parts = model_parts.ModelParts(*made) if in_order else model_parts.parts_of(made)
            model_parts.check_parts(parts)
        except ModelError as error:
            raise ModelError("{name}: {reason}", advice=error.advice, name=spec.name, reason=error.message) from error
        everything = (parts.model, parts.preprocess, parts.tokenizer, parts.processor)
        return wrap(spec, parts, code_and_args_digest(spec, factory, *everything))


def target_of(spec: ModelSpec) -> str:
    """Return ``module.path:factory``."""
    return str(spec.options.get("factory") or spec.name)


def accepted(factory: Callable[..., Any], spec: ModelSpec) -> dict[str, Any]:
    """Return the arguments that the factory accepts; with ``**kwargs`` it receives those of CLIP_benchmark's recipe."""
    from eyechart.models.towers.torch_tools import choose_device

    parameters = inspect.signature(factory).parameters
    takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
    recipe = {"model_name": spec.name, "pretrained": spec.pretrained, "cache_dir": spec.options.get("cache_dir")}
    chosen = {name: value for name, value in recipe.items() if takes_any or name in parameters}
    if takes_any or "device" in parameters:
        chosen["device"] = choose_device(spec.device)  # needs torch
    ours = {"precision": spec.precision, "spec": spec}
    return chosen | {name: value for name, value in ours.items() if name in parameters}


def wrap(spec: ModelSpec, parts: model_parts.ModelParts, code: str = "") -> Encoder:
    """Wrap a model object in the first adapter that fits.

    ``code`` is a digest of the code, arguments and state behind the object. It is empty for an in-memory object, which
    keeps its device and precision.
    """
    if model_parts.takes_lists(parts):
        return ListEncoder(spec, parts.model, code)
    if model_parts.is_sentence_transformer(parts.model):
        return ListEncoder(spec, SentenceLists(parts.model), code)
    if model_parts.is_transformers(parts.model):
        return _from_transformers(spec, parts, code)
    return ModuleEncoder(spec, parts, code)


def _object(spec: ModelSpec) -> Any:
    if spec.given is None:
        raise ModelError(
            "{name} is not an in-memory object.", advice="Pass the object itself to eyechart.evaluate.", name=spec.name
        )
    return spec.given.thing


def _from_transformers(spec: ModelSpec, parts: model_parts.ModelParts, code: str) -> TransformersEncoder:
    """Use a transformers model like one loaded by name, with the processor of the caller, or saved with the model."""
    model, name = parts.model, type(parts.model).__name__
    own = {"image_processor": parts.preprocess, "tokenizer": parts.tokenizer}
    if parts.preprocess is not None and not hasattr(parts.preprocess, "to_dict"):
        raise ModelError(
            "{kind} is not an image processor, which {model} needs.",
            advice="Pass an image processor of transformers, or a custom object with encode_images and encode_texts.",
            kind=type(parts.preprocess).__name__,
            model=name,
        )
    whole = parts.processor
    if None in own.values() and not whole:
        import transformers

        place = getattr(model, "name_or_path", "")
        advice = "Pass both: a tuple (model, processor)."
        if not place:
            raise ModelError(
                "{name} has no processor and was not loaded from a folder or hub.", advice=advice, name=name
            )
        try:
            whole = transformers.AutoProcessor.from_pretrained(place)
        except Exception as error:
            raise ModelError(
                "{name} has no processor, and none can be loaded from {place} ({reason}).",
                advice=advice,
                name=name,
                place=place,
                reason=first_line(error),
            ) from error
    processor = SimpleNamespace(
        **{key: getattr(whole, key, None) if part is None else part for key, part in own.items()}
    )
    check_pair(name, model, processor)
    if not code:
        weights = (weight for weight in model.parameters() if weight.is_floating_point())
        types = {str(weight.dtype).removeprefix("torch.") for weight in weights}
        # A model of mixed dtypes is left unchanged and receives float32.
        precision = PRECISIONS.get(types.pop(), "fp32") if len(types) == 1 else "fp32"
        spec = replace(spec, device=str(model.device), precision=precision)
    encoder = TransformersEncoder(spec, (model, processor, []))
    digest = digest_json([encoder.card.weights_digest, code]) if code else encoder.card.weights_digest
    encoder.card = replace(encoder.card, family=spec.family, weights_digest=digest)
    return encoder


_OURS = ("dataset", "settings", "factory")
"""Options that are not passed to the class."""

_DATA = (str, bytes, int, float, Path, dict, list, tuple, set, frozenset)
_UNKNOWN = UserMessage(
    "Files and variables that the class reads while it answers are not tracked: pass them as {--model_option}, or "
    "delete the folder responses of the cache when they change."
)


def _file_digests(spec: ModelSpec) -> list[str]:
    """Digest the files and folders that options name, such as weights."""
    values = (value for _, value in sorted(spec.options.items()) if isinstance(value, str | Path) and value)
    return [place_digest(Path(value)) for value in values if os.path.exists(value)]  # noqa: PTH110 - Path.exists raises for long texts


class PythonGenerator:
    """Adapts a model with VLMEvalKit's interface."""

    def __init__(self, spec: ModelSpec) -> None:
        made = find_class(spec.name)
        self.name = spec.name
        self.dataset: str | None = spec.options.get("dataset")
        try:
            self.model = made(**{key: value for key, value in spec.options.items() if key not in _OURS})
        except EyechartError:
            raise
        except Exception as error:
            raise ModelError(
                "{name} cannot be instantiated: {type}: {reason}",
                advice="Pass its arguments with {--model_option=KEY=VALUE}.",
                name=spec.name,
                type=type(error).__name__,
                reason=error,
            ) from error
        # Values in the module of the class may come from files or environment variables.
        items = sorted(vars(module).items()) if (module := inspect.getmodule(made)) else []
        data = [value for name, value in items if not name.startswith("__") and isinstance(value, _DATA)]
        self.card = ModelCard(
            family="python",
            name=spec.name,
            weights_digest=digest_json(
                [spec.name, code_digest(made), state_digest(made, self.model, data), _file_digests(spec)]
            ),
            transform=digest_json(dict(spec.options)),
            precision="unknown",
            notes=() if declared_identity(made) else (_UNKNOWN,),
            role="generator",
        )

    def custom_prompt(self, dataset: str, image_paths: Callable[[Any], list[str]]) -> Callable[[Any], Any] | None:
        """Return the model's own prompt builder for a dataset, if it has one."""
        if hasattr(self.model, "set_dump_image"):
            self.model.set_dump_image(image_paths)
        uses = getattr(self.model, "use_custom_prompt", None)
        if uses is None or not uses(dataset):
            return None

        def build(line: Any) -> Any:
            try:
                return self.model.build_prompt(line, dataset=dataset)
            except EyechartError:
                raise
            except Exception as error:  # becomes the error of this question
                raise DataError(
                    "{name}.build_prompt failed: {type}: {reason}",
                    name=self.name,
                    type=type(error).__name__,
                    reason=error,
                ) from error

        return build

    def check_chat(self) -> None:
        """Refuse conversations that the class does not support."""
        extends = hasattr(self.model, "generate_inner")
        if not callable(getattr(self.model, "chat_inner" if extends else "chat", None)):
            raise ModelError(
                "{name} does not support conversations.",
                advice="Implement chat_inner(message, dataset), which receives all turns and answers the last one.",
                name=self.name,
            )

    def generate(self, messages: Sequence[Message]) -> Answer:
        """Answer one conversation; exceptions become the error of this conversation."""
        single = len(messages) == 1 or (len(messages) == 2 and messages[0].role == "system")
        try:
            if single:
                marks = [{"role": "system"} if turn.role == "system" else {} for turn in messages]
                items = [_item(part) | mark for turn, mark in zip(messages, marks, strict=True) for part in turn.parts]
                output = self.model.generate(items, dataset=self.dataset)
            else:
                self.check_chat()
                turns = [{"role": turn.role, "content": [_item(part) for part in turn.parts]} for turn in messages]
                output = self.model.chat(turns, dataset=self.dataset)
        except EyechartError:
            raise
        except Exception as error:  # noqa: BLE001 - user code: its failure is recorded, the run continues
            return Answer("", error=f"{type(error).__name__}: {error}")
        if getattr(self.model, "gave_up", False):
            return Answer("", error=f"no try succeeded: {output}")
        text = output["prediction"] if isinstance(output, dict) and "prediction" in output else output
        if not isinstance(text, str):
            return Answer("", error=f"generate returned {type(text).__name__}, not a text")
        if text.startswith((FAILED, CHAT_FAILED)):
            return Answer("", error=text)
        answer, thinking = split_thinking(text)
        return Answer(answer, thinking=thinking)


def _item(part: str | ImageRef) -> dict[str, str]:
    """Return a part in VLMEvalKit's form: an image as its file, or upright in the cache if it has none or is a crop."""
    if isinstance(part, str):
        return {"type": "text", "value": part}
    if part.path and not part.box:
        return {"type": "image", "value": str(part.path)}
    path = cache_root() / "images" / f"{part.digest().hex()}-upright.png"
    if not path.is_file():
        stream = io.BytesIO()
        to_upright(part.decode()).save(stream, "PNG")
        write_cached(path, stream.getvalue())
    return {"type": "image", "value": str(path)}


class PythonGeneratorFamily:
    """Classes with VLMEvalKit's interface: ``python:module:Class``, or a name registered by a package.

    ``options``: the keyword arguments of the class, and ``dataset``, the benchmark name passed to its methods.
    """

    wants_benchmark = True

    def check(self, spec: ModelSpec) -> None:
        """Refuse a class that cannot be imported or lacks ``generate``."""
        if not callable(getattr(find_class(spec.name), "generate", None)):
            raise UsageError(
                "{name} has no method `generate`.", advice="Extend eyechart.vlm.BaseModel.", name=spec.name
            )

    def identity(self, spec: ModelSpec) -> str | None:
        """Digest the declared identity and the code of the class, the options, and the files they name."""
        try:
            made = find_class(spec.name)
        except UsageError:
            return None  # no such class: `check` reports it, and stored predictions need none
        declared = declared_identity(made)
        return declared and digest_json([declared, code_digest(made), dict(spec.options), _file_digests(spec)])

    def load(self, spec: ModelSpec) -> PythonGenerator:
        """Instantiate the model."""
        return PythonGenerator(spec)


def find_class(name: str) -> Any:
    """Return the class of ``python:module:Class``, ``module:Class`` or a registered name."""
    return OWN_GENERATORS.load(f"{PYTHON}{name.removeprefix(PYTHON)}" if ":" in name else name)
