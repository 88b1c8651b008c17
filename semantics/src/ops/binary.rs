//! Elementwise functions of two tensors, which broadcast.

use super::broadcast::broadcast_to;
use super::{
    Constraint, Effect, Eval, Evaluate, Family, Infer, Kind, Operator, Param, Reject, Traps,
    constraint, required,
};
use crate::scalar::{self, int};
use crate::stop::Stop;
use crate::tensor::{Elements, Tensor, array, strides};
use crate::value::Value;
use ndarray::{ArrayD, Zip};
use relax_syntax::annotation::{Annotation, TensorType};
use relax_syntax::dtype::DType;

type Run = fn(&Eval) -> Result<Value, Stop>;

const BROADCAST: Constraint = constraint("C2", "the shapes of x1 and x2 broadcast");
const NUMBERS: Constraint = constraint("C1", "x1 and x2 have the same dtype, and it is not bool");
const NUMBERS_ONLY: &[Constraint] = &[NUMBERS, BROADCAST];
const NONZERO_DIVISOR: &[Constraint] =
    &[NUMBERS, BROADCAST, constraint("C3", "no element of an integer divisor is 0")];

pub(super) static OPERATORS: &[Operator] = &[
    numbers("add", "x1 + x2; integers wrap.", NUMBERS_ONLY, Traps::Never, |e| {
        map(e, |a, b| a + b, |a, b| a + b)
    }),
    floats("atan2", "The angle of the point (x2, x1), in -π..=π.", |e| {
        map_floats(e, scalar::atan2)
    }),
    bits("bitwise_and", "The bits set in both; of bools: and.", |e| map_ints(e, |a, b| a & b)),
    bits("bitwise_or", "The bits set in either; of bools: or.", |e| map_ints(e, |a, b| a | b)),
    bits("bitwise_xor", "The bits set in one of both; of bools: unequal.", |e| {
        map_ints(e, |a, b| a ^ b)
    }),
    numbers(
        "divide",
        "x1 / x2. Integers: the quotient towards zero in their dtype, as in TVM (NumPy gives \
         floats); it wraps for the least integer by -1, and 0 as divisor is a trap.",
        NONZERO_DIVISOR,
        Traps::OnIntegers,
        |e| checked(e, |a, b| a / b, |_, a, b| int::truncated_div(a, b), "has no quotient by"),
    ),
    compares("equal", "True where x1 = x2: -0.0 equals 0.0, and NaN nothing.", |e| {
        compare(e, |a, b| a == b, |a, b| a == b)
    }),
    numbers(
        "floor_divide",
        "The floor of x1 / x2. Floats: of the exact quotient, as in NumPy (1.0 by 0.1 is 9.0, TVM \
         gives 10.0); NaN of an infinite x1, x1 / x2 for x2 = 0. Integers: 0 as divisor is a trap.",
        NONZERO_DIVISOR,
        Traps::OnIntegers,
        |e| checked(e, scalar::floor_div, |_, a, b| int::floor_div(a, b), "has no quotient by"),
    ),
    numbers(
        "floor_mod",
        "What `floor_divide` leaves of x1, with the sign of x2, as in NumPy (a float -1 by infinity \
         is infinity, TVM gives NaN). Integers: 0 as divisor is a trap.",
        NONZERO_DIVISOR,
        Traps::OnIntegers,
        |e| checked(e, scalar::floor_mod, |_, a, b| int::floor_mod(a, b), "has no remainder by"),
    ),
    compares("greater", "True where x1 > x2; false where either is NaN.", |e| {
        compare(e, |a, b| a > b, |a, b| a > b)
    }),
    compares("greater_equal", "True where x1 >= x2; false where either is NaN.", |e| {
        compare(e, |a, b| a >= b, |a, b| a >= b)
    }),
    shifts("left_shift", "x1 times 2 to the power x2; bits beyond the dtype are lost.", |e| {
        checked(e, NO_FLOATS, int::shift_left, "cannot be shifted by")
    }),
    compares("less", "True where x1 < x2; false where either is NaN.", |e| {
        compare(e, |a, b| a < b, |a, b| a < b)
    }),
    compares("less_equal", "True where x1 <= x2; false where either is NaN.", |e| {
        compare(e, |a, b| a <= b, |a, b| a <= b)
    }),
    floats("log_add_exp", "log(exp(x1) + exp(x2)), without overflow in between.", |e| {
        map_floats(e, scalar::log_add_exp)
    }),
    logical("logical_and", |e| logic(e, |a, b| a & b)),
    logical("logical_or", |e| logic(e, |a, b| a | b)),
    logical("logical_xor", |e| logic(e, |a, b| a ^ b)),
    numbers(
        "maximum",
        "The greater one; NaN where either is NaN, as in NumPy (TVM may give the other), and 0.0 \
         is greater than -0.0, as in IEEE 754.",
        NUMBERS_ONLY,
        Traps::Never,
        |e| map(e, scalar::maximum, i128::max),
    ),
    numbers(
        "minimum",
        "The lesser one; NaN where either is NaN, as in NumPy (TVM may give the other), and -0.0 \
         is less than 0.0, as in IEEE 754.",
        NUMBERS_ONLY,
        Traps::Never,
        |e| map(e, scalar::minimum, i128::min),
    ),
    numbers(
        "mod",
        "What division towards zero leaves of x1, with the sign of x1, as in TVM and C (NumPy's \
         `mod` is `floor_mod`). Integers: 0 as divisor is a trap.",
        NONZERO_DIVISOR,
        Traps::OnIntegers,
        |e| {
            checked(
                e,
                scalar::truncated_mod,
                |_, a, b| int::truncated_mod(a, b),
                "has no remainder by",
            )
        },
    ),
    numbers("multiply", "x1 * x2; integers wrap.", NUMBERS_ONLY, Traps::Never, |e| {
        map(e, |a, b| a * b, i128::wrapping_mul)
    }),
    compares("not_equal", "True where x1 and x2 differ, and where either is NaN.", |e| {
        compare(e, |a, b| a != b, |a, b| a != b)
    }),
    numbers(
        "power",
        "x1 to the power x2; the special cases of floats are those of IEEE 754. Integers, which \
         TVM does not lower, wrap, and a negative exponent is a trap.",
        &[NUMBERS, BROADCAST, constraint("C3", "no element of an integer exponent is negative")],
        Traps::OnIntegers,
        |e| checked(e, scalar::pow, |_, a, b| int::pow(a, b), "has no integer power of exponent"),
    ),
    shifts("right_shift", "The floor of x1 by 2 to the power x2: the sign is kept.", |e| {
        checked(e, NO_FLOATS, int::shift_right, "cannot be shifted by")
    }),
    numbers(
        "subtract",
        "x1 - x2; integers wrap, unsigned ones too.",
        NUMBERS_ONLY,
        Traps::Never,
        |e| map(e, |a, b| a - b, |a, b| a - b),
    ),
];

const fn row(
    name: &'static str,
    doc: &'static str,
    constraints: &'static [Constraint],
    traps: Traps,
    infer: fn(&mut Infer) -> Result<Annotation, Reject>,
    eval: Run,
) -> Operator {
    const BOTH: &[Param] = &[required("x1", Kind::Tensor), required("x2", Kind::Tensor)];
    let (aliases, family) = (&[], Family::Binary);
    let (effect, eval) = (Effect::Pure, Evaluate::Values(eval));
    Operator { name, aliases, family, doc, params: BOTH, constraints, effect, traps, infer, eval }
}

/// Floats and integers.
const fn numbers(
    name: &'static str,
    doc: &'static str,
    constraints: &'static [Constraint],
    traps: Traps,
    eval: Run,
) -> Operator {
    row(
        name,
        doc,
        constraints,
        traps,
        |infer| same_dtype(infer, |dtype| dtype != DType::Bool),
        eval,
    )
}

/// Floats only.
const fn floats(name: &'static str, doc: &'static str, eval: Run) -> Operator {
    const C: &[Constraint] = &[constraint("C1", "x1 and x2 have the same float dtype"), BROADCAST];
    row(name, doc, C, Traps::Never, |infer| same_dtype(infer, DType::is_float), eval)
}

/// Integers and bools.
const fn bits(name: &'static str, doc: &'static str, eval: Run) -> Operator {
    const C: &[Constraint] =
        &[constraint("C1", "x1 and x2 have the same dtype, an integer one or bool"), BROADCAST];
    row(name, doc, C, Traps::Never, |infer| same_dtype(infer, |dtype| !dtype.is_float()), eval)
}

/// Integers only.
const fn shifts(name: &'static str, doc: &'static str, eval: Run) -> Operator {
    const C: &[Constraint] = &[
        constraint("C1", "x1 and x2 have the same integer dtype"),
        BROADCAST,
        constraint("C3", "every element of x2 is at least 0 and below the number of bits of x1"),
    ];
    row(name, doc, C, Traps::OnIntegers, |infer| same_dtype(infer, DType::is_integer), eval)
}

/// Any dtype; the result is bool.
const fn compares(name: &'static str, doc: &'static str, eval: Run) -> Operator {
    const C: &[Constraint] = &[constraint("C1", "x1 and x2 have the same dtype"), BROADCAST];
    row(name, doc, C, Traps::Never, truth, eval)
}

/// Any dtype as truth values; the result is bool.
const fn logical(name: &'static str, eval: Run) -> Operator {
    const C: &[Constraint] = &[constraint("C1", "x1 and x2 have the same dtype"), BROADCAST];
    const DOC: &str = "The connective on truth values, as a bool tensor: nonzero is true, and so is \
                       NaN, as in NumPy (TVM deduces the dtype of x1, and lowers only bool).";
    row(name, DOC, C, Traps::Never, truth, eval)
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

/// Both operands, stretched to the shape of the result.
fn operands(eval: &Eval) -> Result<(Tensor, Tensor), Stop> {
    let (_, shape) = eval.out_tensor()?;
    Ok((broadcast_to(eval.tensor("x1")?, &shape), broadcast_to(eval.tensor("x2")?, &shape)))
}

fn map_floats(eval: &Eval, f: fn(f64, f64) -> f64) -> Result<Value, Stop> {
    let (a, b) = operands(eval)?;
    eval.floats(a.dtype(), zipped(a.to_floats(), &b.to_floats(), f))
}

fn map_ints(eval: &Eval, f: fn(i128, i128) -> i128) -> Result<Value, Stop> {
    let (a, b) = operands(eval)?;
    let values = zipped(a.to_ints(), &b.to_ints(), f);
    Ok(Value::Tensor(Tensor::from_ints(a.dtype(), values)))
}

fn map(
    eval: &Eval,
    float: fn(f64, f64) -> f64,
    int: fn(i128, i128) -> i128,
) -> Result<Value, Stop> {
    let (dtype, _) = eval.out_tensor()?;
    if dtype.is_float() { map_floats(eval, float) } else { map_ints(eval, int) }
}

fn zipped<T: Copy>(mut a: ArrayD<T>, b: &ArrayD<T>, f: fn(T, T) -> T) -> ArrayD<T> {
    a.zip_mut_with(b, |a, &b| *a = f(*a, b));
    a
}

fn compare(
    eval: &Eval,
    float: fn(&f64, &f64) -> bool,
    int: fn(&i128, &i128) -> bool,
) -> Result<Value, Stop> {
    let (a, b) = operands(eval)?;
    let answers = match (a.elements(), b.elements()) {
        (Elements::Float(a), Elements::Float(b)) => Zip::from(&a).and(&b).map_collect(float),
        _ => Zip::from(&a.to_ints()).and(&b.to_ints()).map_collect(int),
    };
    Ok(Value::Tensor(Tensor::from_bools(answers)))
}

fn logic(eval: &Eval, f: fn(bool, bool) -> bool) -> Result<Value, Stop> {
    let (a, b) = operands(eval)?;
    Ok(Value::Tensor(Tensor::from_bools(zipped(a.to_bools(), &b.to_bools(), f))))
}

/// For shifts, which deduction keeps from floats.
const NO_FLOATS: fn(f64, f64) -> f64 = |_, _| f64::NAN;

/// A function that has no result for some integers: those are a trap under `C3`, which says that
/// the one `relation` the other.
fn checked(
    eval: &Eval,
    float: fn(f64, f64) -> f64,
    int: fn(DType, i128, i128) -> Option<i128>,
    relation: &str,
) -> Result<Value, Stop> {
    let (dtype, shape) = eval.out_tensor()?;
    if dtype.is_float() {
        return map_floats(eval, float);
    }
    let (a, b) = operands(eval)?;
    let mut values = Vec::with_capacity(a.len());
    for (&a, &b) in a.to_ints().iter().zip(&b.to_ints()) {
        values.push(int(dtype, a, b).ok_or_else(|| {
            let position = values.len();
            let index: Vec<usize> = strides(&shape)
                .iter()
                .zip(&shape)
                .map(|(step, extent)| position / step % extent)
                .collect();
            eval.trap("C3", format!("{a} {relation} {b}, at element {index:?} of the result"))
        })?);
    }
    Ok(Value::Tensor(Tensor::from_ints(dtype, array(&shape, values))))
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
