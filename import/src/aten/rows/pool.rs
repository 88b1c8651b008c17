//! Pooling.

use super::movement::without_batch;
use super::pool_gradient::places;
use crate::argument::{Arg, key};
use crate::aten::call::{Argument, Call, Row};
use crate::builder::V;
use crate::operators::activation::scaled;
use crate::operators::arithmetic::pair;
use crate::operators::convolution::Windows;
use crate::operators::elementwise::convert;
use crate::operators::pooling::pooled;
use crate::operators::shape::{permuted, reshape};
use crate::reason::{Done, Reason, invalid, unsupported};
use relax_semantics::tensor::Number;
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::dtype::DType;

pub(super) const ROWS: &[(&str, Row)] = &[
    ("max_pool1d", |call| max_pool(call, 1)),
    ("max_pool2d", |call| max_pool(call, 2)),
    ("max_pool2d_with_indices", |call| max_pool_with_places(call, 2)),
    ("max_pool3d_with_indices", |call| max_pool_with_places(call, 3)),
    ("avg_pool1d", |call| average_pool(call, 1)),
    ("avg_pool2d", |call| average_pool(call, 2)),
    ("avg_pool3d", |call| average_pool(call, 3)),
    ("_adaptive_avg_pool2d", |call| adaptive(call, 2)),
    ("_adaptive_avg_pool3d", |call| adaptive(call, 3)),
    ("adaptive_avg_pool1d", |call| adaptive(call, 1)),
];

pub(super) fn windows(call: &Call, count: usize) -> Done<Windows> {
    let kernel = call.ints_for("kernel_size", count)?;
    let own = match call.argument("stride") {
        Argument::List(items) => !items.is_empty(),
        Argument::None => false,
        _ => true,
    };
    let strides = if own { call.ints_for("stride", count)? } else { kernel.clone() };
    let dilations =
        if call.has("dilation") { call.ints_for("dilation", count)? } else { vec![1; count] };
    let pads = call.ints_for("padding", count)?;
    let pads: Vec<Dim> = pads.iter().chain(&pads).map(|&pad| Dim::Int(pad)).collect();
    Ok(Windows { kernel: kernel.into_iter().map(Dim::Int).collect(), strides, dilations, pads })
}

/// The pool of the data with a batch, and of data without one.
fn of_batch(
    call: &mut Call,
    count: usize,
    pool: impl FnOnce(&mut Call, V) -> Done<V>,
) -> Done<Vec<V>> {
    let x = call.tensor("self")?;
    let (x, is_alone) = without_batch(call, x, count + 2)?;
    if call.rank(x) != count + 2 {
        return invalid(format!("data of rank {}", call.rank(x)));
    }
    let y = pool(call, x)?;
    if !is_alone {
        return Ok(vec![y]);
    }
    let dims = call.dims(y)[1..].to_vec();
    Ok(vec![reshape(call, y, dims)?])
}

/// PyTorch pads with minus infinity; a last window of `ceil_mode` must start inside.
fn max_pool(call: &mut Call, count: usize) -> Done<Vec<V>> {
    let windows = windows(call, count)?;
    let flags = ceil_flag(call)?;
    of_batch(call, count, |call, x| pooled(call, "max_pool", x, &windows, &flags))
}

/// With the places of the maxima in their planes or spaces, where they are read.
fn max_pool_with_places(call: &mut Call, count: usize) -> Done<Vec<V>> {
    let mut results = max_pool(call, count)?;
    if call.is_read(1) {
        let (x, y) = (call.tensor("self")?, results[0]);
        let (x, is_alone) = without_batch(call, x, count + 2)?;
        let (y, _) = without_batch(call, y, count + 2)?;
        let windows = windows(call, count)?;
        let mut places = places(call, x, &windows, y)?;
        if is_alone {
            let dims = call.dims(places)[1..].to_vec();
            places = reshape(call, places, dims)?;
        }
        results.push(places);
    }
    Ok(results)
}

pub(super) fn ceil_flag(call: &Call) -> Done<Vec<Arg>> {
    Ok(if call.bool("ceil_mode")? { vec![key("ceil_mode", true)] } else { Vec::new() })
}

fn average_pool(call: &mut Call, count: usize) -> Done<Vec<V>> {
    let windows = windows(call, count)?;
    let mut flags = ceil_flag(call)?;
    let divisor =
        if call.has("divisor_override") { Some(call.int("divisor_override")?) } else { None };
    let whole = divisor.is_some() || call.bool("count_include_pad")?;
    let is_clipped = !flags.is_empty();
    flags.push(key("count_include_pad", whole));
    let size: i64 = windows.kernel.iter().filter_map(Dim::as_int).product();
    of_batch(call, count, |call, x| {
        if !call.dtype(x).is_float() {
            return average_of_integers(call, x, &windows, (is_clipped, whole, divisor));
        }
        let averages = pooled(call, "avg_pool", x, &windows, &flags)?;
        match divisor {
            Some(divisor) if is_clipped => {
                let sizes = window_sizes(call, x, &windows, (is_clipped, whole))?;
                let dtype = call.dtype(x);
                let sizes = convert(call, sizes, dtype)?;
                let sizes = scaled(call, sizes, 1.0 / divisor as f64)?;
                pair(call, "multiply", averages, sizes)
            }
            Some(divisor) => scaled(call, averages, size as f64 / divisor as f64),
            None => Ok(averages),
        }
    })
}

/// Where the windows along an axis begin, as i64: one more where `ceil_mode` lets a last one reach beyond the padding, if it starts
/// before it.
fn window_starts(call: &mut Call, n: &Dim, w: &Windows, axis: usize, clipped: bool) -> Done<V> {
    let (Some(size), Some(pad)) = (w.kernel[axis].as_int(), w.pads[axis].as_int()) else {
        return unsupported("a symbolic window");
    };
    let stride = w.strides[axis];
    if stride < 1 {
        return invalid("a stride must be at least 1");
    }
    let room =
        call.dim(DimOp::Add, n, &Dim::Int(2 * pad - size + if clipped { stride - 1 } else { 0 }));
    let steps = call.dim(DimOp::FloorDiv, &room, &Dim::Int(stride));
    let mut count = call.dim(DimOp::Add, &steps, &Dim::Int(1));
    if clipped {
        let inside = call.dim(DimOp::Add, n, &Dim::Int(pad + stride - 1));
        let inside = call.dim(DimOp::FloorDiv, &inside, &Dim::Int(stride));
        count = call.dim(DimOp::Min, &count, &inside);
    }
    let places = call.call("arange", &[count.into(), key("dtype", DType::I64)])?;
    let places = call.call("multiply", &[places.into(), integer(stride)])?;
    call.call("subtract", &[places.into(), integer(pad)])
}

fn integer(value: i64) -> Arg {
    Arg::Scalar(DType::I64, Number::Int(value.into()))
}

/// By how many elements each window is divided, as i64 that broadcast to the result; with `whole` padding counts.
fn window_sizes(
    call: &mut Call,
    x: V,
    windows: &Windows,
    (clipped, whole): (bool, bool),
) -> Done<V> {
    let space = call.dims(x)[2..].to_vec();
    let mut sizes: Option<V> = None;
    for (axis, n) in space.iter().enumerate() {
        let starts = window_starts(call, n, windows, axis, clipped)?;
        let pad = if whole { windows.pads[axis].clone() } else { Dim::Int(0) };
        let last = call.dim(DimOp::Add, n, &pad);
        let last = call.integers(vec![last], 0, DType::I64);
        let first = call.dim(DimOp::Sub, &Dim::Int(0), &pad);
        let first = call.integers(vec![first], 0, DType::I64);
        let size = call.integers(vec![windows.kernel[axis].clone()], 0, DType::I64);
        let ends = call.call("add", &[starts.into(), size.into()])?;
        let ends = call.call("minimum", &[ends.into(), last.into()])?;
        let starts = call.call("maximum", &[starts.into(), first.into()])?;
        let along = call.call("subtract", &[ends.into(), starts.into()])?;
        let mut dims = call.dims(along);
        dims.extend(vec![Dim::Int(1); space.len() - 1 - axis]);
        let along = reshape(call, along, dims)?;
        sizes = Some(match sizes {
            None => along,
            Some(sizes) => pair(call, "multiply", sizes, along)?,
        });
    }
    sizes.ok_or_else(|| Reason::Invalid("a window without axes".into()))
}

/// Sums of windows, by a product with a matrix of zeros and ones along each axis, which is exact; their quotients towards 0.
fn average_of_integers(
    call: &mut Call,
    x: V,
    windows: &Windows,
    (clipped, whole, divisor): (bool, bool, Option<i64>),
) -> Done<V> {
    let own = call.dtype(x);
    let rank = call.rank(x);
    let mut sums = convert(call, x, DType::I64)?;
    for axis in 0..rank - 2 {
        let n = call.dims(x)[axis + 2].clone();
        let starts = window_starts(call, &n, windows, axis, clipped)?;
        let places = call.call("arange", &[n.clone().into(), key("dtype", DType::I64)])?;
        let places = reshape(call, places, vec![n, Dim::Int(1)])?;
        let within = pair(call, "subtract", places, starts)?;
        let size = call.integers(vec![windows.kernel[axis].clone()], 0, DType::I64);
        let begun = call.call("greater_equal", &[within.into(), integer(0)])?;
        let open = call.call("less", &[within.into(), size.into()])?;
        let inside = call.call("logical_and", &[begun.into(), open.into()])?;
        let matrix = convert(call, inside, DType::I64)?;
        let mut order: Vec<i64> = (0_i64..).take(rank).collect();
        order.swap(axis + 2, rank - 1);
        let turned = permuted(call, sums, &order)?;
        let product = call.call("matmul", &[turned.into(), matrix.into()])?;
        sums = permuted(call, product, &order)?;
    }
    let sizes = match divisor {
        Some(divisor) => call.integers(vec![Dim::Int(divisor)], 0, DType::I64),
        None => window_sizes(call, x, windows, (clipped, whole))?,
    };
    let quotients = pair(call, "divide", sums, sizes)?;
    convert(call, quotients, own)
}

/// Window i of m over n elements goes from `floor(i * n / m)` to `ceil((i + 1) * n / m)`.
fn adaptive(call: &mut Call, count: usize) -> Done<Vec<V>> {
    let sizes = call.ints_for("output_size", count)?;
    of_batch(call, count, |call, x| {
        if !call.dtype(x).is_float() {
            return unsupported("averages of integers");
        }
        if count == 2 {
            let size = Arg::from(sizes.clone());
            return call.call("adaptive_avg_pool2d", &[x.into(), key("output_size", size)]);
        }
        let mut x = x;
        for (place, &size) in sizes.iter().enumerate() {
            x = along(call, x, place + 2, size)?;
        }
        Ok(x)
    })
}

/// The averages of windows along one axis: those of images of one row.
fn along(call: &mut Call, x: V, axis: usize, size: i64) -> Done<V> {
    let mut dims = call.dims(x);
    let last = dims.len() - 1;
    let mut order: Vec<i64> = (0_i64..).take(dims.len()).collect();
    order.swap(axis, last);
    dims.swap(axis, last);
    let x = call.call("permute_dims", &[x.into(), key("axes", order.clone())])?;
    let image = vec![Dim::product(&dims[..last]), Dim::Int(1), Dim::Int(1), dims[last].clone()];
    let image = reshape(call, x, image)?;
    let windows = key("output_size", vec![1, size]);
    let rows = call.call("adaptive_avg_pool2d", &[image.into(), windows])?;
    dims[last] = Dim::Int(size);
    let rows = reshape(call, rows, dims)?;
    call.call("permute_dims", &[rows.into(), key("axes", order)])
}
