"""The value of an expression's tree, exact where it is rational, within bounds that no real answer meets."""

import cmath
import math
from collections.abc import Callable, Mapping
from fractions import Fraction

from eyechart.metrics.texts.math_tree import NotANumberError, Tree

Number = Fraction | float | complex
_MAX_BITS = 4096
_MAX_EXPONENT = 512
_MAX_FACTORIAL = 200
CONSTANTS = {r"\pi": math.pi, "e": math.e}
_TRIGONOMETRIC = {"sin", "cos", "tan", "cot", "sec", "csc"}
_CALLS: Mapping[str, Callable[[complex], complex]] = {
    "sin": cmath.sin, "cos": cmath.cos, "tan": cmath.tan, "ln": cmath.log, "exp": cmath.exp,
    "cot": lambda x: 1 / cmath.tan(x), "sec": lambda x: 1 / cmath.cos(x), "csc": lambda x: 1 / cmath.sin(x),
    "arcsin": cmath.asin, "arccos": cmath.acos, "arctan": cmath.atan,
    "sinh": cmath.sinh, "cosh": cmath.cosh, "tanh": cmath.tanh,
}  # fmt: skip


def value_of(tree: Tree, symbols: Mapping[str, float], percent: Fraction, *, trigonometric: bool = False) -> Number:
    """Return a tree's value where its symbols have these values and a per cent is so much.

    Raises:
        NotANumberError: If a number gets too large, or there is no such value.
    """
    kind, *parts = tree
    if kind == "num":
        return _checked(parts[0])
    if kind == "sym":
        return CONSTANTS[parts[0]] if parts[0] in CONSTANTS else symbols[parts[0]]
    if kind == "call":
        inner = value_of(parts[1], symbols, percent, trigonometric=parts[0] in _TRIGONOMETRIC)
        return _real(_CALLS[parts[0]](complex(inner)))
    values = [value_of(part, symbols, percent, trigonometric=trigonometric) for part in parts]
    if kind == "deg":
        return _checked(values[0] * math.pi / 180) if trigonometric else values[0]
    if kind == "percent":
        return _checked(values[0] * percent)
    return _checked(_OPERATIONS[kind](*values))


def _power(base: Number, exponent: Number) -> Number:
    if isinstance(exponent, complex) or not -_MAX_EXPONENT <= exponent <= _MAX_EXPONENT:
        raise NotANumberError("the exponent is out of range")
    if isinstance(base, Fraction) and isinstance(exponent, Fraction) and exponent.denominator == 1:
        _checked(base, bits=_MAX_BITS // max(1, abs(int(exponent))))
    elif base == 0 and exponent <= 0:
        raise NotANumberError("a power of zero")
    return _real(base**exponent)


def _root(radicand: Number, degree: Number) -> Number:
    if not isinstance(degree, Fraction) or not 0 < degree <= _MAX_EXPONENT:
        raise NotANumberError("not a root")
    if isinstance(radicand, Fraction) and degree.denominator == 1:
        exact = [_whole_root(part, int(degree)) for part in (radicand.numerator, radicand.denominator)]
        if exact[0] is not None and exact[1] is not None:
            return Fraction(exact[0], exact[1])
    return _real(complex(radicand) ** float(1 / degree)) if radicand else radicand


def _whole_root(number: int, degree: int) -> int | None:
    if number < 0:
        odd = _whole_root(-number, degree) if degree % 2 else None
        return None if odd is None else -odd
    if number.bit_length() > 1000:
        raise NotANumberError("the number is too large")
    guess = round(number ** (1 / degree))
    return guess if guess**degree == number else None


def _factorial(number: Number) -> Number:
    if not isinstance(number, Fraction) or number.denominator != 1 or not 0 <= number <= _MAX_FACTORIAL:
        raise NotANumberError("not a factorial")
    return Fraction(math.factorial(int(number)))


_OPERATIONS: Mapping[str, Callable[..., Number]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / b,
    "neg": lambda a: -a,
    "abs": abs,
    "^": _power,
    "root": _root,
    "!": _factorial,
}


def _real(value: Number) -> Number:
    """Drop an imaginary part that is only rounding."""
    if isinstance(value, complex) and abs(value.imag) <= 1e-12 * max(1.0, abs(value.real)):
        return value.real
    return value


def _checked(value: Number, bits: int = _MAX_BITS) -> Number:
    """Refuse numbers that would take long to work with."""
    if isinstance(value, Fraction):
        if max(value.numerator.bit_length(), value.denominator.bit_length()) > bits:
            raise NotANumberError("the number is too large")
    elif not cmath.isfinite(value):
        raise NotANumberError("the number is out of range")
    return value


def symbols_of(tree: Tree) -> set[str]:
    """Return the names of a tree's symbols."""
    if tree[0] == "sym":
        return {tree[1]} - CONSTANTS.keys()
    return {name for part in tree[1:] if isinstance(part, tuple) for name in symbols_of(part)}


def has(tree: Tree, kind: str) -> bool:
    """Tell whether a kind of node is in a tree."""
    return tree[0] == kind or any(has(part, kind) for part in tree[1:] if isinstance(part, tuple))
