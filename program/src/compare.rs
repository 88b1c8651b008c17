//! Comparison of results: bit for bit (`==`), or within a few units in the last place (`~=`).

use relax_semantics::show::show_number;
use relax_semantics::tensor::{Number, Tensor};
use relax_semantics::value::{Storage, Value, tensor_type};
use relax_syntax::dtype::DType;

/// How a result is compared with the expected value; later ones let more pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Relation {
    /// `==`: dtype, shape and every bit; NaNs are all alike, `-0.0` is not `0.0`.
    Equal,
    /// `~=`: dtype and shape, and every float within [`tolerance`]; integers exactly.
    Close,
    /// dtype and shape, and integers exactly; floats are any.
    Shaped,
    /// dtype and shape.
    Typed,
    /// dtype and rank.
    Ranked,
}

impl Relation {
    /// Whether integers and truth values may be any.
    #[must_use]
    pub fn leaves_integers(self) -> bool {
        self >= Relation::Typed
    }
}

/// How far from `want` a result of `dtype` may be: 4 units in the last place of `want`, but of no
/// less than 2⁻¹⁰ of `scale`, the largest magnitude in the tensor.
///
/// The rounding error of a sum is relative to the magnitudes that are summed, not to the sum: where
/// terms cancel, a correct evaluation in another order differs by units in the last place of the
/// terms. The largest element stands for them; 2⁻¹⁰ keeps an error that is large against the tensor
/// from passing as one of cancellation. 4 units: both sides round the result once, and the
/// reference functions (`exp`, `erf`, …) are right within one unit.
#[must_use]
pub fn tolerance(dtype: DType, want: f64, scale: f64) -> f64 {
    4.0 * unit_in_last_place(dtype, want.abs().max(scale / 1024.0))
}

/// The distance of neighbouring numbers of `dtype` at a magnitude.
fn unit_in_last_place(dtype: DType, magnitude: f64) -> f64 {
    let (digits, least_exponent) = match dtype {
        DType::F16 => (10, -14),
        DType::BF16 => (7, -126),
        DType::F32 => (23, -126),
        DType::F64 => (52, -1022),
        _ => return 0.0,
    };
    let exponent = if magnitude == 0.0 { least_exponent } else { libm::ilogb(magnitude) };
    libm::ldexp(1.0, exponent.max(least_exponent) - digits)
}

/// The largest absolute difference of two elements at one place: infinite where shapes or dtypes differ, where NaN
/// meets a number, or an infinity anything else than itself. Elements that are equal, or NaN both, differ by 0.
#[must_use]
pub fn largest_difference(want: &Tensor, got: &Tensor) -> f64 {
    if want.shape() != got.shape() || want.dtype() != got.dtype() {
        return f64::INFINITY;
    }
    let difference = |at: usize| {
        let (want, got) = (want.number(at).as_f64(), got.number(at).as_f64());
        if want == got || (want.is_nan() && got.is_nan()) {
            return 0.0;
        }
        let difference = (want - got).abs();
        if difference.is_nan() { f64::INFINITY } else { difference }
    };
    (0..want.len()).map(difference).fold(0.0, f64::max)
}

/// Holds `got` against `want`.
///
/// # Errors
/// The first difference, as a sentence.
pub fn compare(relation: Relation, want: &Value, got: &Value) -> Result<(), String> {
    compare_sums(relation, want, got, 0.0)
}

/// As [`compare`]; where floats are close, they may also be off by 4 units that f64 has at `summed`, the magnitude of what
/// was summed in it: where terms cancel but for something smaller than such a unit, a sum that is not compensated
/// loses that, and no element of the result tells how large they were.
///
/// # Errors
/// The first difference, as a sentence.
pub fn compare_sums(
    relation: Relation,
    want: &Value,
    got: &Value,
    summed: f64,
) -> Result<(), String> {
    let lost = if summed == 0.0 { 0.0 } else { tolerance(DType::F64, summed, summed) };
    match (want, got) {
        (Value::Tensor(want), Value::Tensor(got)) => tensors(relation, want, got, lost),
        (Value::Tuple(want), Value::Tuple(got)) => {
            if want.len() != got.len() {
                return Err(format!("expected {} items, found {}", want.len(), got.len()));
            }
            want.iter().zip(got).enumerate().try_for_each(|(index, (want, got))| {
                compare_sums(relation, want, got, summed)
                    .map_err(|why| format!("item {index}: {why}"))
            })
        }
        (Value::Shape(want), Value::Shape(got)) if want == got => Ok(()),
        (Value::Shape(want), Value::Shape(got))
            if relation == Relation::Ranked && want.len() == got.len() =>
        {
            Ok(())
        }
        (Value::Shape(want), Value::Shape(got)) => {
            Err(format!("expected the shape {want:?}, found {got:?}"))
        }
        (Value::Prim(dtype, want), Value::Prim(found, got)) => {
            prims(relation, (*dtype, *want), (*found, *got), lost)
        }
        (Value::Str(want), Value::Str(got)) if want == got => Ok(()),
        (Value::Global(want), Value::Global(got)) if want == got => Ok(()),
        (Value::None, Value::None) => Ok(()),
        // What tensors in it hold is compared where they are results.
        (Value::Storage(want), Value::Storage(got)) => {
            let size = |storage: &Storage| (storage.bytes, storage.dtype);
            let shown = |(bytes, dtype): (i64, DType)| format!("{bytes} bytes of {dtype}");
            match (size(want), size(got)) {
                (want, got) if want == got => Ok(()),
                (want, got) => Err(format!(
                    "expected a storage of {}, found one of {}",
                    shown(want),
                    shown(got)
                )),
            }
        }
        _ => Err(format!("expected {}, found {}", want.kind(), got.kind())),
    }
}

fn prims(
    relation: Relation,
    (dtype, want): (DType, Number),
    (found, got): (DType, Number),
    lost: f64,
) -> Result<(), String> {
    if dtype != found {
        return Err(format!("expected a scalar of dtype {dtype}, found {found}"));
    }
    tensors(relation, &Tensor::scalar(dtype, want), &Tensor::scalar(found, got), lost)
}

fn tensors(relation: Relation, want: &Tensor, got: &Tensor, lost: f64) -> Result<(), String> {
    let is_alike = match relation {
        Relation::Ranked => want.shape().len() == got.shape().len(),
        _ => want.shape() == got.shape(),
    };
    if want.dtype() != got.dtype() || !is_alike {
        return Err(format!("expected {}, found {}", tensor_type(want), tensor_type(got)));
    }
    if relation == Relation::Ranked {
        return Ok(());
    }
    if want.undefined_elements() != got.undefined_elements() {
        return Err("elements differ in whether anything was written to them".to_owned());
    }
    let (dtype, scale) = (want.dtype(), largest_magnitude(want));
    let agree = |want: Number, got: Number| match (relation, want, got) {
        (Relation::Close, Number::Float(a), Number::Float(b)) if a.is_finite() => {
            a == b || (a - b).abs() <= tolerance(dtype, a, scale).max(lost)
        }
        (Relation::Shaped, Number::Float(_), Number::Float(_)) | (Relation::Typed, ..) => true,
        _ => same(want, got),
    };
    let wrong: Vec<usize> =
        (0..want.len()).filter(|&p| !agree(want.number(p), got.number(p))).collect();
    wrong.first().map_or(Ok(()), |&first| Err(difference(want, got, first, wrong.len())))
}

/// Bit for bit, but that NaNs are all alike.
fn same(a: Number, b: Number) -> bool {
    match (a, b) {
        (Number::Float(a), Number::Float(b)) => {
            a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan())
        }
        (a, b) => a == b,
    }
}

/// Of the finite elements; 0 when there is none.
#[must_use]
pub fn largest_magnitude(tensor: &Tensor) -> f64 {
    let magnitudes = (0..tensor.len()).map(|position| tensor.number(position).as_f64().abs());
    magnitudes.filter(|magnitude| magnitude.is_finite()).fold(0.0, f64::max)
}

/// The difference at one position of a tensor's elements, of so many that there are, as a sentence.
#[must_use]
pub fn difference(want: &Tensor, got: &Tensor, position: usize, count: usize) -> String {
    let strides = relax_semantics::tensor::strides(want.shape());
    let index: Vec<usize> = want
        .shape()
        .iter()
        .zip(strides)
        .map(|(&extent, step)| position / step % extent.max(1))
        .collect();
    let text = |tensor: &Tensor| show_number(tensor.dtype(), tensor.number(position));
    let (expected, found) = (text(want), text(got));
    let more =
        if count > 1 { format!(" ({count} of {} differ)", want.len()) } else { String::new() };
    format!("at {index:?}: expected {expected}, found {found}{more}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::Context;

    fn value(text: &str) -> Value {
        Context::default().read("x", text, None).expect("the SPECs of these tests are right")
    }

    fn agree(relation: Relation, want: &str, got: &str) -> bool {
        compare(relation, &value(want), &value(got)).is_ok()
    }

    fn apart(want: &str, got: &str) -> f64 {
        match (value(want), value(got)) {
            (Value::Tensor(want), Value::Tensor(got)) => largest_difference(&want, &got),
            other => panic!("no tensors: {other:?}"),
        }
    }

    #[test]
    fn the_largest_difference_is_not_fooled() {
        assert_eq!(apart("[1.0, 2.0, -3.0]", "[1.0, 2.5, -4.0]"), 1.0);
        assert_eq!(apart("[nan, inf, -inf, -0.0]", "[nan, inf, -inf, 0.0]"), 0.0);
        for (want, got) in [
            ("[1.0, 2.0]", "[1.0, nan]"),
            ("[1.0, nan]", "[1.0, 2.0]"),
            ("[inf, 2.0]", "[-inf, 2.0]"),
            ("[inf, 2.0]", "[1.0, 2.0]"),
            ("[1.0, 2.0]", "[1.0, inf]"),
            ("[1.0, 2.0]", "[1.0]"),
            ("[[1.0, 2.0]]", "[1.0, 2.0]"),
            ("[1.0, 2.0]", "const([1.0, 2.0], \"f64\")"),
            ("[nan]", "[0.0]"),
        ] {
            assert_eq!(apart(want, got), f64::INFINITY, "{want} and {got}");
        }
        assert_eq!(apart("zeros(0)", "zeros(0)"), 0.0);
    }

    #[test]
    fn equal_means_every_bit() {
        assert!(agree(Relation::Equal, "[nan, 1.0]", "[nan, 1.0]"));
        assert!(!agree(Relation::Equal, "[0.0]", "[-0.0]"));
        assert!(!agree(Relation::Equal, "const([1], \"i32\")", "const([1], \"i64\")"));
        assert!(!agree(Relation::Equal, "zeros(0, 2)", "zeros(2, 0)"));
        assert!(!agree(Relation::Equal, "(1, 2)", "(1, 2, 3)"));
        assert!(!agree(Relation::Equal, "shape(2)", "[2]"));
    }

    #[test]
    fn close_is_relative_to_the_magnitudes() {
        assert!(agree(Relation::Close, "[1.0]", "[1.0000004]"));
        assert!(!agree(Relation::Close, "[1.0]", "[1.000001]"));
        assert!(agree(Relation::Close, "[1000.0, 0.0]", "[1000.0, 0.0000002]"));
        assert!(!agree(Relation::Close, "[0.001, 0.0]", "[0.001, 0.0000002]"));
        assert!(agree(Relation::Close, "[inf, nan, 0.0]", "[inf, nan, -0.0]"));
        assert!(!agree(Relation::Close, "[inf]", "[-inf]"));
        assert!(!agree(Relation::Close, "[1.0]", "[nan]"));
        assert!(!agree(Relation::Close, "[5]", "[6]"));
        assert!(
            agree(Relation::Shaped, "[5.0]", "[6.0]") && !agree(Relation::Shaped, "[5]", "[6]")
        );
        assert!(agree(Relation::Typed, "[5]", "[6]") && !agree(Relation::Typed, "[5]", "[5, 5]"));
        assert!(agree(Relation::Ranked, "[5]", "[6, 7]"));
        for other in ["[[5]]", "[5.0]", "shape(5)"] {
            assert!(!agree(Relation::Ranked, "[5]", other), "{other}");
        }
        assert!(agree(Relation::Ranked, "shape(5)", "shape(6)"));
    }

    #[test]
    fn what_cancels_may_be_lost() {
        let beside = |relation, got, summed| {
            compare_sums(relation, &value("[1e-40]"), &value(got), summed).is_ok()
        };
        assert!(beside(Relation::Close, "[-0.0]", 0.5) && !beside(Relation::Close, "[0.0]", 0.0));
        assert!(!beside(Relation::Close, "[0.000001]", 1.0), "f32 is what may not be lost");
        assert!(!beside(Relation::Equal, "[0.0]", 0.5));
    }

    #[test]
    fn tolerance_is_four_units() {
        assert_eq!(tolerance(DType::F16, 1.0, 0.0), 4.0 / 1024.0);
        assert_eq!(tolerance(DType::F32, -3.0, 3.0), 4.0 * f64::powi(2.0, -22));
        assert_eq!(tolerance(DType::BF16, 0.0, 1024.0), 4.0 / 128.0);
        assert_eq!(tolerance(DType::F16, 0.0, 0.0), 4.0 * f64::powi(2.0, -24));
        assert_eq!(tolerance(DType::I32, 7.0, 7.0), 0.0);
    }

    #[test]
    fn a_difference_names_its_place() {
        let why = compare(Relation::Equal, &value("[[1, 2], [3, 4]]"), &value("[[1, 2], [5, 6]]"));
        assert_eq!(why, Err("at [1, 0]: expected 3, found 5 (2 of 4 differ)".to_owned()));
    }
}
