"""Coefficients of `backends/emit/src/prelude/functions.h`, by interpolation at Chebyshev's points.

Needs mpmath. Prints each polynomial, its coefficients from the highest power to the lowest, and the largest relative
error of the polynomial itself, coefficients rounded to f64.

    python3 scripts/functions/coefficients.py
"""

from mpmath import chebyfit, cos, erf, erfc, exp, mp, mpf, pi, polyval

mp.dps = 60


def show(name, function, ends, count):
    """A polynomial with `count` coefficients on an interval."""
    coefficients = [mpf(float(c)) for c in chebyfit(function, ends, count)]
    low, high = mpf(ends[0]), mpf(ends[1])
    worst = mpf(0)
    for step in range(2001):
        x = (low + high) / 2 + (high - low) / 2 * cos(pi * step / 2000)
        want = function(x)
        worst = max(worst, abs(polyval(coefficients, x) / want - 1))
    print(f"/* {name}: {mp.nstr(worst, 3)} */")
    print(", ".join(repr(float(c)) for c in coefficients))


def scaled_erfc(t):
    """(1 + 2 y) exp(y^2) erfc(y), where t = (y - 4) / (y + 4)."""
    if t >= 1 - mpf(10) ** -30:
        return 2 / mp.sqrt(pi)
    y = 4 * (1 + t) / (1 - t)
    if y > 1e4:
        # The first terms of the asymptotic series.
        series = 1 - 1 / (2 * y**2) + 3 / (4 * y**4) - 15 / (8 * y**6)
        return (1 + 2 * y) * series / (y * mp.sqrt(pi))
    return (1 + 2 * y) * exp(y * y) * erfc(y)


def erf_over_x(u):
    """erf(x) / x, where u = x^2."""
    return 2 / mp.sqrt(pi) if u == 0 else erf(mp.sqrt(u)) / mp.sqrt(u)


def tanh_over_x(u):
    """tanh(x) / x, where u = x^2."""
    return mpf(1) if u == 0 else mp.tanh(mp.sqrt(u)) / mp.sqrt(u)


def tanh_rest(u):
    """(tanh(x) / x - 1) / x^2, where u = x^2."""
    return -mpf(1) / 3 if u == 0 else (tanh_over_x(u) - 1) / u


def half_exp_rest(r):
    """(exp(2 r) - 1 - 2 r) / (2 r^2)."""
    return mpf(1) if abs(r) < mpf(10) ** -20 else (mp.expm1(2 * r) - 2 * r) / (2 * r * r)


def log_over_s(u):
    """log((1 + s) / (1 - s)) / s, where u = s^2."""
    return mpf(2) if u == 0 else 2 * mp.atanh(mp.sqrt(u)) / mp.sqrt(u)


show("exp on half a logarithm of 2, f64", exp, [-mp.log(2) / 2, mp.log(2) / 2], 13)
show("exp on half a logarithm of 2, f32", exp, [-mp.log(2) / 2, mp.log(2) / 2], 8)
show("scaled erfc, f64", scaled_erfc, [-1, mpf("0.75")], 24)
show("erf(x) / x below 1/2, f64", erf_over_x, [0, mpf("0.25")], 9)
show("scaled erfc to 11, f32", scaled_erfc, [-1, mpf(7) / 15], 13)
show("erf(x) / x below 1/2, f32", erf_over_x, [0, mpf("0.25")], 6)
show("tanh(x) / x below 1/2, f32", tanh_over_x, [0, mpf("0.25")], 7)
show("(tanh(x) / x - 1) / x^2 below 3/4, for f32 alone", tanh_rest, [0, mpf("0.5625")], 6)
# A little wider, as the quotient is rounded in f32.
QUARTER = mp.log(2) / 4 * mpf("1.002")
show("(exp(2 r) - 1 - 2 r) / (2 r^2), for tanh of f32 alone", half_exp_rest, [-QUARTER, QUARTER], 5)
show("log((1 + s) / (1 - s)) / s, f32", log_over_s, [0, ((mp.sqrt(2) - 1) / (mp.sqrt(2) + 1)) ** 2], 5)
