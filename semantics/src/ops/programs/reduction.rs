//! Reductions: the neutral element is written before the loops over what is reduced, for over an empty
//! axis nothing else is.

use super::Request;
use super::builder::{Buffer, Builder};
use super::movement::moved;
use super::total::{Total, count, wide};
use crate::formula::{Scalar, extremum, select};
use relax_syntax::dim::Dim;
use relax_syntax::dtype::DType;
use relax_syntax::ir::tensor::BinOp;

/// How the axes of the operand lie in a nest: those of the result outside, the reduced ones inside.
pub(super) struct Axes {
    /// Whether each axis of the operand is reduced.
    reduced: Vec<bool>,
    /// Whether reduced axes stay, as 1.
    keeps: bool,
}

impl Axes {
    /// Of the attributes `axis` and `keepdims`.
    pub(super) fn of(request: &Request) -> Option<Self> {
        let rank = request.data()?.rank();
        let axes = request.axes("axis", rank)?.unwrap_or_else(|| (0..rank).collect());
        Some(Self::over(rank, &axes, request.bool("keepdims")?))
    }

    /// Over some axes; `keeps`: they stay, as 1.
    pub(super) fn over(rank: usize, axes: &[usize], keeps: bool) -> Self {
        Self { reduced: (0..rank).map(|axis| axes.contains(&axis)).collect(), keeps }
    }

    fn chosen<T: Clone>(&self, all: &[T], reduced: bool) -> Vec<T> {
        let own = all.iter().zip(&self.reduced).filter(|(_, own)| **own == reduced);
        own.map(|(item, _)| item.clone()).collect()
    }

    /// What is reduced.
    pub(super) fn inner<T: Clone>(&self, all: &[T]) -> Vec<T> {
        self.chosen(all, true)
    }

    /// What is left.
    pub(super) fn outer<T: Clone>(&self, all: &[T]) -> Vec<T> {
        self.chosen(all, false)
    }

    /// The index into the operand, for one into the result and one into what is reduced.
    pub(super) fn source(&self, outer: &[Scalar], inner: &[Scalar]) -> Vec<Scalar> {
        let (mut outer, mut inner) = (outer.iter(), inner.iter());
        let each = self.reduced.iter().map(|&reduced| {
            if reduced && self.keeps {
                outer.next();
            }
            let index = if reduced { inner.next() } else { outer.next() };
            index.cloned().expect("invariant: an index for each axis of the operand")
        });
        each.collect()
    }
}

/// `sum`, `mean` and `prod`.
pub(in crate::ops) fn fold(request: &Request) -> Option<Builder> {
    let axes = Axes::of(request)?;
    let mut builder = Builder::new(request);
    let (x, output) = (builder.input("x")?, builder.output());
    let inner = axes.inner(&x.dims);
    match (request.row.name, x.dtype) {
        ("mean", DType::Bool | DType::I64 | DType::U64) => return None,
        ("mean", _) => mean(&mut builder, &axes, &x, &output),
        (name, DType::Bool) => {
            let op = if name == "sum" { BinOp::BitOr } else { BinOp::BitAnd };
            builder.nest(&output.dims, |builder, at| {
                builder.store(&output, at, name != "sum");
                builder.nest(&inner, |builder, along| {
                    let next = x.at(&axes.source(at, along));
                    builder.store(&output, at, Scalar::pair(op, output.at(at), next));
                });
            });
        }
        ("sum", _) => {
            let total = total(&mut builder, &output, x.dtype);
            builder.nest(&output.dims, |builder, at| {
                summed(builder, &total, at, &inner, |along| {
                    x.at(&axes.source(at, along)).cast(x.dtype, total.dtype)
                });
                stored(builder, &output, at, &total, total.value(at));
            });
        }
        _ => product(&mut builder, &axes, &x, &output),
    }
    Some(builder)
}

/// Sums in the output itself where that is wide enough.
pub(super) fn total(builder: &mut Builder, output: &Buffer, from: DType) -> Total {
    if from.is_float() || output.dtype.is_float() {
        Total::new(builder, "T", &output.dims, from)
    } else {
        Total::into(output.clone())
    }
}

/// The result, unless it is there already.
pub(super) fn stored(
    builder: &mut Builder,
    output: &Buffer,
    at: &[Scalar],
    total: &Total,
    value: Scalar,
) {
    if value != output.at(at) {
        builder.store(output, at, value.cast(total.dtype, output.dtype));
    }
}

/// One sum, over all that is inside.
pub(super) fn summed(
    builder: &mut Builder,
    total: &Total,
    at: &[Scalar],
    inner: &[Dim],
    value: impl FnOnce(&[Scalar]) -> Scalar,
) {
    total.clear(builder, at);
    builder.nest(inner, |builder, along| total.add(builder, at, value(along)));
}

/// Of integers that sums in i64 hold, the quotient towards zero; there is an element then.
fn mean(builder: &mut Builder, axes: &Axes, x: &Buffer, output: &Buffer) {
    let inner = axes.inner(&x.dims);
    let from = if x.dtype.is_float() { x.dtype } else { DType::I64 };
    let total = Total::new(builder, "T", &output.dims, from);
    builder.nest(&output.dims, |builder, at| {
        summed(builder, &total, at, &inner, |along| {
            x.at(&axes.source(at, along)).cast(x.dtype, total.dtype)
        });
        let sum = total.value(at);
        let value = if from.is_float() {
            sum / count(&inner)
        } else {
            let count = inner.iter().fold(Scalar::from(1), |count, dim| count * dim);
            truncated(builder.bind(sum), count)
        };
        builder.store(output, at, value.cast(total.dtype, output.dtype));
    });
}

/// The quotient towards zero by a positive number.
pub(super) fn truncated(sum: Scalar, count: Scalar) -> Scalar {
    let negative = -(-sum.clone()).floor_div(count.clone());
    select(sum.less(0), negative, sum.floor_div(count))
}

fn product(builder: &mut Builder, axes: &Axes, x: &Buffer, output: &Buffer) {
    let (inner, dtype) = (axes.inner(&x.dims), wide(x.dtype));
    let own = dtype == output.dtype;
    let product = if own { output.clone() } else { builder.allocate("T", &output.dims, dtype) };
    builder.nest(&output.dims, |builder, at| {
        let one = if dtype.is_float() { Scalar::from(1.0) } else { 1.into() };
        builder.store(&product, at, one);
        builder.nest(&inner, |builder, along| {
            let factor = x.at(&axes.source(at, along)).cast(x.dtype, dtype);
            builder.update(&product, at, BinOp::Mul, factor);
        });
        if !own {
            builder.store(output, at, product.at(at).cast(dtype, output.dtype));
        }
    });
}

/// `max` and `min`; what is reduced is not empty, so the first element is there to begin with.
pub(in crate::ops) fn extreme(request: &Request) -> Option<Builder> {
    let op = if request.row.name == "max" { BinOp::Max } else { BinOp::Min };
    let axes = Axes::of(request)?;
    let mut builder = Builder::new(request);
    let (x, output) = (builder.input("x")?, builder.output());
    let inner = axes.inner(&x.dims);
    builder.nest(&output.dims, |builder, at| {
        let first = vec![0.into(); inner.len()];
        builder.store(&output, at, x.at(&axes.source(at, &first)));
        builder.nest(&inner, |builder, along| {
            let next = x.at(&axes.source(at, along));
            builder.store(&output, at, extremum(op, x.dtype, &output.at(at), &next));
        });
    });
    Some(builder)
}

/// `variance` and `std`: the mean, then the mean of the squared distances from it.
pub(in crate::ops) fn variance(request: &Request) -> Option<Builder> {
    let is_root = request.row.name == "std";
    let axes = Axes::of(request)?;
    let mut builder = Builder::new(request);
    let (x, output) = (builder.input("x")?, builder.output());
    let inner = axes.inner(&x.dims);
    let [sum, squares] =
        ["T", "S"].map(|name| Total::new(&mut builder, name, &output.dims, x.dtype));
    let mean = builder.allocate("M", &output.dims, DType::F64);
    builder.nest(&output.dims, |builder, at| {
        summed(builder, &sum, at, &inner, |along| x.wide(&axes.source(at, along)));
        builder.store(&mean, at, sum.value(at) / count(&inner));
        summed(builder, &squares, at, &inner, |along| {
            let distance = x.wide(&axes.source(at, along)) - mean.at(at);
            distance.clone() * distance
        });
        let variance = squares.value(at) / count(&inner);
        let value = if is_root { variance.sqrt() } else { variance };
        builder.store(&output, at, value.cast(DType::F64, x.dtype));
    });
    Some(builder)
}

/// The sums that undo a broadcast: over what the result does not have, and over what is 1 there.
pub(in crate::ops) fn collapse(request: &Request) -> Option<Builder> {
    let (data, out) = (request.data()?, request.out());
    let led = data.rank() - out.rank();
    let own = |axis: usize| axis.checked_sub(led).map(|at| &out.dims[at]);
    let is_kept = |axis: &usize| own(*axis) == Some(&data.dims[*axis]);
    let is_one = |axis: usize| own(axis).is_none_or(|dim| *dim == Dim::Int(1));
    let reduced: Vec<usize> = (0..data.rank()).filter(|axis| !is_kept(axis)).collect();
    // Which one it is must not depend on the size.
    if !reduced.iter().all(|&axis| is_one(axis)) {
        return None;
    }
    let mut builder = Builder::new(request);
    let (data, output) = (builder.input("data")?, builder.output());
    if reduced.is_empty() {
        // Not a sum with 0, which would change the sign of a zero.
        moved(&mut builder, &data, &output);
        return Some(builder);
    }
    let axes = Axes::over(data.rank(), &reduced, false);
    let inner = axes.inner(&data.dims);
    let total = total(&mut builder, &output, data.dtype);
    builder.nest(&output.dims, |builder, at| {
        let outer: Vec<Scalar> =
            (0..data.rank()).filter(is_kept).map(|axis| at[axis - led].clone()).collect();
        summed(builder, &total, at, &inner, |along| {
            data.at(&axes.source(&outer, along)).cast(data.dtype, total.dtype)
        });
        stored(builder, &output, at, &total, total.value(at));
    });
    Some(builder)
}

/// `-sum(predictions * labels)`, divided by the first of two or more dims.
pub(in crate::ops) fn cross_entropy(request: &Request) -> Option<Builder> {
    let mut builder = Builder::new(request);
    let (predictions, labels) = (builder.input("predictions")?, builder.input("labels")?);
    let output = builder.output();
    let total = Total::new(&mut builder, "T", &[], predictions.dtype);
    builder.nest(&[], |builder, at| {
        summed(builder, &total, at, &predictions.dims, |along| {
            predictions.wide(along) * labels.wide(along)
        });
        let batch = if predictions.rank() > 1 { count(&predictions.dims[..1]) } else { 1.0.into() };
        builder.store(&output, at, (-total.value(at) / batch).cast(DType::F64, output.dtype));
    });
    Some(builder)
}
