//! The logarithm of the gamma function and its derivatives, in f64: asymptotic series behind a shift of the argument, and the
//! reflection formula below one half (NIST Digital Library of Mathematical Functions, 5.5, 5.11 and 5.15).

use crate::aten::call::{Call, Row};
use crate::builder::V;
use crate::operators::activation::{binary, like, plus, scaled, select, with_number};
use crate::operators::elementwise::convert;
use crate::reason::{Done, unsupported};
use relax_syntax::dtype::DType;
use std::f64::consts::PI;

pub(super) const ROWS: &[(&str, Row)] = &[
    ("lgamma", |call| elementwise(call, log_gamma)),
    ("special_gammaln", |call| elementwise(call, log_gamma)),
    ("digamma", |call| elementwise(call, |call, x| polygamma(call, x, 0))),
    ("special_digamma", |call| elementwise(call, |call, x| polygamma(call, x, 0))),
    ("polygamma", |call| {
        let order = call.int("n")?;
        if !(0..=MOST).contains(&order) {
            return unsupported(format!("a derivative of the order {order}"));
        }
        elementwise(call, |call, x| polygamma(call, x, order))
    }),
];

/// The highest derivative. Series of higher ones need a greater shift.
const MOST: i64 = 20;
/// Arguments below it are shifted by it, in steps of 1.
const SHIFT: i64 = 16;
/// Bernoulli numbers from the second one on, those that are not 0.
const BERNOULLI: [f64; 8] = [
    1.0 / 6.0,
    -1.0 / 30.0,
    1.0 / 42.0,
    -1.0 / 30.0,
    5.0 / 66.0,
    -691.0 / 2730.0,
    7.0 / 6.0,
    -3617.0 / 510.0,
];

fn elementwise(call: &mut Call, compute: impl Fn(&mut Call, V) -> Done<V>) -> Done<Vec<V>> {
    let x = call.floating("self")?;
    let dtype = call.dtype(x);
    let wide = convert(call, x, DType::F64)?;
    let result = compute(call, wide)?;
    Ok(vec![convert(call, result, dtype)?])
}

fn one(call: &mut Call, operator: &str, x: V) -> Done<V> {
    call.call(operator, &[x.into()])
}

/// `number / x`
fn quotient(call: &mut Call, number: f64, x: V) -> Done<V> {
    let number = like(call, x, number);
    call.call("divide", &[number, x.into()])
}

/// The argument behind the reflection, whether there is one, and the argument less the nearest integer.
struct Reflected {
    x: V,
    is_reflected: V,
    rest: V,
}

fn reflected(call: &mut Call, x: V) -> Done<Reflected> {
    let is_reflected = with_number(call, "less", x, 0.5)?;
    let negative = one(call, "negative", x)?;
    let other = plus(call, negative, 1.0)?;
    let nearest = one(call, "round", x)?;
    let rest = binary(call, "subtract", x, nearest)?;
    Ok(Reflected { x: select(call, is_reflected, other, x)?, is_reflected, rest })
}

/// The argument as far out as the series need it, whether it was shifted, and the bounded arguments on the way there.
fn shifted(call: &mut Call, x: V) -> Done<(V, V, Vec<V>)> {
    let is_near = with_number(call, "less", x, SHIFT as f64)?;
    let far = plus(call, x, SHIFT as f64)?;
    let far = select(call, is_near, far, x)?;
    let bounded = with_number(call, "minimum", x, SHIFT as f64)?;
    let way = (0..SHIFT).map(|step| plus(call, bounded, step as f64));
    let way = way.collect::<Done<Vec<V>>>()?;
    Ok((far, is_near, way))
}

/// `sum(c[k] / x ** (2 k))` for k from 0 on.
fn series(call: &mut Call, x: V, coefficients: &[f64]) -> Done<V> {
    let square = one(call, "square", x)?;
    let inverse = quotient(call, 1.0, square)?;
    let mut sum = scaled(call, inverse, coefficients[coefficients.len() - 1])?;
    for (place, &coefficient) in coefficients.iter().enumerate().rev().skip(1) {
        sum = plus(call, sum, coefficient)?;
        if place > 0 {
            sum = binary(call, "multiply", sum, inverse)?;
        }
    }
    Ok(sum)
}

/// `log(abs(gamma(x)))`; infinity at the poles and of infinities.
fn log_gamma(call: &mut Call, x: V) -> Done<V> {
    let Reflected { x: right, is_reflected, rest } = reflected(call, x)?;
    let (far, is_near, way) = shifted(call, right)?;
    // Stirling's series: (z - 1/2) (log z - 1) + (log(2 pi) - 1) / 2 + sum of B[2k] / (2k (2k - 1) z ** (2k - 1)).
    let coefficients: Vec<f64> = (1..).zip(BERNOULLI).map(stirling).collect();
    let tail = series(call, far, &coefficients)?;
    let tail = binary(call, "divide", tail, far)?;
    let log = one(call, "log", far)?;
    let log = plus(call, log, -1.0)?;
    let factor = plus(call, far, -0.5)?;
    let main = binary(call, "multiply", factor, log)?;
    let main = plus(call, main, 0.5 * ((2.0 * PI).ln() - 1.0))?;
    let main = binary(call, "add", main, tail)?;
    let mut product = way[0];
    for &step in &way[1..] {
        product = binary(call, "multiply", product, step)?;
    }
    let product = one(call, "log", product)?;
    let less = binary(call, "subtract", main, product)?;
    let right = select(call, is_near, less, main)?;
    // gamma(x) gamma(1 - x) = pi / sin(pi x)
    let angle = scaled(call, rest, PI)?;
    let sine = one(call, "sin", angle)?;
    let sine = one(call, "abs", sine)?;
    let left = quotient(call, PI, sine)?;
    let left = one(call, "log", left)?;
    let left = binary(call, "subtract", left, right)?;
    let result = select(call, is_reflected, left, right)?;
    let is_infinite = one(call, "isinf", x)?;
    let infinite = one(call, "abs", x)?;
    select(call, is_infinite, infinite, result)
}

fn stirling((k, bernoulli): (u32, f64)) -> f64 {
    let even = f64::from(2 * k);
    bernoulli / (even * (even - 1.0))
}

fn factorial(n: i64) -> f64 {
    (1..=n).map(|factor| factor as f64).product()
}

/// The derivative of that order of `digamma`, the derivative of `log(gamma(x))`.
fn polygamma(call: &mut Call, x: V, order: i64) -> Done<V> {
    let Reflected { x: right, is_reflected, rest } = reflected(call, x)?;
    let (far, is_near, way) = shifted(call, right)?;
    let main = asymptotic(call, far, order)?;
    let sign = if order % 2 == 0 { 1.0 } else { -1.0 };
    let mut steps = None;
    for step in way {
        let power = powers(call, step, order + 1)?;
        let term = quotient(call, sign * factorial(order), power)?;
        steps = Some(match steps {
            None => term,
            Some(so_far) => binary(call, "add", so_far, term)?,
        });
    }
    let Some(steps) = steps else { return Ok(main) };
    let less = binary(call, "subtract", main, steps)?;
    let right = select(call, is_near, less, main)?;
    // psi(x) = (-1)**n psi(1 - x) - pi * the derivative of cot(pi x)
    let slope = cotangent_derivative(call, rest, order)?;
    let slope = scaled(call, slope, PI)?;
    let mirrored = scaled(call, right, sign)?;
    let left = binary(call, "subtract", mirrored, slope)?;
    let result = select(call, is_reflected, left, right)?;
    if order > 0 {
        return Ok(result);
    }
    // A pole has both signs of infinity around it: that of 0 decides there, and none elsewhere.
    let zero = with_number(call, "equal", x, 0.0)?;
    let at_zero = quotient(call, -1.0, x)?;
    let is_whole = with_number(call, "equal", rest, 0.0)?;
    let is_pole = binary(call, "logical_and", is_whole, is_reflected)?;
    let nothing = scaled(call, x, f64::NAN)?;
    let at_pole = select(call, zero, at_zero, nothing)?;
    select(call, is_pole, at_pole, result)
}

/// `x ** n` for n from 1 on.
fn powers(call: &mut Call, x: V, n: i64) -> Done<V> {
    if n == 1 { Ok(x) } else { with_number(call, "power", x, n as f64) }
}

/// Of large x. Of order 0: `log x - 1 / (2 x) - sum(B[2k] / (2k x ** 2k))`; its derivatives else.
fn asymptotic(call: &mut Call, x: V, order: i64) -> Done<V> {
    let term = |(k, bernoulli): (i64, f64)| {
        let even = 2 * k;
        bernoulli * factorial(even + order - 1) / factorial(even)
    };
    let coefficients: Vec<f64> = (1..).zip(BERNOULLI).map(term).collect();
    let tail = series(call, x, &coefficients)?;
    let square = one(call, "square", x)?;
    let tail = binary(call, "divide", tail, square)?;
    let half = quotient(call, 0.5 * factorial(order), x)?;
    let rest = binary(call, "add", half, tail)?;
    if order == 0 {
        let log = one(call, "log", x)?;
        return binary(call, "subtract", log, rest);
    }
    // All terms by 1 / x ** n.
    let sum = plus(call, rest, factorial(order - 1))?;
    let power = powers(call, x, order)?;
    let result = binary(call, "divide", sum, power)?;
    scaled(call, result, if order % 2 == 0 { -1.0 } else { 1.0 })
}

/// The derivative of that order of `cot(pi x)`: a polynomial of the cotangent c, since its derivative is `-pi (1 + c ** 2)`.
fn cotangent_derivative(call: &mut Call, rest: V, order: i64) -> Done<V> {
    let mut polynomial = vec![0.0, 1.0];
    for _ in 0..order {
        let mut next = vec![0.0; polynomial.len() + 1];
        for (power, factor) in polynomial.iter().enumerate().skip(1) {
            let slope = -PI * power as f64 * factor;
            next[power - 1] += slope;
            next[power + 1] += slope;
        }
        polynomial = next;
    }
    let angle = scaled(call, rest, PI)?;
    let (sine, cosine) = (one(call, "sin", angle)?, one(call, "cos", angle)?);
    let cotangent = binary(call, "divide", cosine, sine)?;
    let mut sum = scaled(call, cotangent, polynomial[polynomial.len() - 1])?;
    for (power, &factor) in polynomial.iter().enumerate().rev().skip(1) {
        if factor != 0.0 {
            sum = plus(call, sum, factor)?;
        }
        if power > 0 {
            sum = binary(call, "multiply", sum, cotangent)?;
        }
    }
    Ok(sum)
}
