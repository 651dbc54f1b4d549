"""How settings are declared: `Settings` is a class with typed fields, `setting` describes one of them.

class Neighbours(Settings):
    knn_k: int = setting(20, "number of neighbours in kNN classification", group=PROBES, ge=1)

Neighbours(knn_k=5).knn_k    # 5; a wrong type, a number below 1 or an unknown name raises UsageError
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self, TypeGuard, Union, get_args, get_origin
from typing import get_type_hints as type_hints

from eyechart.errors import UsageError, nearest
from eyechart.messages import UserMessage, join

if TYPE_CHECKING:
    from pydantic import BaseModel, ValidationError

PathText = Annotated[str, "path"]
"""Type of a setting that is a path; Python also accepts a Path."""
Switch = Literal["on", "off", "both"]
"""Flags of a boolean: ``--flag`` sets it, ``--no-flag`` clears it, or both."""


@dataclass(frozen=True, slots=True)
class Setting:
    """Declaration of a setting, apart from its name and type."""

    default: Any = None
    help: str = ""
    group: str = ""
    """Section of the help."""
    common: bool = False
    """Shown by ``--help``; ``--help-all`` shows the rest."""
    surface: Literal["flag", "option", "internal"] = "option"
    """A flag and an argument of `evaluate`, a task option only, or set by Eyechart itself."""
    flag_name: str = ""
    """Name of the flag if it differs from the setting's."""
    flags: tuple[str, ...] = ()
    """Alternative spellings of the flag."""
    aliases: tuple[str, ...] = ()
    """Alternative names in config files and Python."""
    metavar: str | None = None
    switch: Switch = "on"
    words: bool = False
    """True if a boolean also accepts a string in config files and Python."""
    bare: Any = None
    """Value of the flag given without one; None if a value is required."""
    constants: Mapping[str, tuple[Any, str]] = field(default_factory=dict)
    """Shortcut flags that set this one: value and help text by flag."""
    excludes: str = ""
    """Name of the group of mutually exclusive flags it belongs to."""
    hidden: bool = False
    """Accepted, but not listed in the help."""
    per_dataset: bool = False
    """Accepts one value for all datasets or one per dataset."""
    record: Literal["always", "changed", "never"] = "always"
    """When a task setting is stored in a result's ``settings``."""
    limits: Mapping[str, Any] = field(default_factory=dict)
    """pydantic constraints: ge, gt, le, lt, min_length."""


_LIMITS = ("ge", "gt", "le", "lt", "min_length")


def setting(default: Any, help: str, **more: Any) -> Any:  # noqa: A002 - as argparse calls it
    """Declare a setting that has a flag; ``more`` takes fields of `Setting` and pydantic constraints."""
    limits = {name: more.pop(name) for name in _LIMITS if name in more}
    return Setting(default, help, limits=limits, surface="flag", **more)


def option(default: Any, **limits: Any) -> Any:
    """Declare a task option without a flag; results store it if it differs from the default."""
    return Setting(default, record="changed", limits=limits)


def internal(default: Any = None, record: Literal["always", "changed", "never"] = "changed") -> Any:
    """Declare a field that Eyechart fills in; users cannot set it."""
    return Setting(default, surface="internal", record=record)


class Settings:
    """Validated, immutable values. Subclasses declare fields: ``name: type = setting(default, "description")``."""

    given: frozenset[str]
    """Names of the fields that were set explicitly."""

    group: ClassVar[str] = ""
    """Help section of fields that do not name one."""
    open: ClassVar[bool] = False
    """True if undeclared fields are accepted."""
    _fields: ClassVar[Mapping[str, Setting]] = {}

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        found: dict[str, Setting] = {}
        for name, annotation in cls.__annotations__.items():
            if name not in _OWN and "ClassVar" not in str(annotation):
                said = cls.__dict__.get(name)
                one = said if isinstance(said, Setting) else Setting(said)
                found[name] = one if one.group else replace(one, group=cls.group)
        for base in cls.__bases__:
            found = {**found, **{name: one for name, one in getattr(base, "_fields", {}).items() if name not in found}}
        cls._fields = found

    def __init__(self, **values: Any) -> None:
        from pydantic import ValidationError

        try:
            checked = self.checker()(**_listed(type(self), values))
        except ValidationError as error:
            raise UsageError(self._explain(error)) from error
        found = {name: getattr(checked, name) for name in self._fields}
        for name, kind in self.types().items():
            if _is_settings(kind):
                inner = found[name]
                found[name] = kind(**{key: getattr(inner, key) for key in inner.model_fields_set})
        self._fill(found | (checked.model_extra or {}) | {"given": frozenset(checked.model_fields_set)})
        self.check()

    @classmethod
    def _explain(cls, error: ValidationError) -> str:
        inner = {name: kind.fields() for name, kind in cls.types().items() if _is_settings(kind)}
        declared = [*cls.fields().items(), *(one for fields in inner.values() for one in fields.items())]
        flags = [name for name, one in declared if one.surface == "flag"]
        return explain(error, lambda path: inner[path[0]] if path else cls.fields(), hidden=inner, flags=flags)

    def _fill(self, values: Mapping[str, Any]) -> None:
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def check(self) -> None:
        """Reject invalid combinations of values."""

    def check_positive(self, *names: str) -> None:
        """Reject numbers below 1 in some fields, which may be lists or None."""
        for name in names:
            value = getattr(self, name)
            least = min(value, default=1) if isinstance(value, list) else value
            if least is not None and least < 1:
                raise UsageError("{--{flag}} must be 1 or more, not {n}.", flag=name, n=least)

    def replaced(self, **values: Any) -> Self:
        """Return a copy with some values replaced."""
        other = copy.copy(self)
        other._fill({**values, "given": self.given | values.keys()})
        return other

    def as_dict(self) -> dict[str, Any]:
        """Return all values by name; nested settings become dicts."""
        values = {name: getattr(self, name) for name in self._fields}
        return {name: value.as_dict() if isinstance(value, Settings) else value for name, value in values.items()}

    @classmethod
    def fields(cls) -> Mapping[str, Setting]:
        """Return the declarations by name."""
        return cls._fields

    @classmethod
    @cache
    def types(cls) -> Mapping[str, Any]:
        """Return the field types by name."""
        hints = type_hints(cls)
        return {name: hints[name] for name in cls._fields}

    @classmethod
    @cache
    def checker(cls) -> type[BaseModel]:
        """Return the pydantic model that validates values, created on first use."""
        from pydantic import ConfigDict, Field, create_model

        fields: dict[str, Any] = {}
        for name, one in cls._fields.items():
            kind = cls.types()[name]
            if _is_settings(kind):
                fields[name] = kind.checker(), Field(default_factory=kind.checker())
            else:
                fields[name] = kind, Field(default=one.default, description=one.help, **one.limits)
        config = ConfigDict(extra="allow" if cls.open else "forbid", protected_namespaces=())
        return create_model(cls.__name__, __config__=config, **fields)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} is immutable: {name}")

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and isinstance(other, Settings) and self.as_dict() == other.as_dict()

    def __hash__(self) -> int:
        return hash(repr(self.as_dict()))

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={getattr(self, name)!r}" for name in self._fields if name in self.given)
        return f"{type(self).__name__}({values})"


_OWN = ("given", "group", "open", "_fields")


def _is_settings(kind: Any) -> TypeGuard[type[Settings]]:
    return isinstance(kind, type) and issubclass(kind, Settings)


def _listed(cls: type[Settings], values: Mapping[str, Any]) -> dict[str, Any]:
    """Convert a single value to a list of one, and nested settings to a dict."""
    found = dict(values)
    for name, value in values.items():
        kind = cls.types().get(name)
        if _is_settings(kind):
            inner = {key: getattr(value, key) for key in value.given} if isinstance(value, Settings) else value
            found[name] = _listed(kind, inner) if isinstance(inner, Mapping) else inner
        elif get_origin(kind) is list and isinstance(value, str | int | float):
            found[name] = [value]
    return found


def members(kind: Any) -> tuple[Any, ...]:
    """Return the members of a union without None, or the type itself."""
    parts = get_args(kind) if get_origin(kind) in (UnionType, Union) else (kind,)
    return tuple(part for part in parts if part is not type(None))


def command_line_type(kind: Any) -> tuple[type, tuple[Any, ...] | None]:
    """Return how a command-line value is parsed (int, float, bool, dict or str), and the choices of a Literal."""
    if get_origin(kind) is dict:
        return dict, None
    choices = next((get_args(part) for part in members(kind) if get_origin(part) is Literal), None)
    parts = members(get_args(kind)[0] if get_origin(kind) is list else kind)
    numbers = (bool,) if str in parts else (bool, int, float)
    return next((known for known in numbers if known in parts), str), choices


REASONS = {
    "greater_than_equal": "Input should be greater than or equal to {ge:g}",
    "greater_than": "Input should be greater than {gt:g}",
    "less_than_equal": "Input should be less than or equal to {le:g}",
    "less_than": "Input should be less than {lt:g}",
    "literal_error": "Input should be {expected}",
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float"), "Input should be a valid integer"),
    **dict.fromkeys(("float_type", "float_parsing"), "Input should be a valid number"),
}
"""Templates of pydantic's messages by the type of the error, for translation; others are shown as they are."""


def explain(
    error: ValidationError,
    known: Callable[[list[str]], Iterable[str]],
    hidden: Collection[str] = (),
    flags: Collection[str] = (),
) -> str:
    """Format a pydantic error, suggesting the nearest name for an unknown key. Values are never quoted.

    ``known`` returns the valid names below a path. ``hidden`` are parts of a path that are not shown because they are
    not names of settings, ``flags`` the settings that are shown as flags.
    """
    lines: list[str] = []
    for problem in error.errors(include_input=False, include_url=False):
        path = [str(part) for part in problem["loc"]]
        where = ".".join(part for part in path if part not in hidden)
        if problem["type"] == "extra_forbidden":
            near = nearest(path[-1], known(path[:-1]))
            text = "{where}: unknown setting; did you mean {names}?" if near else "{where}: unknown setting"
            lines.append(UserMessage(text, where=where, names=" or ".join(near)))
        else:
            name = where.partition(".")[0]
            named = UserMessage("{--{name}}", name=name) if name in flags else where
            reason = problem["msg"].removeprefix("Value error, ")
            if problem["type"] in REASONS:
                reason = UserMessage(REASONS[problem["type"]], **problem.get("ctx", {}))
            lines.append(UserMessage("{name}: {reason}", name=named, reason=reason))
    return join(lines, "\n")
