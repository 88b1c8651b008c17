//! Pooling.

use super::movement::without_batch;
use super::pool_gradient::places;
use crate::argument::{Arg, key};
use crate::aten::call::{Argument, Call, Row};
use crate::builder::V;
use crate::operators::activation::scaled;
use crate::operators::convolution::Windows;
use crate::operators::pooling::pooled;
use crate::operators::shape::reshape;
use crate::reason::{Done, invalid, unsupported};
use relax_syntax::dim::Dim;

pub(super) const ROWS: &[(&str, Row)] = &[
    ("max_pool1d", |call| max_pool(call, 1)),
    ("max_pool2d", |call| max_pool(call, 2)),
    ("max_pool2d_with_indices", max_pool_with_places),
    ("max_pool3d_with_indices", |call| max_pool(call, 3)),
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

/// With the places of the maxima in their planes, where they are read.
fn max_pool_with_places(call: &mut Call) -> Done<Vec<V>> {
    let mut results = max_pool(call, 2)?;
    if call.is_read(1) {
        let (x, y) = (call.tensor("self")?, results[0]);
        let (x, is_alone) = without_batch(call, x, 4)?;
        let (y, _) = without_batch(call, y, 4)?;
        let windows = windows(call, 2)?;
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
    if !flags.is_empty() && count == 3 {
        return unsupported("ceil_mode over three dims");
    }
    let divisor =
        if call.has("divisor_override") { Some(call.int("divisor_override")?) } else { None };
    let whole = divisor.is_some() || call.bool("count_include_pad")?;
    if divisor.is_some() && !flags.is_empty() {
        return unsupported("divisor_override with ceil_mode");
    }
    flags.push(key("count_include_pad", whole));
    let size: i64 = windows.kernel.iter().filter_map(Dim::as_int).product();
    of_batch(call, count, |call, x| {
        if !call.dtype(x).is_float() {
            return unsupported("averages of integers");
        }
        let averages = pooled(call, "avg_pool", x, &windows, &flags)?;
        match divisor {
            Some(divisor) => scaled(call, averages, size as f64 / divisor as f64),
            None => Ok(averages),
        }
    })
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
