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

/// Where one element of each window stands along an axis: clipped to the data, and whether that changed it.
struct Along {
    places: V,
    inside: V,
}

/// The place of the greatest element of each window in the plane of the data (batch, channel, height, width). The first of equal
/// ones; the last NaN.
pub(super) fn places(call: &mut Call, x: V, windows: &Windows, y: V) -> Done<V> {
    let kernel: Option<Vec<i64>> = windows.kernel.iter().map(Dim::as_int).collect();
    let Some(kernel) = kernel.filter(|k| k.len() == 2 && k[0] * k[1] <= LARGEST) else {
        return unsupported(format!("places in windows of more than {LARGEST} elements"));
    };
    let width = call.dims(x)[3].clone();
    let width = call.integers(vec![width], 0, DType::I64);
    let columns = (0..kernel[1]).map(|at| along(call, x, y, windows, (1, at)));
    let columns = columns.collect::<Done<Vec<Along>>>()?;
    let mut best: Option<(V, V, V)> = None;
    for at in 0..kernel[0] {
        let row = along(call, x, y, windows, (0, at))?;
        let line = call.call("take", &[x.into(), row.places.into(), key("axis", 2_i64)])?;
        let begin = pair(call, "multiply", row.places, width)?;
        let (begin, inside) = (upright(call, begin)?, upright(call, row.inside)?);
        for column in &columns {
            let args = [line.into(), column.places.into(), key("axis", 3_i64)];
            let value = call.call("take", &args)?;
            let place = pair(call, "add", begin, column.places)?;
            let inside = pair(call, "logical_and", inside, column.inside)?;
            best = Some(match best {
                None => (value, place, inside),
                Some(best) => better(call, best, (value, place, inside))?,
            });
        }
    }
    let Some((_, place, _)) = best else { return invalid("a window without elements") };
    let dims = call.dims(y);
    call.call("broadcast_to", &[place.into(), Arg::Shape(dims)])
}

/// As a column.
fn upright(call: &mut Call, x: V) -> Done<V> {
    call.call("expand_dims", &[x.into(), key("axis", vec![1_i64])])
}

fn along(call: &mut Call, x: V, y: V, w: &Windows, (axis, at): (usize, i64)) -> Done<Along> {
    let (extent, count) = (call.dims(x)[axis + 2].clone(), call.dims(y)[axis + 2].clone());
    let Some(pad) = w.pads[axis].as_int() else { return unsupported("symbolic padding") };
    let number = |value: i64| Arg::Scalar(DType::I64, Number::Int(value.into()));
    let places = call.call("arange", &[count.into(), key("dtype", DType::I64)])?;
    let places = call.call("multiply", &[places.into(), number(w.strides[axis])])?;
    let places = call.call("add", &[places.into(), number(at * w.dilations[axis] - pad)])?;
    let last = call.dim(DimOp::Sub, &extent, &Dim::Int(1));
    let last = call.integers(vec![last], 0, DType::I64);
    let clipped = call.call("minimum", &[places.into(), last.into()])?;
    let clipped = call.call("maximum", &[clipped.into(), number(0)])?;
    let inside = call.call("equal", &[places.into(), clipped.into()])?;
    Ok(Along { places: clipped, inside })
}

/// The greater one of two candidates, each with its place and whether it is inside of the data.
fn better(call: &mut Call, old: (V, V, V), new: (V, V, V)) -> Done<(V, V, V)> {
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
