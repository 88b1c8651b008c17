//! `cumsum` and `cumprod`.

use super::fold::{RunningSum, slice};
use super::lanes::Lanes;
use crate::ops::{
    Constraint, Effect, Eval, Evaluate, Family, Infer, Kind, Literal, Operator, Param, Traps,
};
use crate::ops::{Programs, programs};
use crate::ops::{Reject, constraint, normalize_axis, optional, required};
use crate::round::wrap_to;
use crate::stop::Stop;
use crate::tensor::{Elements, Tensor, array};
use crate::value::Value;
use relax_syntax::annotation::{Annotation, Extents, TensorType};
use relax_syntax::dim::Dim;
use relax_syntax::dtype::DType;

const PARAMS: &[Param] = &[
    required("data", Kind::Tensor),
    optional("axis", Kind::OptionalDim, Literal::None),
    optional("dtype", Kind::OptionalDType, Literal::None),
    optional("exclusive", Kind::Bool, Literal::Bool(false)),
];

const CONSTRAINTS: &[Constraint] = &[
    constraint("C1", "axis is in range for data"),
    constraint("C2", "the dtype of the result is not bool: of bools, `dtype` must be given"),
];

const fn scan_row(
    name: &'static str,
    doc: &'static str,
    eval: Evaluate,
    program: Programs,
) -> Operator {
    Operator {
        name,
        aliases: &[],
        family: Family::Reduction,
        doc,
        params: PARAMS,
        constraints: CONSTRAINTS,
        effect: Effect::Pure,
        traps: Traps::Never,
        infer,
        program,
        eval,
    }
}

pub(super) const CUMSUM: Operator = scan_row(
    "cumsum",
    "The sums of the first elements along `axis`, up to and with each one, or before it when \
     `exclusive`; without an axis, of the flattened data. The elements are converted to `dtype` \
     first; integers wrap in it (NumPy widens them), floats are summed in f64 and each result is \
     rounded once.",
    Evaluate::Values(|eval| {
        let floats = |lane: &[f64], exclusive| {
            let mut sum = RunningSum::default();
            running(lane, exclusive, 0.0, |value| {
                sum.add(value);
                sum.total()
            })
        };
        scan(eval, floats, |sum, value| sum + value, 0)
    }),
    Programs::Of(programs::scan::scan),
);

pub(super) const CUMPROD: Operator = scan_row(
    "cumprod",
    "The products of the first elements along `axis`, up to and with each one, or before it when \
     `exclusive`; without an axis, of the flattened data. The elements are converted to `dtype` \
     first; integers wrap in it (NumPy widens them), floats are multiplied in f64 and each result \
     is rounded once.",
    Evaluate::Values(|eval| {
        let floats = |lane: &[f64], exclusive| {
            let mut product = 1.0;
            running(lane, exclusive, 1.0, |value| {
                product *= value;
                product
            })
        };
        scan(eval, floats, i128::wrapping_mul, 1)
    }),
    Programs::Of(programs::scan::scan),
);

fn infer(infer: &mut Infer) -> Result<Annotation, Reject> {
    let data = infer.tensor("data")?;
    let dtype = infer.optional_dtype("dtype")?.or(data.dtype);
    infer.bool("exclusive")?;
    if dtype == Some(DType::Bool) {
        let message = "a scan can't be computed in bool; give another dtype, such as \
                       `dtype=\"i64\"`";
        return Err(infer.reject("C2", message));
    }
    let extents = if infer.is_none("axis") {
        match data.extents.dims() {
            Some(dims) => {
                let length = Dim::product(dims);
                Extents::Known(vec![infer.facts.simplify(&length)])
            }
            None => Extents::Rank(1),
        }
    } else {
        let axis = infer.int("axis")?;
        if let Some(rank) = data.extents.rank() {
            infer.axis("C1", axis, rank)?;
        }
        data.extents
    };
    Ok(Annotation::Tensor(TensorType { extents, dtype }))
}

fn scan(
    eval: &Eval,
    floats: fn(&[f64], bool) -> Vec<f64>,
    combine: fn(i128, i128) -> i128,
    identity: i128,
) -> Result<Value, Stop> {
    let (dtype, shape) = eval.out_tensor()?;
    let data = eval.tensor("data")?.cast(dtype).reshaped(&shape);
    let axis = if eval.is_none("axis") { 0 } else { eval.int("axis") };
    let axis = normalize_axis(axis, shape.len()).expect("invariant: infer has checked the axis");
    let lanes = Lanes::along(&shape, &[axis]);
    let exclusive = eval.bool("exclusive");
    let scanned = match data.elements() {
        Elements::Float(values) => {
            Elements::Float(array(&shape, lanes.scan(slice(&values), |v| floats(v, exclusive))))
        }
        Elements::Int(values) => {
            let ints = |lane: &[i128]| {
                // Wrapped at every step, so that nothing leaves i128.
                let mut state = identity;
                running(lane, exclusive, identity, |value| {
                    state = wrap_to(dtype, combine(state, value));
                    state
                })
            };
            Elements::Int(array(&shape, lanes.scan(slice(&values), ints)))
        }
    };
    Ok(Value::Tensor(Tensor::from_elements(dtype, scanned)))
}

/// The states after each value, or before it when `exclusive`.
fn running<T: Copy>(
    lane: &[T],
    exclusive: bool,
    identity: T,
    mut step: impl FnMut(T) -> T,
) -> Vec<T> {
    let before = exclusive.then_some(identity);
    let states = lane.iter().map(|&value| step(value));
    before.into_iter().chain(states).take(lane.len()).collect()
}
