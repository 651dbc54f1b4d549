"""Arguments of the Python API: names and in-memory objects to settings."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from eyechart.config import Config, QuestionSettings
from eyechart.datasets.in_memory import DataParts, is_item, is_split_mapping
from eyechart.errors import UsageError, unknown_name
from eyechart.messages import Surface
from eyechart.models.objects.model_parts import ModelParts, is_model
from eyechart.settings.tasks import nested_settings, task_flags
from eyechart.types import InMemoryObject, ModelSpec

ARGUMENTS = Surface(
    {name: name for name in (*Config.fields(), *QuestionSettings.fields(), *task_flags())}, "{name}={value!r}"
)
"""Errors name settings as Python arguments."""


def collect(given: Mapping[str, Any], unknown: Mapping[str, Any]) -> dict[str, Any]:
    """Convert arguments to values of `Config`; None means not given."""
    for name in unknown:
        raise unknown_name("argument", name, [*ARGUMENTS.names, *given])
    aliases = {alias: name for name, one in Config.fields().items() for alias in one.aliases}
    known = (ARGUMENTS.names.keys() | aliases.keys()) - {"model", "dataset"}
    named = {
        aliases.get(name, name): _plain(value) for name, value in given.items() if value is not None and name in known
    }
    return nested_settings(named)


def _plain(value: Any) -> Any:
    """Convert paths to strings, arrays to lists or numbers, and other sequences to lists."""
    if isinstance(value, Path):
        return str(value)
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [_plain(one) for one in value]
    return value


UNNAMED = ("builtins", "datasets", "pandas")
"""Modules whose classes say nothing about the data in them."""


class InputObjects:
    """Names of a call's models and datasets, and the in-memory objects among them."""

    def __init__(self, models: Any, datasets: Any) -> None:
        self.models: list[str] = []
        self.datasets: list[str] = []
        self.given: dict[str, InMemoryObject] = {}
        self.names: set[str] = set()
        """Names given by the caller, which objects must not take."""
        for what, things, listed in (
            ("model", models, [thing for _, thing in _models(models)]),
            ("dataset", datasets, _datasets(datasets)),
        ):
            if things is not None and not listed:
                raise UsageError("{what} is an empty list.", advice="Omit it to use the default.", what=what)
            self.names |= {str(thing) for thing in listed if isinstance(thing, str | Path)}

    def take_models(self, things: Any, parts: ModelParts) -> None:
        """Add one or several models; ``parts`` apply to every object among them."""
        for name, thing in _models(things):
            if isinstance(thing, str | Path):
                self.models.append(str(thing))
                continue
            members = thing if isinstance(thing, tuple) and thing else (thing,)
            model = next((member for member in members if is_model(member)), members[0])
            whole = thing if _spec_of(thing) else replace(parts, model=thing)
            self.models.append(self._take(name or _spec_of(thing) or type(model).__name__, whole, model))
        if parts != ModelParts(None) and not self.given:
            raise UsageError("preprocess, tokenizer and processor require a model passed as an object.")

    def take_datasets(self, things: Any, parts: DataParts) -> None:
        """Add one or several datasets; ``parts`` apply to every object among them."""
        before = len(self.given)
        for thing in _datasets(things):
            if isinstance(thing, str | Path):
                self.datasets.append(str(thing))
            else:
                self.datasets.append(self._take(_dataset_name(thing), replace(parts, data=thing), thing))
        if (parts.classnames or parts.templates) and len(self.given) == before:
            raise UsageError(
                "classnames and templates require a dataset passed as an object.",
                advice="For named datasets, use {--custom_classname_file} and {--custom_template_file}.",
            )

    def _take(self, name: str, whole: Any, thing: Any) -> str:
        taken = {*self.names, *self.given}
        names = (name if n == 1 else f"{name}-{n}" for n in range(1, len(taken) + 2))
        free = next(one for one in names if one not in taken)
        self.given[free] = InMemoryObject(whole, f"{type(thing).__module__}.{type(thing).__qualname__}")
        return free


def _models(things: Any) -> Iterator[tuple[str, Any]]:
    """Yield models with their display names: the keys of a mapping, else empty."""
    if isinstance(things, Mapping):
        for name, thing in things.items():
            if isinstance(thing, str | Path) or _spec_of(thing):
                raise UsageError(
                    "{thing} already has a name: only objects can be renamed.", thing=_spec_of(thing) or thing
                )
            yield str(name), thing
    elif isinstance(things, list) or (isinstance(things, tuple) and all(isinstance(one, str) for one in things)):
        yield from (("", thing) for thing in things)
    elif things is not None:
        yield "", things


def _datasets(things: Any) -> Sequence[Any]:
    """Return the datasets: a list of names or objects is several, a list of items (see `is_item`) is one."""
    if things is None:
        return ()
    several = isinstance(things, list | tuple) and not (things and is_item(things[0]))
    return things if several else (things,)


def _spec_of(thing: Any) -> str:
    """Return the name of a model made by `load_model`, else an empty string."""
    spec = getattr(thing, "spec", None)
    return spec.label if isinstance(spec, ModelSpec) else ""


def _dataset_name(thing: Any) -> str:
    """Return a dataset's own name, else that of its folder (Hugging Face's ``save_to_disk``) or class."""
    if isinstance(thing, Mapping):
        if thing.get("name"):
            return str(thing["name"])
        splits = [part for part in thing.values() if is_split_mapping(thing) and part is not None]
        return _dataset_name(splits[0]) if splits else "images"
    own = getattr(getattr(thing, "info", None), "dataset_name", None)
    if own or type(thing).__module__.partition(".")[0] not in UNNAMED:
        return str(own or type(thing).__name__)
    files = getattr(thing, "cache_files", None)
    if not isinstance(files, list) or not files:
        return "images"
    folder = Path(files[0]["filename"]).parent
    return (folder.parent if (folder.parent / "dataset_dict.json").is_file() else folder).name
