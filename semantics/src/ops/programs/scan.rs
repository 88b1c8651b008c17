//! Scans, and reductions that pick a place.

use super::Request;
use super::builder::Builder;
use super::movement::{flat, split, viewed};
use super::reduction::Axes;
use super::total::{Total, wide};
use crate::formula::{Scalar, select};
use relax_syntax::dtype::DType;
use relax_syntax::ir::tensor::BinOp;

/// `cumsum` and `cumprod`: a state goes along the axis.
pub(in crate::ops) fn scan(request: &Request) -> Option<Builder> {
    let exclusive = request.bool("exclusive")?;
    let is_sum = request.row.name == "cumsum";
    let out = request.out();
    let axis = if request.is_none("axis") { 0 } else { request.axis("axis", out.rank())? };
    let axes = Axes::over(out.rank(), &[axis], false);
    let (outer, inner) = (axes.outer(&out.dims), axes.inner(&out.dims));
    let mut builder = Builder::new(request);
    let (data, output) = (builder.input("data")?, builder.output());
    let dtype = wide(output.dtype);
    let sum = is_sum.then(|| Total::new(&mut builder, "T", &outer, output.dtype));
    let product = (!is_sum).then(|| builder.allocate("T", &outer, dtype));
    builder.nest(&outer, |builder, lane| {
        let state = |builder: &mut Builder, next: Option<Scalar>| match (&sum, &product, next) {
            (Some(sum), _, None) => sum.clear(builder, lane),
            (Some(sum), _, Some(next)) => sum.add(builder, lane, next),
            (_, Some(product), None) => {
                let one = if dtype.is_float() { Scalar::from(1.0) } else { 1.into() };
                builder.store(product, lane, one);
            }
            (_, Some(product), Some(next)) => builder.update(product, lane, BinOp::Mul, next),
            _ => {}
        };
        let value = || match (&sum, &product) {
            (Some(sum), _) => sum.value(lane),
            (_, Some(product)) => product.at(lane),
            _ => 0.into(),
        };
        state(builder, None);
        builder.nest(&inner, |builder, along| {
            let at = axes.source(lane, along);
            // Elements are converted to the dtype of the result first.
            let element = data.at(&viewed(&data.dims, &output.dims, &at));
            let element = element.cast(data.dtype, output.dtype).cast(output.dtype, dtype);
            if !exclusive {
                state(builder, Some(element.clone()));
            }
            builder.store(&output, &at, value().cast(dtype, output.dtype));
            if exclusive {
                state(builder, Some(element));
            }
        });
    });
    Some(builder)
}

/// `argmax` and `argmin`: the place of the first NaN, or of the first of the greatest or least.
pub(in crate::ops) fn arg(request: &Request) -> Option<Builder> {
    let op = if request.row.name == "argmax" { BinOp::Greater } else { BinOp::Less };
    let axes = Axes::of(request)?;
    let mut builder = Builder::new(request);
    let (x, output) = (builder.input("x")?, builder.output());
    let inner = axes.inner(&x.dims);
    builder.nest(&output.dims, |builder, at| {
        builder.store(&output, at, 0);
        builder.nest(&inner, |builder, along| {
            let ordered = |value: Scalar| match x.dtype {
                DType::Bool => value.into_dtype(DType::U8),
                _ => value,
            };
            let best = builder.bind(output.at(at));
            let best = ordered(x.at(&axes.source(at, &split(&inner, &best))));
            let (best, next) = (builder.bind(best), ordered(x.at(&axes.source(at, along))));
            let next = builder.bind(next);
            let mut better = Scalar::pair(op, &next, &best);
            if x.dtype.is_float() {
                better = best.equals(&best).and(next.is_nan().or(better));
            }
            builder.store(&output, at, select(better, flat(&inner, along), output.at(at)));
        });
    });
    Some(builder)
}
