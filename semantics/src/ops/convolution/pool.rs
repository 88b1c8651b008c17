//! Pooling over windows: maximum and average.

use super::layout::{DATA, Layout};
use super::taps::{Axis, Direction, Taps};
use super::window::{Window, for_each_dim};
use crate::ops::{
    Constraint, Effect, Eval, Evaluate, Family, Infer, Literal, Operator, Param, Traps,
};
use crate::ops::{Kind, Reject, constraint, optional, product, required};
use crate::ops::{Programs, programs};
use crate::round::integer_range;
use crate::scalar;
use crate::stop::Stop;
use crate::tensor::{Elements, Tensor, array};
use crate::value::Value;
use relax_syntax::annotation::{Annotation, Extents, TensorType};
use relax_syntax::dim::Dim;
use relax_syntax::dtype::DType;

/// The parameters of a pooling operator.
const fn params(one: Literal, layout: &'static str, count_padding: bool) -> [Param; 9] {
    [
        required("data", Kind::Tensor),
        optional("pool_size", Kind::Dims, one),
        optional("strides", Kind::Dims, one),
        optional("padding", Kind::Dims, Literal::Ints(&[0, 0])),
        optional("dilation", Kind::Dims, one),
        optional("ceil_mode", Kind::Bool, Literal::Bool(false)),
        optional("count_include_pad", Kind::Bool, Literal::Bool(count_padding)),
        optional("layout", Kind::Str, Literal::Str(layout)),
        optional("out_layout", Kind::OptionalStr, Literal::None),
    ]
}

static OVER_W: [Param; 9] = params(Literal::Ints(&[1]), "NCW", false);
static OVER_W_WITH_PADDING: [Param; 9] = params(Literal::Ints(&[1]), "NCW", true);
static OVER_HW: [Param; 9] = params(Literal::Ints(&[1, 1]), "NCHW", false);

const WINDOW: Constraint = constraint(
    "C1",
    "pool_size, strides and dilation are at least 1, padding is at least 0; each has one entry or \
     one a spatial dim, padding also two a spatial dim: all before, then all after",
);
const LAYOUTS: Constraint =
    constraint("C2", "layout and out_layout are orders of the letters NCW (2d: NCHW)");
const RANK: Constraint = constraint("C3", "data has rank 3 (2d: rank 4)");
const FITS: Constraint = constraint(
    "C4",
    "a window, dilated, is not larger than the padded data; with ceil_mode it may be larger by less \
     than its stride",
);
const NUMBERS: Constraint = constraint("C5", "data is not bool");
static OF_MAX: [Constraint; 4] = [WINDOW, LAYOUTS, RANK, FITS];
static OF_AVG: [Constraint; 5] = [WINDOW, LAYOUTS, RANK, FITS, NUMBERS];

const MAX_DOC: &str = "The maximum over each window; NaN if there is one. Padding is less than \
    every element: a window over nothing else is minus infinity (of integers the least one; in TVM \
    it is the least finite float). With `ceil_mode` the last window may stick out at the end, also \
    where it is the only one. `count_include_pad` means nothing here.";

const AVG_DOC: &str = "The average over each window, of integers truncated towards zero. Padding \
    counts as zeros with `count_include_pad`, else not at all: a window over nothing else is 0. \
    With `ceil_mode` the last window may stick out at the end, also where it is the only one; what \
    sticks out never counts.";

macro_rules! pool {
    ($name:literal, $doc:expr, $params:expr, $constraints:expr, $spatial:literal, $infer:ident, $eval:ident, $program:path) => {
        Operator {
            name: $name,
            aliases: &[],
            family: Family::Convolution,
            doc: $doc,
            params: $params,
            constraints: $constraints,
            effect: Effect::Pure,
            traps: Traps::Never,
            infer: $infer::<$spatial>,
            program: Programs::Of($program),
            eval: Evaluate::Values($eval::<$spatial>),
        }
    };
}

pub(super) const MAX_POOL1D: Operator = pool!(
    "nn.max_pool1d",
    MAX_DOC,
    &OVER_W,
    &OF_MAX,
    1,
    infer_max,
    max_pool,
    programs::pooling::maximum
);
pub(super) const MAX_POOL2D: Operator = pool!(
    "nn.max_pool2d",
    MAX_DOC,
    &OVER_HW,
    &OF_MAX,
    2,
    infer_max,
    max_pool,
    programs::pooling::maximum
);
pub(super) const AVG_POOL1D: Operator = pool!(
    "nn.avg_pool1d",
    AVG_DOC,
    &OVER_W_WITH_PADDING,
    &OF_AVG,
    1,
    infer_avg,
    avg_pool,
    programs::pooling::average
);
pub(super) const AVG_POOL2D: Operator = pool!(
    "nn.avg_pool2d",
    AVG_DOC,
    &OVER_HW,
    &OF_AVG,
    2,
    infer_avg,
    avg_pool,
    programs::pooling::average
);

fn infer_avg<const SPATIAL: usize>(infer: &mut Infer) -> Result<Annotation, Reject> {
    infer.require_dtype("C5", "data", |dtype| dtype != DType::Bool)?;
    infer_max::<SPATIAL>(infer)
}

fn infer_max<const SPATIAL: usize>(infer: &mut Infer) -> Result<Annotation, Reject> {
    infer.bool("ceil_mode")?;
    infer.bool("count_include_pad")?;
    let window = Window::read(infer, "C1", SPATIAL)?;
    let pool_size = infer.ints("pool_size")?;
    let Some(sizes) = for_each_dim(&pool_size, SPATIAL).filter(|s| s.iter().all(|&s| s >= 1))
    else {
        let message =
            format!("`pool_size` must be one or {SPATIAL} numbers above 0, found {pool_size:?}");
        return Err(infer.reject("C1", message));
    };
    let layout = Layout::read(infer, "C2", "layout", DATA[SPATIAL])?;
    let out_layout = Layout::read_or(infer, "C2", "out_layout", &layout, DATA[SPATIAL])?;
    let extents = match layout.dims_of(infer, "C3", "data")? {
        Some(dims) => {
            let dims = pooled(infer, &window, &dims, &sizes)?;
            Extents::Known(out_layout.arranged(&dims))
        }
        None => Extents::Rank(SPATIAL + 2),
    };
    Ok(Annotation::Tensor(TensorType { extents, dtype: infer.tensor("data")?.dtype }))
}

fn pooled(
    infer: &mut Infer,
    window: &Window,
    dims: &[Dim],
    sizes: &[i64],
) -> Result<Vec<Dim>, Reject> {
    let ceil_mode = infer.bool("ceil_mode")?;
    let (kept, space) = dims.split_at(2);
    let mut result = kept.to_vec();
    for (at, (dim, &size)) in space.iter().zip(sizes).enumerate() {
        let size = Dim::Int(size);
        let excess = if ceil_mode { window.strides[at] - 1 } else { 0 };
        let room = window.room(infer, "C4", at, dim, (&size, excess))?;
        result.push(if ceil_mode {
            window.count_up(infer, at, dim, &window.reach(at, &size), room)
        } else {
            window.count(infer, at, room)
        });
    }
    Ok(result)
}

/// Data with its dims in canonical order, the windows over it, and the layout of the result.
fn prepare<const SPATIAL: usize>(eval: &Eval) -> Result<(Tensor, Taps, Layout), Stop> {
    const CHECKED: &str = "invariant: infer checked the attributes";
    let (_, shape) = eval.out_tensor()?;
    let layout = Layout::of(eval, "layout", DATA[SPATIAL]).expect(CHECKED);
    let out_layout = Layout::of(eval, "out_layout", DATA[SPATIAL]).unwrap_or(layout.clone());
    let data = layout.canonical_tensor(eval.tensor("data")?);
    let window = Window::of(eval, SPATIAL);
    let sizes = for_each_dim(&eval.ints("pool_size"), SPATIAL).expect(CHECKED);
    let shape = out_layout.canonical(&shape);
    let axis = |at: usize| Axis {
        input: data.shape()[at + 2],
        window: usize::try_from(sizes[at]).expect(CHECKED),
        output: shape[at + 2],
        stride: window.strides[at],
        before: window.before[at],
        after: window.after[at],
        dilation: window.dilation[at],
    };
    let taps = Taps { axes: (0..SPATIAL).map(axis).collect(), direction: Direction::Forward };
    Ok((data, taps, out_layout))
}

/// `reduce(the elements that a window sees, the window)` for every window of every channel.
fn over_windows<T: Copy + Default>(
    data: &[T],
    taps: &Taps,
    channels: usize,
    reduce: impl Fn(&mut dyn Iterator<Item = T>, usize) -> T,
) -> Vec<T> {
    let (inputs, outputs) = (taps.inputs(), taps.outputs());
    let mut result = vec![T::default(); channels * outputs];
    for window in 0..outputs {
        let seen = taps.in_data(window);
        for channel in 0..channels {
            let elements = &mut seen.iter().map(|&at| data[channel * inputs + at]);
            result[channel * outputs + window] = reduce(elements, window);
        }
    }
    result
}

/// The two reductions of a window, by the domain of the dtype.
fn pooled_tensor(
    data: &Tensor,
    taps: &Taps,
    of_floats: impl Fn(&mut dyn Iterator<Item = f64>, usize) -> f64,
    of_ints: impl Fn(&mut dyn Iterator<Item = i128>, usize) -> i128,
) -> Tensor {
    const ROW_MAJOR: &str = "invariant: tensors are in row-major order";
    let channels = data.shape()[0] * data.shape()[1];
    let mut shape = data.shape()[..2].to_vec();
    shape.extend(taps.axes.iter().map(|axis| axis.output));
    let elements = match data.elements() {
        Elements::Float(values) => {
            let values = values.as_slice().expect(ROW_MAJOR);
            Elements::Float(array(&shape, over_windows(values, taps, channels, of_floats)))
        }
        Elements::Int(values) => {
            let values = values.as_slice().expect(ROW_MAJOR);
            Elements::Int(array(&shape, over_windows(values, taps, channels, of_ints)))
        }
    };
    Tensor::from_elements(data.dtype(), elements)
}

fn max_pool<const SPATIAL: usize>(eval: &Eval) -> Result<Value, Stop> {
    let (data, taps, out_layout) = prepare::<SPATIAL>(eval)?;
    let least = if data.dtype().is_float() { 0 } else { integer_range(data.dtype()).0 };
    let result = pooled_tensor(
        &data,
        &taps,
        |elements, _| elements.fold(f64::NEG_INFINITY, scalar::maximum),
        |elements, _| elements.fold(least, i128::max),
    );
    Ok(Value::Tensor(out_layout.arranged_tensor(&result)))
}

fn avg_pool<const SPATIAL: usize>(eval: &Eval) -> Result<Value, Stop> {
    let (data, taps, out_layout) = prepare::<SPATIAL>(eval)?;
    let count_padding = eval.bool("count_include_pad");
    // How many elements a window averages; of 0 the sum is 0 too, and so is the average.
    let counts: Vec<usize> = (0..taps.outputs())
        .map(|window| {
            let axes = taps.axes.iter().zip(taps.place(window));
            let padded = axes.map(|(axis, place)| axis.in_padded(place));
            let count: usize =
                if count_padding { padded.product() } else { taps.in_data(window).len() };
            count.max(1)
        })
        .collect();
    let result = pooled_tensor(
        &data,
        &taps,
        |elements, window| product::sum(elements) / counts[window] as f64,
        |elements, window| elements.sum::<i128>() / counts[window] as i128,
    );
    Ok(Value::Tensor(out_layout.arranged_tensor(&result)))
}
