//! Regions of scalars, applied to whole tensors: reductions and windows by any region, on several operands at once, and
//! `select_and_scatter`.

use super::super::call::{Call, Row};
use super::super::syntax::Region;
use super::movement::padded;
use super::window::{Windows, fixed, part, places};
use crate::argument::{Arg, key};
use crate::builder::V;
use crate::operators::elementwise::convert;
use crate::operators::shape::reshape;
use crate::operators::slice::along;
use crate::reason::{Done, invalid, unsupported};
use relax_semantics::tensor::Number;
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::dtype::DType;

pub(super) const ROWS: &[(&str, Row)] = &[("select_and_scatter", select_and_scatter)];

/// Operations of regions that are written out for one operation.
const MOST: usize = 8192;

fn filled(call: &mut Call, value: V, dims: &[Dim]) -> Done<V> {
    if call.dims(value) == dims {
        return Ok(value);
    }
    call.call_kept("broadcast_to", &[value.into(), Arg::Shape(dims.to_vec())])
}

/// What a region computes of the elements of tensors, for all elements at once.
fn on_tensors<'m>(
    call: &mut Call<'_, 'm>,
    region: &'m Region,
    values: &[V],
    dims: &[Dim],
) -> Done<Vec<V>> {
    let results = call.walk.region_on_tensors(call.scope, region, values)?;
    results.into_iter().map(|result| filled(call, result, dims)).collect()
}

fn refuse_long(region: &Region, times: usize) -> Done<()> {
    match region.ops.len().checked_mul(times) {
        Some(count) if count <= MOST => Ok(()),
        _ => unsupported(format!("more than {MOST} operations of its region, written out")),
    }
}

/// Operands and initial values.
fn operands(call: &Call) -> Done<(Vec<V>, Vec<V>)> {
    let count = call.args.len() / 2;
    if count == 0 || call.args.len() % 2 == 1 {
        return invalid("there is not an initial value for each operand");
    }
    Ok((call.args[..count].to_vec(), call.args[count..].to_vec()))
}

/// Windows of all operands, from the initial values on, element by element of a window.
pub(super) fn windows(call: &mut Call, windows: &Windows) -> Done<Vec<V>> {
    let region = call.region(0)?;
    let (operands, inits) = operands(call)?;
    let mut data = Vec::new();
    for (&x, &init) in operands.iter().zip(&inits) {
        let [low, high, interior] = windows.pads(call);
        data.push(padded(call, x, init, [&low, &high, &interior])?);
    }
    let dims = call.dims(data[0]);
    let places = places(call, &dims, windows)?;
    refuse_long(region, places.begins.len())?;
    let mut so_far = Vec::new();
    for &init in &inits {
        so_far.push(filled(call, init, &places.lengths)?);
    }
    for begin in &places.begins {
        let mut values = so_far;
        for &x in &data {
            values.push(part(call, x, &places, begin)?);
        }
        so_far = on_tensors(call, region, &values, &places.lengths)?;
    }
    Ok(so_far)
}

/// A reduction as a tree that keeps the order of elements: neighbours are combined until one is left.
pub(super) fn reduced(call: &mut Call, axes: &[usize]) -> Done<Vec<V>> {
    let region = call.region(0)?;
    let (mut values, inits) = operands(call)?;
    let mut steps = 1;
    for &axis in axes {
        let Some(mut extent) = call.dims(values[0])[axis].as_int() else {
            return unsupported("a symbolic dim, reduced by this region");
        };
        if extent == 0 {
            let dims = rest(&call.dims(values[0]), axes);
            return inits.iter().map(|&init| filled(call, init, &dims)).collect();
        }
        while extent > 1 {
            steps += 1;
            refuse_long(region, steps)?;
            let half = extent / 2;
            let mut pairs = Vec::new();
            for first in [0, 1] {
                for &x in &values {
                    pairs.push(every_other(call, x, axis, first, 2 * half)?);
                }
            }
            let dims = call.dims(pairs[0]);
            let mut combined = on_tensors(call, region, &pairs, &dims)?;
            if extent % 2 == 1 {
                for (result, &x) in combined.iter_mut().zip(&values) {
                    let last = along(call, x, axis, (extent - 1, extent, 1))?;
                    let both = vec![*result, last].into();
                    *result = call.call("concat", &[both, key("axis", axis)])?;
                }
            }
            (values, extent) = (combined, half + extent % 2);
        }
    }
    let dims = rest(&call.dims(values[0]), axes);
    let mut given = Vec::new();
    for &init in &inits {
        given.push(filled(call, init, &dims)?);
    }
    for x in values {
        given.push(reshape(call, x, dims.clone())?);
    }
    on_tensors(call, region, &given, &dims)
}

fn rest(dims: &[Dim], axes: &[usize]) -> Vec<Dim> {
    let kept = dims.iter().enumerate().filter(|(axis, _)| !axes.contains(axis));
    kept.map(|(_, dim)| dim.clone()).collect()
}

fn every_other(call: &mut Call, x: V, axis: usize, first: i64, end: i64) -> Done<V> {
    along(call, x, axis, (first, end, 2))
}

/// Which element of each window the first region selects; there the second one combines the result with the element of the source.
fn select_and_scatter(call: &mut Call) -> Done<Vec<V>> {
    let (x, source, init) = (call.arg(0)?, call.arg(1)?, call.arg(2)?);
    let (select, scatter) = (call.region(0)?, call.region(1)?);
    let windows = fixed(call)?;
    windows.fit(call)?;
    if windows.padding.iter().any(|width| *width != Dim::Int(0)) {
        return unsupported("padding");
    }
    let dims = call.dims(x);
    let places = places(call, &dims, &windows)?;
    refuse_long(select, places.begins.len())?;
    refuse_long(scatter, places.begins.len())?;
    let lengths = places.lengths.clone();
    let fits = lengths.len() == call.rank(source);
    let fits = fits && lengths.iter().zip(&call.dims(source)).all(|(a, b)| call.same(a, b));
    if !fits || !lengths.iter().all(|length| call.at_least(length, 1)) {
        return unsupported("windows that may not fit, or a source of another shape");
    }
    let mut best: Option<(V, V)> = None;
    for (number, begin) in places.begins.iter().enumerate() {
        let element = part(call, x, &places, begin)?;
        let own = number_of(call, number, &lengths)?;
        best = Some(match best {
            None => (element, own),
            Some((value, at)) => {
                let keeps = on_tensors(call, select, &[value, element], &lengths)?[0];
                let choose = |call: &mut Call, old: V, new: V| {
                    call.call("where", &[keeps.into(), old.into(), new.into()])
                };
                (choose(call, value, element)?, choose(call, at, own)?)
            }
        });
    }
    let Some((_, at)) = best else { return invalid("an empty window") };
    let mut result = filled(call, init, &dims)?;
    for (number, begin) in places.begins.iter().enumerate() {
        let own = number_of(call, number, &lengths)?;
        let hit = call.call("equal", &[at.into(), own.into()])?;
        let hit = convert(call, hit, DType::I8)?;
        let (mut low, mut high, mut interior) = (Vec::new(), Vec::new(), Vec::new());
        for axis in 0..dims.len() {
            let stride = places.strides[axis];
            let last = call.dim(DimOp::Sub, &lengths[axis], &Dim::Int(1));
            let reach = call.dim(DimOp::Mul, &last, &Dim::Int(stride));
            let left = call.dim(DimOp::Sub, &dims[axis], &reach);
            high.push(call.dim(DimOp::Sub, &left, &Dim::Int(begin[axis] + 1)));
            low.push(Dim::Int(begin[axis]));
            interior.push(Dim::Int(stride - 1));
        }
        let spread = |call: &mut Call, v: V| {
            let zero = Number::Int(0);
            let zero = relax_semantics::tensor::Tensor::scalar(call.dtype(v), zero);
            let zero = call.constant(zero);
            padded(call, v, zero, [&low, &high, &interior])
        };
        let (hit, given) = (spread(call, hit)?, spread(call, source)?);
        let hit = convert(call, hit, DType::Bool)?;
        let combined = on_tensors(call, scatter, &[result, given], &dims)?[0];
        result = call.call("where", &[hit.into(), combined.into(), result.into()])?;
    }
    Ok(vec![result])
}

fn number_of(call: &mut Call, number: usize, dims: &[Dim]) -> Done<V> {
    let number = Number::Int(number as i128);
    let number = call.constant(relax_semantics::tensor::Tensor::scalar(DType::I64, number));
    filled(call, number, dims)
}
