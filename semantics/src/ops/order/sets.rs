//! `unique`.

use super::ranking::{Order, compare};
use crate::ops::reduction::lanes::Lanes;
use crate::ops::{Effect, Eval, Evaluate, Family, Infer, Kind, Literal, Operator, Reject, Traps};
use crate::ops::{Programs, programs};
use crate::ops::{constraint, normalize_axis, optional, required};
use crate::stop::Stop;
use crate::tensor::{Elements, Tensor, array};
use crate::value::Value;
use relax_syntax::annotation::{Annotation, Extents, TensorType};
use relax_syntax::dim::Dim;
use relax_syntax::dtype::DType;
use std::cmp::Ordering;

pub(super) const UNIQUE: Operator = Operator {
    name: "unique",
    aliases: &[],
    family: Family::Order,
    doc: "The different elements of the flattened tensor, or the different slices along `axis`, \
          ascending (NaN last, slices compared element by element) or, if not `sorted`, in the \
          order of their first occurrence. With `return_index`, `return_inverse`, `return_counts` \
          a tuple that holds also, as i64 of rank 1: where each first occurs, which one each \
          element or slice is, how often each occurs. NaNs are equal to each other. How many there \
          are depends on the elements: only the rank is known before.",
    params: &[
        required("x", Kind::Tensor),
        optional("sorted", Kind::Bool, Literal::Bool(true)),
        optional("return_index", Kind::Bool, Literal::Bool(false)),
        optional("return_inverse", Kind::Bool, Literal::Bool(false)),
        optional("return_counts", Kind::Bool, Literal::Bool(false)),
        optional("axis", Kind::OptionalDim, Literal::None),
    ],
    constraints: &[constraint("C1", "axis is in range for x")],
    effect: Effect::Pure,
    traps: Traps::Never,
    infer,
    program: Programs::Counted(programs::unique::unique, programs::unique::count),
    eval: Evaluate::Values(eval),
};

fn infer(infer: &mut Infer) -> Result<Annotation, Reject> {
    let x = infer.tensor("x")?;
    infer.bool("sorted")?;
    let rank = x.extents.rank();
    let (values, items) = if infer.is_none("axis") {
        let count = x.extents.dims().map(|dims| infer.facts.simplify(&Dim::product(dims)));
        (Extents::Rank(1), count)
    } else {
        let axis = infer.int("axis")?;
        let axis = rank.map(|rank| infer.axis("C1", axis, rank)).transpose()?;
        let count = x.extents.dims().zip(axis).map(|(dims, axis)| dims[axis].clone());
        (rank.map_or(Extents::Unknown, Extents::Rank), count)
    };
    let places =
        |extents: Extents| Annotation::Tensor(TensorType { extents, dtype: Some(DType::I64) });
    let mut results = vec![Annotation::Tensor(TensorType { extents: values, dtype: x.dtype })];
    if infer.bool("return_index")? {
        results.push(places(Extents::Rank(1)));
    }
    if infer.bool("return_inverse")? {
        let inverse = items.map_or(Extents::Rank(1), |count| Extents::Known(vec![count]));
        results.push(places(inverse));
    }
    if infer.bool("return_counts")? {
        results.push(places(Extents::Rank(1)));
    }
    Ok(if results.len() == 1 { results.swap_remove(0) } else { Annotation::Tuple(results) })
}

fn eval(eval: &Eval) -> Result<Value, Stop> {
    let x = eval.tensor("x")?;
    let axis = (!eval.is_none("axis")).then(|| {
        normalize_axis(eval.int("axis"), x.rank()).expect("invariant: infer has checked the axis")
    });
    let others: Vec<usize> =
        axis.map_or_else(Vec::new, |axis| (0..x.rank()).filter(|&other| other != axis).collect());
    let lanes = Lanes::along(x.shape(), &others);
    let items: Vec<&[usize]> = lanes.iter().collect();
    let mut groups = groups(x, &items);
    if !eval.bool("sorted") {
        groups.sort_by_key(|group| group[0]);
    }
    let mut results = vec![Value::Tensor(pick(x, axis, &others, &items, &groups))];
    if eval.bool("return_index") {
        results.push(places(groups.iter().map(|group| group[0])));
    }
    if eval.bool("return_inverse") {
        let mut inverse = vec![0; items.len()];
        for (number, group) in groups.iter().enumerate() {
            group.iter().for_each(|&item| inverse[item] = number);
        }
        results.push(places(inverse.into_iter()));
    }
    if eval.bool("return_counts") {
        results.push(places(groups.iter().map(Vec::len)));
    }
    Ok(if results.len() == 1 { results.swap_remove(0) } else { Value::Tuple(results) })
}

fn places(values: impl Iterator<Item = usize>) -> Value {
    let values: Vec<i128> = values.map(|value| value as i128).collect();
    Value::Tensor(Tensor::from_ints(DType::I64, array(&[values.len()], values)))
}

/// The items that are equal to each other, ascending by item within a group and by value among
/// groups.
fn groups(x: &Tensor, items: &[&[usize]]) -> Vec<Vec<usize>> {
    match x.elements() {
        Elements::Float(values) => {
            grouped(values.as_slice().expect("invariant: tensors are in row-major order"), items)
        }
        Elements::Int(values) => {
            grouped(values.as_slice().expect("invariant: tensors are in row-major order"), items)
        }
    }
}

fn grouped<T: PartialOrd>(values: &[T], items: &[&[usize]]) -> Vec<Vec<usize>> {
    let compared = |a: usize, b: usize| {
        let pairs = items[a].iter().zip(items[b]);
        let mut orders = pairs.map(|(&p, &q)| compare(&values[p], &values[q], Order::Ascending));
        orders.find(|&order| order != Ordering::Equal).unwrap_or(Ordering::Equal)
    };
    let mut order: Vec<usize> = (0..items.len()).collect();
    order.sort_by(|&a, &b| compared(a, b));
    order.chunk_by(|&a, &b| compared(a, b) == Ordering::Equal).map(<[usize]>::to_vec).collect()
}

/// The first item of each group, side by side along the axis.
fn pick(
    x: &Tensor,
    axis: Option<usize>,
    others: &[usize],
    items: &[&[usize]],
    groups: &[Vec<usize>],
) -> Tensor {
    let shape = axis.map_or_else(
        || vec![groups.len()],
        |axis| {
            let mut shape = x.shape().to_vec();
            shape[axis] = groups.len();
            shape
        },
    );
    let total = if shape.contains(&0) { 0 } else { shape.iter().product() };
    let mut positions = vec![0; total];
    for (target, group) in Lanes::along(&shape, others).iter().zip(groups) {
        for (&at, &position) in target.iter().zip(items[group[0]]) {
            positions[at] = position;
        }
    }
    x.select(&shape, &positions)
}
