//! How far rounding may take compiled code from the interpreter: it sums floats in f64 and in text order, compiled code in
//! any order and in f32 where reassociation is allowed, and functions are right within some units in the last place.
//!
//! The bound is on the largest magnitude among inputs and results. Intermediate values may be larger and cancel, so what
//! exceeds the bound is compared with what inputs that are off by a rounding error change: such a case is ill-conditioned.

use crate::compare::{Relation, compare, difference, largest_magnitude, tolerance};
use crate::reals;
use relax_semantics::random::Random;
use relax_semantics::tensor::{Number, Tensor};
use relax_semantics::value::Value;
use relax_syntax::annotation::{Annotation, TensorType};
use relax_syntax::dtype::{Class, DType};
use relax_syntax::ir::Module;
use std::collections::BTreeMap;

/// Terms of the longest sums that the bound allows for, in units of f32 at the largest magnitude. Errors of indexing
/// are of the order of the elements.
const TERMS: f64 = 1024.0;
/// Allowed multiple of the change that perturbed inputs cause.
pub const PERTURBED: f64 = 64.0;

/// What floats are computed in, at least.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precision {
    /// Something is computed in f32.
    F32,
    /// Everything is computed in f64.
    F64,
}

impl Precision {
    /// That of a program: f64 where no value may have narrower floats.
    #[must_use]
    pub fn of(module: &Module) -> Self {
        fn is_narrow(annotation: &Annotation) -> bool {
            let narrower = |dtype: &DType| dtype.is_float() && *dtype != DType::F64;
            match annotation {
                Annotation::Tensor(TensorType { dtype, .. }) => dtype.as_ref().is_none_or(narrower),
                Annotation::Tuple(items) => items.iter().any(is_narrow),
                Annotation::Prim(dtype) => narrower(dtype),
                _ => false,
            }
        }
        let mut values = module.functions().flat_map(|function| &function.vars);
        let is_narrow = values.any(|value| value.annotation.as_ref().is_some_and(is_narrow));
        if is_narrow { Self::F32 } else { Self::F64 }
    }
}

/// The greatest difference that reassociated sums explain in a tensor of this dtype.
#[must_use]
pub fn bound_of_sums(dtype: DType, precision: Precision, scale: f64) -> f64 {
    if !dtype.is_float() {
        return 0.0;
    }
    // Neighbours on either side of a tie round apart.
    let half_unit = match dtype {
        DType::F16 => f64::powi(2.0, -10),
        DType::BF16 => f64::powi(2.0, -7),
        _ => 0.0,
    };
    let unit = match precision {
        Precision::F32 => f64::powi(2.0, -24),
        Precision::F64 => f64::powi(2.0, -53),
    };
    scale * (TERMS * unit + half_unit)
}

/// The greatest difference that functions explain in an f64 tensor, beside some units in the last place; narrower ones
/// round what functions get wrong away.
#[must_use]
pub fn bound_of_functions(dtype: DType, precision: Precision, scale: f64) -> f64 {
    let unit = match precision {
        Precision::F32 => f64::from(f32::EPSILON),
        Precision::F64 => f64::EPSILON,
    };
    if dtype == DType::F64 { scale * 16.0 * unit } else { 0.0 }
}

/// Whether a number is within the bound, or within some units in the last place of what is wanted. `scale` is the largest
/// magnitude in its tensor.
#[must_use]
pub fn is_near(
    (wanted, found): (Number, Number),
    dtype: DType,
    (bound, scale): (f64, f64),
) -> bool {
    let (a, b) = (wanted.as_f64(), found.as_f64());
    match (wanted, found) {
        (Number::Float(_), Number::Float(_)) => {
            let near = bound.max(tolerance(dtype, a, scale));
            a == b || (a.is_nan() && b.is_nan()) || (a.is_finite() && (a - b).abs() <= near)
        }
        _ => wanted == found || (a - b).abs() < bound,
    }
}

/// A tensor with each finite float off by about a rounding error of its dtype, up or down; of f32, where
/// an f64 is computed with in f32.
#[must_use]
pub fn perturbed(tensor: &Tensor, precision: Precision) -> Tensor {
    let step = match tensor.dtype() {
        DType::F16 => f64::powi(2.0, -10),
        DType::BF16 => f64::powi(2.0, -7),
        DType::F64 if precision == Precision::F64 => f64::powi(2.0, -52),
        dtype if dtype.class() == Class::Float => f64::powi(2.0, -23),
        _ => return tensor.clone(),
    };
    let mut random = Random::new(1, "perturbed");
    let off = tensor.to_floats().mapv(|element| {
        let sign = if random.bits() & 1 == 0 { 1.0 } else { -1.0 };
        element * (1.0 + sign * step)
    });
    Tensor::from_floats(tensor.dtype(), off)
}

/// The same of every tensor in a value.
#[must_use]
pub fn perturbed_value(value: &Value) -> Value {
    match value {
        Value::Tensor(tensor) => Value::Tensor(perturbed(tensor, Precision::F64)),
        Value::Tuple(items) => Value::Tuple(items.iter().map(perturbed_value).collect()),
        other => other.clone(),
    }
}

/// The same of constants.
#[must_use]
pub fn perturbed_values<K: Clone + Ord>(values: &BTreeMap<K, Tensor>) -> BTreeMap<K, Tensor> {
    values.iter().map(|(name, tensor)| (name.clone(), perturbed(tensor, Precision::F64))).collect()
}

/// What compiled code may round otherwise than the interpreter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rounding {
    /// Nothing: every bit counts.
    Nothing,
    /// Functions as `exp`, by units in the last place.
    Functions(Precision),
    /// Also float sums, which have any order.
    Sums(Precision),
}

/// How a result of compiled code stands to the interpreter's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Within the bound on rounding errors.
    Near,
    /// Beyond it, and no farther than rounding errors of the inputs take the result: nothing is said about it.
    IllConditioned,
}

/// Compares a result of compiled code with the interpreter's, for inputs of at most this magnitude. `perturbed` gives the
/// interpreter's for inputs that are off by a rounding error, where it gives one.
///
/// # Errors
/// The first difference, as a sentence.
pub fn compare_rounded(
    rounding: Rounding,
    (wanted, found): (&Value, &Value),
    inputs: f64,
    perturbed: impl FnOnce() -> Option<Value>,
) -> Result<Verdict, String> {
    if rounding == Rounding::Nothing {
        return compare(Relation::Equal, wanted, found).map(|()| Verdict::Near);
    }
    compare(Relation::Typed, wanted, found)?;
    let scale = reals::largest_magnitude(std::slice::from_ref(wanted)).max(inputs);
    let Err(first) = within(rounding, (wanted, found), scale, None) else {
        return Ok(Verdict::Near);
    };
    let Some(perturbed) = perturbed() else { return Err(first) };
    within(rounding, (wanted, found), scale, Some(&perturbed)).map(|()| Verdict::IllConditioned)
}

fn within(
    rounding: Rounding,
    both: (&Value, &Value),
    scale: f64,
    perturbed: Option<&Value>,
) -> Result<(), String> {
    match both {
        (Value::Tuple(wanted), Value::Tuple(found)) => {
            let perturbed = match perturbed {
                Some(Value::Tuple(items)) => Some(items),
                _ => None,
            };
            wanted.iter().zip(found).enumerate().try_for_each(|(at, both)| {
                let perturbed = perturbed.and_then(|items| items.get(at));
                within(rounding, both, scale, perturbed).map_err(|why| format!("item {at}: {why}"))
            })
        }
        (Value::Tensor(wanted), Value::Tensor(found)) => {
            let perturbed = match perturbed {
                Some(Value::Tensor(tensor)) => Some(tensor),
                _ => None,
            };
            tensors(rounding, (wanted, found), scale, perturbed)
        }
        (Value::Prim(dtype, wanted), Value::Prim(_, found)) => {
            let scalar = |number: &Number| Tensor::scalar(*dtype, *number);
            let perturbed = match perturbed {
                Some(Value::Prim(_, number)) => Some(scalar(number)),
                _ => None,
            };
            tensors(rounding, (&scalar(wanted), &scalar(found)), scale, perturbed.as_ref())
        }
        (wanted, found) => compare(Relation::Equal, wanted, found),
    }
}

fn tensors(
    rounding: Rounding,
    (wanted, found): (&Tensor, &Tensor),
    inputs: f64,
    perturbed: Option<&Tensor>,
) -> Result<(), String> {
    let dtype = wanted.dtype();
    let own = match rounding {
        Rounding::Nothing => 0.0,
        Rounding::Sums(precision) => bound_of_sums(dtype, precision, inputs),
        Rounding::Functions(precision) => bound_of_functions(dtype, precision, inputs),
    };
    let change =
        perturbed.map_or(0.0, |perturbed| crate::compare::largest_difference(wanted, perturbed));
    let bound = own.max(PERTURBED * change);
    let scale = largest_magnitude(wanted);
    let is_far =
        |&at: &usize| !is_near((wanted.number(at), found.number(at)), dtype, (bound, scale));
    let far: Vec<usize> = (0..wanted.len()).filter(is_far).collect();
    far.first().map_or(Ok(()), |&at| Err(difference(wanted, found, at, far.len())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::Context;

    const SUMS: Rounding = Rounding::Sums(Precision::F32);

    fn value(text: &str) -> Value {
        Context::default().read("x", text, None).expect("the SPECs of these tests are right")
    }

    fn compared(
        rounding: Rounding,
        wanted: &str,
        found: &str,
        perturbed: Option<&str>,
    ) -> Result<Verdict, String> {
        let (wanted, found) = (value(wanted), value(found));
        compare_rounded(rounding, (&wanted, &found), 1.0, || perturbed.map(value))
    }

    #[test]
    fn sums_may_be_off_by_their_terms() {
        let functions = Rounding::Functions(Precision::F32);
        assert_eq!(compared(SUMS, "[1.0, 0.0]", "[1.00006, 0.00006]", None), Ok(Verdict::Near));
        assert!(compared(SUMS, "[1.0, 0.0]", "[1.0, 0.0001]", None).is_err());
        assert!(compared(functions, "[1.0, 0.0]", "[1.00006, 0.0]", None).is_err());
        let near = "[1.0000001, 0.0]";
        assert_eq!(compared(functions, "[1.0, 0.0]", near, None), Ok(Verdict::Near));
        assert!(compared(Rounding::Nothing, "[1.0, 0.0]", near, Some("[2.0, 1.0]")).is_err());
        assert!(
            compared(Rounding::Sums(Precision::F64), "[1.0, 0.0]", "[1.0, 0.00006]", None).is_err()
        );
        assert!(compared(SUMS, "[1.5]", "[2.25]", None).is_err());
        assert!(compared(SUMS, "[1]", "[2]", None).is_err());
        assert!(compared(SUMS, "(1.0, [2.0])", "(1.0, [3.0])", None).is_err());
    }

    #[test]
    fn special_values_are_not_rounded() {
        for (wanted, found) in
            [("nan", "1.0"), ("1.0", "nan"), ("inf", "-inf"), ("inf", "1.0"), ("1.0", "inf")]
        {
            let (wanted, found) = (format!("[{wanted}]"), format!("[{found}]"));
            assert!(compared(SUMS, &wanted, &found, None).is_err(), "{wanted} {found}");
            assert!(compared(SUMS, &wanted, &wanted, None).is_ok());
        }
        assert!(compared(SUMS, "[1.0]", "[1.0, 1.0]", None).is_err());
        assert!(compared(SUMS, "[1.0]", "const([1.0], \"f64\")", None).is_err());
    }

    #[test]
    fn what_inputs_change_says_nothing() {
        let case = |perturbed| compared(SUMS, "[1.0]", "[1.5]", Some(perturbed));
        assert_eq!(case("[1.01]"), Ok(Verdict::IllConditioned));
        assert!(case("[1.001]").is_err());
    }
}
