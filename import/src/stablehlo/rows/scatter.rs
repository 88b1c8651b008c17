//! `scatter`: dims of the operand that an update covers stay, the others are indexed. Updates that lie outside are left out, as
//! StableHLO says: they go to a row behind the others, which is cut off.

use super::super::call::{Call, Row};
use super::gather::{are_inside, column, count, fields, list, vector_dim};
use super::pattern::{binary, summary};
use crate::argument::{Arg, key};
use crate::builder::V;
use crate::operators::elementwise::convert;
use crate::operators::shape::{inverse, permuted, reshape};
use crate::reason::{Done, invalid, unsupported};
use relax_semantics::tensor::Number;
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::dtype::DType;

pub(super) const ROWS: &[(&str, Row)] = &[("scatter", scatter)];

struct Numbers {
    window: Vec<usize>,
    inserted: Vec<usize>,
    operand_batch: Vec<usize>,
    indices_batch: Vec<usize>,
    map: Vec<usize>,
    vector: usize,
}

fn numbers(call: &Call) -> Done<Numbers> {
    let fields = fields(call, "scatter_dimension_numbers")?;
    Ok(Numbers {
        window: list(fields, "update_window_dims")?,
        inserted: list(fields, "inserted_window_dims")?,
        operand_batch: list(fields, "input_batching_dims")?,
        indices_batch: list(fields, "scatter_indices_batching_dims")?,
        map: list(fields, "scatter_dims_to_operand_dims")?,
        vector: vector_dim(fields)?,
    })
}

/// `update` where the region gives the update itself, else what it combines by.
fn reduction(call: &Call) -> Done<&'static str> {
    let region = call.region(0)?;
    if let [end] = region.ops.as_slice()
        && region.params.len() == 2
        && end.operands.len() == 1
    {
        return match end.operands[0].name == region.params[1].name {
            true => Ok("update"),
            false => unsupported(format!("its region: {}", summary(region))),
        };
    }
    Ok(match binary(region)?.as_str() {
        "add" => "add",
        "multiply" => "mul",
        "maximum" => "max",
        "minimum" => "min",
        other => return unsupported(format!("by {other}")),
    })
}

fn scatter(call: &mut Call) -> Done<Vec<V>> {
    if call.args.len() != 3 {
        return unsupported(format!("{} operands", call.args.len() / 2));
    }
    let (x, indices, updates) = (call.arg(0)?, call.arg(1)?, call.arg(2)?);
    let reduction = reduction(call)?;
    if call.dtype(x) == DType::Bool && reduction != "update" {
        let reduction = match reduction {
            "add" | "max" => "max",
            _ => "min",
        };
        let (x, updates) = (convert(call, x, DType::U8)?, convert(call, updates, DType::U8)?);
        let result = scattered(call, (x, indices, updates), reduction)?;
        return Ok(vec![convert(call, result, DType::Bool)?]);
    }
    Ok(vec![scattered(call, (x, indices, updates), reduction)?])
}

fn scattered(
    call: &mut Call,
    (x, indices, updates): (V, V, V),
    reduction: &'static str,
) -> Done<V> {
    let numbers = numbers(call)?;
    let (own, given) = (call.dims(x), call.dims(updates));
    let rank = own.len();
    let all = [&numbers.inserted, &numbers.operand_batch, &numbers.map];
    let window =
        |axis: &usize| !numbers.inserted.contains(axis) && !numbers.operand_batch.contains(axis);
    let windows: Vec<usize> = (0..rank).filter(window).collect();
    let fits = all.iter().all(|axes| axes.iter().all(|&axis| axis < rank))
        && windows.len() == numbers.window.len()
        && numbers.window.iter().all(|&dim| dim < given.len())
        && numbers.vector <= call.rank(indices)
        && numbers.indices_batch.len() == numbers.operand_batch.len();
    if !fits {
        return invalid("its dimension numbers do not fit its operands");
    }
    let indices = convert(call, indices, DType::I64)?;
    let sizes: Vec<Dim> = (0..rank)
        .map(|axis| match windows.iter().position(|&own| own == axis) {
            Some(at) => given[numbers.window[at]].clone(),
            None => Dim::Int(1),
        })
        .collect();
    let batch: Vec<usize> = (0..given.len()).filter(|dim| !numbers.window.contains(dim)).collect();
    let parts: Vec<usize> =
        windows.iter().copied().filter(|&axis| !call.same(&sizes[axis], &own[axis])).collect();
    let indexed: Vec<usize> =
        (0..rank).filter(|axis| !windows.contains(axis) || parts.contains(axis)).collect();
    // Updates as batch, parts, whole windows.
    let place =
        |axis: &usize| numbers.window[windows.iter().position(|own| own == axis).unwrap_or(0)];
    let whole: Vec<usize> = windows.iter().copied().filter(|axis| !parts.contains(axis)).collect();
    let order: Vec<i64> = batch
        .iter()
        .copied()
        .chain(parts.iter().map(place))
        .chain(whole.iter().map(place))
        .map(|dim| dim as i64)
        .collect();
    let updates = permuted(call, updates, &order)?;
    let shape: Vec<Dim> = batch
        .iter()
        .map(|&dim| given[dim].clone())
        .chain(parts.iter().map(|&axis| sizes[axis].clone()))
        .collect();
    let (columns, outside) = columns(
        call,
        &numbers,
        indices,
        &Places {
            own: &own,
            sizes: &sizes,
            indexed: &indexed,
            parts: &parts,
            batch: batch.len(),
            shape: &shape,
        },
    )?;
    write(call, x, &indexed, columns, outside, updates, reduction)
}

/// Where the updates go.
struct Places<'p> {
    own: &'p [Dim],
    sizes: &'p [Dim],
    indexed: &'p [usize],
    parts: &'p [usize],
    batch: usize,
    shape: &'p [Dim],
}

/// The indices of each indexed dim, and whether a window lies outside.
fn columns(
    call: &mut Call,
    numbers: &Numbers,
    indices: V,
    places: &Places,
) -> Done<(Vec<V>, Option<V>)> {
    let width = places.shape.len();
    let (mut columns, mut outside) = (Vec::new(), None);
    for &axis in places.indexed {
        let batched = numbers.operand_batch.iter().position(|&own| own == axis);
        let at = numbers.map.iter().position(|&own| own == axis);
        let mut index = match (batched, at) {
            (Some(at), _) => {
                let dim = numbers.indices_batch[at];
                let dim = dim - usize::from(dim > numbers.vector);
                if dim >= width {
                    return invalid("its dimension numbers do not fit its operands");
                }
                count(call, &places.own[axis], dim, width)?
            }
            (None, Some(at)) => {
                let start = column(call, indices, numbers.vector, at)?;
                let mut dims = call.dims(start);
                dims.resize(width, Dim::Int(1));
                let start = reshape(call, start, dims)?;
                if let Some(out) = is_outside(call, start, &places.own[axis], &places.sizes[axis])?
                {
                    outside = Some(match outside {
                        None => out,
                        Some(other) => call.call("logical_or", &[V::into(other), out.into()])?,
                    });
                }
                start
            }
            (None, None) => call.integers(vec![Dim::Int(0)], 0, DType::I64),
        };
        if let Some(part) = places.parts.iter().position(|&own| own == axis) {
            let count = count(call, &places.sizes[axis], places.batch + part, width)?;
            index = call.call("add", &[index.into(), count.into()])?;
        }
        columns.push(index);
    }
    let wide = |call: &mut Call, v: V| match call.dims(v) == places.shape {
        true => Ok(v),
        false => call.call("broadcast_to", &[v.into(), Arg::Shape(places.shape.to_vec())]),
    };
    let columns = columns.into_iter().map(|v| wide(call, v)).collect::<Done<Vec<V>>>()?;
    let outside = outside.map(|v| wide(call, v)).transpose()?;
    Ok((columns, outside))
}

/// Whether a window begins before the first place or ends behind the last one; none where it is known that it does not.
fn is_outside(call: &mut Call, start: V, extent: &Dim, size: &Dim) -> Done<Option<V>> {
    let last = call.dim(DimOp::Sub, extent, size);
    if are_inside(call, start, &last) {
        return Ok(None);
    }
    let last = call.integers(vec![last], 0, DType::I64);
    let low = call.call("less", &[start.into(), Arg::Scalar(DType::I64, Number::Int(0))])?;
    let high = call.call("greater", &[start.into(), last.into()])?;
    call.call("logical_or", &[low.into(), high.into()]).map(Some)
}

fn write(
    call: &mut Call,
    x: V,
    indexed: &[usize],
    mut columns: Vec<V>,
    outside: Option<V>,
    updates: V,
    reduction: &str,
) -> Done<V> {
    let rank = call.rank(x);
    if indexed.is_empty() {
        return unsupported("an update of the whole operand");
    }
    let order: Vec<i64> = indexed
        .iter()
        .copied()
        .chain((0..rank).filter(|axis| !indexed.contains(axis)))
        .map(|axis| axis as i64)
        .collect();
    let front = permuted(call, x, &order)?;
    let dims = call.dims(front);
    let mut target = front;
    if let Some(outside) = outside {
        let mut row = dims.clone();
        row[0] = Dim::Int(1);
        let dtype = call.dtype(x);
        let row = call.call_kept("zeros", &[Arg::Shape(row), dtype.into()])?;
        target = call.call("concat", &[vec![front, row].into(), key("axis", 0_i64)])?;
        for (at, column) in columns.iter_mut().enumerate() {
            let elsewhere = match at {
                0 => call.integers(vec![dims[0].clone()], 0, DType::I64),
                _ => call.integers(vec![Dim::Int(0)], 0, DType::I64),
            };
            *column = call.call("where", &[outside.into(), elsewhere.into(), (*column).into()])?;
        }
    }
    let indices = match columns.as_slice() {
        [only] => {
            let mut dims = call.dims(*only);
            dims.push(Dim::Int(1));
            reshape(call, *only, dims)?
        }
        _ => call.call("stack", &[columns.into(), key("axis", -1_i64)])?,
    };
    let mut args = vec![target.into(), indices.into(), updates.into()];
    if reduction != "update" {
        args.push(key("reduction", reduction));
    }
    let mut result = call.call("scatter_nd", &args)?;
    if outside.is_some() {
        let (begin, end) = (vec![Dim::Int(0)], vec![dims[0].clone()]);
        let args = [result.into(), Arg::from(vec![0_i64]), Arg::Dims(begin), Arg::Dims(end)];
        result = call.call("strided_slice", &args)?;
    }
    permuted(call, result, &inverse(&order))
}
