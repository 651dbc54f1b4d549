# ruff: noqa: RUF001 - this module unifies look-alike signs
"""Mathematical expressions: plain and LaTeX notation to a tree, and a tree to its bounded numeric value."""

import cmath
import math
import re
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

MAX_LENGTH = 400
"""Longer texts are not treated as answers."""
DEGREE, UNIT = "°", "¤"

_SIGNS = str.maketrans(
    {
        "×": r"\times ", "÷": r"\div ", "−": "-", "–": "-", "·": r"\cdot ", "π": r"\pi ", "√": r"\sqrt ",
        "∞": r"\infty ", "≤": r"\leq ", "≥": r"\geq ", "≠": r"\neq ",
        "±": r"\pm ", "∪": r"\cup ", "∶": ":", "，": ",", "；": ";",
        "θ": r"\theta ", "α": r"\alpha ", "β": r"\beta ",
        "′": "'", "。": ".", "⁄": "/", "∅": r"\emptyset ",
    }
)  # fmt: skip
_SMALL = re.compile(r"(?P<up>[⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻]+)|(?P<down>[₀₁₂₃₄₅₆₇₈₉]+)|(?P<part>[¼½¾⅐⅑⅒⅓⅔⅕⅖⅗⅘⅙⅚⅛⅜⅝⅞])")
"""Superscripts, subscripts and vulgar fractions: NFKC alone would turn 10⁴ into 104 and 2½ into 21/2."""
_TEXT = r"\\(?:text|mathrm|mbox|textbf|textit|textrm|mathbf|mathit|mathsf|operatorname|rm|bf)\s*\{([^{}]*)\}"
_UNIT_AFTER_NUMBER = re.compile(r"(?:(?<=[\d})])|(?<=\\pi))(?:\\[,;: ]|~|\s)*" + _TEXT + r"(?:\^\{?[23]\}?)?")
_TEXTS = re.compile(_TEXT)
_DRESS = re.compile(
    r"\\(?:left|right|bigl|bigr|big|Big|displaystyle|textstyle|limits)(?![a-zA-Z])"
    r"|(?<!\\)\\[,;:! ]|\\\(|\\\)|\\\[|\\\]|\\?\$|~"
)
_DEGREES = re.compile(r"(?<=\d)\s*degrees?(?![a-zA-Z])|\^\s*\{?\s*\\circ\s*\}?|\\degree(?![a-z])|\\circ(?![a-z])|°")
_UNITS = re.compile(
    r"(?:square|cubic|sq)?\s*(?:[cmkdµn]?m|k?g|mg|k?[jwn]|hz|pa|[vas]|ft|inch(?:es)?|in|miles?|yards?|seconds?|sec|"
    r"minutes?|min|hours?|hrs?|h|days?|weeks?|months?|years?|units?|dollars?|cents?|meters?|metres?|feet|grams?|"
    r"li?t(?:er|re)s?|degrees?|km/h|m/s|mph)\.?"
)
_MEMBER = re.compile(r"^[a-z]\s*\\in(?![a-z])\s*")
_TIMES_TEN = re.compile(r"(?<=\d)\s*x\s*(?=10\s*\^)")
_BOX = re.compile(r"\\(?:boxed|fbox)\s*\{")


def boxed(text: str) -> list[str]:
    r"""Return the contents of each complete ``\boxed{...}``, in order."""
    found = []
    for start in _BOX.finditer(text):
        depth = 1
        for end in range(start.end(), len(text)):
            depth += {"{": 1, "}": -1}.get(text[end], 0)
            if not depth:
                found.append(text[start.end() : end])
                break
    return found


def plain_expression(text: str) -> str:
    r"""Return the last box or the whole text, lower-cased and without LaTeX's layout commands.

    Degrees become ``°``. A unit is dropped (marked ``¤``) if it is set as text, ``5\text{ cm}``, which unlike 5 cm
    cannot be a product of variables.
    """
    inside = boxed(text)
    plain = _SMALL.sub(_full_size, inside[-1] if inside else text).translate(_SIGNS).replace("{,}", ",")
    plain = unicodedata.normalize("NFKC", _DEGREES.sub(DEGREE, plain)).lower()
    plain = _UNIT_AFTER_NUMBER.sub(
        lambda found: UNIT + found[1].strip() + UNIT if _UNITS.fullmatch(found[1].strip()) else found[0], plain
    )
    plain = _TIMES_TEN.sub(r"\\times ", plain)
    plain = _DRESS.sub(" ", _TEXTS.sub(r" \1 ", plain))
    plain = _MEMBER.sub("", " ".join(plain.split()).replace(r"\varnothing", r"\emptyset"))
    return plain.rstrip(".") if not plain.endswith("...") else plain


def _full_size(found: re.Match[str]) -> str:
    plain = unicodedata.normalize("NFKC", found[0])
    if found["part"]:
        return r"\frac{{{}}}{{{}}}".format(*plain.split("⁄"))
    return ("^" if found["up"] else "_") + "{" + plain.replace("−", "-") + "}"


def without_units(plain: str) -> tuple[str, str]:
    """Return an expression without its marked units, and the units."""
    parts = plain.split(UNIT)
    return "".join(parts[::2]).strip(), " ".join(parts[1::2])


# A tree is a tuple: ("num", Fraction), ("sym", name), (operator, tree, tree), ("call", name, tree), ("deg" |
# "percent" | "neg" | "!" | "abs", tree). Numbers may have thousands separators; adjacent factors are multiplied.

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
_POSTFIXES = {"!": "!", "%": "percent", DEGREE: "deg"}
_CLOSING = {"(": ")", "{": "}", "[": "]"}
_TWO, _TEN = ("num", Fraction(2)), ("num", Fraction(10))


class NotANumberError(ValueError):
    """The text is not an expression, or too large to evaluate."""


def parse(text: str) -> Tree:
    """Parse an expression; `NotANumberError` if the text is not one, or larger than an answer needs."""
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

    tokens: list[str]
    depth: int = 1
    in_bars: bool = False

    def sum(self) -> Tree:
        tree = self.product()
        while self._next() in {"+", "-"}:
            operator = self.tokens.pop()
            tree = (operator, tree, self.product())
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
        """Whether "1/2" follows, as in 1 1/2; two bare numbers are not a product."""
        ahead = self.tokens[-3:][::-1]
        return len(ahead) == 3 and ahead[0].isdigit() and ahead[1] == "/" and ahead[2].isdigit()

    def _mixed(self, whole: Tree) -> Tree | None:
        """Read the fraction of a mixed number, 1 1/2; None if there is none."""
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
        return ("^", base, self._nested(self.signed))

    def postfixed(self) -> Tree:
        tree = self.atom()
        while self._next() in _POSTFIXES:
            tree = (_POSTFIXES[self.tokens.pop()], tree)
        return tree

    def atom(self) -> Tree:
        word = self.tokens.pop() if self.tokens else ""
        tree: Tree
        if word in _CLOSING:
            before, self.in_bars = self.in_bars, False
            tree = self._nested(self.sum)
            self.in_bars = before
            self._expect(_CLOSING[word])
        elif word == "|":
            tree = self._bars()
        elif word == r"\frac":
            tree = ("/", self._argument(), self._argument())
        elif word == r"\sqrt":
            degree = self.atom() if self._next() == "[" else _TWO
            tree = ("root", self._argument() if self._next() == r"\sqrt" else self.postfixed(), degree)
        elif word[1:] in _FUNCTIONS and word[:1] == "\\":
            tree = self._call(word[1:])
        elif word[:1].isdigit() or word[:1] == ".":
            tree = ("num", Fraction(word.replace(",", "").rstrip(".")))
        elif word[:1].isalpha() or (word[:1] == "\\" and word[1:].isalpha()):
            tree = ("sym", word + self._subscript())
        else:
            raise NotANumberError(f"{word!r} is not a number")
        return tree

    def _argument(self) -> Tree:
        r"""Read an argument of \frac: a group, or a single digit as in \frac12."""
        token = self._next()
        if token.isdigit() and len(token) > 1:
            self.tokens[-1:] = [token[1:], token[0]]
        return self._nested(self.atom)

    def _call(self, name: str) -> Tree:
        base: Tree | None = _TEN if name == "lg" else None
        power: Tree | None = None
        while self._next() in {"_", "^"}:
            if self.tokens.pop() == "_":
                base = self._argument()
            else:
                power = self._argument()
        tree: Tree = ("call", "ln" if name in {"log", "lg"} else name, self._nested(self.power))
        if name in {"log", "lg"}:
            tree = ("/", tree, ("call", "ln", base or _TEN))
        return ("^", tree, power) if power else tree

    def _bars(self) -> Tree:
        if self.in_bars:
            raise NotANumberError("bars within bars")
        self.in_bars = True
        tree = ("abs", self._nested(self.sum))
        self.in_bars = False
        self._expect("|")
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

    def _nested(self, read: Callable[[], Tree]) -> Tree:
        self.depth += 1
        if self.depth > _MAX_DEPTH:
            raise NotANumberError("the expression is nested too deeply")
        tree = read()
        self.depth -= 1
        return tree

    def _next(self) -> str:
        return self.tokens[-1] if self.tokens else ""

    def _expect(self, closing: str) -> None:
        if not self.tokens or self.tokens.pop() != closing:
            raise NotANumberError(f"{closing!r} is missing")


# Values are exact for rationals, within bounds that real answers never reach.
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
    """Evaluate a tree, given its symbols and one per cent; `NotANumberError` for too large or undefined values."""
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
    """Reject numbers that would be slow to compute with."""
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
    """Whether a tree contains a kind of node."""
    return tree[0] == kind or any(has(part, kind) for part in tree[1:] if isinstance(part, tuple))
