//! Convolution (as everywhere in machine learning, a cross-correlation) and its adjoint.

use super::layout::{DATA, KERNEL, Layout};
use super::taps::{Axis, Direction, Taps};
use super::window::{Window, for_each_dim};
use crate::ops::Programs;
use crate::ops::nn::require_value;
use crate::ops::{
    Constraint, Effect, Eval, Evaluate, Family, Infer, Literal, Operator, Param, Traps,
};
use crate::ops::{Kind, Reject, constraint, optional, product, required};
use crate::stop::Stop;
use crate::tensor::{Elements, Tensor, array};
use crate::value::Value;
use ndarray::{Array2, ArrayD, ArrayView2, LinalgScalar};
use relax_syntax::annotation::{Annotation, Extents, TensorType};
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::dtype::DType;
use relax_syntax::facts::{Claim, Relation};
use std::num::Wrapping;

const CONV_DOC: &str = "Convolution (a cross-correlation): element (n, o, y…) is the sum over input \
    channels and window elements of data times weight, where windows start `strides` apart and \
    their elements are `dilation` apart. Padding is zeros. With `groups` output channels see only \
    their group's input channels. Floats are summed in f64 and rounded once; integers are exact \
    and wrap once.";

const TRANSPOSE_DOC: &str = "Transposed convolution, the adjoint of a convolution: the data is \
    spread by `strides` with zeros between its elements, padded by what the window reaches beyond \
    `padding` (and by `output_padding` more at the end), and convolved with the mirrored kernel. \
    The extent of the result is `(n - 1) * stride - padding before and after + dilation * \
    (k - 1) + output_padding + 1`.";

const SAME_DTYPE: Constraint = constraint("C1", "data and weight have the same dtype, not bool");
const WINDOW: Constraint = constraint(
    "C2",
    "strides and dilation are at least 1, padding is at least 0; each has one entry or one a \
     spatial dim, padding also two a spatial dim: all before, then all after",
);
const LAYOUTS: Constraint = constraint(
    "C3",
    "data_layout and out_layout are orders of the letters NCW (2d: NCHW), kernel_layout of OIW \
     (2d: OIHW)",
);
const RANK: Constraint = constraint("C4", "data and weight have rank 3 (2d: rank 4)");

static CONSTRAINTS: [Constraint; 7] = [
    SAME_DTYPE,
    WINDOW,
    LAYOUTS,
    RANK,
    constraint("C5", "groups is at least 1 and divides the number of output channels"),
    constraint("C6", "data has groups times as many channels as weight has input channels"),
    constraint(
        "C7",
        "the kernel has extents of at least 1 and, dilated, is not larger than the padded data",
    ),
];

static TRANSPOSE_CONSTRAINTS: [Constraint; 8] = [
    SAME_DTYPE,
    WINDOW,
    LAYOUTS,
    RANK,
    constraint("C5", "groups is at least 1 and divides the number of channels of data"),
    constraint("C6", "data has as many channels as weight has input channels"),
    constraint("C7", "data, kernel and result have spatial extents of at least 1"),
    constraint(
        "C8",
        "output_padding is at least 0 and less than the stride, with one entry or one a spatial \
         dim",
    ),
];

macro_rules! convolution {
    ($name:literal, $doc:expr, $ones:expr, $zeros:expr, [$($output_padding:expr)?],
     $layouts:expr, $constraints:expr, $direction:ident, $spatial:literal) => {
        Operator {
            name: $name,
            aliases: &[],
            family: Family::Convolution,
            doc: $doc,
            params: &[
                required("data", Kind::Tensor),
                required("weight", Kind::Tensor),
                optional("strides", Kind::Dims, $ones),
                optional("padding", Kind::Dims, $zeros),
                $($output_padding,)?
                optional("dilation", Kind::Dims, $ones),
                optional("groups", Kind::Dim, Literal::Int(1)),
                optional("data_layout", Kind::Str, Literal::Str($layouts.0)),
                optional("kernel_layout", Kind::Str, Literal::Str($layouts.1)),
                optional("out_layout", Kind::OptionalStr, Literal::None),
                optional("out_dtype", Kind::OptionalDType, Literal::None),
            ],
            constraints: $constraints,
            effect: Effect::Pure,
            traps: Traps::Never,
            infer: |infer| infer_along(infer, Direction::$direction, $spatial),
            program: Programs::Of(Direction::$direction.program()),
            eval: Evaluate::Values(|eval| run(eval, Direction::$direction, $spatial)),
        }
    };
}

const ONE: Literal = Literal::Int(1);
const ZERO: Literal = Literal::Int(0);
const ONES: Literal = Literal::Ints(&[1, 1]);
const ZEROS: Literal = Literal::Ints(&[0, 0]);
const OUTPUT_PADDING: Param = optional("output_padding", Kind::Dims, ZERO);
const OUTPUT_PADDING_2D: Param = optional("output_padding", Kind::Dims, ZEROS);

pub(super) const CONV1D: Operator =
    convolution!("nn.conv1d", CONV_DOC, ONE, ZERO, [], ("NCW", "OIW"), &CONSTRAINTS, Forward, 1);
pub(super) const CONV2D: Operator = convolution!(
    "nn.conv2d",
    CONV_DOC,
    ONES,
    ZEROS,
    [],
    ("NCHW", "OIHW"),
    &CONSTRAINTS,
    Forward,
    2
);
pub(super) const CONV1D_TRANSPOSE: Operator = convolution!(
    "nn.conv1d_transpose",
    TRANSPOSE_DOC,
    ONE,
    ZERO,
    [OUTPUT_PADDING],
    ("NCW", "IOW"),
    &TRANSPOSE_CONSTRAINTS,
    Transposed,
    1
);
pub(super) const CONV2D_TRANSPOSE: Operator = convolution!(
    "nn.conv2d_transpose",
    TRANSPOSE_DOC,
    ONES,
    ZEROS,
    [OUTPUT_PADDING_2D],
    ("NCHW", "IOHW"),
    &TRANSPOSE_CONSTRAINTS,
    Transposed,
    2
);

fn infer_along(
    infer: &mut Infer,
    direction: Direction,
    spatial: usize,
) -> Result<Annotation, Reject> {
    let dtype = infer.same_dtype("C1", &["data", "weight"])?;
    infer.require_dtype("C1", "data", |dtype| dtype != DType::Bool)?;
    infer.require_dtype("C1", "weight", |dtype| dtype != DType::Bool)?;
    let dtype = infer.optional_dtype("out_dtype")?.or(dtype);
    let window = Window::read(infer, "C2", spatial)?;
    let data_layout = Layout::read(infer, "C3", "data_layout", DATA[spatial])?;
    let kernel_layout = Layout::read(infer, "C3", "kernel_layout", KERNEL[spatial])?;
    let out_layout = Layout::read_or(infer, "C3", "out_layout", &data_layout, DATA[spatial])?;
    let groups = infer.int("groups")?;
    if groups < 1 {
        return Err(infer.reject("C5", format!("`groups` must be at least 1, found {groups}")));
    }
    let extra = match direction {
        Direction::Forward => vec![0; spatial],
        Direction::Transposed => output_padding(infer, &window, spatial)?,
    };
    let data = data_layout.dims_of(infer, "C4", "data")?;
    let kernel = kernel_layout.dims_of(infer, "C4", "weight")?;
    let (Some(data), Some(kernel)) = (data, kernel) else {
        let extents = Extents::Rank(spatial + 2);
        return Ok(Annotation::Tensor(TensorType { extents, dtype }));
    };
    let channels = require_channels(infer, direction, &data, &kernel, groups)?;
    let mut dims = vec![data[0].clone(), channels];
    for at in 0..spatial {
        let (dim, size) = (&data[at + 2], &kernel[at + 2]);
        dims.push(match direction {
            Direction::Forward => {
                let room = window.room(infer, "C7", at, dim, (size, 0))?;
                window.count(infer, at, room)
            }
            Direction::Transposed => transposed(infer, &window, at, dim, size, extra[at])?,
        });
    }
    let extents = Extents::Known(out_layout.arranged(&dims));
    Ok(Annotation::Tensor(TensorType { extents, dtype }))
}

fn output_padding(infer: &Infer, window: &Window, spatial: usize) -> Result<Vec<i64>, Reject> {
    let list = infer.ints("output_padding")?;
    let fits = |extra: &Vec<i64>| {
        extra.iter().zip(&window.strides).all(|(extra, stride)| (0..*stride).contains(extra))
    };
    for_each_dim(&list, spatial).filter(fits).ok_or_else(|| {
        let message = format!(
            "`output_padding` must be one or {spatial} numbers at least 0 and less than the \
             stride, found {list:?}"
        );
        infer.reject("C8", message)
    })
}

/// Demands that the channels fit, and gives those of the result.
fn require_channels(
    infer: &mut Infer,
    direction: Direction,
    data: &[Dim],
    kernel: &[Dim],
    groups: i64,
) -> Result<Dim, Reject> {
    let times_groups = |dim: &Dim| Dim::op(DimOp::Mul, Dim::Int(groups), dim.clone());
    let (output, input, found) = (&kernel[0], &kernel[1], &data[1]);
    // What is cut into groups, what the data must have, and what the result has.
    let (cut, expected, channels) = match direction {
        Direction::Forward => (output, times_groups(input), output.clone()),
        Direction::Transposed => (found, input.clone(), times_groups(output)),
    };
    let claim = Claim::new(groups, Relation::Divides, cut.clone());
    infer.require("C5", claim, || format!("{cut} channels can't be cut into {groups} groups"))?;
    infer.require_equal("C6", found, &expected, || {
        format!("`weight` and `groups` need data with {expected} channels, found {found}")
    })?;
    Ok(infer.facts.simplify(&channels))
}

/// The extent of the result of a transposed convolution along a spatial dim.
fn transposed(
    infer: &mut Infer,
    window: &Window,
    at: usize,
    dim: &Dim,
    size: &Dim,
    extra: i64,
) -> Result<Dim, Reject> {
    for (what, extent) in [("data", dim), ("the kernel", size)] {
        infer.require("C7", Claim::new(1, Relation::AtMost, extent.clone()), || {
            format!("{what} must have spatial extents of at least 1, found {extent}")
        })?;
    }
    let last = Dim::op(DimOp::Sub, dim.clone(), Dim::Int(1));
    let spread = Dim::op(DimOp::Mul, last, Dim::Int(window.strides[at]));
    let full = Dim::op(DimOp::Add, spread, window.reach(at, size));
    let full = Dim::op(DimOp::Add, full, Dim::Int(extra));
    let cut = Dim::op(DimOp::Sub, full, Dim::Int(window.before[at]));
    let result = Dim::op(DimOp::Sub, cut, Dim::Int(window.after[at]));
    let result = infer.facts.simplify(&result);
    require_value(infer, "C7", &result)?;
    infer.require("C7", Claim::new(1, Relation::AtMost, result.clone()), || {
        format!("the padding leaves nothing: spatial dim {at} of the result would be {result}")
    })?;
    Ok(result)
}

/// What a call computes, with data, weight and result in canonical order.
struct Problem {
    groups: usize,
    batch: usize,
    /// Channels of the data.
    inputs: usize,
    /// Channels of the result.
    outputs: usize,
    taps: Taps,
}

fn run(eval: &Eval, direction: Direction, spatial: usize) -> Result<Value, Stop> {
    const CHECKED: &str = "invariant: infer checked the attributes";
    let (dtype, shape) = eval.out_tensor()?;
    let data_layout = Layout::of(eval, "data_layout", DATA[spatial]).expect(CHECKED);
    let kernel_layout = Layout::of(eval, "kernel_layout", KERNEL[spatial]).expect(CHECKED);
    let out_layout = Layout::of(eval, "out_layout", DATA[spatial]).unwrap_or(data_layout.clone());
    let data = data_layout.canonical_tensor(eval.tensor("data")?);
    let kernel = kernel_layout.canonical_tensor(eval.tensor("weight")?);
    let shape = out_layout.canonical(&shape);
    let window = Window::of(eval, spatial);
    let axis = |at: usize| Axis {
        input: data.shape()[at + 2],
        window: kernel.shape()[at + 2],
        output: shape[at + 2],
        stride: window.strides[at],
        before: window.before[at],
        after: window.after[at],
        dilation: window.dilation[at],
    };
    let problem = Problem {
        groups: usize::try_from(eval.int("groups")).expect(CHECKED),
        batch: shape[0],
        inputs: data.shape()[1],
        outputs: shape[1],
        taps: Taps { axes: (0..spatial).map(axis).collect(), direction },
    };
    let kernel = problem.by_output(&kernel);
    let result = match (data.elements(), kernel.elements()) {
        (Elements::Int(x), Elements::Int(w)) => {
            let (x, w) = (x.mapv(Wrapping), w.mapv(Wrapping));
            let sums = problem.correlate(&x, &w, |a, b| a.dot(&b));
            Tensor::from_ints(dtype, array(&shape, sums.into_iter().map(|s| s.0).collect()))
        }
        _ => {
            let (x, w) = (data.to_floats(), kernel.to_floats());
            let sums = problem.correlate(&x, &w, |a, b| product::product(data.dtype(), a, b));
            Tensor::from_floats(dtype, array(&shape, sums))
        }
    };
    Ok(Value::Tensor(out_layout.arranged_tensor(&result)))
}

/// How many numbers a block of columns may take: the whole matrix of windows may be far larger than
/// data and result.
const BLOCK: usize = 1 << 20;

impl Problem {
    /// The kernel as (output channels, input channels of a group, window). That of a transposed
    /// convolution comes as (output channels of a group, input channels, window).
    fn by_output(&self, kernel: &Tensor) -> Tensor {
        if self.taps.direction == Direction::Forward {
            return kernel.clone();
        }
        let (window, inputs) = (self.taps.window(), self.inputs);
        let (inputs_each, outputs_each) = (inputs / self.groups, self.outputs / self.groups);
        let positions = crate::tensor::strided_positions(
            &[self.groups, outputs_each, inputs_each, window],
            &[inputs_each * window, inputs * window, window, 1],
        );
        kernel.select(&[self.outputs, inputs_each, window], &positions)
    }

    /// For every group, the product of the kernel as a matrix with the matrix whose columns are
    /// what the windows see, a block of columns at a time.
    fn correlate<T: LinalgScalar>(
        &self,
        data: &ArrayD<T>,
        kernel: &ArrayD<T>,
        product: impl Fn(ArrayView2<T>, ArrayView2<T>) -> Array2<T>,
    ) -> Vec<T> {
        const ROW_MAJOR: &str = "invariant: tensors are in row-major order";
        let (data, kernel) =
            (data.as_slice().expect(ROW_MAJOR), kernel.as_slice().expect(ROW_MAJOR));
        let (inputs, outputs) = (self.inputs / self.groups, self.outputs / self.groups);
        let (rows, windows) = (inputs * self.taps.window(), self.taps.outputs());
        let mut result = vec![T::zero(); self.batch * self.outputs * windows];
        if result.is_empty() {
            return result;
        }
        let block = (BLOCK / rows.max(1)).clamp(1, windows.max(1));
        for start in (0..windows).step_by(block) {
            let block = start..windows.min(start + block);
            let taps: Vec<_> = block.clone().map(|window| self.taps.all(window)).collect();
            for part in 0..self.batch * self.groups {
                let columns = self.columns(data, part * inputs, inputs, &taps);
                let group = part % self.groups;
                let kernel = &kernel[group * outputs * rows..][..outputs * rows];
                let kernel = ArrayView2::from_shape((outputs, rows), kernel)
                    .expect("invariant: the kernel has a row for each output channel");
                for (output, sums) in product(kernel, columns.view()).rows().into_iter().enumerate()
                {
                    let at = (part * outputs + output) * windows;
                    let target = &mut result[at + block.start..at + block.end];
                    target.iter_mut().zip(sums).for_each(|(target, &sum)| *target = sum);
                }
            }
        }
        result
    }

    /// What each window (a column) sees in each of `inputs` channels from `first` on.
    fn columns<T: LinalgScalar>(
        &self,
        data: &[T],
        first: usize,
        inputs: usize,
        taps: &[Vec<Option<usize>>],
    ) -> Array2<T> {
        let (window, plane) = (self.taps.window(), self.taps.inputs());
        Array2::from_shape_fn((inputs * window, taps.len()), |(row, column)| {
            let channel = first + row / window;
            taps[column][row % window].map_or(T::zero(), |tap| data[channel * plane + tap])
        })
    }
}
