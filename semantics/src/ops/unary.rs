//! Elementwise functions of one tensor.

use super::elementwise::{Element, Elementwise, Formula, evaluate};
use super::{
    Constraint, Effect, Eval, Evaluate, Family, Infer, Kind, Known, Operator, Param, Reject, Traps,
    constraint, required,
};
use crate::formula::{Scalar, extremum, select};
use crate::ops::Programs;
use crate::round::integer_range;
use crate::stop::Stop;
use crate::tensor::{Number, Tensor};
use crate::value::Value;
use relax_syntax::annotation::{Annotation, TensorType};
use relax_syntax::dim::Dim;
use relax_syntax::dtype::{Class, DType};
use relax_syntax::ir::tensor::{BinOp, Intrinsic};

type Deduce = fn(&mut Infer) -> Result<Annotation, Reject>;

pub(super) static OPERATORS: &[Operator] = &[
    numbers("abs", "Absolute value; that of the least signed integer wraps to itself.", |e| {
        if e.dtype.class() == Class::Unsigned { Some(e.x()) } else { e.call(Intrinsic::Abs) }
    }),
    floats("acos", "Inverse cosine, in 0..=π; NaN outside of -1..=1.", |e| {
        e.call(Intrinsic::Acos)
    }),
    floats("acosh", "Inverse hyperbolic cosine; NaN below 1.", |e| e.call(Intrinsic::Acosh)),
    floats("asin", "Inverse sine, in -π/2..=π/2; NaN outside of -1..=1.", |e| {
        e.call(Intrinsic::Asin)
    }),
    floats("asinh", "Inverse hyperbolic sine.", |e| e.call(Intrinsic::Asinh)),
    floats("atan", "Inverse tangent, in -π/2..=π/2.", |e| e.call(Intrinsic::Atan)),
    floats(
        "atanh",
        "Inverse hyperbolic tangent; NaN outside of -1..=1, infinite at its ends.",
        |e| e.call(Intrinsic::Atanh),
    ),
    row(
        "bitwise_not",
        "Every bit of an integer flipped; of a bool its negation.",
        &[constraint("C1", "x is an integer or bool tensor")],
        Traps::Never,
        |infer| same_type(infer, |dtype| !dtype.is_float()),
        |e| Some(if e.dtype == DType::Bool { !e.x() } else { e.x().inverted() }),
    ),
    numbers("ceil", "The least integer not below x; integers stay as they are.", |e| {
        rounded(e, Intrinsic::Ceil)
    }),
    Operator {
        params: &[
            required("x", Kind::Tensor),
            required("min", Kind::Float),
            required("max", Kind::Float),
        ],
        ..row(
            "clip",
            "Each element limited to min..=max: max(min(x, max), min), so that `min` wins where it \
             is above `max`, as in TVM (NumPy lets `max` win). NaN stays NaN, as in NumPy.",
            &[
                constraint("C1", "x is a tensor of numbers, not of bools"),
                constraint("C2", "for an integer tensor, min and max are integers of its dtype"),
            ],
            Traps::OnScalars,
            infer_clip,
            clipped,
        )
        .evaluated(clip)
    },
    floats("cos", "Cosine; NaN of an infinity.", |e| e.call(Intrinsic::Cos)),
    floats("cosh", "Hyperbolic cosine.", |e| e.call(Intrinsic::Cosh)),
    floats(
        "erf",
        "The error function, 2/sqrt(π) times the integral of exp(-t²) from 0 to x.",
        |e| e.call(Intrinsic::Erf),
    ),
    floats("exp", "The exponential function.", |e| e.call(Intrinsic::Exp)),
    numbers("floor", "The greatest integer not above x; integers stay as they are.", |e| {
        rounded(e, Intrinsic::Floor)
    }),
    checks("isfinite", "True where x is neither infinite nor NaN.", is_finite),
    checks("isinf", "True where x is an infinity of either sign.", is_infinite),
    checks("isnan", "True where x is NaN.", |e| Some(e.x().is_nan())),
    floats("log", "Natural logarithm; minus infinity of a zero, NaN below it.", |e| {
        e.call(Intrinsic::Log)
    }),
    row(
        "logical_not",
        "True where x is zero, as a bool tensor; NaN counts as true, as in NumPy (TVM deduces the \
         dtype of x, and lowers only bool).",
        &[],
        Traps::Never,
        |infer| check_type(infer, |_| true),
        |e| {
            let is_bool = e.dtype == DType::Bool;
            Some(if is_bool { !e.x() } else { e.x().equals(e.zero()) })
        },
    ),
    numbers("negative", "The opposite number; integers wrap, unsigned ones too.", |e| Some(-e.x())),
    numbers(
        "round",
        "The nearest integer, of two the even one, as in TVM and NumPy; integers stay as they are.",
        |e| rounded(e, Intrinsic::Round),
    ),
    floats("rsqrt", "1 / sqrt(x): NaN below 0, of a zero the infinity of its sign.", |e| {
        e.call(Intrinsic::Rsqrt)
    }),
    floats("sigmoid", "1 / (1 + exp(-x)).", |e| e.call(Intrinsic::Sigmoid)),
    numbers(
        "sign",
        "-1, 0 or 1, and 0 for either zero; NaN stays NaN, as in NumPy (TVM gives 0 for it).",
        sign,
    ),
    floats("sin", "Sine; NaN of an infinity.", |e| e.call(Intrinsic::Sin)),
    floats("sinh", "Hyperbolic sine.", |e| e.call(Intrinsic::Sinh)),
    floats("sqrt", "Square root; NaN below 0, and -0.0 of -0.0.", |e| e.call(Intrinsic::Sqrt)),
    numbers("square", "x * x; integers wrap.", |e| Some(e.x() * e.x())),
    floats("tan", "Tangent; NaN of an infinity.", |e| e.call(Intrinsic::Tan)),
    floats("tanh", "Hyperbolic tangent.", |e| e.call(Intrinsic::Tanh)),
    numbers("trunc", "The next integer towards zero; integers stay as they are.", |e| {
        rounded(e, Intrinsic::Trunc)
    }),
];

const fn row(
    name: &'static str,
    doc: &'static str,
    constraints: &'static [Constraint],
    traps: Traps,
    infer: Deduce,
    formula: Formula,
) -> Operator {
    const X: &[Param] = &[required("x", Kind::Tensor)];
    let (aliases, family) = (&[], Family::Unary);
    let (effect, eval) = (Effect::Pure, Evaluate::Elementwise(Elementwise::of(formula)));
    let program = Programs::Formula;
    Operator {
        name,
        aliases,
        family,
        doc,
        params: X,
        constraints,
        effect,
        traps,
        infer,
        program,
        eval,
    }
}

/// A function of floats only.
const fn floats(name: &'static str, doc: &'static str, formula: Formula) -> Operator {
    const FLOATS: &[Constraint] = &[constraint("C1", "x is a float tensor")];
    row(name, doc, FLOATS, Traps::Never, |infer| same_type(infer, DType::is_float), formula)
}

/// A function of floats and integers.
const fn numbers(name: &'static str, doc: &'static str, formula: Formula) -> Operator {
    const NUMBERS: &[Constraint] = &[constraint("C1", "x is a tensor of numbers, not of bools")];
    row(
        name,
        doc,
        NUMBERS,
        Traps::Never,
        |infer| same_type(infer, |dtype| dtype != DType::Bool),
        formula,
    )
}

/// A question to each number.
const fn checks(name: &'static str, doc: &'static str, formula: Formula) -> Operator {
    const NUMBERS: &[Constraint] = &[constraint("C1", "x is a tensor of numbers, not of bools")];
    row(
        name,
        doc,
        NUMBERS,
        Traps::Never,
        |infer| check_type(infer, |dtype| dtype != DType::Bool),
        formula,
    )
}

fn same_type(infer: &mut Infer, accepts: fn(DType) -> bool) -> Result<Annotation, Reject> {
    infer.require_dtype("C1", "x", accepts)?;
    Ok(Annotation::Tensor(infer.tensor("x")?))
}

fn check_type(infer: &mut Infer, accepts: fn(DType) -> bool) -> Result<Annotation, Reject> {
    infer.require_dtype("C1", "x", accepts)?;
    let extents = infer.tensor("x")?.extents;
    Ok(Annotation::Tensor(TensorType { extents, dtype: Some(DType::Bool) }))
}

/// A function to an integer; integers stay as they are.
fn rounded(e: &Element, function: Intrinsic) -> Option<Scalar> {
    if e.dtype.is_float() { e.call(function) } else { Some(e.x()) }
}

/// Integers are compared too, so that an uninitialized element traps.
fn is_finite(e: &Element) -> Option<Scalar> {
    let x = e.x();
    Some(if e.dtype.is_float() { (x.clone() - &x).equals(0.0) } else { x.equals(&x) })
}

fn is_infinite(e: &Element) -> Option<Scalar> {
    let x = e.x();
    if !e.dtype.is_float() {
        return Some(x.differs(&x));
    }
    Some(x.equals(&x).and((x.clone() - &x).differs(0.0)))
}

fn sign(e: &Element) -> Option<Scalar> {
    let x = e.x();
    Some(match e.dtype.class() {
        Class::Float => {
            let negative = select(x.less(0.0), -1.0, select(x.equals(0.0), 0.0, &x));
            select(x.greater(0.0), 1.0, negative)
        }
        Class::Signed => select(x.greater(0), 1, select(x.less(0), -1, 0)),
        Class::Unsigned | Class::Bool => select(x.greater(0), 1, 0),
    })
}

fn infer_clip(infer: &mut Infer) -> Result<Annotation, Reject> {
    let annotation = same_type(infer, |dtype| dtype != DType::Bool)?;
    let dtype = infer.tensor("x")?.dtype.filter(|dtype| dtype.is_integer());
    for param in ["min", "max"] {
        let bound = bound(infer, param)?;
        if let (Some(dtype), Some(bound)) = (dtype, bound)
            && as_integer(dtype, bound).is_none()
        {
            let (low, high) = integer_range(dtype);
            let found = match bound {
                Number::Float(value) => format!("{value:?}"),
                Number::Int(value) => value.to_string(),
            };
            let message = format!("`{param}` must be an integer in {low}..={high}, found {found}");
            return Err(Reject { param: Some(param), ..infer.reject("C2", message) });
        }
    }
    Ok(annotation)
}

/// A bound, where the text spells it; else a scalar whose value is known at run time only.
fn bound(infer: &Infer, param: &'static str) -> Result<Option<Number>, Reject> {
    let operand = infer.operand(param);
    match (&operand.known, &operand.annotation) {
        (Some(Known::Dim(Dim::Int(value))), _) => Ok(Some(Number::Int((*value).into()))),
        (Some(Known::Float(value)), _) => Ok(Some(Number::Float(*value))),
        (Some(Known::Dim(_)), _) | (None, Annotation::Object) => Ok(None),
        (None, Annotation::Prim(dtype)) if *dtype != DType::Bool => Ok(None),
        // Says what was found instead.
        _ => infer.float(param).map(|value| Some(Number::Float(value))),
    }
}

/// The integer of that dtype that a bound is, if it is one.
fn as_integer(dtype: DType, bound: Number) -> Option<i128> {
    let value = match bound {
        Number::Int(value) => value,
        Number::Float(value) if value.trunc() == value => value as i128,
        Number::Float(_) => return None,
    };
    let (low, high) = integer_range(dtype);
    (low..=high).contains(&value).then_some(value)
}

/// Bounds of floats are of f64, and rounded last.
fn clipped(e: &Element) -> Option<Scalar> {
    let (low, high) = (e.float("min")?, e.float("max")?);
    if e.dtype.is_float() {
        return e.wide(|x| {
            let below = extremum(BinOp::Min, DType::F64, x, &high.into());
            extremum(BinOp::Max, DType::F64, &below, &low.into())
        });
    }
    // Integers that f64 holds exactly.
    let exact = |value: f64| (value.abs() <= 2f64.powi(53)).then_some(value as i64);
    Some(e.x().min(exact(high)?).max(exact(low)?))
}

/// Integers apart from the formula: a bound that is a value of u64 may be no literal of a program.
fn clip(eval: &Eval, own: &Elementwise) -> Result<Value, Stop> {
    let x = eval.tensor("x")?;
    if x.dtype().is_float() {
        return evaluate(eval, own);
    }
    let integer = |param| match eval.value(param) {
        Value::Prim(_, bound) => as_integer(x.dtype(), *bound).ok_or_else(|| {
            eval.trap("C2", format!("the bounds must be integers of {}", x.dtype()))
        }),
        other => panic!("invariant: infer of `clip` accepts scalars only, found {}", other.kind()),
    };
    let (low, high) = (integer("min")?, integer("max")?);
    let values = x.to_ints().mapv_into(|v| v.min(high).max(low));
    Ok(Value::Tensor(Tensor::from_ints(x.dtype(), values)))
}

#[cfg(test)]
mod tests {
    use super::super::{Limits, apply, lookup};
    use super::*;
    use crate::tensor::array;

    fn clip_trap(dtype: DType, min: Value, max: Value) -> String {
        let x = Value::Tensor(Tensor::full(dtype, &[2], Number::Int(1)));
        let row = lookup("clip").expect("a row");
        match apply(row, vec![x, min, max], Vec::new(), &Limits::default(), None) {
            Err(Stop::Trap(trap)) => trap.id,
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn wild_bounds_of_clip_are_refused() {
        let float = |value| Value::Prim(DType::F64, Number::Float(value));
        assert_eq!(clip_trap(DType::I8, Value::int(0), Value::int(i64::MAX)), "clip/C2");
        assert_eq!(clip_trap(DType::I64, float(f64::NAN), Value::int(0)), "clip/C2");
        assert_eq!(clip_trap(DType::I64, Value::int(0), float(f64::INFINITY)), "clip/C2");
        let huge = Value::Prim(DType::U64, Number::Int(u64::MAX.into()));
        assert_eq!(clip_trap(DType::I64, Value::int(0), huge), "clip/C2");
        assert_eq!(clip_trap(DType::I64, Value::int(0), Value::None), "clip/kind");
        assert_eq!(clip_trap(DType::Bool, Value::int(0), Value::int(1)), "clip/C1");
    }

    #[test]
    fn a_symbolic_bound_of_clip_is_checked_when_it_has_a_value() {
        let extents = relax_syntax::annotation::Extents::Unknown;
        let x = Annotation::Tensor(TensorType { extents, dtype: Some(DType::U8) });
        let bounds = [Known::Dim(Dim::var("n")), Known::Dim(Dim::Int(255))];
        let mut operands = vec![super::super::Operand { annotation: x.clone(), known: None }];
        operands.extend(bounds.map(super::super::Operand::of_known));
        let facts = &mut crate::concrete::Concrete;
        let row = lookup("clip").expect("a row");
        let mut infer =
            Infer { row, operands: &operands, facts, obligations: Vec::new(), module: None };
        assert_eq!(infer_clip(&mut infer), Ok(x));
    }

    #[test]
    fn undefined_elements_are_not_read() {
        let x = Value::Tensor(Tensor::undefined(DType::F32, &[2]));
        let row = lookup("exp").expect("a row");
        let stop = apply(row, vec![x], Vec::new(), &Limits::default(), None).expect_err("a trap");
        assert!(stop.to_string().contains("undefined/read"), "{stop}");
    }

    #[test]
    fn erf_is_accurate_to_f64() {
        // The known values, to the digits that f64 holds.
        let x = array(&[3], vec![0.5, 1.0, -2.5]);
        let row = lookup("erf").expect("a row");
        let x = Value::Tensor(Tensor::from_floats(DType::F64, x));
        let y = apply(row, vec![x], Vec::new(), &Limits::default(), None).expect("a result");
        let Value::Tensor(y) = y else { panic!("a tensor") };
        let want = [0.520_499_877_813_046_5, 0.842_700_792_949_714_9, -0.999_593_047_982_555];
        for (got, want) in y.to_floats().iter().zip(want) {
            assert!((got - want).abs() <= 2.0 * f64::EPSILON * want.abs(), "{got} {want}");
        }
    }
}
