//! `gather` in general: dims of the operand that are taken whole stay, the others are indexed. A start that lies outside is moved
//! inside, as StableHLO says.

use super::super::call::{Call, Row};
use super::super::syntax::{Attribute, Attributes};
use crate::argument::{Arg, key};
use crate::builder::V;
use crate::operators::elementwise::convert;
use crate::operators::shape::{permuted, reshape};
use crate::reason::{Done, invalid};
use relax_semantics::tensor::Number;
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::dtype::DType;

pub(super) const ROWS: &[(&str, Row)] = &[
    ("gather", |call| {
        let sizes = call.ints("slice_sizes")?.into_iter().map(Dim::Int).collect();
        gather(call, sizes)
    }),
    ("dynamic_gather", |call| {
        let sizes = call.extents_of(2, "slice_sizes")?;
        gather(call, sizes)
    }),
];

/// Lists of `dimension_numbers`; those that are not printed are empty.
pub(super) fn fields<'m>(call: &Call<'_, 'm>, name: &str) -> Done<&'m Attributes> {
    match call.attribute(name) {
        Some(Attribute::Word(_, fields)) => match &**fields {
            Attribute::Dictionary(fields) => Ok(fields),
            _ => invalid("its dimension numbers"),
        },
        _ => invalid("its dimension numbers are missing"),
    }
}

pub(super) fn list(fields: &Attributes, name: &str) -> Done<Vec<usize>> {
    let Some(attribute) = fields.get(name) else { return Ok(Vec::new()) };
    let ints = super::super::call::ints("", attribute).unwrap_or_default();
    let list = ints.into_iter().map(usize::try_from).collect::<Result<Vec<usize>, _>>();
    list.or_else(|_| invalid(format!("a negative dim in `{name}`")))
}

/// The dim of the indices that holds a place for each dim of the operand; their rank where there is none.
pub(super) fn vector_dim(fields: &Attributes) -> Done<usize> {
    match fields.get("index_vector_dim") {
        None => Ok(0),
        Some(Attribute::Int(dim)) if *dim >= 0 => Ok(*dim as usize),
        Some(_) => invalid("its `index_vector_dim`"),
    }
}

/// The indices of one dim of the operand, of the shape of the batch.
pub(super) fn column(call: &mut Call, indices: V, dim: usize, at: usize) -> Done<V> {
    let rank = call.rank(indices);
    if dim == rank {
        return Ok(indices);
    }
    let mut batch = call.dims(indices);
    batch.remove(dim);
    let (begin, end) = (Dim::Int(at as i64), Dim::Int(at as i64 + 1));
    let whole = call.dims(indices)[dim] == Dim::Int(1);
    let part = if whole {
        indices
    } else {
        let args = [
            indices.into(),
            Arg::from(vec![dim as i64]),
            Arg::Dims(vec![begin]),
            Arg::Dims(vec![end]),
        ];
        call.call("strided_slice", &args)?
    };
    reshape(call, part, batch)
}

/// Places from 0 on along an axis of a tensor of a rank, all other dims 1.
pub(super) fn count(call: &mut Call, extent: &Dim, axis: usize, rank: usize) -> Done<V> {
    let count = call.call("arange", &[extent.clone().into(), key("dtype", DType::I64)])?;
    let mut dims = vec![Dim::Int(1); rank];
    dims[axis] = extent.clone();
    reshape(call, count, dims)
}

/// Whether integers are known to be within `0..=last`.
pub(super) fn are_inside(call: &Call, v: V, last: &Dim) -> bool {
    let known = call.tensor(v).zip(last.as_int());
    known.is_some_and(|(tensor, last)| {
        tensor.to_ints().iter().all(|value| (0..=i128::from(last)).contains(value))
    })
}

/// Integers limited to `0..=extent - size`.
pub(super) fn limited(call: &mut Call, v: V, extent: &Dim, size: &Dim) -> Done<V> {
    let last = call.dim(DimOp::Sub, extent, size);
    if are_inside(call, v, &last) {
        return Ok(v);
    }
    let last = call.integers(vec![last], 0, DType::I64);
    let low = call.call("minimum", &[v.into(), last.into()])?;
    call.call("maximum", &[low.into(), Arg::Scalar(DType::I64, Number::Int(0))])
}

/// What `gather` reads of the operand.
struct Numbers {
    offset: Vec<usize>,
    collapsed: Vec<usize>,
    operand_batch: Vec<usize>,
    indices_batch: Vec<usize>,
    map: Vec<usize>,
    vector: usize,
}

fn numbers(call: &Call) -> Done<Numbers> {
    let fields = fields(call, "dimension_numbers")?;
    Ok(Numbers {
        offset: list(fields, "offset_dims")?,
        collapsed: list(fields, "collapsed_slice_dims")?,
        operand_batch: list(fields, "operand_batching_dims")?,
        indices_batch: list(fields, "start_indices_batching_dims")?,
        map: list(fields, "start_index_map")?,
        vector: vector_dim(fields)?,
    })
}

fn gather(call: &mut Call, sizes: Vec<Dim>) -> Done<Vec<V>> {
    let (x, indices) = call.two()?;
    let numbers = numbers(call)?;
    let own = call.dims(x);
    let rank = own.len();
    let all = [&numbers.collapsed, &numbers.operand_batch, &numbers.map];
    let inside = all.iter().all(|axes| axes.iter().all(|&axis| axis < rank));
    let single = |axis: &usize| matches!(sizes.get(*axis), Some(Dim::Int(0 | 1)));
    let fits = inside
        && numbers.operand_batch.len() == numbers.indices_batch.len()
        && numbers.collapsed.iter().chain(&numbers.operand_batch).all(single);
    if sizes.len() != rank || !fits || numbers.vector > call.rank(indices) {
        return invalid("its dimension numbers do not fit its operands");
    }
    let indices = convert(call, indices, DType::I64)?;
    let mut batch = call.dims(indices);
    if numbers.vector < batch.len() {
        batch.remove(numbers.vector);
    }
    let is_batch = |dim: &usize| *dim < call.rank(indices) && *dim != numbers.vector;
    if !numbers.indices_batch.iter().all(is_batch) {
        return invalid("its dimension numbers do not fit its operands");
    }
    let dropped =
        |axis: &usize| numbers.collapsed.contains(axis) || numbers.operand_batch.contains(axis);
    // Dims of which a part is taken are indexed; their windows are axes behind the batch.
    let mut indexed = Vec::new();
    let mut windows = Vec::new();
    for axis in 0..rank {
        let is_whole = call.same(&sizes[axis], &own[axis]);
        if numbers.operand_batch.contains(&axis) || !is_whole || numbers.collapsed.contains(&axis) {
            indexed.push(axis);
            if !dropped(&axis) {
                windows.push(axis);
            }
        }
    }
    let width = batch.len() + windows.len();
    let mut columns = Vec::new();
    for &axis in &indexed {
        let place = numbers.map.iter().position(|&own| own == axis);
        let batched = numbers.operand_batch.iter().position(|&own| own == axis);
        let mut column = match (place, batched) {
            (_, Some(at)) => {
                let dim = numbers.indices_batch[at];
                let dim = dim - usize::from(dim > numbers.vector);
                count(call, &own[axis], dim, width)?
            }
            (Some(at), None) => {
                let start = column(call, indices, numbers.vector, at)?;
                let start = limited(call, start, &own[axis], &sizes[axis])?;
                let dims = [batch.clone(), vec![Dim::Int(1); windows.len()]].concat();
                reshape(call, start, dims)?
            }
            (None, None) => call.integers(vec![Dim::Int(0)], 0, DType::I64),
        };
        if let Some(window) = windows.iter().position(|&own| own == axis) {
            let places = count(call, &sizes[axis], batch.len() + window, width)?;
            column = call.call("add", &[column.into(), places.into()])?;
        }
        columns.push(column);
    }
    let shape: Vec<Dim> =
        batch.iter().cloned().chain(windows.iter().map(|&axis| sizes[axis].clone())).collect();
    let taken = read(call, x, &indexed, columns, &shape)?;
    let axes = result_order(&numbers.offset, batch.len(), &windows, &indexed, rank)?;
    Ok(vec![permuted(call, taken, &axes)?])
}

/// From batch, windows and whole dims to the order of the result, where those of the operand are the offsets in their order.
fn result_order(
    offset: &[usize],
    batch: usize,
    windows: &[usize],
    indexed: &[usize],
    rank: usize,
) -> Done<Vec<i64>> {
    let whole = (0..rank).filter(|axis| !indexed.contains(axis));
    let mut kept: Vec<(usize, usize)> = windows.iter().copied().chain(whole).zip(batch..).collect();
    kept.sort_unstable();
    let (mut axes, mut offsets, mut batches) = (Vec::new(), kept.iter(), 0..batch);
    for place in 0..batch + kept.len() {
        let from = match offset.contains(&place) {
            true => offsets.next().map(|(_, at)| *at),
            false => batches.next(),
        };
        match from {
            Some(from) => axes.push(from as i64),
            None => return invalid("its offset dims do not fit its result"),
        }
    }
    Ok(axes)
}

/// Elements at indices of some dims, which are all of one shape; the dims that are left come behind.
fn read(call: &mut Call, x: V, indexed: &[usize], columns: Vec<V>, shape: &[Dim]) -> Done<V> {
    let rank = call.rank(x);
    let whole = |axis: &usize| !indexed.contains(axis);
    let order: Vec<i64> =
        indexed.iter().copied().chain((0..rank).filter(whole)).map(|axis| axis as i64).collect();
    if indexed.is_empty() {
        let dims = [shape.to_vec(), call.dims(x)].concat();
        return call.call("broadcast_to", &[x.into(), Arg::Shape(dims)]);
    }
    let x = permuted(call, x, &order)?;
    let mut wide = Vec::new();
    for column in columns {
        let args = [column.into(), Arg::Shape(shape.to_vec())];
        wide.push(match call.dims(column) == shape {
            true => column,
            false => call.call("broadcast_to", &args)?,
        });
    }
    if let [only] = *wide {
        return call.call("take", &[x.into(), only.into(), key("axis", 0_i64)]);
    }
    let indices = call.call("stack", &[wide.into(), key("axis", -1_i64)])?;
    call.call("gather_nd", &[x.into(), indices.into()])
}
