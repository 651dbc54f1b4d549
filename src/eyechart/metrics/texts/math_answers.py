"""Comparing mathematical answers by their value, without evaluating them as code.

A small arithmetic of its own reads numbers (1,000 too), + - * / ^ **, brackets, and LaTeX's frac,
sqrt, pi, cdot, times and div. Whole numbers and fractions are exact. Anything else is text.
"""

import math
import re
from dataclasses import dataclass, field
from fractions import Fraction

from eyechart.metrics.cells import as_text

TOLERANCE = 1e-6
# Bounds that no real answer meets; they keep the work small and the recursion shallow.
_MAX_LENGTH = 200
_MAX_TOKENS = 60
_MAX_BITS = 4096
_MAX_EXPONENT = 512
_TOKEN = re.compile(
    r"\s*(\d{1,3}(?:,\d{3})+(?:\.\d*)?|(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d{1,3})?|\*\*|\\?[a-z]+|[-+*/^(){}\[\]])"
)
_LATEX = {r"\times": "*", r"\cdot": "*", r"\div": "/", r"\dfrac": r"\frac", r"\tfrac": r"\frac", "pi": r"\pi"}
_NAME_AND_EQUALS = re.compile(r"^\s*[a-z]\s*=")  # "x = 5" says 5
_SPACING = re.compile(r"\\left(?![a-z])|\\right(?![a-z])|\\[,;:! ]|\$")

Number = Fraction | float


class NotANumberError(ValueError):
    """The text is not an arithmetic expression, or one too large to work out."""


def math_equal(answer: object, target: object) -> bool:
    """Tell whether two answers are the same text up to case and outer space, or the same number to 1e-6.

    Does what VLMEvalKit's `is_equal` for MathVision is meant to do; that one evaluates the model's answer
    as Python.
    """
    left, right = as_text(answer).lower().strip(), as_text(target).lower().strip()
    if left == right:
        return True
    try:
        return -TOLERANCE < math_value(left) - math_value(right) < TOLERANCE
    except (NotANumberError, OverflowError, ZeroDivisionError):
        return False


def math_value(text: str) -> Number:
    """Return the value of an arithmetic expression in plain or LaTeX notation."""
    if len(text) > _MAX_LENGTH:
        raise NotANumberError(f"{len(text)} characters are more than an answer needs")
    plain = _NAME_AND_EQUALS.sub("", _SPACING.sub("", text.lower()))
    tokens, position, end = list[str](), 0, len(plain.rstrip())
    while position < end:
        token = _TOKEN.match(plain, position)
        if token is None or len(tokens) == _MAX_TOKENS:
            raise NotANumberError(f"{text!r} is not an arithmetic expression")
        tokens.append(_LATEX.get(token[1], token[1]))
        position = token.end()
    parser = _Parser(tokens)
    value = parser.sum()
    if parser.tokens:
        raise NotANumberError(f"{parser.tokens[0]!r} is left over in {text!r}")
    return value


@dataclass
class _Parser:
    """Recursive descent over tokens; each method reads one level of precedence and leaves the rest."""

    tokens: list[str] = field(default_factory=list)

    def sum(self) -> Number:
        value = self.product()
        while self._next() in {"+", "-"}:
            sign = 1 if self.tokens.pop(0) == "+" else -1
            value = _checked(value + sign * self.product())
        return value

    def product(self) -> Number:
        value = self.signed()
        while True:
            operator = self._next()
            if operator in {"*", "/"}:
                self.tokens.pop(0)
                factor = self.signed()
                value = _checked(value * factor if operator == "*" else value / factor)
            elif operator in {"(", r"\pi", r"\sqrt", r"\frac"}:  # 2(3), 2\pi: no sign means times
                value = _checked(value * self.power())
            else:
                return value

    def signed(self) -> Number:
        if self._next() in {"+", "-"}:
            return self.signed() if self.tokens.pop(0) == "+" else -self.signed()
        return self.power()

    def power(self) -> Number:
        base = self.atom()
        if self._next() not in {"^", "**"}:
            return base
        self.tokens.pop(0)
        exponent = self.signed()
        if not -_MAX_EXPONENT <= exponent <= _MAX_EXPONENT:
            raise NotANumberError("the exponent is out of range")
        value = base**exponent
        if isinstance(value, complex):
            raise NotANumberError("a root of a negative number")
        return _checked(value)

    def atom(self) -> Number:
        symbol = self.tokens.pop(0) if self.tokens else ""
        if symbol in _CLOSING:
            value = self.sum()
            self._expect(_CLOSING[symbol])
            return value
        if symbol == r"\frac":
            return _checked(self.atom() / self.atom())
        if symbol in {r"\sqrt", "sqrt"}:
            return self._root()
        if symbol == r"\pi":
            return math.pi
        if symbol[:1].isdigit() or symbol[:1] == ".":
            return Fraction(symbol.replace(",", "").rstrip("."))
        raise NotANumberError(f"{symbol!r} is not a number")

    def _root(self) -> Number:
        degree: Number = Fraction(2)
        if self._next() == "[":
            degree = self.atom()
        radicand = self.atom()
        if radicand < 0 or degree <= 0:
            raise NotANumberError("a root of a negative number")
        root = float(radicand) ** (1 / float(degree))
        return Fraction(round(root)) if round(root) ** degree == radicand else root

    def _next(self) -> str:
        return self.tokens[0] if self.tokens else ""

    def _expect(self, closing: str) -> None:
        if not self.tokens or self.tokens.pop(0) != closing:
            raise NotANumberError(f"{closing!r} is missing")


_CLOSING = {"(": ")", "{": "}", "[": "]"}


def _checked(value: Number) -> Number:
    """Refuse numbers that would take long to work with."""
    if isinstance(value, Fraction):
        if max(value.numerator.bit_length(), value.denominator.bit_length()) > _MAX_BITS:
            raise NotANumberError("the number is too large")
    elif not math.isfinite(value):
        raise NotANumberError("the number is out of range")
    return value
