"""Reading an expression in plain or LaTeX notation as a tree, by recursive descent. Nothing is evaluated here.

A tree is a tuple: ("num", Fraction), ("sym", name), (operator, tree, tree), ("call", name, tree), ("deg" | "percent" |
"neg" | "!" | "abs", tree). Numbers may have thousands separators; no sign between two factors means times.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from eyechart.metrics.texts.math_text import DEGREE, MAX_LENGTH

Tree = tuple[Any, ...]
_MAX_TOKENS = 120
_MAX_DEPTH = 30
_FUNCTIONS = (
    "sin", "cos", "tan", "cot", "sec", "csc", "arcsin", "arccos", "arctan", "sinh", "cosh", "tanh",
    "ln", "lg", "log", "exp",
)  # fmt: skip
_TOKEN = re.compile(
    r"\s*(\d{1,3}(?:,\d{3})+(?!\d)(?:\.\d*)?|(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d{1,3}(?![a-z\d]))?|\*\*|\\%|\\[{}|]|\\[a-z]+"
    rf"|(?:{'|'.join(sorted(_FUNCTIONS, key=len, reverse=True))}|sqrt|pi|infty)(?![a-z])"
    rf"|[a-z]'?|[-+*/^_(){{}}\[\]|!%{DEGREE}])"
)
_SAME = {
    r"\times": "*", r"\cdot": "*", r"\ast": "*", r"\div": "/", r"\dfrac": r"\frac", r"\tfrac": r"\frac",
    r"\cfrac": r"\frac", "pi": r"\pi", "sqrt": r"\sqrt", "**": "^", r"\%": "%", r"\{": "(", r"\}": ")", r"\|": "|",
    r"\lvert": "|", r"\rvert": "|", "infty": r"\infty",
} | {name: "\\" + name for name in _FUNCTIONS}  # fmt: skip
_CLOSING = {"(": ")", "{": "}", "[": "]"}
_TWO, _TEN = ("num", Fraction(2)), ("num", Fraction(10))


class NotANumberError(ValueError):
    """The text is not an expression, or one too large to work out."""


def parse(text: str) -> Tree:
    """Return the tree of an expression.

    Raises:
        NotANumberError: If it is none, or larger than an answer needs.
    """
    if len(text) > MAX_LENGTH:
        raise NotANumberError(f"{len(text)} characters are more than an answer needs")
    tokens, position, end = list[str](), 0, len(text.rstrip())
    while position < end:
        token = _TOKEN.match(text, position)
        if token is None or len(tokens) == _MAX_TOKENS:
            raise NotANumberError(f"{text!r} is not an expression")
        tokens.append(_SAME.get(token[1], token[1]))
        position = token.end()
    parser = _Parser(tokens[::-1])
    tree = parser.sum()
    if parser.tokens:
        raise NotANumberError(f"{parser.tokens[-1]!r} is left over in {text!r}")
    return tree


@dataclass
class _Parser:
    """Each method reads one level of precedence and leaves the rest; the next token is the last of the list."""

    tokens: list[str] = field(default_factory=list)
    depth: int = 0
    in_bars: bool = False

    def sum(self) -> Tree:
        self._deeper()
        tree = self.product()
        while self._next() in {"+", "-"}:
            operator = self.tokens.pop()
            tree = (operator, tree, self.product())
        self.depth -= 1
        return tree

    def product(self) -> Tree:
        tree = self.signed()
        while True:
            following = self._next()
            if following in {"*", "/"}:
                self.tokens.pop()
                tree = (following, tree, self.signed())
            elif self._starts_factor(following):  # 2(3), 2\pi, xy: no sign means times
                tree = self._mixed(tree) or ("*", tree, self.power())
            else:
                return tree

    def _starts_factor(self, token: str) -> bool:
        if token.startswith("|"):
            return not self.in_bars
        return token[:1] in {"(", "{", "\\"} or token[:1].isalpha() or self._is_mixed_part()

    def _is_mixed_part(self) -> bool:
        """Tell whether "1/2" follows, as in 1 1/2; two bare numbers are nothing."""
        ahead = self.tokens[-3:][::-1]
        return len(ahead) == 3 and ahead[0].isdigit() and ahead[1] == "/" and ahead[2].isdigit()

    def _mixed(self, whole: Tree) -> Tree | None:
        """Read the fraction of a mixed number, 1 1/2; None where there is none."""
        if whole[0] != "num" or whole[1].denominator != 1 or not (self._next() == r"\frac" or self._is_mixed_part()):
            return None
        before = list(self.tokens)
        part = self.atom() if self._next() == r"\frac" else ("/", self.atom(), (self.tokens.pop(), self.atom())[1])
        if part[0] == "/" and part[1][0] == part[2][0] == "num" and 0 < part[1][1] < part[2][1]:
            return ("+", whole, part)
        self.tokens = before
        return None

    def signed(self) -> Tree:
        sign = 1
        while self._next() in {"+", "-"}:
            sign = sign if self.tokens.pop() == "+" else -sign
        tree = self.power()
        return tree if sign == 1 else ("neg", tree)

    def power(self) -> Tree:
        base = self.postfixed()
        if self._next() != "^":
            return base
        self.tokens.pop()
        self._deeper()
        tree = ("^", base, self.signed())
        self.depth -= 1
        return tree

    def postfixed(self) -> Tree:
        tree = self.atom()
        while self._next() in {"!", "%", DEGREE}:
            tree = ({"!": "!", "%": "percent", DEGREE: "deg"}[self.tokens.pop()], tree)
        return tree

    def atom(self) -> Tree:
        token = self.tokens.pop() if self.tokens else ""
        if token in _CLOSING:
            tree = self._outside_bars(self.sum)
            self._expect(_CLOSING[token])
            return tree
        if token in _READERS:
            return _READERS[token](self)
        if token[1:] in _FUNCTIONS and token[:1] == "\\":
            return self._call(token[1:])
        if token[:1].isdigit() or token[:1] == ".":
            return ("num", Fraction(token.replace(",", "").rstrip(".")))
        if token[:1].isalpha() or (token[:1] == "\\" and token[1:].isalpha()):
            return ("sym", token + self._subscript())
        raise NotANumberError(f"{token!r} is not a number")

    def _fraction(self) -> Tree:
        return ("/", self._argument(), self._argument())

    def _argument(self) -> Tree:
        r"""Read what \frac takes: a group, or a single digit as in \frac12."""
        token = self._next()
        if token.isdigit() and len(token) > 1:
            self.tokens[-1:] = [token[1:], token[0]]
        self._deeper()
        tree = self.atom()
        self.depth -= 1
        return tree

    def _root(self) -> Tree:
        degree: Tree = _TWO
        if self._next() == "[":
            degree = self.atom()
        return ("root", self._argument() if self._next() == r"\sqrt" else self.postfixed(), degree)

    def _call(self, name: str) -> Tree:
        base: Tree | None = _TEN if name == "lg" else None
        power: Tree | None = None
        while self._next() in {"_", "^"}:
            if self.tokens.pop() == "_":
                base = self._argument()
            else:
                power = self._argument()
        self._deeper()
        tree: Tree = ("call", "ln" if name in {"log", "lg"} else name, self.power())
        self.depth -= 1
        if name in {"log", "lg"}:
            tree = ("/", tree, ("call", "ln", base or _TEN))
        return ("^", tree, power) if power else tree

    def _bars(self) -> Tree:
        if self.in_bars:
            raise NotANumberError("bars within bars")
        self.in_bars = True
        tree = ("abs", self.sum())
        self.in_bars = False
        self._expect("|")
        return tree

    def _outside_bars(self, read: Callable[[], Tree]) -> Tree:
        before, self.in_bars = self.in_bars, False
        tree = read()
        self.in_bars = before
        return tree

    def _subscript(self) -> str:
        if self._next() != "_":
            return ""
        self.tokens.pop()
        name = self.tokens.pop() if self.tokens else ""
        if name != "{":
            return "_" + name
        inside = []
        while self.tokens and self._next() != "}":
            inside.append(self.tokens.pop())
        self._expect("}")
        return "_" + "".join(inside)

    def _deeper(self) -> None:
        self.depth += 1
        if self.depth > _MAX_DEPTH:
            raise NotANumberError("the expression is nested too deeply")

    def _next(self) -> str:
        return self.tokens[-1] if self.tokens else ""

    def _expect(self, closing: str) -> None:
        if not self.tokens or self.tokens.pop() != closing:
            raise NotANumberError(f"{closing!r} is missing")


_READERS: dict[str, Callable[[_Parser], Tree]] = {
    "|": _Parser._bars,
    r"\frac": _Parser._fraction,
    r"\sqrt": _Parser._root,
}
