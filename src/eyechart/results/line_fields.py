"""Some fields of lines of JSON that all have the same keys: a third of the time that whole objects take.

The first line tells the keys, and of what kind each value is. Lines that match a strict pattern of them are valid JSON;
where a single one does not (other keys, an object within an object, a blank), whoever reads must parse them all.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any, Self, overload

from eyechart.io.untrusted import parse_json

Block = Sequence[Mapping[str, Any]]
"""Records: parsed, or lines of which only some fields are."""

_NUMBER = r"-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?+(?:[eE][+-]?[0-9]++)?+"
_PLAIN = r'[^"\\\x00-\x1f]*+'
_TEXT = rf'"{_PLAIN}(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{{4}}){_PLAIN})*+"'
_KINDS = {int: _NUMBER, float: _NUMBER, str: _TEXT, bool: "(?:true|false)"}
_ANY = rf"(?:{_NUMBER}|{_TEXT}|true|false|null)"


class LineFields(Sequence[Mapping[str, Any]]):
    """Lines of one object each, of which some fields were found; a line becomes an object when it is asked for."""

    def __init__(self, text: str, columns: Mapping[str, Sequence[str]]) -> None:
        self.lines = text.split("\n")
        self._columns = columns
        self._values: dict[str, list[Any]] = {}

    def __len__(self) -> int:
        return len(self.lines)

    @overload
    def __getitem__(self, place: int) -> Mapping[str, Any]: ...

    @overload
    def __getitem__(self, place: slice) -> list[Mapping[str, Any]]: ...

    def __getitem__(self, place: int | slice) -> Any:
        return json.loads(self.lines[place]) if isinstance(place, int) else _list_of(self.lines[place])

    def field(self, name: str, *default: Any) -> list[Any]:
        """Return a field of all lines: all of them have it, or none has."""
        if name not in self._columns and default:
            return [*default] * len(self)
        if name not in self._values:
            self._values[name] = _list_of(self._columns[name])
        return self._values[name]


class LinePattern:
    """The form of lines, by one of them."""

    def __init__(self, pattern: re.Pattern[str], names: Sequence[str]) -> None:
        self._pattern = pattern
        self._names = names

    @classmethod
    def of(cls, line: str, wanted: Collection[str]) -> Self | None:
        """Describe lines like this one; None if it is no object, or has one within it."""
        try:
            record = parse_json(line)
            values = {name: _value(value) for name, value in record.items()}
        except (ValueError, AttributeError, KeyError):
            return None
        parts = [
            f"{re.escape(json.dumps(name, ensure_ascii=False))}: {f'({value})' if name in wanted else value}"
            for name, value in values.items()
        ]
        names = [name for name in values if name in wanted]
        return cls(re.compile(rf"^\{{{', '.join(parts)}\}}$", re.MULTILINE), names) if len(names) > 1 else None

    def read(self, text: str) -> LineFields | None:
        """Find the fields of lines; None if one of them is of another form."""
        found = self._pattern.findall(text)
        if len(found) != text.count("\n") + 1:
            return None
        return LineFields(text, dict(zip(self._names, zip(*found, strict=True), strict=True)))


def field_of(block: Block, name: str, *default: Any) -> list[Any]:
    """Return a field of some records; without a default, all of them must have it."""
    if isinstance(block, LineFields):
        return block.field(name, *default)
    try:
        return list(map(itemgetter(name), block))
    except KeyError:
        if not default:
            raise
        return [record.get(name, *default) for record in block]


def objects_of(block: Block, places: Sequence[int]) -> Iterator[tuple[int, Mapping[str, Any], str | Mapping[str, Any]]]:
    """Yield some records with their places, and as they are held: a line of text, or the record itself."""
    if isinstance(block, LineFields):
        lines = [block.lines[i] for i in places]
        yield from zip(places, _list_of(lines), lines, strict=True)
    else:
        yield from ((i, block[i], block[i]) for i in places)


def _value(value: Any) -> str:
    """Return the pattern of values like this one."""
    if isinstance(value, list):
        item = _value(value[0]) if value and not isinstance(value[0], list) else _ANY
        return rf"\[(?:{item}(?:, {item})*+)?+\]"
    return _ANY if value is None else _KINDS[type(value)]


def _list_of(texts: Iterable[str]) -> list[Any]:
    found: list[Any] = json.loads(f"[{','.join(texts)}]")
    return found
