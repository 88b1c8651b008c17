//! Pooling.

use super::movement::without_batch;
use crate::argument::{Arg, key};
use crate::aten::call::{Argument, Call, Row};
use crate::builder::V;
use crate::operators::activation::scaled;
use crate::operators::arithmetic::pair;
use crate::operators::convolution::Windows;
use crate::operators::pooling::pooled;
use crate::operators::shape::reshape;
use crate::reason::{Done, invalid, unsupported};
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::dtype::DType;

pub(super) const ROWS: &[(&str, Row)] = &[
    ("max_pool1d", |call| max_pool(call, 1)),
    ("max_pool2d", |call| max_pool(call, 2)),
    ("max_pool2d_with_indices", |call| max_pool(call, 2)),
    ("max_pool3d_with_indices", |call| max_pool(call, 3)),
    ("avg_pool1d", |call| average_pool(call, 1)),
    ("avg_pool2d", |call| average_pool(call, 2)),
    ("avg_pool3d", |call| average_pool(call, 3)),
    ("_adaptive_avg_pool2d", |call| adaptive(call, 2)),
    ("_adaptive_avg_pool3d", |call| adaptive(call, 3)),
    ("adaptive_avg_pool1d", |call| adaptive(call, 1)),
];

fn windows(call: &Call, count: usize) -> Done<Windows> {
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

fn ceil_flag(call: &Call) -> Done<Vec<Arg>> {
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

/// The averages of windows along one axis: differences of prefix sums.
fn along(call: &mut Call, x: V, axis: usize, size: i64) -> Done<V> {
    let extent = call.dims(x)[axis].clone();
    let dtype = call.dtype(x);
    let count = Dim::Int(size);
    let wide = crate::operators::elementwise::convert(call, x, DType::F64)?;
    let mut none = call.dims(x);
    none[axis] = Dim::Int(1);
    let none = call.call("zeros", &[Arg::Shape(none), DType::F64.into()])?;
    let sums = call.call("cumsum", &[wide.into(), key("axis", axis)])?;
    let sums = call.call("concat", &[vec![none, sums].into(), key("axis", axis)])?;
    let (mut begins, mut ends) = (Vec::new(), Vec::new());
    for place in 0..size {
        let begin = call.dim(DimOp::Mul, &extent, &Dim::Int(place));
        begins.push(call.dim(DimOp::FloorDiv, &begin, &count));
        let end = call.dim(DimOp::Mul, &extent, &Dim::Int(place + 1));
        ends.push(call.dim(DimOp::CeilDiv, &end, &count));
    }
    let (begins, ends) = (call.integers(begins, 1, DType::I64), call.integers(ends, 1, DType::I64));
    let low = call.call("take", &[sums.into(), begins.into(), key("axis", axis)])?;
    let high = call.call("take", &[sums.into(), ends.into(), key("axis", axis)])?;
    let sums = pair(call, "subtract", high, low)?;
    let counts = pair(call, "subtract", ends, begins)?;
    let counts = crate::operators::elementwise::convert(call, counts, DType::F64)?;
    let mut dims = vec![Dim::Int(1); call.rank(x)];
    dims[axis] = Dim::Int(size);
    let counts = reshape(call, counts, dims)?;
    let averages = pair(call, "divide", sums, counts)?;
    crate::operators::elementwise::convert(call, averages, dtype)
}
