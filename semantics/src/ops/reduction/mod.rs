//! Reductions and scans.

mod deduce;
mod fold;
mod pick;
mod scan;

pub(super) mod lanes;

pub(super) use fold::{greater, lesser};

use super::{
    Constraint, Effect, Evaluate, Family, Infer, Kind, Literal, Operator, Param, Reject, Traps,
};
use super::{constraint, optional, required};
use crate::ops::{Programs, programs};
use relax_syntax::annotation::{Annotation, TensorType};
use relax_syntax::dtype::DType;

pub(super) static OPERATORS: &[Operator] = &[
    reduction(
        "sum",
        "The sum of the elements over `axis` (an axis, a list of them, or all); the sum of nothing \
         is 0. Integers wrap in their dtype, and of bools it is whether any is true, as in TVM; \
         NumPy widens both. Floats are summed in f64 with compensation and rounded once.",
        &[AXES],
        Traps::Never,
        |infer| infer_fold(infer, Accepts::Any, NonEmpty::Never),
        Evaluate::Values(|eval| fold::reduce(eval, fold::sum, |v| v.iter().sum())),
        Programs::Of(programs::reduction::fold),
    ),
    reduction(
        "mean",
        "The mean of the elements over `axis`. Of floats: the mean of nothing is NaN. Of integers: \
         the exact sum, divided and truncated towards zero, as in TVM (but for TVM's sum, which \
         wraps first; NumPy gives floats).",
        &[
            AXES,
            constraint("C2", "the dtype of x is not bool"),
            constraint("C3", "of integers, no reduced dim is 0"),
        ],
        Traps::Never,
        |infer| infer_fold(infer, Accepts::Numbers, NonEmpty::OfIntegers),
        Evaluate::Values(|eval| fold::reduce(eval, fold::mean, fold::truncated_mean)),
        Programs::Of(programs::reduction::fold),
    ),
    reduction(
        "max",
        "The greatest element over `axis`. A NaN makes the result NaN, as in NumPy (TVM's result \
         then depends on its place); 0.0 is greater than -0.0. Of bools: whether any is true.",
        &[AXES, SOME],
        Traps::Never,
        |infer| infer_fold(infer, Accepts::Any, NonEmpty::Always),
        Evaluate::Values(|eval| {
            fold::reduce(
                eval,
                |v| v.iter().copied().fold(f64::NEG_INFINITY, greater),
                |v| v.iter().copied().fold(i128::MIN, i128::max),
            )
        }),
        Programs::Of(programs::reduction::extreme),
    ),
    reduction(
        "min",
        "The least element over `axis`. A NaN makes the result NaN, as in NumPy (TVM's result then \
         depends on its place); -0.0 is less than 0.0. Of bools: whether all are true.",
        &[AXES, SOME],
        Traps::Never,
        |infer| infer_fold(infer, Accepts::Any, NonEmpty::Always),
        Evaluate::Values(|eval| {
            fold::reduce(
                eval,
                |v| v.iter().copied().fold(f64::INFINITY, lesser),
                |v| v.iter().copied().fold(i128::MAX, i128::min),
            )
        }),
        Programs::Of(programs::reduction::extreme),
    ),
    reduction(
        "prod",
        "The product of the elements over `axis`; the product of nothing is 1. Integers wrap in \
         their dtype, and of bools it is whether all are true, as in TVM. Floats are multiplied in \
         f64 and rounded once.",
        &[AXES],
        Traps::Never,
        |infer| infer_fold(infer, Accepts::Any, NonEmpty::Never),
        Evaluate::Values(|eval| {
            fold::reduce(
                eval,
                |v| v.iter().product(),
                |v| v.iter().fold(1, |product: i128, &factor| product.wrapping_mul(factor)),
            )
        }),
        Programs::Of(programs::reduction::fold),
    ),
    reduction(
        "std",
        "The standard deviation over `axis`: the square root of `variance`; of nothing it is NaN. \
         Floats only (TVM's result for integers is not meaningful).",
        &[AXES, FLOATS],
        Traps::Never,
        |infer| infer_fold(infer, Accepts::Floats, NonEmpty::Never),
        Evaluate::Values(|eval| {
            fold::reduce(eval, |v| fold::variance(v).sqrt(), fold::no_integers)
        }),
        Programs::Of(programs::reduction::variance),
    ),
    reduction(
        "variance",
        "The population variance over `axis`: the mean of the squared distances from the mean, in \
         f64; of nothing it is NaN. Floats only (TVM truncates for integers).",
        &[AXES, FLOATS],
        Traps::Never,
        |infer| infer_fold(infer, Accepts::Floats, NonEmpty::Never),
        Evaluate::Values(|eval| fold::reduce(eval, fold::variance, fold::no_integers)),
        Programs::Of(programs::reduction::variance),
    ),
    pick::MEDIAN,
    scan::CUMSUM,
    scan::CUMPROD,
    pick::ARGMAX,
    pick::ARGMIN,
];

const AXES: Constraint = constraint("C1", "axis is in range for x, and no axis occurs twice");
const SOME: Constraint = constraint("C2", "no reduced dim is 0");
const FLOATS: Constraint = constraint("C2", "the dtype of x is a float dtype");

const fn reduction(
    name: &'static str,
    doc: &'static str,
    constraints: &'static [Constraint],
    traps: Traps,
    infer: fn(&mut Infer) -> Result<Annotation, Reject>,
    eval: Evaluate,
    program: Programs,
) -> Operator {
    Operator {
        name,
        aliases: &[],
        family: Family::Reduction,
        doc,
        params: PARAMS,
        constraints,
        effect: Effect::Pure,
        traps,
        infer,
        program,
        eval,
    }
}

const PARAMS: &[Param] = &[
    required("x", Kind::Tensor),
    optional("axis", Kind::OptionalDims, Literal::None),
    optional("keepdims", Kind::Bool, Literal::Bool(false)),
];

/// Which dtypes a reduction takes; the others are refused under `C2`.
enum Accepts {
    Any,
    Numbers,
    Floats,
}

/// When a reduced dim of 0 is refused.
enum NonEmpty {
    /// Under `C2`.
    Always,
    /// Under `C3`, for there is no integer NaN.
    OfIntegers,
    Never,
}

fn infer_fold(
    infer: &mut Infer,
    accepts: Accepts,
    non_empty: NonEmpty,
) -> Result<Annotation, Reject> {
    let x = infer.tensor("x")?;
    match accepts {
        Accepts::Any => {}
        Accepts::Numbers => infer.require_dtype("C2", "x", |dtype| dtype != DType::Bool)?,
        Accepts::Floats => infer.require_dtype("C2", "x", DType::is_float)?,
    }
    let axes = deduce::axes(infer)?;
    let keepdims = infer.bool("keepdims")?;
    let extents = deduce::kept(infer, &x.extents, axes.as_deref(), keepdims)?;
    match non_empty {
        NonEmpty::Always => deduce::require_some(infer, "C2", &x.extents, axes.as_deref())?,
        NonEmpty::OfIntegers if x.dtype.is_some_and(DType::is_integer) => {
            deduce::require_some(infer, "C3", &x.extents, axes.as_deref())?;
        }
        NonEmpty::OfIntegers | NonEmpty::Never => {}
    }
    Ok(Annotation::Tensor(TensorType { extents, dtype: x.dtype }))
}

#[cfg(test)]
mod tests;
