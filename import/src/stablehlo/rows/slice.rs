//! Parts of tensors: with bounds that are dims a `strided_slice`, with computed ones rows by index. StableHLO moves a part that
//! would begin outside so that it lies inside.

use super::super::call::{Call, Row};
use super::super::syntax::Attribute;
use super::gather::limited;
use crate::argument::key;
use crate::builder::V;
use crate::operators::elementwise::convert;
use crate::operators::shape::{inverse, permuted, reshape};
use crate::operators::slice::part;
use crate::reason::{Done, Reason, invalid};
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::dtype::DType;

pub(super) const ROWS: &[(&str, Row)] = &[
    ("slice", slice),
    ("real_dynamic_slice", real_dynamic_slice),
    ("dynamic_slice", dynamic_slice),
    ("dynamic_update_slice", dynamic_update_slice),
];

/// Starts, ends and steps of `0:4, 0:6:2`.
fn ranges(text: &str) -> Option<[Vec<i64>; 3]> {
    let (mut starts, mut ends, mut steps) = (Vec::new(), Vec::new(), Vec::new());
    for range in text.split(',').map(str::trim).filter(|range| !range.is_empty()) {
        let mut parts = range.split(':').map(|part| part.trim().parse::<i64>().ok());
        starts.push(parts.next()??);
        ends.push(parts.next()??);
        steps.push(parts.next().unwrap_or(Some(1))?);
    }
    Some([starts, ends, steps])
}

fn slice(call: &mut Call) -> Done<Vec<V>> {
    let x = call.arg(0)?;
    let [starts, ends, steps] = match call.attribute("ranges") {
        Some(Attribute::Text(text)) => {
            let found = ranges(text);
            found.ok_or_else(|| Reason::Invalid(format!("the ranges `{text}`")))?
        }
        _ => [call.ints("start_indices")?, call.ints("limit_indices")?, call.ints("strides")?],
    };
    let dims = |list: Vec<i64>| list.into_iter().map(Dim::Int).collect();
    sliced(call, x, dims(starts), dims(ends), steps)
}

fn real_dynamic_slice(call: &mut Call) -> Done<Vec<V>> {
    let x = call.arg(0)?;
    let starts = call.extents_of(1, "start_indices")?;
    let ends = call.extents_of(2, "limit_indices")?;
    let strides = call.arg(3)?;
    let strides = call.known_ints(strides, "strides")?;
    sliced(call, x, starts, ends, strides)
}

fn sliced(
    call: &mut Call,
    x: V,
    starts: Vec<Dim>,
    ends: Vec<Dim>,
    steps: Vec<i64>,
) -> Done<Vec<V>> {
    let own = call.dims(x);
    if [starts.len(), ends.len(), steps.len()].iter().any(|&length| length != own.len()) {
        return invalid("its bounds have not one entry an axis");
    }
    let (mut axes, mut begin, mut end, mut strides) = (vec![], vec![], vec![], vec![]);
    for axis in 0..own.len() {
        let whole =
            starts[axis] == Dim::Int(0) && steps[axis] == 1 && call.same(&ends[axis], &own[axis]);
        if !whole {
            axes.push(axis as i64);
            begin.push(starts[axis].clone());
            end.push(ends[axis].clone());
            strides.push(steps[axis]);
        }
    }
    if axes.is_empty() {
        return Ok(vec![x]);
    }
    Ok(vec![part(call, x, axes, begin, end, strides)?])
}

/// Where a part of `size` of an axis of `extent` begins: an integer of rank 0 that is inside.
fn start(call: &mut Call, given: V, extent: &Dim, size: &Dim) -> Done<Result<Dim, V>> {
    if let Some([dim]) = call.elements(given).as_deref() {
        let last = call.dim(DimOp::Sub, extent, size);
        let dim = call.dim(DimOp::Min, dim, &last);
        return Ok(Ok(call.dim(DimOp::Max, &dim, &Dim::Int(0))));
    }
    let wide = convert(call, given, DType::I64)?;
    limited(call, wide, extent, size).map(Err)
}

/// The places from a computed start on, `size` of them.
fn places(call: &mut Call, start: V, size: &Dim) -> Done<V> {
    let count = call.call("arange", &[size.clone().into(), key("dtype", DType::I64)])?;
    call.call("add", &[count.into(), start.into()])
}

fn dynamic_slice(call: &mut Call) -> Done<Vec<V>> {
    let mut x = call.arg(0)?;
    let rank = call.rank(x);
    let sizes = call.ints_named(&["sizes", "slice_sizes"])?;
    if sizes.len() != rank || call.args.len() != rank + 1 {
        return invalid("it has not one start and one size an axis");
    }
    for (axis, &size) in sizes.iter().enumerate() {
        let given = call.arg(axis + 1)?;
        x = taken(call, x, axis, given, &Dim::Int(size))?;
    }
    Ok(vec![x])
}

fn taken(call: &mut Call, x: V, axis: usize, given: V, size: &Dim) -> Done<V> {
    let extent = call.dims(x)[axis].clone();
    if call.same(&extent, size) {
        return Ok(x);
    }
    match start(call, given, &extent, size)? {
        Ok(begin) => {
            let end = call.dim(DimOp::Add, &begin, size);
            part(call, x, vec![axis as i64], vec![begin], vec![end], vec![1])
        }
        Err(begin) => {
            let places = places(call, begin, size)?;
            call.call("take", &[x.into(), places.into(), key("axis", axis)])
        }
    }
}

fn dynamic_update_slice(call: &mut Call) -> Done<Vec<V>> {
    let (x, update) = call.two()?;
    let rank = call.rank(x);
    if call.rank(update) != rank || call.args.len() != rank + 2 {
        return invalid("it has not one start an axis");
    }
    Ok(vec![updated(call, x, update, 0)?])
}

/// The axes from `axis` on of x with the update: the part along the axis is taken, updated along the others, and put back.
fn updated(call: &mut Call, x: V, update: V, axis: usize) -> Done<V> {
    if axis == call.rank(x) {
        return Ok(update);
    }
    let (extent, size) = (call.dims(x)[axis].clone(), call.dims(update)[axis].clone());
    if call.same(&extent, &size) {
        return updated(call, x, update, axis + 1);
    }
    let given = call.arg(axis + 2)?;
    let (own, wanted) = (call.dims(x), call.dims(update));
    let is_last = (axis + 1..own.len()).all(|axis| call.same(&own[axis], &wanted[axis]));
    let update = if is_last {
        update
    } else {
        let inner = taken(call, x, axis, given, &size)?;
        updated(call, inner, update, axis + 1)?
    };
    match start(call, given, &extent, &size)? {
        Ok(begin) => {
            let end = call.dim(DimOp::Add, &begin, &size);
            let args = [
                x.into(),
                update.into(),
                begin.into(),
                end.into(),
                1_i64.into(),
                key("axis", axis),
            ];
            call.call("slice_scatter", &args)
        }
        Err(begin) => {
            let places = places(call, begin, &size)?;
            let column = reshape(call, places, vec![size, Dim::Int(1)])?;
            let mut axes: Vec<i64> = (0..own.len() as i64).collect();
            axes[..=axis].rotate_right(1);
            let front = permuted(call, x, &axes)?;
            let update = permuted(call, update, &axes)?;
            let args = [front.into(), column.into(), update.into()];
            let front = call.call("scatter_nd", &args)?;
            permuted(call, front, &inverse(&axes))
        }
    }
}
