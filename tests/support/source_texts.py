"""The texts of our own source: every string, and the templates that are shown to people."""

from __future__ import annotations

import argparse
import ast
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from eyechart.io.terminal import words
from eyechart.messages import PART, sentences

SOURCE = Path(__file__).parents[2] / "src" / "eyechart"


@dataclass(frozen=True)
class TemplateSite:
    """A template where the source writes it."""

    place: str
    kind: str
    """``error``, ``notice``, or ``message`` for any other `UserMessage`."""
    template: str
    fields: frozenset[str] | None
    """Fields given to it; None if they cannot be read off, as for ``**fields``."""

    @property
    def lacks(self) -> set[str]:
        """Placeholders without a field."""
        return set() if self.fields is None else placeholders(self.template) - self.fields


def placeholders(template: str) -> set[str]:
    """Return the names of a template's fields, including those inside settings."""
    found: set[str] = set()
    for part in PART.finditer(template):
        found |= {part["name"]} if part["name"] else set()
        found |= set(re.findall(r"\{(\w+)\}", f"{part['setting'] or ''}{part['value'] or ''}"))
    return found


def runs_of(text: str) -> Iterator[str]:
    """List every run of sentences of a text, line by line, longest first."""
    for line in text.split("\n"):
        parts = sentences(line.strip())
        for first in range(len(parts)):
            yield from (" ".join(parts[first:end]) for end in range(len(parts), first, -1))


def _trees() -> Iterator[tuple[Path, ast.Module]]:
    for path in sorted(SOURCE.rglob("*.py")):
        yield path, ast.parse(path.read_text(encoding="utf-8"))


@cache
def source_runs() -> frozenset[str]:
    """Collect the strings of the package, its tables and `argparse`, whole, by their sentences and by paragraphs."""
    trees = [tree for _, tree in _trees()] + [ast.parse(Path(argparse.__file__).read_text(encoding="utf-8"))]
    texts = {
        node.value
        for tree in trees
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    tables = (path for path in SOURCE.rglob("*.toml") if path.parent.name != "words")
    texts |= {text for path in tables for text in _values(tomllib.loads(path.read_text(encoding="utf-8")))}
    paragraphs = (" ".join(part.split()) for text in texts for part in text.split("\n\n"))
    return frozenset([*(run for text in texts for run in (text, *runs_of(text))), *paragraphs])


def _values(value: object) -> Iterator[str]:
    if isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _values(inner)
    elif isinstance(value, str):
        yield value


@cache
def error_names() -> frozenset[str]:
    """Name `EyechartError` and everything derived from it."""
    bases: dict[str, set[str]] = {}
    for _, tree in _trees():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                bases.setdefault(node.name, set()).update(_name(base) for base in node.bases)
    found = {"EyechartError"}
    while more := {name for name, above in bases.items() if above & found} - found:
        found |= more
    return frozenset(found)


def _name(node: ast.AST) -> str:
    """Name what is called; one of two errors is the first, and the type of an error is an error."""
    if isinstance(node, ast.IfExp):
        return _name(node.body)
    if isinstance(node, ast.Call) and _name(node.func) == "type":
        return "EyechartError"
    return node.id if isinstance(node, ast.Name) else getattr(node, "attr", "")


@cache
def template_sites() -> tuple[TemplateSite, ...]:
    """Find the templates of errors, notices and other messages in the source."""
    return tuple(site for path, tree in _trees() for site in _sites(path, tree))


def _assigned(tree: ast.Module) -> list[tuple[int, str, ast.AST]]:
    """List the texts assigned to variables, with line and name."""
    return [
        (node.lineno, target.id, node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and _text(node.value) is not None
        for target in node.targets
        if isinstance(target, ast.Name)
    ]


def _resolved(node: ast.AST | None, assigned: list[tuple[int, str, ast.AST]]) -> ast.AST | None:
    """Return the text that was last assigned to a variable above its use; anything else as it is."""
    if not isinstance(node, ast.Name):
        return node
    above = [(line, value) for line, name, value in assigned if name == node.id and line < node.lineno]
    return max(above, key=lambda one: one[0])[1] if above else node


def _sites(path: Path, tree: ast.Module) -> Iterator[TemplateSite]:
    assigned = _assigned(tree)
    named = {name: value for _, name, value in assigned}
    for call in ast.walk(tree):
        if not isinstance(call, ast.Call) or not call.args:
            continue
        name = _name(call.func)
        given = {keyword.arg: keyword.value for keyword in call.keywords}
        own = {"NotHereError": {"advice", "source"}, "UserMessage": set()}.get(name, {"advice"})
        fields = None if None in given else frozenset(str(key) for key in given.keys() - own)
        kind, texts = "", []
        first, advice = (_resolved(text, assigned) for text in (call.args[0], given.get("advice")))
        if name in error_names() or (name == "kind" and _text(first) is not None):
            kind, texts = "error", [first, advice]
        elif name in ("UserMessage", "write_message"):
            kind, texts = "message", [first]
        elif name == "Notice" and len(call.args) > 2:
            kind, texts, fields = "notice", [call.args[2]], frozenset()
        elif name == "counted" and len(call.args) == 3 and _text(call.args[0]):
            text = call.args[2]
            kind, texts = "notice", [named.get(text.id) if isinstance(text, ast.Name) else text]
            fields = None if fields is None else fields | {"n"}
        elif name == "unknown_name":
            kind, texts, fields = "error", [given.get("advice")], frozenset()
        for text in texts:
            for template in _texts(text):
                yield TemplateSite(f"{path.relative_to(SOURCE)}:{call.lineno}", kind, template, fields)


def _text(node: ast.AST | None) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value else None


def _texts(node: ast.AST | None) -> Iterator[str]:
    """Yield the literal texts that an argument may be."""
    if isinstance(node, ast.IfExp):
        yield from (*_texts(node.body), *_texts(node.orelse))
    elif isinstance(node, ast.BoolOp):
        yield from (text for value in node.values for text in _texts(value))
    elif (text := _text(node)) is not None:
        yield text


def finished_texts() -> list[str]:
    """List errors and notices that are given an f-string: a finished text has no translation and one surface."""
    found = []
    for path, tree in _trees():
        for call in ast.walk(tree):
            name = _name(call.func) if isinstance(call, ast.Call) and call.args else ""
            if isinstance(call, ast.Call) and name in error_names() | {"Notice", "counted"}:
                given = call.args if name in error_names() else call.args[2:]
                texts = [*given, *(keyword.value for keyword in call.keywords if keyword.arg == "advice")]
                if any(isinstance(text, ast.JoinedStr | ast.BinOp) for text in texts):
                    found.append(f"{path.relative_to(SOURCE)}:{call.lineno}")
    return found


def is_translated(template: str, known: dict[str, str]) -> bool:
    """Whether all words of a template have a translation: line by line, whole or by runs of sentences."""
    for line in template.split("\n"):
        left = list(sentences(line.strip()))
        while left:
            end = next((end for end in range(len(left), 0, -1) if " ".join(left[:end]) in known), 0)
            if not end and any(sign.isalpha() for sign in _without_places(left[0])):
                return False
            left = left[max(end, 1) :]
    return True


def _without_places(text: str) -> str:
    depth, kept = 0, ""
    for sign in text:
        depth += (sign == "{") - (sign == "}")
        kept += sign if depth == 0 else ""
    return kept


def known_words() -> dict[str, str]:
    """Return all translations of the terminal."""
    return {
        key: said for part in ("notes", "messages", "help", "headings", "progress") for key, said in words(part).items()
    }


def untranslated() -> dict[str, list[str]]:
    """List the templates of errors, notices and messages that lack a translation, with where they are."""
    known, found = known_words(), dict[str, list[str]]()
    for site in template_sites():
        if not is_translated(site.template, known):
            found.setdefault(site.template, []).append(site.place)
    return found


def coverage(*kinds: str) -> float:
    """Return the share of templates of these kinds that are translated."""
    lacking = untranslated()
    templates = {site.template for site in template_sites() if site.kind in kinds}
    return 1 - len(templates & lacking.keys()) / max(len(templates), 1)


def stale() -> list[str]:
    """List the translations of texts that the source does not have."""
    return sorted(key for key in known_words() if key not in source_runs())
