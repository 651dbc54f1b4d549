"""Messages as data: a template and its fields, rendered for a surface and a language.

A `UserMessage` is a string whose value is the English text for the command line, which result files store. It keeps its
template and fields, so that other surfaces and languages can render it:

    message = UserMessage("{n} rows of {path} are damaged: use {--on_error=skip}.", n=3, path="a.csv")
    str(message)                # 3 rows of a.csv are damaged: use --on-error skip.
    message.on(PYTHON)          # 3 rows of a.csv are damaged: use on_error='skip'.
    message.render(lookup)      # translated by its template

Template syntax: ``{name}``, ``{name!r}`` and ``{name:,}`` are fields as in `str.format`, without attributes or indices;
``{--on_error}``, ``{--on_error=skip}``, ``{--limit={n}}`` and ``{--{flag}}`` name a setting; other braces are doubled.
Nouns and verbs after a count are plural in templates, and singular if the count is 1: ``{n} images are`` renders as
``1 image is``. Where they do not follow the count, both forms are given: ``{n:is|are}``.
A translation may use ``{kind|t}`` for a value that has a translation itself. Without fields a text is literal, braces
included; only settings are rendered. Field values are never interpreted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

Lookup = Callable[[str], "str | None"]
"""Maps a template to its translation, or None."""

_SETTING = r"\{--(?P<setting>[a-z][a-z0-9_]*|\{\w+\})(?:=(?P<value>(?:[^{}]|\{\w+\})+))?\}"
_FORMS = r"(?::(?P<one>[a-z' -]*)\|(?!t\})(?P<many>[a-z' -]+))"
_FIELD = rf"\{{(?P<name>[A-Za-z_]\w*)(?:{_FORMS}|(?:!(?P<convert>[rs]))?(?::(?P<spec>[^{{}}|]*))?(?P<words>\|t)?)\}}"
PART = re.compile(rf"{_SETTING}|{_FIELD}|(?P<brace>\{{\{{|\}}\}})")
"""A setting, a field, or a doubled brace of a template."""
_ONLY_SETTING = re.compile(_SETTING)
_PLACE = re.compile(r"\{(\w+)\}")
_SENTENCE = re.compile(r"(?<=[.?!:;]) (?=\S)|(?<=\}) (?=[A-Z])")
"""End of a sentence; a field may be a sentence."""
_NOUNS = """
    answers attempts benchmarks bits bytes captions cells characters classes classifiers columns copies cores days
    descriptions digits dimensions documents draws embeddings examples features files folders folds gpus groups hours
    ids images inputs items iterations jobs judges labels languages lines metrics minutes models names notes options
    pages pairs parameters parts predictions processes prompts queries questions records replies requests results rows
    samples scores seconds sets shards splits tables tasks templates tests texts times tokens values variants vectors
    verdicts videos warnings weights words workers
"""
_VERBS = {"are": "is", "were": "was", "have": "has", "do": "does", "carry": "carries"}
_VERBS |= {
    verb: f"{verb}s"
    for verb in ("belong", "contain", "count", "duplicate", "exceed", "hold", "lack", "name", "need", "occur", "tie")
}
_COUNTED = re.compile(
    r"(?P<before> (?:(?!(?:of|the|and|or|in|on|for|to|is|are|has)\b)[a-z-]+ ){0,2}?)"
    rf"(?P<noun>{'|'.join(_NOUNS.split())})\b"
    rf"(?P<verb>(?: that| of [a-z]+(?: [a-z]+)?)? (?:{'|'.join(_VERBS)})\b)?"
)
"""The noun that a count belongs to, and its verb; one noun may be an attribute of another: class names."""
_CLOSING = "\u3002\uff1a\uff1b\uff1f\uff01"
"""Full-width punctuation, which needs no space after it."""


@dataclass(frozen=True)
class Surface:
    """How an interface names settings: command line, config file or Python."""

    names: Mapping[str, str]
    """Display name by setting; any other setting is shown as a flag."""
    assignment: str
    """Format string with ``name`` and ``value``."""

    def setting(self, name: str, value: str | None = None, *, literal: bool = True) -> str:
        """Render a setting, with its value if given; a literal upper-case value is a placeholder, as in ``MODEL``."""
        own = self.names.get(name.replace("-", "_"))
        if own is None:
            flag = f"--{name.replace('_', '-')}"
            return flag if value is None else f"{flag} {value}"
        return own if value is None else self.assignment.format(name=own, value=_typed(value, literal=literal))


COMMAND_LINE = Surface({}, "")


class _Bare(str):
    """A string whose repr has no quotes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def _typed(value: str, *, literal: bool) -> object:
    """Return an object whose repr is the value as Python source."""
    bare = (literal and value.isupper()) or re.fullmatch(r"True|False|None|-?\d+(\.\d+)?", value)
    return _Bare(value) if bare else value


class UserMessage(str):
    """A rendered message with its template and fields; see the module."""

    __slots__ = ("fields", "surface", "template")

    template: str
    fields: Mapping[str, str]
    """Formatted values by name, and by name with conversion and format; nested messages are rendered recursively."""
    surface: Surface | None
    """The surface of this message; None inherits that of the enclosing message."""

    def __new__(cls, template: str, /, **fields: object) -> UserMessage:
        """Render a template; a message is returned unchanged."""
        if isinstance(template, UserMessage):
            return template
        # Fields are formatted once, so that messages are immutable and can be pickled.
        texts = {name: _formatted(value, None, None) for name, value in fields.items()}
        for part in PART.finditer(template) if fields else ():
            if part["name"] in fields:
                value = fields[part["name"]]
                if part["one"] is not None:
                    texts[_key(part)] = part["one"] if str(value) == "1" else part["many"]
                else:
                    texts[_key(part)] = _formatted(value, part["convert"], part["spec"])
        return cls._make(template, texts, None)

    @classmethod
    def _make(cls, template: str, fields: Mapping[str, str], surface: Surface | None) -> UserMessage:
        made = super().__new__(cls, _fill(template, fields, surface or COMMAND_LINE, None))
        made.template, made.fields, made.surface = template, fields, surface
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        return UserMessage._make, (self.template, self.fields, self.surface)

    def on(self, surface: Surface) -> UserMessage:
        """Return the message rendered for a surface; nested messages with their own surface keep it."""
        return self._make(self.template, self.fields, self.surface or surface)

    def render(self, lookup: Lookup | None, surface: Surface | None = None) -> str:
        """Return the text in another language; untranslated parts stay English, and everything without a lookup."""
        return _fill(self.template, self.fields, self.surface or surface or COMMAND_LINE, lookup)


def join(parts: Iterable[str], separator: str = " ") -> UserMessage:
    """Join messages and plain strings into one message, skipping empty ones."""
    kept = {f"part{number}": part for number, part in enumerate(filter(None, parts), 1)}
    if len(kept) == 1:
        return UserMessage(*kept.values())
    return UserMessage(separator.join(f"{{{name}}}" for name in kept), **kept)


def render(text: str, lookup: Lookup, surface: Surface = COMMAND_LINE) -> str:
    """Translate a message, or a plain string by looking it up."""
    return text.render(lookup, surface) if isinstance(text, UserMessage) else _translated(text, lookup)


@lru_cache(maxsize=4096)
def sentences(line: str) -> tuple[str, ...]:
    """Split a line of a template into sentences, never inside a placeholder."""
    cuts, inside = [0], 0
    ends = {found.start() for found in _SENTENCE.finditer(line)}
    for at, sign in enumerate(line):
        inside += (sign == "{") - (sign == "}")
        if at in ends and inside == 0:
            cuts.append(at)
    return tuple(line[a:b].strip() for a, b in zip(cuts, [*cuts[1:], len(line)], strict=True))


def _translated(template: str, lookup: Lookup) -> str:
    """Translate a template line by line: the whole line, else the longest known runs of sentences."""
    lines = []
    for line in template.split("\n"):
        core = line.strip()
        left, said = sentences(core), ""
        while left:
            found = ((end, lookup(" ".join(left[:end]))) for end in range(len(left), 0, -1))
            end, text = next(((end, text) for end, text in found if text is not None), (1, left[0]))
            said += text if not said or said[-1] in _CLOSING else f" {text}"
            left = left[end:]
        lines.append(line.replace(core, said, 1) if core else line)
    return "\n".join(lines)


def _formatted(value: object, convert: str | None, spec: str | None) -> str:
    if convert == "r":
        value = repr(value)
    elif not spec and isinstance(value, UserMessage):
        return value
    elif not spec and not isinstance(value, str) and hasattr(value, "user_message"):
        text: str = value.user_message
        return text
    return format(str(value) if convert == "s" else value, spec or "")


def _key(part: re.Match[str]) -> str:
    """Return a field's name with its conversion and format."""
    return part[0][1:-1].removesuffix("|t")


def _fill(template: str, fields: Mapping[str, str], surface: Surface, lookup: Lookup | None) -> str:
    text = template if lookup is None else _translated(template, lookup)
    filled, end, one = "", 0, False
    for part in (*(PART if fields else _ONLY_SETTING).finditer(text), None):
        more = text[end : part.start() if part else None]
        more = _singular(more) if one else more
        filled += more.removeprefix(" ") if lookup and filled and filled[-1] in _CLOSING else more
        if part:
            said = _part(part, fields, surface, lookup)
            one = said == "1" and part["one"] is None
            filled += said
            end = part.end()
    return filled


def _singular(text: str) -> str:
    """Make the noun and the verb that follow a count of 1 singular."""
    found = _COUNTED.match(text)
    if found is None:
        return text
    noun, verb = found["noun"], found["verb"] or ""
    ending = next(end for end in ("ies", "sses", "s") if noun.endswith(end))
    noun = noun.removesuffix(ending) + {"ies": "y", "sses": "ss", "s": ""}[ending]
    *before, last = verb.split(" ")
    return found["before"] + noun + " ".join([*before, _VERBS.get(last, last)]) + text[found.end() :]


def _part(part: re.Match[str], fields: Mapping[str, str], surface: Surface, lookup: Lookup | None) -> str:
    setting, value = part["setting"], part["value"]
    if setting:
        field = _PLACE.fullmatch(setting)
        name = fields.get(field[1], setting) if field else setting
        given = None if value is None else _PLACE.sub(lambda at: fields.get(at[1], at[0]), value)
        return surface.setting(name, given, literal=value == given)
    if part["brace"]:
        return part["brace"][0]
    text = fields.get(_key(part), part[0])
    if isinstance(text, UserMessage):
        return text.render(lookup, surface)
    return _translated(text, lookup) if part["words"] and lookup else text
