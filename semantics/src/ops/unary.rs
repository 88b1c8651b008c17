//! Elementwise functions of one tensor.

use super::{
    Constraint, Effect, Eval, Evaluate, Family, Infer, Kind, Known, Operator, Param, Reject, Traps,
    constraint, required,
};
use crate::round::integer_range;
use crate::scalar::{self, int};
use crate::stop::Stop;
use crate::tensor::{Elements, Number, Tensor};
use crate::value::Value;
use relax_syntax::annotation::{Annotation, TensorType};
use relax_syntax::dim::Dim;
use relax_syntax::dtype::DType;

type Run = fn(&Eval) -> Result<Value, Stop>;
type Deduce = fn(&mut Infer) -> Result<Annotation, Reject>;

pub(super) static OPERATORS: &[Operator] = &[
    numbers("abs", "Absolute value; that of the least signed integer wraps to itself.", |e| {
        map(e, f64::abs, i128::abs)
    }),
    floats("acos", "Inverse cosine, in 0..=π; NaN outside of -1..=1.", |e| {
        map_floats(e, scalar::acos)
    }),
    floats("acosh", "Inverse hyperbolic cosine; NaN below 1.", |e| map_floats(e, scalar::acosh)),
    floats("asin", "Inverse sine, in -π/2..=π/2; NaN outside of -1..=1.", |e| {
        map_floats(e, scalar::asin)
    }),
    floats("asinh", "Inverse hyperbolic sine.", |e| map_floats(e, scalar::asinh)),
    floats("atan", "Inverse tangent, in -π/2..=π/2.", |e| map_floats(e, scalar::atan)),
    floats(
        "atanh",
        "Inverse hyperbolic tangent; NaN outside of -1..=1, infinite at its ends.",
        |e| map_floats(e, scalar::atanh),
    ),
    row(
        "bitwise_not",
        "Every bit of an integer flipped; of a bool its negation.",
        &[constraint("C1", "x is an integer or bool tensor")],
        Traps::Never,
        |infer| same_type(infer, |dtype| !dtype.is_float()),
        bitwise_not,
    ),
    numbers("ceil", "The least integer not below x; integers stay as they are.", |e| {
        map(e, f64::ceil, |v| v)
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
            clip,
        )
    },
    floats("cos", "Cosine; NaN of an infinity.", |e| map_floats(e, scalar::cos)),
    floats("cosh", "Hyperbolic cosine.", |e| map_floats(e, scalar::cosh)),
    floats(
        "erf",
        "The error function, 2/sqrt(π) times the integral of exp(-t²) from 0 to x.",
        |e| map_floats(e, scalar::erf),
    ),
    floats("exp", "The exponential function.", |e| map_floats(e, scalar::exp)),
    numbers("floor", "The greatest integer not above x; integers stay as they are.", |e| {
        map(e, f64::floor, |v| v)
    }),
    checks("isfinite", "True where x is neither infinite nor NaN.", |e| {
        check(e, f64::is_finite, true)
    }),
    checks("isinf", "True where x is an infinity of either sign.", |e| {
        check(e, f64::is_infinite, false)
    }),
    checks("isnan", "True where x is NaN.", |e| check(e, f64::is_nan, false)),
    floats("log", "Natural logarithm; minus infinity of a zero, NaN below it.", |e| {
        map_floats(e, scalar::log)
    }),
    row(
        "logical_not",
        "True where x is zero, as a bool tensor; NaN counts as true, as in NumPy (TVM deduces the \
         dtype of x, and lowers only bool).",
        &[],
        Traps::Never,
        |infer| check_type(infer, |_| true),
        |e| Ok(Value::Tensor(Tensor::from_bools(e.tensor("x")?.to_bools().mapv_into(|v| !v)))),
    ),
    numbers("negative", "The opposite number; integers wrap, unsigned ones too.", |e| {
        map(e, |v| -v, |v| -v)
    }),
    numbers(
        "round",
        "The nearest integer, of two the even one, as in TVM and NumPy; integers stay as they are.",
        |e| map(e, scalar::round_half_even, |v| v),
    ),
    floats("rsqrt", "1 / sqrt(x): NaN below 0, of a zero the infinity of its sign.", |e| {
        map_floats(e, scalar::rsqrt)
    }),
    floats("sigmoid", "1 / (1 + exp(-x)).", |e| map_floats(e, scalar::sigmoid)),
    numbers(
        "sign",
        "-1, 0 or 1, and 0 for either zero; NaN stays NaN, as in NumPy (TVM gives 0 for it).",
        |e| map(e, scalar::sign, i128::signum),
    ),
    floats("sin", "Sine; NaN of an infinity.", |e| map_floats(e, scalar::sin)),
    floats("sinh", "Hyperbolic sine.", |e| map_floats(e, scalar::sinh)),
    floats("sqrt", "Square root; NaN below 0, and -0.0 of -0.0.", |e| map_floats(e, f64::sqrt)),
    numbers("square", "x * x; integers wrap.", |e| map(e, |v| v * v, |v| v.wrapping_mul(v))),
    floats("tan", "Tangent; NaN of an infinity.", |e| map_floats(e, scalar::tan)),
    floats("tanh", "Hyperbolic tangent.", |e| map_floats(e, scalar::tanh)),
    numbers("trunc", "The next integer towards zero; integers stay as they are.", |e| {
        map(e, f64::trunc, |v| v)
    }),
];

const fn row(
    name: &'static str,
    doc: &'static str,
    constraints: &'static [Constraint],
    traps: Traps,
    infer: Deduce,
    eval: Run,
) -> Operator {
    const X: &[Param] = &[required("x", Kind::Tensor)];
    let (aliases, family) = (&[], Family::Unary);
    let (effect, eval) = (Effect::Pure, Evaluate::Values(eval));
    Operator { name, aliases, family, doc, params: X, constraints, effect, traps, infer, eval }
}

/// A function of floats only.
const fn floats(name: &'static str, doc: &'static str, eval: Run) -> Operator {
    const FLOATS: &[Constraint] = &[constraint("C1", "x is a float tensor")];
    row(name, doc, FLOATS, Traps::Never, |infer| same_type(infer, DType::is_float), eval)
}

/// A function of floats and integers.
const fn numbers(name: &'static str, doc: &'static str, eval: Run) -> Operator {
    const NUMBERS: &[Constraint] = &[constraint("C1", "x is a tensor of numbers, not of bools")];
    row(
        name,
        doc,
        NUMBERS,
        Traps::Never,
        |infer| same_type(infer, |dtype| dtype != DType::Bool),
        eval,
    )
}

/// A question to each number.
const fn checks(name: &'static str, doc: &'static str, eval: Run) -> Operator {
    const NUMBERS: &[Constraint] = &[constraint("C1", "x is a tensor of numbers, not of bools")];
    row(
        name,
        doc,
        NUMBERS,
        Traps::Never,
        |infer| check_type(infer, |dtype| dtype != DType::Bool),
        eval,
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

fn map_floats(eval: &Eval, f: fn(f64) -> f64) -> Result<Value, Stop> {
    let x = eval.tensor("x")?;
    eval.floats(x.dtype(), x.to_floats().mapv_into(f))
}

fn map(eval: &Eval, float: fn(f64) -> f64, int: fn(i128) -> i128) -> Result<Value, Stop> {
    let x = eval.tensor("x")?;
    let elements = match x.elements() {
        Elements::Float(values) => Elements::Float(values.mapv_into(float)),
        Elements::Int(values) => Elements::Int(values.mapv_into(int)),
    };
    Ok(Value::Tensor(Tensor::from_elements(x.dtype(), elements)))
}

/// `of_integers` is the answer for every integer.
fn check(eval: &Eval, float: fn(f64) -> bool, of_integers: bool) -> Result<Value, Stop> {
    let answers = match eval.tensor("x")?.elements() {
        Elements::Float(values) => values.mapv(float),
        Elements::Int(values) => values.mapv(|_| of_integers),
    };
    Ok(Value::Tensor(Tensor::from_bools(answers)))
}

fn bitwise_not(eval: &Eval) -> Result<Value, Stop> {
    let x = eval.tensor("x")?;
    let dtype = x.dtype();
    let flipped = x.to_ints().mapv_into(|v| int::not(dtype, v));
    Ok(Value::Tensor(Tensor::from_ints(dtype, flipped)))
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

fn clip(eval: &Eval) -> Result<Value, Stop> {
    let x = eval.tensor("x")?;
    let (low, high) = (scalar_value(eval, "min"), scalar_value(eval, "max"));
    let elements = match x.elements() {
        Elements::Float(values) => {
            let (low, high) = (low.as_f64(), high.as_f64());
            Elements::Float(values.mapv_into(|v| scalar::maximum(scalar::minimum(v, high), low)))
        }
        Elements::Int(values) => {
            let integer = |bound| {
                as_integer(x.dtype(), bound).ok_or_else(|| {
                    eval.trap("C2", format!("the bounds must be integers of {}", x.dtype()))
                })
            };
            let (low, high) = (integer(low)?, integer(high)?);
            Elements::Int(values.mapv_into(|v| v.min(high).max(low)))
        }
    };
    Ok(Value::Tensor(Tensor::from_elements(x.dtype(), elements)))
}

fn scalar_value(eval: &Eval, param: &str) -> Number {
    match eval.value(param) {
        Value::Prim(_, number) => *number,
        other => panic!("invariant: infer of `clip` accepts scalars only, found {}", other.kind()),
    }
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
