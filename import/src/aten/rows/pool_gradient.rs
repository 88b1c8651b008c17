//! The places of the greatest elements of pools, and gradients of pools.

use super::movement::without_batch;
use super::pool::{ceil_flag, windows};
use crate::argument::{Arg, key};
use crate::aten::call::{Call, Row};
use crate::builder::V;
use crate::operators::activation::scaled;
use crate::operators::arithmetic::{broadcast_call, pair};
use crate::operators::convolution::Windows;
use crate::operators::pooling::pooled;
use crate::operators::shape::reshape;
use crate::reason::{Done, invalid, unsupported};
use relax_semantics::tensor::Number;
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::dtype::DType;

pub(super) const ROWS: &[(&str, Row)] = &[
    ("max_pool2d_with_indices_backward", of_maxima),
    ("avg_pool2d_backward", of_averages),
    ("_adaptive_avg_pool2d_backward", of_adaptive),
];

/// The largest window whose greatest element is looked for: each of its elements is a line of the program.
const LARGEST: i64 = 64;

/// Where one element of each window stands along an axis: clipped to the data, and whether that changed it. Both are vectors with
/// as many dims of 1 behind as axes follow.
struct Along {
    places: V,
    inside: V,
}

/// A candidate for the greatest element of each window: its value, its place, and whether it is inside of the data.
type Candidate = (V, V, V);

/// The place of the greatest element of each window in the plane or the space of the data (batch, channel, …). The first of equal
/// ones; the last NaN.
pub(super) fn places(call: &mut Call, x: V, windows: &Windows, y: V) -> Done<V> {
    let kernel: Option<Vec<i64>> = windows.kernel.iter().map(Dim::as_int).collect();
    let kernel = kernel.filter(|k| k.iter().product::<i64>() <= LARGEST);
    let Some(kernel) = kernel.filter(|k| matches!(k.len(), 2 | 3)) else {
        return unsupported(format!("places in windows of more than {LARGEST} elements"));
    };
    let mut offsets = Vec::new();
    for (axis, &size) in kernel.iter().enumerate() {
        let ways = (0..size).map(|at| along(call, (x, y), windows, (axis, at)));
        offsets.push(ways.collect::<Done<Vec<Along>>>()?);
    }
    let mut best = None;
    search(call, &offsets, (x, None), &mut best)?;
    let Some((_, place, _)) = best else { return invalid("a window without elements") };
    let dims = call.dims(y);
    call.call("broadcast_to", &[place.into(), Arg::Shape(dims)])
}

/// Compares the elements of windows in row-major order, one axis after the other: `x` is what the axes before left, and `before` are
/// the places along them, and whether they are inside.
fn search(
    call: &mut Call,
    offsets: &[Vec<Along>],
    (x, before): (V, Option<(V, V)>),
    best: &mut Option<Candidate>,
) -> Done<()> {
    let Some((first, rest)) = offsets.split_first() else {
        let Some((place, inside)) = before else { return invalid("a window without axes") };
        *best = Some(match best.take() {
            None => (x, place, inside),
            Some(old) => better(call, old, (x, place, inside))?,
        });
        return Ok(());
    };
    let axis = call.rank(x) - offsets.len();
    let extent = call.dims(x)[axis].clone();
    let extent = call.integers(vec![extent], 0, DType::I64);
    let before = match before {
        Some((place, inside)) => Some((pair(call, "multiply", place, extent)?, inside)),
        None => None,
    };
    for offset in first {
        let flat = call.call("flatten", &[offset.places.into()])?;
        let taken = call.call("take", &[x.into(), flat.into(), key("axis", axis)])?;
        let now = match before {
            None => (offset.places, offset.inside),
            Some((place, inside)) => (
                pair(call, "add", place, offset.places)?,
                pair(call, "logical_and", inside, offset.inside)?,
            ),
        };
        search(call, rest, (taken, Some(now)), best)?;
    }
    Ok(())
}

fn along(call: &mut Call, (x, y): (V, V), w: &Windows, (axis, at): (usize, i64)) -> Done<Along> {
    let (extent, count) = (call.dims(x)[axis + 2].clone(), call.dims(y)[axis + 2].clone());
    let Some(pad) = w.pads[axis].as_int() else { return unsupported("symbolic padding") };
    let number = |value: i64| Arg::Scalar(DType::I64, Number::Int(value.into()));
    let places = call.call("arange", &[count.clone().into(), key("dtype", DType::I64)])?;
    let places = call.call("multiply", &[places.into(), number(w.strides[axis])])?;
    let places = call.call("add", &[places.into(), number(at * w.dilations[axis] - pad)])?;
    let last = call.dim(DimOp::Sub, &extent, &Dim::Int(1));
    let last = call.integers(vec![last], 0, DType::I64);
    let clipped = call.call("minimum", &[places.into(), last.into()])?;
    let clipped = call.call("maximum", &[clipped.into(), number(0)])?;
    let inside = call.call("equal", &[places.into(), clipped.into()])?;
    let mut dims = vec![count];
    dims.extend(vec![Dim::Int(1); w.strides.len() - 1 - axis]);
    Ok(Along {
        places: reshape(call, clipped, dims.clone())?,
        inside: reshape(call, inside, dims)?,
    })
}

/// The greater one of two candidates, each with its place and whether it is inside of the data.
fn better(call: &mut Call, old: Candidate, new: Candidate) -> Done<Candidate> {
    let greater = call.call("greater", &[new.0.into(), old.0.into()])?;
    let mut wins = greater;
    if call.dtype(new.0).is_float() {
        let nan = call.call("isnan", &[new.0.into()])?;
        wins = pair(call, "logical_or", greater, nan)?;
    }
    let none = call.call("logical_not", &[old.2.into()])?;
    let wins = broadcast_call(call, "logical_or", &[wins, none])?;
    let wins = broadcast_call(call, "logical_and", &[wins, new.2])?;
    let value = broadcast_call(call, "where", &[wins, new.0, old.0])?;
    let place = broadcast_call(call, "where", &[wins, new.1, old.1])?;
    Ok((value, place, pair(call, "logical_or", old.2, new.2)?))
}

/// Each gradient is added at the place in its plane that the pool gave.
fn of_maxima(call: &mut Call) -> Done<Vec<V>> {
    let (g, x, at) = (call.tensor("grad_output")?, call.tensor("self")?, call.tensor("indices")?);
    let (dims, made) = (call.dims(x), call.dims(g));
    if dims.len() < 3 || made.len() != dims.len() {
        return invalid(format!("data of rank {}", dims.len()));
    }
    let lead = dims.len() - 2;
    let planes = Dim::product(&dims[..lead]);
    let flat = |dims: &[Dim]| vec![planes.clone(), Dim::product(&dims[lead..])];
    let (g, at) = (reshape(call, g, flat(&made))?, reshape(call, at, flat(&made))?);
    let dtype = call.dtype(x);
    let zeros = call.call("zeros", &[Arg::Shape(flat(&dims)), dtype.into()])?;
    let args = [zeros.into(), at.into(), g.into(), key("axis", 1_i64), key("reduction", "add")];
    let sums = call.call("scatter_elements", &args)?;
    Ok(vec![reshape(call, sums, dims)?])
}

/// `rows^T g columns`: an average is linear, and separable into one along each axis.
fn separable(call: &mut Call, rows: V, columns: V) -> Done<Vec<V>> {
    let g = call.tensor("grad_output")?;
    let turned = call.call("permute_dims", &[columns.into(), key("axes", vec![1_i64, 0])])?;
    let g = call.call("matmul", &[g.into(), turned.into()])?;
    Ok(vec![call.call("matmul", &[rows.into(), g.into()])?])
}

/// The matrix (element, window) of an average along an axis: the averages of unit vectors.
fn matrix(
    call: &mut Call,
    axis: usize,
    average: impl FnOnce(&mut Call, V, Dim) -> Done<V>,
) -> Done<V> {
    let (x, g) = (call.tensor("self")?, call.tensor("grad_output")?);
    let (dims, made) = (call.dims(x), call.dims(g));
    let Some(lead) = dims.len().checked_sub(2).filter(|_| made.len() == dims.len()) else {
        return invalid(format!("data of rank {}", dims.len()));
    };
    let (extent, count) = (dims[lead + axis].clone(), made[lead + axis].clone());
    let dtype = call.dtype(x);
    let units = call.call("eye", &[extent.clone().into(), key("dtype", dtype)])?;
    let averages = average(call, units, extent.clone())?;
    reshape(call, averages, vec![extent, count])
}

fn of_averages(call: &mut Call) -> Done<Vec<V>> {
    let windows = windows(call, 2)?;
    let flags = ceil_flag(call)?;
    let divisor =
        if call.has("divisor_override") { Some(call.int("divisor_override")?) } else { None };
    if divisor.is_some() && !flags.is_empty() {
        return unsupported("divisor_override with ceil_mode");
    }
    let whole = divisor.is_some() || call.bool("count_include_pad")?;
    let mut matrices = Vec::new();
    for axis in 0..2 {
        let mut flags = flags.clone();
        flags.push(key("count_include_pad", whole));
        let one = Windows {
            kernel: vec![windows.kernel[axis].clone()],
            strides: vec![windows.strides[axis]],
            dilations: vec![windows.dilations[axis]],
            pads: vec![windows.pads[axis].clone(); 2],
        };
        matrices.push(matrix(call, axis, |call, units, _| {
            let (units, _) = without_batch(call, units, 3)?;
            pooled(call, "avg_pool", units, &one, &flags)
        })?);
    }
    if let Some(divisor) = divisor {
        let size: i64 = windows.kernel.iter().filter_map(Dim::as_int).product();
        matrices[0] = scaled(call, matrices[0], size as f64 / divisor as f64)?;
    }
    separable(call, matrices[0], matrices[1])
}

fn of_adaptive(call: &mut Call) -> Done<Vec<V>> {
    let g = call.tensor("grad_output")?;
    let made = call.dims(g);
    let mut matrices = Vec::new();
    for axis in 0..2 {
        let size = made.len().checked_sub(2).and_then(|lead| made[lead + axis].as_int());
        let Some(size) = size else { return unsupported("a symbolic number of windows") };
        matrices.push(matrix(call, axis, |call, units, extent| {
            let image = vec![Dim::Int(1), extent.clone(), Dim::Int(1), extent];
            let image = reshape(call, units, image)?;
            let windows = key("output_size", vec![1, size]);
            call.call("adaptive_avg_pool2d", &[image.into(), windows])
        })?);
    }
    separable(call, matrices[0], matrices[1])
}
