# ruff: noqa: RUF001 - models write signs that look alike
r"""Pairs of answers that say the same, and pairs that do not: one symbolic equality for every mathematical scorer."""

import time

import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st

from eyechart.metrics.math_answers import math_equal

SAME = r"""
\boxed{42} | 42
The answer is \boxed{42}. | 42
\boxed{\frac{1}{2}} | 0.5
$\boxed{7}$ | 7
first \boxed{3}, then \boxed{4} | 4
\fbox{9} | 9
45^\circ | 45
45^{\circ} | 45
45° | 45
45\degree | 45
30^\circ | 30^{\circ}
\sin 30^\circ | 1/2
\cos{60^{\circ}} | 0.5
\tan 45^\circ | 1
50\% | 50
50\% | 0.5
50% | 50\%
12.5\% | 1/8
0.5\% | 0.005
\text{B} | B
\text{B} | b
\mathrm{C} | C
\textbf{D} | d
(\text{B}) | B
(B) | B
\mathbf{A} | a
\text{yes} | Yes
3:2 | 3/2
3:2 | 1.5
3:2 | 6:4
3 : 2 | 3:2
1:2:3 | 2:4:6
\sqrt{2}:1 | \sqrt 2
3\colon 2 | 3:2
\sqrt{4} | 2
\sqrt4 | 2
sqrt(4) | 2
\sqrt{12} | 2\sqrt{3}
\sqrt[3]{27} | 3
\sqrt{\frac{1}{4}} | 1/2
\sqrt{8} | 2 \sqrt 2
\frac{\sqrt{2}}{2} | \frac{1}{\sqrt{2}}
√16 | 4
x=5 | 5
x = 5 | 5
5 | x=5
5 = x | x=5
x=\frac{1}{2} | 0.5
x = 2+3 = 5 | 5
y = 2x + 1 | y=1+2x
y = 2x+1 | 2x - y + 1 = 0
f(x)=x^2 | x^2
x+y=3 | 2x+2y=6
x_1 = 3 | 3
\theta = 30^\circ | 30
S_{n} = n(n+1)/2 | \frac{n^2+n}{2}
x+1 | 1+x
x^2 | x*x
3xy | 3yx
2xy | 2yx
2ab | 2*a*b
(x+1)^2 | x^2+2x+1
(x-1)(x+1) | x^2-1
\frac{x^2-1}{x-1} | x+1
a(b+c) | ab+ac
-x+3 | 3-x
\frac{a}{b} | a/b
\frac{1}{x}+\frac{1}{y} | \frac{x+y}{xy}
x^{-1} | 1/x
\sqrt{x^2+2x+1} | x+1
e^{2x} | (e^x)^2
\ln(ab) | \ln a+\ln b
\log_2 8 | 3
\log_{10}{100} | 2
\log 1000 | 3
\lg 100 | 2
\ln(e) | \ln e
\sin^2 x+\cos^2 x | 1+x-x
\sin(2x) | 2\sin x\cos x
2\sin{x}\cos{x} | \sin{2x}
\tan x | \frac{\sin x}{\cos x}
\exp(0) | 1
|x-1| | |1-x|
|-3| | 3
\left|-3\right| | 3
5! | 120
\frac{5!}{3!} | 20
1/2 | 0.5
\frac12 | 0.5
\frac1{2} | 0.5
\dfrac{1}{2} | \tfrac{1}{2}
\cfrac{3}{4} | .75
1\frac{1}{2} | 1.5
2\frac{3}{4} | 11/4
1 1/2 | 3/2
½ | 0.5
14.0 | 14
014 | 14
+5 | 5
-5 | -5.0
−5 | -5
.5 | 0.5
5. | 5
1,000 | 1000
1,234,567 | 1234567
1,000.50 | 1000.5
$1,000 | 1000
\$5 | 5
1e3 | 1000
3\times10^8 | 300000000
3 \times 10^{8} | 3e8
3·10^2 | 300
6.02 \cdot 10^{3} | 6020
2^{10} | 1024
2^10 | 1024
2**10 | 1024
-2^2 | -4
(-2)^2 | 4
(-8)^{1/1} | -8
2^{-1} | 0.5
4^{1/2} | 2
x² | x^2
m^3 | m³
2\pi | 6.283185307
2π | 2\pi
\pi r^2 | r^2 \pi
\frac{4}{3}\pi r^3 | \frac{4\pi r^3}{3}
\frac{\pi}{2} | \pi/2
12\pi | 12 \pi
36π | 36\pi
\left(1+1\right) | 2
\left( \frac{1}{2} \right) | 1/2
\{1,2\} | \{2,1\}
\{1, 2, 3\} | \{3, 2, 1\}
{1,2} | \{2, 1\}
(1,2) | (1, 2)
(1,2) | ( 1.0 , 4/2 )
\left(1,2\right) | (1,2)
(\frac{1}{2}, 3) | (0.5, 3)
[1,2] | [1, 2]
[0, \infty) | [0,\infty)
(-\infty, 2) \cup (3, \infty) | (-\infty,2)\cup(3,\infty)
(-∞, 2) | (-\infty, 2)
1, 2 | 2, 1
1 and 2 | 2, 1
x=1 or x=2 | x=2 or x=1
1 \text{ or } 2 | 1, 2
1;2 | 1,2
\pm 2 | 2, -2
3 \pm \sqrt{2} | 3+\sqrt{2}, 3-\sqrt{2}
±1 | -1, 1
x>5 | 5<x
x \geq 5 | 5 \leq x
x ≥ 5 | x \ge 5
2x > 10 | x > 5
x<3 | 3>x
5\text{ cm} | 5
5 \text{cm} | 5
5\,\mathrm{cm} | 5
12\text{ cm}^2 | 12
25 \text{ square units} | 25
60\text{ km/h} | 60
5\text{ cm} | 5\text{cm}
３ | 3
１２．５ | 12.5
\displaystyle\frac{1}{2} | 0.5
\( 7 \) | 7
\[ 7 \] | 7
7. | 7
$7$ | 7
$$7$$ | 7
0.333333333 | 1/3
\frac{1}{3} | 0.33333333
1.41421356 | \sqrt{2}
\sqrt{2}+\sqrt{3} | \sqrt{3}+\sqrt{2}
\frac{1+\sqrt{5}}{2} | \frac{\sqrt{5}+1}{2}
10^300*10^200/10^500 | 1
\frac{2}{4} | \frac{1}{2}
\frac{-1}{2} | -\frac{1}{2}
\frac{1}{-2} | -0.5
a^2b | b a^2
3x^2y | 3yx^2
x_{1}+x_{2} | x_2+x_1
\alpha+\beta | \beta+\alpha
n! | n!
100\% | 1
-\frac{3}{2} | -1.5
2(3+4) | 14
(2)(3) | 6
2 \div 4 | 0.5
2÷4 | 1/2
2×3 | 6
2½ | 2.5
½ | 0.5
2⅓ | 7/3
10⁴ | 10000
3×10⁻² | 0.03
x² + 1 | x^2+1
x₁ = 3 | 3
1⁄2 | 0.5
1{,}000 | 1000
45 degrees | 45
45 degrees | 45^\circ
10\pi\text{ cm}^2 | 10\pi
1.2 x 10^3 | 1200
1<x<3 | 1 < x < 3
1 < x \le 3 | 3 \ge x > 1
\frac{1}{2}<x<3 | 0.5 < x < 3
\begin{pmatrix}1&2\\3&4\end{pmatrix} | \begin{pmatrix} 1 & 2 \\ 3 & 4 \end{pmatrix}
\ln e | 1
\ln(e^2) | 2
e^x | e^{x}
$x \in [0, 1]$ | [0,1]
x\in\{1,2\} | \{2,1\}
\angle ABC = 30^\circ | 30
m\angle A = 30 | 30
∅ | \varnothing
"""
OTHER = r"""
\boxed{42} | 43
\boxed{4}2 | 42
45^\circ | 46
45^\circ | 0.785398
50\% | 5
50\% | 5000
50\% | 0.05
50\% | 5000\%
\text{B} | C
\text{B} | AB
(B) | (C)
3:2 | 2:3
3:2 | 32
1:2:3 | 1:2
1:2:3 | 3:2:1
3:2 | 3
\sqrt{4} | 4
\sqrt{4} | -2
\sqrt{2} | 1.414
\sqrt{-4} | 2
x=5 | 6
x=5 | y=5
x=5 | x>5
x=5 | x=-5
x+y=3 | x+y=4
x+y=3 | x-y=3
x>5 | x<5
x>5 | x \geq 5
-x > 5 | x > 5
x+1 | x-1
x+1 | y+1
x | 1
x^2 | 2x
xy | x+y
x^y | y^x
(x+1)^2 | x^2+1
\sqrt{x^2+1} | x+1
\sin x | \cos x
\sin(2x) | 2\sin x
\ln(a+b) | \ln a+\ln b
\frac{a}{b} | \frac{b}{a}
\log_2 8 | 8
\log_2 x | \log_3 x
1/2 | 1/3
0.333 | 1/3
3.1415 | pi
22/7 | \pi
1\frac{1}{2} | 1/2
1 2 | 12
12 | 1,2
1,000 | 1
1,00 | 100
0.0000001 | 0.0000002
0 | 0.0001
100000000000000001 | 100000000000000000
2^{10} | 20
2^3^2 | 64
-2^2 | 4
10^3 | 10^4
3\times10^8 | 3\times10^7
5! | 5
(1,2) | (2,1)
(1,2) | [1,2]
(1,2) | \{1,2\}
(1,2) | (1,2,3)
[0,1) | [0,1]
\{1,2\} | \{1,3\}
\{1,2\} | \{1,1\}
1, 2 | 1
1, 2 | 1, 2, 3
1, 1 | 1, 2
\pm 2 | 2
\pm 2 | 3, -3
(-\infty,2) | (2,\infty)
5\text{ cm} | 5\text{ km}
5 cm | 5
5\text{ cats} | 5
cat | act
on | no
yes | no
stop | pots
1/0 | 1
1/0 | 1/0+1
0/0 | 0
() | 0
(1 | 1
1) | 1
\frac{1} | 1
\sqrt | 1
\boxed{ | 1
 | 0
- | 0
+ | +1
= | 0
x= | 0
=5 = | 5
9^9^9^9 | 1
9^{9^{9^9}} | 0
(-1)^0.5 | 1
x | X Y
__import__('os').system('touch evaluated') | 0
().__class__ | 1
2½ | 1
2⅓ | 7
10⁴ | 104
1 1/2 | 11/2
1<x<3 | 1<=x<3
1<x<3 | 1<x<4
1<x<3 | 3<x<1
e | E5
e | a
e | 2.7
1 2 | 12
1<x>3 | 3>x<1
45 degrees | 54
lambda: 0 | 0
"""


def _pairs(text):
    return [tuple(part.strip() for part in line.split(" | ")) for line in text.strip("\n").split("\n") if line]


@pytest.mark.parametrize(("answer", "target"), _pairs(SAME), ids=lambda text: text)
def test_say_the_same(answer, target):
    assert math_equal(answer, target)
    assert math_equal(target, answer)


@pytest.mark.parametrize(("answer", "target"), _pairs(OTHER), ids=lambda text: text)
def test_say_something_else(answer, target, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    assert not math_equal(answer, target)
    assert not math_equal(target, answer)
    assert not list(tmp_path.iterdir())


def test_there_are_over_two_hundred_pairs():
    assert len({*_pairs(SAME), *_pairs(OTHER)}) > 200


_SYMBOLS = sympy.symbols("x y a", positive=True)
_atoms = st.sampled_from([*_SYMBOLS, *map(sympy.Integer, range(1, 8)), sympy.pi, sympy.sqrt(2)])
_trees = st.recursive(
    _atoms,
    lambda inner: (
        st.builds(lambda f, a, b: f(a, b), st.sampled_from([sympy.Add, sympy.Mul]), inner, inner)
        | st.builds(lambda a, n: a**n, inner, st.sampled_from([2, 3, -1, sympy.Rational(1, 2)]))
    ),
    max_leaves=6,
)


@given(_trees)
@settings(deadline=None, max_examples=60)
def test_agrees_with_sympy_about_other_forms_of_an_expression(expression):
    shown = sympy.latex(expression)

    assert math_equal(shown, sympy.latex(sympy.expand(expression)))
    assert math_equal(shown, sympy.latex(sympy.together(expression)))
    assert not math_equal(shown, sympy.latex(2 * expression))


@pytest.mark.parametrize(
    "hostile",
    [
        r"\frac{" * 500 + "1" + "}{1}" * 500,
        "(" * 5000 + "1" + ")" * 5000,
        "|" * 300,
        "^".join("9" * 60),
        "x^{" * 90 + "2" + "}" * 90,
        "9" * 3000,
        "9!" * 60,
        "((((((999!)!)!)!)!)!)",
        "1,2" * 1000,
        ";".join("x+1" for _ in range(90)),
        r"\boxed{" * 2000,
        r"\sqrt[999999]{" + "9" * 300 + "}",
        "*".join("(x+y)^99" for _ in range(40)),
        "1e999",
        "10^512*10^512",
        r"\text{" * 1000,
        "1 " * 2000,
    ],
    ids=lambda text: text[:12],
)
def test_hostile_answers_take_no_time(hostile):
    started = time.process_time()

    assert not math_equal(hostile, "7")
    assert not math_equal(hostile, hostile + "+1")

    assert time.process_time() - started < 0.5
