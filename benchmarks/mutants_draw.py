"""Draw one-line faults at random from the code, for `mutants.py`.

    python benchmarks/mutants_draw.py --seed 25 --count 330 > benchmarks/mutants_drawn.jsonl

A package gets a share of the draws in proportion to its size, and at least --fewest. Within a package an operator is
drawn first, with equal probability, so that constants do not make up most of the sample; then one of the places where
it applies. No line is drawn twice. Docstrings, annotations and the wording of messages are left alone, and a mutation
that Python refuses to compile is not drawn.
"""

from __future__ import annotations

import argparse
import ast
import json
import random
import re
import sys
import warnings
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import singledispatchmethod
from itertools import islice
from pathlib import Path

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "eyechart"
PACKAGES = (
    "metrics", "stats", "tasks", "scorers", "datasets", "inference", "store", "io", "results", "api", "compat", "cli"
)  # fmt: skip

COMPARISONS = {
    ast.Lt: ("<", "<="), ast.LtE: ("<=", "<"), ast.Gt: (">", ">="), ast.GtE: (">=", ">"), ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="), ast.Is: ("is", "is not"), ast.IsNot: ("is not", "is"), ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"),
}  # fmt: skip
ARITHMETIC = {
    ast.Add: ("+", "-"), ast.Sub: ("-", "+"), ast.Mult: ("*", "/"), ast.Div: ("/", "*"), ast.FloorDiv: ("//", "/"),
    ast.Mod: ("%", "*"), ast.Pow: ("**", "*"), ast.BitAnd: ("&", "|"), ast.BitOr: ("|", "&"),
}  # fmt: skip
SWAPPED = {"min": "max", "max": "min", "any": "all", "all": "any"}
UNWRAPPED = {"sorted": "list", "set": "list", "frozenset": "tuple", "abs": "", "reversed": "", "round": ""}
STRIPPED = {"strip", "lstrip", "rstrip", "lower", "upper", "casefold", "sort", "copy", "ravel", "astype", "clip"}
WORDING = {"advice", "help", "description", "doc"}
"""Arguments that hold sentences."""
TYPED = {"isinstance", "issubclass", "getattr", "hasattr", "cast", "TypeVar", "NewType", "setattr"}
"""Functions whose arguments, if swapped, raise at once."""


@dataclass(frozen=True)
class Drawn:
    """A mutation: `old` is whole lines, unique in the file."""

    seed: int
    file: str
    function: str
    line: int
    operator: str
    old: str
    new: str


@dataclass(frozen=True)
class Edit:
    """Bytes `start` to `end` of a file become `text`."""

    operator: str
    start: int
    end: int
    text: str


class Mutations:
    """The mutations of a module."""

    def __init__(self, file: str, source: str) -> None:
        self.file = file
        self.source = source.encode()
        self._offsets = [0]
        for line in self.source.splitlines(keepends=True):
            self._offsets.append(self._offsets[-1] + len(line))
        self._tree = ast.parse(source)

    def all(self, seed: int) -> list[Drawn]:
        """List all mutations."""
        edits = ((function, edit) for function, node in self._walk(self._tree, "") for edit in self._edits(node))
        return [drawn for function, edit in edits if (drawn := self._drawn(seed, function, edit))]

    def _walk(self, node: ast.AST, function: str) -> Iterator[tuple[str, ast.AST]]:
        for child in ast.iter_child_nodes(node):
            if self._is_spared(node, child):
                continue
            inside = function
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                inside = f"{function}.{child.name}".lstrip(".")
            yield inside, child
            yield from self._walk(child, inside)

    @staticmethod
    def _is_spared(parent: ast.AST, child: ast.AST) -> bool:
        """Whether a node is prose or a type: what it says has no effect on behaviour."""
        if isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant):
            return True
        if isinstance(child, ast.keyword) and child.arg in WORDING:
            return True
        if isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
            return True
        if isinstance(child, ast.Assign) and ast.unparse(child.targets[0]) in {"__all__", "__slots__"}:
            return True
        annotations = (getattr(parent, "annotation", None), getattr(parent, "returns", None))
        return any(child is annotation for annotation in annotations) or isinstance(
            child, ast.Import | ast.ImportFrom | ast.JoinedStr
        )

    def _span(self, node: ast.AST) -> tuple[int, int]:
        return (
            self._offsets[node.lineno - 1] + node.col_offset,
            self._offsets[node.end_lineno - 1] + node.end_col_offset,
        )

    def _text(self, node: ast.AST) -> str:
        start, end = self._span(node)
        return self.source[start:end].decode()

    def _replace(self, operator: str, node: ast.AST, text: str) -> Edit:
        return Edit(operator, *self._span(node), text)

    def _between(self, operator: str, left: ast.AST, right: ast.AST, change: tuple[str, str]) -> Iterator[Edit]:
        """Replace the operator that stands between two operands."""
        start, end = self._span(left)[1], self._span(right)[0]
        gap = self.source[start:end].decode()
        old, new = change
        match = re.search(r"\s+".join(map(re.escape, old.split())), gap)
        if match and "#" not in gap:
            yield Edit(operator, start, end, gap[: match.start()] + new + gap[match.end() :])

    @singledispatchmethod
    def _edits(self, _node: ast.AST) -> Iterator[Edit]:
        yield from ()

    @_edits.register
    def _(self, node: ast.Compare) -> Iterator[Edit]:
        operands = [node.left, *node.comparators]
        for left, kind, right in zip(operands, node.ops, operands[1:], strict=False):
            yield from self._between("comparison", left, right, COMPARISONS[type(kind)])

    @_edits.register
    def _(self, node: ast.BoolOp) -> Iterator[Edit]:
        change = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
        yield from self._between("and/or", node.values[-2], node.values[-1], change)

    @_edits.register
    def _(self, node: ast.BinOp) -> Iterator[Edit]:
        if type(node.op) in ARITHMETIC:
            yield from self._between("arithmetic", node.left, node.right, ARITHMETIC[type(node.op)])

    @_edits.register
    def _(self, node: ast.UnaryOp) -> Iterator[Edit]:
        if isinstance(node.op, ast.Not | ast.USub | ast.Invert):
            yield self._replace("removed operator", node, self._text(node.operand))

    @_edits.register(ast.If)
    @_edits.register(ast.While)
    @_edits.register(ast.IfExp)
    def _(self, node: ast.If | ast.While | ast.IfExp) -> Iterator[Edit]:
        yield self._replace("negated condition", node.test, f"not ({self._text(node.test)})")

    @_edits.register
    def _(self, node: ast.comprehension) -> Iterator[Edit]:
        for test in node.ifs:
            yield self._replace("negated condition", test, f"not ({self._text(test)})")

    @_edits.register
    def _(self, node: ast.Expr) -> Iterator[Edit]:
        if isinstance(node.value, ast.Call | ast.Await):
            yield self._replace("removed statement", node, "pass")

    @_edits.register
    def _(self, node: ast.Raise) -> Iterator[Edit]:
        yield self._replace("removed statement", node, "pass")

    @_edits.register
    def _(self, node: ast.Assign) -> Iterator[Edit]:
        if isinstance(node.targets[0], ast.Attribute | ast.Subscript):
            yield self._replace("removed statement", node, "pass")

    @_edits.register
    def _(self, node: ast.AugAssign) -> Iterator[Edit]:
        yield self._replace("plain assignment", node, f"{self._text(node.target)} = {self._text(node.value)}")

    @_edits.register
    def _(self, node: ast.Return) -> Iterator[Edit]:
        if node.value is not None and self._text(node.value) != "None":
            yield self._replace("return None", node, "return None")

    @_edits.register(ast.Break)
    @_edits.register(ast.Continue)
    def _(self, node: ast.Break | ast.Continue) -> Iterator[Edit]:
        yield self._replace("break/continue", node, "continue" if isinstance(node, ast.Break) else "break")

    @_edits.register
    def _(self, node: ast.Constant) -> Iterator[Edit]:
        value = node.value
        if isinstance(value, bool):
            yield self._replace("constant", node, str(not value))
        elif isinstance(value, int | float):
            yield self._replace("constant", node, repr(value + 1))
        elif isinstance(value, str) and re.fullmatch(r"\S*", value):
            yield self._replace("constant", node, '""' if value else '"mutant"')

    @_edits.register
    def _(self, node: ast.Call) -> Iterator[Edit]:
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        if name in SWAPPED:
            yield self._replace("min/max, any/all", node.func, SWAPPED[name])
        if name in UNWRAPPED and node.args and not isinstance(node.args[0], ast.Starred):
            inner = self._text(node.args[0])
            if isinstance(node.args[0], ast.GeneratorExp) and not inner.startswith("("):
                inner = f"({inner})"
            yield self._replace("removed call", node, f"{UNWRAPPED[name]}({inner})")
        if isinstance(node.func, ast.Attribute) and node.func.attr in STRIPPED:
            yield self._replace("removed call", node, self._text(node.func.value))
        plain = not any(isinstance(argument, ast.Starred) for argument in node.args)
        if len(node.args) >= 2 and plain and name not in TYPED:
            first, second = node.args[:2]
            between = self.source[self._span(first)[1] : self._span(second)[0]].decode()
            text = f"{self._text(second)}{between}{self._text(first)}"
            if self._text(first) != self._text(second):
                yield Edit("swapped arguments", self._span(first)[0], self._span(second)[1], text)
        yield from self._dropped(node)

    def _dropped(self, node: ast.Call) -> Iterator[Edit]:
        for keyword in node.keywords:
            if keyword.arg is None or keyword.arg in WORDING:
                continue
            start, end = self._span(keyword)
            before, after = self.source[:start], self.source[end:]
            if following := re.match(rb"\s*,[ ]*", after):
                yield Edit("dropped argument", start, end + following.end(), "")
            elif previous := re.search(rb",\s*$", before):
                yield Edit("dropped argument", previous.start(), end, "")

    def _drawn(self, seed: int, function: str, edit: Edit) -> Drawn | None:
        """Widen an edit to whole lines, and upwards until they are unique in the file."""
        mutated = self.source[: edit.start] + edit.text.encode() + self.source[edit.end :]
        line = self.source.count(b"\n", 0, edit.start)
        stop = self._offsets[self.source.count(b"\n", 0, edit.end) + 1]
        for first in range(line, -1, -1):
            start = self._offsets[first]
            old = self.source[start:stop]
            if self.source.count(old) == 1:
                new = mutated[start : stop + len(mutated) - len(self.source)]
                return Drawn(seed, self.file, function, line + 1, edit.operator, old.decode(), new.decode())
        return None


def draw(seed: int, count: int, fewest: int, source: Path = SOURCE) -> list[Drawn]:
    """Draw `count` mutations, or a few more: each package gets at least `fewest`."""
    generator = random.Random(seed)
    options = {package: _options(seed, source, package) for package in PACKAGES}
    total = sum(map(len, options.values()))
    return [
        drawn
        for those in options.values()
        for drawn in islice(_shuffled(generator, those, source), max(fewest, round(count * len(those) / total)))
    ]


def _options(seed: int, source: Path, package: str) -> list[Drawn]:
    paths = sorted((source / package).rglob("*.py"))
    modules = (Mutations(path.relative_to(source).as_posix(), path.read_text()) for path in paths)
    return [drawn for module in modules for drawn in module.all(seed)]


def _shuffled(generator: random.Random, options: list[Drawn], source: Path) -> Iterator[Drawn]:
    """Yield mutations in random order: an operator first, then a line."""
    left: dict[str, list[Drawn]] = defaultdict(list)
    for drawn in generator.sample(options, len(options)):
        left[drawn.operator].append(drawn)
    taken = set()
    while left:
        operator = generator.choice(sorted(left))
        drawn = left[operator].pop()
        if not left[operator]:
            del left[operator]
        if (drawn.file, drawn.line) not in taken and _compiles(drawn, source):
            taken.add((drawn.file, drawn.line))
            yield drawn


def _compiles(drawn: Drawn, source: Path) -> bool:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile((source / drawn.file).read_text().replace(drawn.old, drawn.new), drawn.file, "exec")
    except SyntaxError:
        return False
    return True


def main() -> int:
    """Print drawn mutations as lines of JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--count", type=int, default=330)
    parser.add_argument("--fewest", type=int, default=14, help="draws of the smallest package")
    args = parser.parse_args()
    for drawn in draw(args.seed, args.count, args.fewest):
        print(json.dumps(asdict(drawn), ensure_ascii=False))
    return 0


if __name__ == "__main__":
    sys.exit(main())
