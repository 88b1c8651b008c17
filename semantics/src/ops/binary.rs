//! Elementwise functions of two tensors, which broadcast.

use super::elementwise::{Defined, Element, Elementwise, Formula, evaluate, operands, require};
use super::{
    Constraint, Effect, Eval, Evaluate, Family, Infer, Kind, Operator, Param, Reject, Traps,
    constraint, required,
};
use crate::formula::{Scalar, extremum, select};
use crate::ops::{Programs, programs};
use crate::scalar::integer_power;
use crate::stop::Stop;
use crate::tensor::Tensor;
use crate::value::Value;
use ndarray::Zip;
use relax_syntax::annotation::{Annotation, TensorType};
use relax_syntax::dtype::DType;
use relax_syntax::ir::tensor::{BinOp, Intrinsic};
use std::f64::consts::LN_2;

const BROADCAST: Constraint = constraint("C2", "the shapes of x1 and x2 broadcast");
const NUMBERS: Constraint = constraint("C1", "x1 and x2 have the same dtype, and it is not bool");

pub(super) static OPERATORS: &[Operator] = &[
    numbers("add", "x1 + x2; integers wrap.", |e| plain(e, BinOp::Add)),
    floats("atan2", "The angle of the point (x2, x1), in -π..=π.", |e| e.call(Intrinsic::Atan2)),
    bits("bitwise_and", "The bits set in both; of bools: and.", |e| plain(e, BinOp::BitAnd)),
    bits("bitwise_or", "The bits set in either; of bools: or.", |e| plain(e, BinOp::BitOr)),
    bits("bitwise_xor", "The bits set in one of both; of bools: unequal.", |e| {
        plain(e, BinOp::BitXor)
    }),
    partial(
        "divide",
        "x1 / x2. Integers: the quotient towards zero in their dtype, as in TVM (NumPy gives \
         floats); it wraps for the least integer by -1, and 0 as divisor is a trap.",
        quotient,
        Defined::Nonzero,
        "has no quotient by",
    ),
    compares("equal", "True where x1 = x2: -0.0 equals 0.0, and NaN nothing.", |e| {
        compared(e, BinOp::Equal)
    }),
    partial(
        "floor_divide",
        "The floor of x1 / x2. Floats: of the exact quotient, as in NumPy (1.0 by 0.1 is 9.0, TVM \
         gives 10.0); NaN of an infinite x1, x1 / x2 for x2 = 0. Integers: 0 as divisor is a trap.",
        |e| plain(e, BinOp::FloorDiv),
        Defined::Nonzero,
        "has no quotient by",
    ),
    partial(
        "floor_mod",
        "What `floor_divide` leaves of x1, with the sign of x2, as in NumPy (a float -1 by infinity \
         is infinity, TVM gives NaN). Integers: 0 as divisor is a trap.",
        |e| plain(e, BinOp::Mod),
        Defined::Nonzero,
        "has no remainder by",
    ),
    compares("greater", "True where x1 > x2; false where either is NaN.", |e| {
        compared(e, BinOp::Greater)
    }),
    compares("greater_equal", "True where x1 >= x2; false where either is NaN.", |e| {
        compared(e, BinOp::GreaterEqual)
    }),
    shifts("left_shift", "x1 times 2 to the power x2; bits beyond the dtype are lost.", |e| {
        plain(e, BinOp::ShiftLeft)
    }),
    compares("less", "True where x1 < x2; false where either is NaN.", |e| {
        compared(e, BinOp::Less)
    }),
    compares("less_equal", "True where x1 <= x2; false where either is NaN.", |e| {
        compared(e, BinOp::LessEqual)
    }),
    floats("log_add_exp", "log(exp(x1) + exp(x2)), without overflow in between.", |e| {
        log_add_exp(e)
    }),
    logical("logical_and", |e| {
        let (a, b) = e.pair();
        Some(e.truth(a).and(e.truth(b)))
    }),
    logical("logical_or", |e| {
        let (a, b) = e.pair();
        Some(e.truth(a).or(e.truth(b)))
    }),
    logical("logical_xor", |e| {
        let (a, b) = e.pair();
        Some(e.truth(a).differs(e.truth(b)))
    }),
    numbers(
        "maximum",
        "The greater one; NaN where either is NaN, as in NumPy (TVM may give the other), and 0.0 \
         is greater than -0.0, as in IEEE 754.",
        |e| Some(extremum(BinOp::Max, e.dtype, &e.operands[0], &e.operands[1])),
    ),
    numbers(
        "minimum",
        "The lesser one; NaN where either is NaN, as in NumPy (TVM may give the other), and -0.0 \
         is less than 0.0, as in IEEE 754.",
        |e| Some(extremum(BinOp::Min, e.dtype, &e.operands[0], &e.operands[1])),
    ),
    partial(
        "mod",
        "What division towards zero leaves of x1, with the sign of x1, as in TVM and C (NumPy's \
         `mod` is `floor_mod`). Integers: 0 as divisor is a trap.",
        truncated_mod,
        Defined::Nonzero,
        "has no remainder by",
    ),
    numbers("multiply", "x1 * x2; integers wrap.", |e| plain(e, BinOp::Mul)),
    compares("not_equal", "True where x1 and x2 differ, and where either is NaN.", |e| {
        compared(e, BinOp::NotEqual)
    }),
    Operator {
        program: Programs::Of(programs::elementwise::power),
        ..partial(
        "power",
        "x1 to the power x2; the special cases of floats are those of IEEE 754. Integers, which \
         TVM does not lower, wrap, and a negative exponent is a trap.",
        float_power,
        Defined::NotNegative,
        "has no integer power of exponent",
    ).evaluated(power)
    },
    shifts("right_shift", "The floor of x1 by 2 to the power x2: the sign is kept.", |e| {
        plain(e, BinOp::ShiftRight)
    }),
    numbers("subtract", "x1 - x2; integers wrap, unsigned ones too.", |e| plain(e, BinOp::Sub)),
];

const fn row(
    name: &'static str,
    doc: &'static str,
    constraints: &'static [Constraint],
    infer: fn(&mut Infer) -> Result<Annotation, Reject>,
    formula: Formula,
) -> Operator {
    const BOTH: &[Param] = &[required("x1", Kind::Tensor), required("x2", Kind::Tensor)];
    let (aliases, family, effect) = (&[], Family::Binary, Effect::Pure);
    let (traps, eval) = (Traps::Never, Evaluate::Elementwise(Elementwise::of(formula)));
    let program = Programs::Formula;
    Operator {
        name,
        aliases,
        family,
        doc,
        params: BOTH,
        constraints,
        effect,
        traps,
        infer,
        program,
        eval,
    }
}

/// Floats and integers.
const fn numbers(name: &'static str, doc: &'static str, formula: Formula) -> Operator {
    const C: &[Constraint] = &[NUMBERS, BROADCAST];
    row(name, doc, C, |infer| same_dtype(infer, |dtype| dtype != DType::Bool), formula)
}

/// Floats and integers, of which some have no result.
const fn partial(
    name: &'static str,
    doc: &'static str,
    formula: Formula,
    defined: Defined,
    relation: &'static str,
) -> Operator {
    const DIVISOR: Constraint = constraint("C3", "no element of an integer divisor is 0");
    const EXPONENT: Constraint = constraint("C3", "no element of an integer exponent is negative");
    let constraints: &[Constraint] = match defined {
        Defined::NotNegative => &[NUMBERS, BROADCAST, EXPONENT],
        _ => &[NUMBERS, BROADCAST, DIVISOR],
    };
    let row = numbers(name, doc, formula).partial(defined, relation);
    Operator { constraints, ..row }
}

/// Floats only.
const fn floats(name: &'static str, doc: &'static str, formula: Formula) -> Operator {
    const C: &[Constraint] = &[constraint("C1", "x1 and x2 have the same float dtype"), BROADCAST];
    row(name, doc, C, |infer| same_dtype(infer, DType::is_float), formula)
}

/// Integers and bools.
const fn bits(name: &'static str, doc: &'static str, formula: Formula) -> Operator {
    const C: &[Constraint] =
        &[constraint("C1", "x1 and x2 have the same dtype, an integer one or bool"), BROADCAST];
    row(name, doc, C, |infer| same_dtype(infer, |dtype| !dtype.is_float()), formula)
}

/// Integers only.
const fn shifts(name: &'static str, doc: &'static str, formula: Formula) -> Operator {
    const C: &[Constraint] = &[
        constraint("C1", "x1 and x2 have the same integer dtype"),
        BROADCAST,
        constraint("C3", "every element of x2 is at least 0 and below the number of bits of x1"),
    ];
    let row = row(name, doc, C, |infer| same_dtype(infer, DType::is_integer), formula);
    row.partial(Defined::BelowWidth, "cannot be shifted by")
}

/// Any dtype; the result is bool.
const fn compares(name: &'static str, doc: &'static str, formula: Formula) -> Operator {
    const C: &[Constraint] = &[constraint("C1", "x1 and x2 have the same dtype"), BROADCAST];
    row(name, doc, C, truth, formula)
}

/// Any dtype as truth values; the result is bool.
const fn logical(name: &'static str, formula: Formula) -> Operator {
    const C: &[Constraint] = &[constraint("C1", "x1 and x2 have the same dtype"), BROADCAST];
    const DOC: &str = "The connective on truth values, as a bool tensor: nonzero is true, and so is \
                       NaN, as in NumPy (TVM deduces the dtype of x1, and lowers only bool).";
    row(name, DOC, C, truth, formula)
}

fn same_dtype(infer: &mut Infer, accepts: fn(DType) -> bool) -> Result<Annotation, Reject> {
    let dtype = infer.same_dtype("C1", &["x1", "x2"])?;
    infer.require_dtype("C1", "x1", accepts)?;
    infer.require_dtype("C1", "x2", accepts)?;
    broadcast(infer, dtype)
}

fn truth(infer: &mut Infer) -> Result<Annotation, Reject> {
    infer.same_dtype("C1", &["x1", "x2"])?;
    broadcast(infer, Some(DType::Bool))
}

fn broadcast(infer: &mut Infer, dtype: Option<DType>) -> Result<Annotation, Reject> {
    let (a, b) = (infer.tensor("x1")?.extents, infer.tensor("x2")?.extents);
    let extents = infer.broadcast("C2", &a, &b)?;
    Ok(Annotation::Tensor(TensorType { extents, dtype }))
}

fn plain(e: &Element, op: BinOp) -> Option<Scalar> {
    let (a, b) = e.pair();
    Some(Scalar::pair(op, a, b))
}

/// Bools have no order of their own in programs.
fn compared(e: &Element, op: BinOp) -> Option<Scalar> {
    let is_ordered = !matches!(op, BinOp::Equal | BinOp::NotEqual);
    let to = if is_ordered && e.dtype == DType::Bool { DType::U8 } else { e.dtype };
    let (a, b) = e.pair();
    Some(Scalar::pair(op, a.cast(e.dtype, to), b.cast(e.dtype, to)))
}

/// The quotient towards zero of integers.
fn truncated(a: &Scalar, b: &Scalar) -> Scalar {
    let below = (a.clone() % b).differs(0).and(a.less(0).differs(b.less(0)));
    a.clone().floor_div(b) + select(below, 1, 0)
}

fn quotient(e: &Element) -> Option<Scalar> {
    let (a, b) = e.pair();
    Some(if e.dtype.is_float() { a / b } else { truncated(&a, &b) })
}

/// The remainder with the sign of `a`, also that of a zero.
fn truncated_mod(e: &Element) -> Option<Scalar> {
    let (a, b) = e.pair();
    if !e.dtype.is_float() {
        return Some(a.clone() - truncated(&a, &b) * b);
    }
    let size = a.clone().abs() % b.abs();
    let signed = select(a.less(0.0), -size.clone(), &size);
    Some(select(size.equals(0.0), a * 0.0, signed))
}

fn log_add_exp(e: &Element) -> Option<Scalar> {
    let (a, b) = e.pair();
    let [a, b] = [a, b].map(|x| x.cast(e.dtype, DType::F64));
    let difference = a.clone() - &b;
    let beyond =
        |most: &Scalar, distance: Scalar| most.clone() + distance.exp().call(Intrinsic::Log1p);
    let less = select(difference.at_most(0.0), beyond(&b, difference.clone()), &difference);
    let greater = beyond(&a, -difference.clone());
    // The difference of equal infinities would be NaN.
    let result = select(difference.greater(0.0), greater, less);
    Some(select(a.equals(&b), a.clone() + LN_2, result).cast(DType::F64, e.dtype))
}

/// That of integers takes a loop over the bits of the exponent, so no formula gives it.
fn float_power(e: &Element) -> Option<Scalar> {
    if e.dtype.is_float() { e.call(Intrinsic::Pow) } else { None }
}

fn power(eval: &Eval, own: &Elementwise) -> Result<Value, Stop> {
    let (dtype, shape) = eval.out_tensor()?;
    if dtype.is_float() {
        return evaluate(eval, own);
    }
    let operands = operands(eval, own, &shape)?;
    require(eval, own, &operands, &shape)?;
    let [bases, exponents] = [&operands[0], &operands[1]].map(Tensor::to_ints);
    let powers = Zip::from(&bases)
        .and(&exponents)
        .map_collect(|&a, &b| integer_power(a, b).expect("invariant: no exponent is negative"));
    Ok(Value::Tensor(Tensor::from_ints(dtype, powers)))
}

#[cfg(test)]
mod tests {
    use super::super::{Operand, lookup};
    use super::*;
    use crate::concrete::Concrete;
    use relax_syntax::annotation::Extents;
    use relax_syntax::dim::Dim;

    /// What `name` deduces of two annotations, as text.
    fn deduced(name: &str, operands: [Annotation; 2]) -> String {
        let row = lookup(name).expect("a row");
        let operands = operands.map(|annotation| Operand { annotation, known: None });
        let facts = &mut Concrete;
        let mut infer =
            Infer { row, operands: &operands, facts, obligations: Vec::new(), module: None };
        match (row.infer)(&mut infer) {
            Ok(annotation) => annotation.to_string(),
            Err(reject) => reject.constraint.to_owned(),
        }
    }

    fn tensor(extents: Extents, dtype: Option<DType>) -> Annotation {
        Annotation::Tensor(TensorType { extents, dtype })
    }

    #[test]
    fn what_is_not_known_is_not_guessed() {
        let row = || Extents::Known(vec![Dim::var("n")]);
        let (f32, f16) = (Some(DType::F32), Some(DType::F16));
        let known = tensor(row(), f32);
        let pairs = [
            (tensor(Extents::Rank(3), f32), r#"Tensor(ndim=3, dtype="f32")"#),
            (tensor(Extents::Unknown, None), r#"Tensor(dtype="f32")"#),
            (Annotation::Object, r#"Tensor(dtype="f32")"#),
            (tensor(row(), f16), "C1"),
            (Annotation::Shape(row()), "kind"),
        ];
        for (other, want) in pairs {
            assert_eq!(deduced("add", [known.clone(), other.clone()]), want, "{other}");
            assert_eq!(deduced("add", [other.clone(), known.clone()]), want, "{other}");
        }
        assert_eq!(deduced("add", [Annotation::Object, Annotation::Object]), "Tensor()");
        let objects = [Annotation::Object, Annotation::Object];
        assert_eq!(deduced("less", objects), r#"Tensor(dtype="bool")"#);
        let bools = [tensor(row(), None), tensor(row(), Some(DType::Bool))];
        assert_eq!(deduced("add", bools.clone()), "C1");
        assert!(deduced("bitwise_and", bools).ends_with(r#""bool")"#));
    }
}
