//! Sorting, and buckets.

use crate::argument::key;
use crate::aten::call::{Call, Row};
use crate::builder::V;
use crate::operators::elementwise::convert;
use crate::operators::shape::reshape;
use crate::reason::Done;
use relax_semantics::tensor::Number;
use relax_syntax::dim::Dim;
use relax_syntax::dtype::DType;

pub(super) const ROWS: &[(&str, Row)] =
    &[("sort", sort), ("topk", topk), ("bucketize.Tensor", bucketize)];

/// Places in order. PyTorch takes NaN for the greatest: last ascending, first descending. The sort of the language has it last
/// either way, so descending order is the reverse of the ascending one of the reversed axis, which is stable again.
fn places(call: &mut Call, x: V, axis: usize, descending: bool) -> Done<V> {
    let x = if call.dtype(x) == DType::Bool { convert(call, x, DType::U8)? } else { x };
    let order = |call: &mut Call, x: V| {
        call.call("argsort", &[x.into(), key("axis", axis), key("dtype", DType::I64)])
    };
    if !descending {
        return order(call, x);
    }
    let turned = call.call("flip", &[x.into(), key("axis", axis)])?;
    let order = order(call, turned)?;
    let order = call.call("flip", &[order.into(), key("axis", axis)])?;
    let extent = call.dims(x)[axis].clone();
    let last = call.dim(relax_syntax::dim::DimOp::Sub, &extent, &Dim::Int(1));
    let last = call.integers(vec![last], 0, DType::I64);
    call.call("subtract", &[last.into(), order.into()])
}

fn ordered(call: &mut Call, x: V, axis: usize, descending: bool) -> Done<(V, V)> {
    let places = places(call, x, axis, descending)?;
    let values = call.call("gather_elements", &[x.into(), places.into(), key("axis", axis)])?;
    Ok((values, places))
}

fn sort(call: &mut Call) -> Done<Vec<V>> {
    let x = call.tensor("self")?;
    let axis = call.axis_of("dim", call.rank(x))?;
    if call.rank(x) == 0 {
        let zero = call.of_number(Number::Int(0), DType::I64);
        return Ok(vec![x, zero]);
    }
    let descending = call.bool("descending")?;
    let (values, places) = ordered(call, x, axis, descending)?;
    Ok(vec![values, places])
}

fn topk(call: &mut Call) -> Done<Vec<V>> {
    let x = call.tensor("self")?;
    let rank = call.rank(x);
    let axis = call.axis_of("dim", rank)?;
    let k = call.dim_of("k")?;
    let x = if rank == 0 { reshape(call, x, vec![Dim::Int(1)])? } else { x };
    let largest = call.bool("largest")?;
    let (values, places) = ordered(call, x, axis, largest)?;
    let axes = vec![axis as i64];
    let mut results = Vec::new();
    for v in [values, places] {
        let args = [
            v.into(),
            crate::argument::Arg::from(axes.clone()),
            crate::argument::Arg::from(vec![0_i64]),
            crate::argument::Arg::Dims(vec![k.clone()]),
            key("assume_inbound", true),
        ];
        let part = call.call("strided_slice", &args)?;
        results.push(if rank == 0 { reshape(call, part, Vec::new())? } else { part });
    }
    Ok(results)
}

fn bucketize(call: &mut Call) -> Done<Vec<V>> {
    let boundaries = call.tensor("boundaries")?;
    let dtype = call.promoted(&["self", "boundaries"])?;
    let x = call.operand("self", dtype)?;
    let boundaries = convert(call, boundaries, dtype)?;
    let mut args = vec![x.into(), boundaries.into()];
    if call.bool("out_int32")? {
        args.push(key("out_int32", true));
    }
    if call.bool("right")? {
        args.push(key("right", true));
    }
    Ok(vec![call.call("bucketize", &args)?])
}
