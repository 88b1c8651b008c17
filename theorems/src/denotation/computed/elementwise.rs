//! Functions of single elements, where their name is not all that is to say.

use super::Op;
use crate::denotation::program::{applied, cast, float, integer};
use crate::denotation::term::{Domain, Known, Term, Test};
use relax_syntax::dim::Dim;
use relax_syntax::dtype::{Class, DType};
use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_PI, LN_2};

/// A value with its dtype, so that formulas read as such.
#[derive(Clone)]
pub(super) struct Number {
    pub(super) term: Term,
    pub(super) dtype: DType,
}

impl Number {
    pub(super) fn new(term: Term, dtype: DType) -> Self {
        Self { term, dtype }
    }

    pub(super) fn to(&self, dtype: DType) -> Self {
        Self::new(cast(self.term.clone(), self.dtype, dtype), dtype)
    }

    pub(super) fn wide(&self) -> Self {
        self.to(DType::F64)
    }

    pub(super) fn call(&self, name: &str) -> Self {
        Self::new(applied(self.dtype, name, vec![self.term.clone()]), self.dtype)
    }

    pub(super) fn with(&self, name: &str, other: &Number) -> Self {
        let args = vec![self.term.clone(), other.term.clone()];
        Self::new(applied(self.dtype, name, args), self.dtype)
    }

    pub(super) fn number(&self, value: f64) -> Self {
        let term = if self.dtype.is_float() {
            float(value, self.dtype)
        } else {
            integer(value as i64, self.dtype)
        };
        Self::new(term, self.dtype)
    }

    pub(super) fn add(&self, other: &Number) -> Self {
        self.with("add", other)
    }

    pub(super) fn sub(&self, other: &Number) -> Self {
        self.with("subtract", other)
    }

    pub(super) fn mul(&self, other: &Number) -> Self {
        self.with("multiply", other)
    }

    pub(super) fn div(&self, other: &Number) -> Self {
        self.with("divide", other)
    }

    pub(super) fn neg(&self) -> Self {
        self.call("negative")
    }

    /// A comparison.
    pub(super) fn is(&self, name: &str, other: &Number) -> Term {
        applied(self.dtype, name, vec![self.term.clone(), other.term.clone()])
    }

    pub(super) fn is_number(&self, name: &str, value: f64) -> Term {
        self.is(name, &self.number(value))
    }
}

fn truth(name: &str, args: Vec<Term>) -> Term {
    applied(DType::Bool, name, args)
}

pub(super) fn select(condition: Term, then: &Number, otherwise: &Number) -> Number {
    let test = Test::Element(Box::new(condition));
    let term = Term::If(test, Box::new(then.term.clone()), Box::new(otherwise.term.clone()));
    Number::new(term, then.dtype)
}

pub(super) fn element(op: &mut Op, _: usize, at: &[Dim]) -> Option<Known<Term>> {
    let out = op.results.first()?.clone();
    let tensors: Vec<_> = op.tensors.iter().map(|(_, tensor)| tensor.clone()).collect();
    let is_known = ELEMENTWISE.contains(&op.name) && op.tensors.len() <= 2;
    if !is_known || tensors.is_empty() {
        return None;
    }
    let mut args = Vec::new();
    for tensor in &tensors {
        args.push(Number::new(op.stretched(tensor, &out.0, at)?, tensor.dtype));
    }
    let x = args.first()?.clone();
    let value = match args.as_slice() {
        [_] => unary(op, &x)?,
        [_, y] => binary(op.name, &x, y)?,
        _ => return None,
    };
    Some(Ok(value))
}

/// The rows that are told here.
const ELEMENTWISE: &[&str] = &[
    "sign",
    "isnan",
    "isinf",
    "isfinite",
    "logical_not",
    "bitwise_not",
    "abs",
    "astype",
    "clip",
    "nn.relu",
    "nn.leakyrelu",
    "nn.gelu",
    "nn.gelu_tanh",
    "nn.silu",
    "nn.selu",
    "nn.softplus",
    "maximum",
    "minimum",
    "less",
    "less_equal",
    "greater",
    "greater_equal",
    "logical_and",
    "logical_or",
    "logical_xor",
    "divide",
    "mod",
    "log_add_exp",
];

fn unary(op: &Op, x: &Number) -> Option<Term> {
    let float = x.dtype.is_float();
    let bool_of = |value: bool| Term::Number(Domain::Bits, f64::from(u8::from(value)));
    Some(match op.name {
        "sign" => sign(x).term,
        "isnan" if float => x.is("not_equal", x),
        "isfinite" if float => x.sub(x).is_number("equal", 0.0),
        "isinf" if float => {
            let finite = x.sub(x).is_number("not_equal", 0.0);
            truth("logical_and", vec![x.is("equal", x), finite])
        }
        "isnan" | "isinf" => bool_of(false),
        "isfinite" => bool_of(true),
        "logical_not" | "bitwise_not" if x.dtype == DType::Bool => {
            truth("logical_not", vec![x.term.clone()])
        }
        "logical_not" => x.is_number("equal", 0.0),
        "bitwise_not" => x.call("bitwise_not").term,
        "abs" if x.dtype.class() == Class::Unsigned => x.term.clone(),
        "abs" => x.call("abs").term,
        "astype" => x.to(op.results[0].1).term,
        "clip" => clip(x, op.float("min")?, op.float("max")?)?,
        "nn.relu" if x.dtype == DType::Bool => x.term.clone(),
        "nn.relu" if float => x.number(0.0).with("greater or first", x).term,
        "nn.relu" => x.number(0.0).with("maximum", x).term,
        _ => activation(op, &x.wide())?.to(x.dtype).term,
    })
}

fn sign(x: &Number) -> Number {
    let (zero, one) = (x.number(0.0), x.number(1.0));
    let minus = x.number(-1.0);
    let below = match x.dtype.class() {
        Class::Float => {
            select(x.is("less", &zero), &minus, &select(x.is("equal", &zero), &zero, x))
        }
        Class::Signed => select(x.is("less", &zero), &minus, &zero),
        _ => zero.clone(),
    };
    select(x.is("greater", &zero), &one, &below)
}

/// Bounds are of f64, and rounded last; of integers they are integers.
fn clip(x: &Number, low: f64, high: f64) -> Option<Term> {
    if x.dtype.is_float() {
        let wide = x.wide();
        let below = wide.with("minimum", &wide.number(high));
        return Some(below.with("maximum", &wide.number(low)).to(x.dtype).term);
    }
    let exact = |value: f64| value.trunc() == value && value.abs() <= 2f64.powi(53);
    if !exact(low) || !exact(high) {
        return None;
    }
    Some(x.with("minimum", &x.number(high)).with("maximum", &x.number(low)).term)
}

/// Computed in f64 and rounded once.
fn activation(op: &Op, x: &Number) -> Option<Number> {
    let number = |value| x.number(value);
    Some(match op.name {
        "nn.leakyrelu" => {
            let slope = number(op.float("alpha")?);
            select(x.is_number("greater", 0.0), x, &slope.mul(x))
        }
        "nn.gelu" => {
            let tail = x.neg().mul(&number(FRAC_1_SQRT_2)).call("erfc");
            x.mul(&number(0.5).mul(&tail))
        }
        "nn.gelu_tanh" => {
            let cubic = number(0.044_715).mul(x).mul(x).mul(x);
            let inner = number(FRAC_2_PI.sqrt()).mul(&x.add(&cubic));
            x.mul(&number(2.0).mul(&inner).call("sigmoid"))
        }
        "nn.silu" => x.mul(&x.call("sigmoid")),
        "nn.selu" => {
            const ALPHA: f64 = 1.673_263_242_354_377_2;
            const SCALE: f64 = 1.050_700_987_355_480_5;
            let negative = number(SCALE * ALPHA).mul(&x.call("expm1"));
            select(x.is_number("greater", 0.0), &number(SCALE).mul(x), &negative)
        }
        "nn.softplus" => {
            let beta = op.float("beta")?;
            let scaled = number(beta).mul(x);
            let beyond = scaled.call("abs").neg().call("exp").call("log1p");
            let soft = scaled.with("maximum", &number(0.0)).add(&beyond);
            let threshold = op.float("threshold")?;
            select(scaled.is_number("greater", threshold), x, &soft.div(&number(beta)))
        }
        _ => return None,
    })
}

fn binary(name: &str, a: &Number, b: &Number) -> Option<Term> {
    let dtype = a.dtype;
    let is_true = |x: &Number| match dtype {
        DType::Bool => x.term.clone(),
        _ => x.is_number("not_equal", 0.0),
    };
    Some(match name {
        "maximum" | "minimum" if dtype == DType::Bool => {
            let name = if name == "maximum" { "bitwise_or" } else { "bitwise_and" };
            truth(name, vec![a.term.clone(), b.term.clone()])
        }
        "maximum" | "minimum" => a.with(name, b).term,
        "less" | "less_equal" | "greater" | "greater_equal" if dtype == DType::Bool => {
            a.to(DType::U8).is(name, &b.to(DType::U8))
        }
        "less" | "less_equal" | "greater" | "greater_equal" => a.is(name, b),
        "logical_and" | "logical_or" => truth(name, vec![is_true(a), is_true(b)]),
        "logical_xor" => truth("not_equal", vec![is_true(a), is_true(b)]),
        "divide" if dtype.is_integer() => quotient(a, b).term,
        "mod" if dtype.is_integer() => a.sub(&quotient(a, b).mul(b)).term,
        "mod" if dtype.is_float() => {
            let size = a.call("abs").with("floor_mod", &b.call("abs"));
            let signed = select(a.is_number("less", 0.0), &size.neg(), &size);
            select(size.is_number("equal", 0.0), &a.mul(&a.number(0.0)), &signed).term
        }
        "log_add_exp" => log_add_exp(&a.wide(), &b.wide()).to(dtype).term,
        _ => return None,
    })
}

/// The quotient towards zero of integers, by one that is not 0.
fn quotient(a: &Number, b: &Number) -> Number {
    let rest = a.with("floor_mod", b).is_number("not_equal", 0.0);
    let (minus_a, minus_b) = (a.is_number("less", 0.0), b.is_number("less", 0.0));
    let signs = truth("not_equal", vec![minus_a, minus_b]);
    let up = select(truth("logical_and", vec![rest, signs]), &a.number(1.0), &a.number(0.0));
    a.with("floor_divide", b).add(&up)
}

fn log_add_exp(a: &Number, b: &Number) -> Number {
    let difference = a.sub(b);
    let beyond = |most: &Number, distance: &Number| most.add(&distance.call("exp").call("log1p"));
    let less =
        select(difference.is_number("less_equal", 0.0), &beyond(b, &difference), &difference);
    let greater = beyond(a, &difference.neg());
    let result = select(difference.is_number("greater", 0.0), &greater, &less);
    select(a.is("equal", b), &a.add(&a.number(LN_2)), &result)
}
