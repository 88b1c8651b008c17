//! Average pooling to a given size of the result.

use super::layout::{DATA, Layout};
use crate::ops::{Effect, Eval, Evaluate, Family, Infer, Literal, Operator, Traps};
use crate::ops::{Kind, Reject, constraint, optional, required, sum::Sum};
use crate::ops::{Programs, programs};
use crate::stop::Stop;
use crate::tensor::{Elements, Tensor, array};
use crate::value::Value;
use relax_syntax::annotation::{Annotation, Extents, TensorType};
use relax_syntax::dim::Dim;
use relax_syntax::dtype::DType;
use relax_syntax::facts::{Claim, Relation};
use std::ops::Range;

pub(super) const ADAPTIVE_AVG_POOL2D: Operator = Operator {
    name: "nn.adaptive_avg_pool2d",
    aliases: &[],
    family: Family::Convolution,
    doc: "The averages over `output_size` windows (height and width; one number stands for both, \
          None for those of data). Of `m` windows over `n` elements, window `i` goes from \
          `floor(i * n / m)` to `ceil((i + 1) * n / m)`: windows may overlap, and none is empty. \
          Averages of integers are truncated towards zero.",
    params: &[
        required("data", Kind::Tensor),
        optional("output_size", Kind::OptionalDims, Literal::None),
        optional("layout", Kind::Str, Literal::Str("NCHW")),
        optional("out_layout", Kind::OptionalStr, Literal::None),
    ],
    constraints: &[
        constraint("C1", "data is not bool"),
        constraint("C2", "output_size has one entry or two, each at least 0"),
        constraint("C3", "layout and out_layout are orders of the letters NCHW"),
        constraint("C4", "data has rank 4"),
        constraint("C5", "data has a height and width of at least 1"),
    ],
    effect: Effect::Pure,
    traps: Traps::Never,
    infer,
    program: Programs::Of(programs::pooling::adaptive),
    eval: Evaluate::Values(eval),
};

fn infer(infer: &mut Infer) -> Result<Annotation, Reject> {
    infer.require_dtype("C1", "data", |dtype| dtype != DType::Bool)?;
    let size = output_size(infer)?;
    let layout = Layout::read(infer, "C3", "layout", DATA[2])?;
    let out_layout = Layout::read_or(infer, "C3", "out_layout", &layout, DATA[2])?;
    let extents = match layout.dims_of(infer, "C4", "data")? {
        Some(mut dims) => {
            for dim in &dims[2..] {
                infer.require("C5", Claim::new(1, Relation::AtMost, dim.clone()), || {
                    format!("`data` must have a height and width of at least 1, found {dim}")
                })?;
            }
            if let Some(size) = size {
                dims.splice(2.., size);
            }
            Extents::Known(out_layout.arranged(&dims))
        }
        None => Extents::Rank(4),
    };
    Ok(Annotation::Tensor(TensorType { extents, dtype: infer.tensor("data")?.dtype }))
}

fn output_size(infer: &mut Infer) -> Result<Option<[Dim; 2]>, Reject> {
    if infer.is_none("output_size") {
        return Ok(None);
    }
    let size = match infer.dims("output_size")?.as_slice() {
        [both] => [both.clone(), both.clone()],
        [height, width] => [height.clone(), width.clone()],
        other => {
            let message = format!("`output_size` has one entry or two, found {}", other.len());
            return Err(infer.reject("C2", message));
        }
    };
    for dim in &size {
        infer.require("C2", Claim::new(0, Relation::AtMost, dim.clone()), || {
            format!("`output_size` must be at least 0, found {dim}")
        })?;
    }
    Ok(Some(size))
}

/// The elements of window `at` of `windows` over `extent` elements.
fn window(at: usize, windows: usize, extent: usize) -> Range<usize> {
    let bound = |numerator: u128| usize::try_from(numerator).expect("invariant: within the extent");
    let (at, windows, extent) = (at as u128, windows as u128, extent as u128);
    bound(at * extent / windows)..bound(((at + 1) * extent).div_ceil(windows))
}

fn eval(eval: &Eval) -> Result<Value, Stop> {
    let (dtype, shape) = eval.out_tensor()?;
    let layout = Layout::of(eval, "layout", DATA[2]).expect("invariant: it has a default");
    let out_layout = Layout::of(eval, "out_layout", DATA[2]).unwrap_or(layout.clone());
    let data = layout.canonical_tensor(eval.tensor("data")?);
    let shape = out_layout.canonical(&shape);
    let average = match data.elements() {
        Elements::Float(values) => Elements::Float(averages(data.shape(), &shape, |positions| {
            let (mut sum, mut count) = (Sum::default(), 0usize);
            positions.for_each(|at| {
                sum.add(values.as_slice().expect(ROW_MAJOR)[at]);
                count += 1;
            });
            sum.value() / count as f64
        })),
        Elements::Int(values) => Elements::Int(averages(data.shape(), &shape, |positions| {
            let values = values.as_slice().expect(ROW_MAJOR);
            let (sum, count) = positions.fold((0, 0), |(sum, n), at| (sum + values[at], n + 1));
            sum / count
        })),
    };
    let result = Tensor::from_elements(dtype, average);
    Ok(Value::Tensor(out_layout.arranged_tensor(&result)))
}

const ROW_MAJOR: &str = "invariant: tensors are in row-major order";

/// For every element of `shape` what `average` makes of the positions of its window in `from`.
fn averages<T>(
    from: &[usize],
    shape: &[usize],
    average: impl Fn(&mut dyn Iterator<Item = usize>) -> T,
) -> ndarray::ArrayD<T> {
    let (height, width) = (from[2], from[3]);
    let mut result = Vec::with_capacity(shape.iter().product());
    for channel in 0..shape[0] * shape[1] {
        for i in 0..shape[2] {
            for j in 0..shape[3] {
                let columns = window(j, shape[3], width);
                let row = |y: usize| (channel * height + y) * width;
                let rows = window(i, shape[2], height);
                result.push(average(
                    &mut rows.flat_map(|y| columns.clone().map(move |x| row(y) + x)),
                ));
            }
        }
    }
    array(shape, result)
}
