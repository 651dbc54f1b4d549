"""From what a caller gives to names and objects: settings hold the names, and jobs the objects."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from eyechart.datasets.objects.iterables import is_item
from eyechart.datasets.objects.reader import DataParts, is_split_mapping
from eyechart.errors import UsageError
from eyechart.models.objects.parts import ModelParts, is_model
from eyechart.types import Given, ModelSpec

Named = tuple[str, Any]
"""A name, or empty, and a thing: another name, a path or an object."""


@dataclass
class Handover:
    """The names of a call's models and datasets, and the objects among them."""

    models: list[str] = field(default_factory=list)
    datasets: list[str] = field(default_factory=list)
    given: dict[str, Given] = field(default_factory=dict)
    names: set[str] = field(default_factory=set)
    """What the caller names himself: no object is called like that."""

    def reserve(self, models: Any, datasets: Any) -> None:
        """Note which names are taken, before objects get theirs."""
        for what, things, listed in (
            ("model", models, [thing for _, thing in _models(models)]),
            ("dataset", datasets, _datasets(datasets)),
        ):
            if things is not None and not listed:
                raise UsageError(f"{what} is an empty list.", advice="Leave it out for the default.")
            self.names |= {str(thing) for thing in listed if isinstance(thing, str | Path)}

    def take_models(self, things: Any, parts: ModelParts) -> None:
        """Take one model or several; the parts belong to each object among them."""
        for name, thing in _models(things):
            if isinstance(thing, str | Path):
                self.models.append(str(thing))
            else:
                whole = thing if _spec_of(thing) else replace(parts, model=thing)
                self.models.append(self._take(name or _model_name(thing), whole, _model_of(thing)))
        if parts != ModelParts(None) and not self.given:
            raise UsageError("preprocess, tokenizer and processor belong to a model that is given as an object.")

    def take_datasets(self, things: Any, parts: DataParts) -> None:
        """Take one dataset or several; what is said of classes belongs to each object among them."""
        before = len(self.given)
        for thing in _datasets(things):
            if isinstance(thing, str | Path):
                self.datasets.append(str(thing))
            else:
                self.datasets.append(self._take(_dataset_name(thing), replace(parts, data=thing), thing))
        if (parts.classnames or parts.templates) and len(self.given) == before:
            raise UsageError(
                "classnames and templates belong to a dataset that is given as an object.",
                advice="Named datasets have --custom_classname_file and --custom_template_file.",
            )

    def _take(self, name: str, whole: Any, thing: Any) -> str:
        """Keep an object under a name that nothing else has."""
        taken = {*self.names, *self.given}
        names = (name if n == 1 else f"{name}-{n}" for n in range(1, len(taken) + 2))
        free = next(one for one in names if one not in taken)
        self.given[free] = Given(whole, f"{type(thing).__module__}.{type(thing).__qualname__}")
        return free


def _models(things: Any) -> Iterator[Named]:
    """Yield models with their names: of a mapping the keys."""
    if isinstance(things, Mapping):
        for name, thing in things.items():
            if isinstance(thing, str | Path) or _spec_of(thing):
                raise UsageError(f"{_spec_of(thing) or thing} is a name already: only objects can be given another.")
            yield str(name), thing
    elif isinstance(things, list) or (isinstance(things, tuple) and all(isinstance(one, str) for one in things)):
        yield from (("", thing) for thing in things)
    elif things is not None:
        yield "", things


def _datasets(things: Any) -> Sequence[Any]:
    """Return datasets: a list of names or objects is several, a list of items (see `is_item`) is one."""
    if things is None:
        return ()
    several = isinstance(things, list | tuple) and not (things and is_item(things[0]))
    return things if several else (things,)


def _model_of(thing: Any) -> Any:
    """Return the model itself of a tuple."""
    parts = thing if isinstance(thing, tuple) and thing else (thing,)
    return next((part for part in parts if is_model(part)), parts[0])


def _model_name(thing: Any) -> str:
    return _spec_of(thing) or type(_model_of(thing)).__name__


def _spec_of(thing: Any) -> str:
    """Return the name of what `load_model` gave, empty for what has none."""
    spec = getattr(thing, "spec", None)
    return spec.label if isinstance(spec, ModelSpec) else ""


def _dataset_name(thing: Any) -> str:
    """Name a dataset: as it names itself, else by its class."""
    if isinstance(thing, Mapping):
        if thing.get("name"):
            return str(thing["name"])
        splits = [part for part in thing.values() if is_split_mapping(thing) and part is not None]
        return _dataset_name(splits[0]) if splits else "images"
    own = getattr(getattr(thing, "info", None), "dataset_name", None)
    return str(own) if own else type(thing).__name__
