//! Softmax and its logarithm along an axis.

use super::{DATA, FLOAT_DATA, like_float_data};
use crate::ops::{Effect, Eval, Evaluate, Family, Infer, Literal, Operator, Param, Reject, Traps};
use crate::ops::{Kind, constraint, normalize_axis, optional, product};
use crate::ops::{Programs, programs};
use crate::scalar;
use crate::stop::Stop;
use crate::value::Value;
use ndarray::{ArrayViewMut1, Axis};
use relax_syntax::annotation::Annotation;

const AXIS: Param = optional("axis", Kind::Dim, Literal::Int(-1));
const AXIS_IN_RANGE: crate::ops::Constraint = constraint("C2", "axis is an axis of data");

pub(super) const SOFTMAX: Operator = Operator {
    name: "nn.softmax",
    aliases: &[],
    family: Family::Nn,
    doc: "`exp(x - m) / sum(exp(x - m))` along `axis`, where `m` is the maximum there: computed in \
          f64, rounded once. A row of minus infinities, or with a NaN or plus infinity, is NaN, as \
          the formula gives in NumPy.",
    params: &[DATA, AXIS],
    constraints: &[FLOAT_DATA, AXIS_IN_RANGE],
    effect: Effect::Pure,
    traps: Traps::Never,
    infer,
    program: Programs::Of(programs::normalization::softmax),
    eval: Evaluate::Values(|eval| along_axis(eval, softmax)),
};

pub(super) const LOG_SOFTMAX: Operator = Operator {
    name: "nn.log_softmax",
    aliases: &[],
    family: Family::Nn,
    doc: "`x - m - log(sum(exp(x - m)))` along `axis`, where `m` is the maximum there: computed in \
          f64, rounded once. NaN where softmax is.",
    params: &[DATA, AXIS],
    constraints: &[FLOAT_DATA, AXIS_IN_RANGE],
    effect: Effect::Pure,
    traps: Traps::Never,
    infer,
    program: Programs::Of(programs::normalization::softmax),
    eval: Evaluate::Values(|eval| along_axis(eval, log_softmax)),
};

fn infer(infer: &mut Infer) -> Result<Annotation, Reject> {
    let axis = infer.int("axis")?;
    if let Some(rank) = infer.tensor("data")?.extents.rank() {
        infer.axis("C2", axis, rank)?;
    }
    like_float_data(infer)
}

fn along_axis(eval: &Eval, of_row: fn(ArrayViewMut1<f64>)) -> Result<Value, Stop> {
    let data = eval.tensor("data")?;
    let axis = normalize_axis(eval.int("axis"), data.rank()).expect("invariant: infer checked C2");
    let mut values = data.to_floats();
    // Without elements there are no rows; with some, every row has one.
    if !values.is_empty() {
        values.lanes_mut(Axis(axis)).into_iter().for_each(of_row);
    }
    eval.floats(data.dtype(), values)
}

/// The greatest element; a NaN is left to the sum, which it makes NaN.
fn maximum(row: &ArrayViewMut1<f64>) -> f64 {
    row.iter().copied().fold(f64::NEG_INFINITY, f64::max)
}

/// Softmax of one row in place; attention uses it too.
pub(in crate::ops) fn softmax(mut row: ArrayViewMut1<f64>) {
    let most = maximum(&row);
    row.mapv_inplace(|x| scalar::exp(x - most));
    let total = product::sum(row.iter().copied());
    row.mapv_inplace(|x| x / total);
}

fn log_softmax(mut row: ArrayViewMut1<f64>) {
    let most = maximum(&row);
    let total = product::sum(row.iter().map(|&x| scalar::exp(x - most)));
    let shift = scalar::log(total);
    row.mapv_inplace(|x| (x - most) - shift);
}
