//! Values beside those that are expected, where sums are formed in f32.

use relax_program::compare::{Relation, compare};
use relax_semantics::tensor::Tensor;
use relax_semantics::value::Value;

/// How far sums in f32 may be off in the corpus, of the largest element of a result or of 1: they are of few terms, which are small.
const NEAR: f64 = 1.0 / (1 << 20) as f64;

/// What sums in f32 may change of a value, whatever it is to be otherwise: its elements by a little, and nothing else.
pub(crate) fn near(_: Relation, want: &Value, got: &Value) -> Result<(), String> {
    compare(Relation::Shaped, want, got)?;
    match (want, got) {
        (Value::Tuple(want), Value::Tuple(got)) => {
            want.iter().zip(got).try_for_each(|(want, got)| near(Relation::Shaped, want, got))
        }
        (Value::Tensor(want), Value::Tensor(got)) if want.dtype().is_float() => {
            let values = |tensor: &Tensor| -> Vec<f64> {
                (0..tensor.len()).map(|at| tensor.number(at).as_f64()).collect()
            };
            let (want, got) = (values(want), values(got));
            let finite = want.iter().filter(|value| value.is_finite());
            let bound = NEAR * finite.fold(1.0_f64, |most, value| most.max(value.abs()));
            let is_near = |(want, got): &(&f64, &f64)| {
                want == got || want.is_nan() && got.is_nan() || (*want - *got).abs() <= bound
            };
            match want.iter().zip(&got).find(|both| !is_near(both)) {
                None => Ok(()),
                Some((want, got)) => Err(format!("expected {want}, found {got}")),
            }
        }
        _ => Ok(()),
    }
}
