//! Sorting by ranks: the place of an element is the number of those before it, so that equal ones keep
//! their order and NaNs come last.

use super::Request;
use super::builder::{Buffer, Builder};
use super::creation::integer;
use super::reduction::Axes;
use super::scalar::{Scalar, select};
use super::scan::placed;
use relax_syntax::dtype::DType;
use relax_syntax::ir::tensor::BinOp;

/// Which numbers come first.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    Ascending,
    Descending,
}

fn ordered(dtype: DType, x: &Scalar) -> Scalar {
    if dtype == DType::Bool { x.clone().into_dtype(DType::U8) } else { x.clone() }
}

/// Whether an element comes before another one, which is not equal.
pub(super) fn is_before(dtype: DType, order: Order, a: &Scalar, b: &Scalar) -> Scalar {
    let (a, b) = (ordered(dtype, a), ordered(dtype, b));
    let before = if order == Order::Ascending { a.less(&b) } else { a.greater(&b) };
    if dtype.is_float() { before.or(a.equals(&a).and(b.is_nan())) } else { before }
}

/// NaNs are equal to each other.
pub(super) fn is_equal(dtype: DType, a: &Scalar, b: &Scalar) -> Scalar {
    if dtype.is_float() { a.equals(b).or(a.is_nan().and(b.is_nan())) } else { a.equals(b) }
}

/// The rank of every element along some axes, of which there may be one, or all.
fn ranks(builder: &mut Builder, x: &Buffer, axes: &Axes, order: Order) -> Buffer {
    let (outer, inner) = (axes.outer(&x.dims), axes.inner(&x.dims));
    let ranks = builder.allocate("R", &x.dims, DType::I64);
    builder.nest(&outer, |builder, lane| {
        builder.nest(&inner, |builder, along| {
            let at = axes.source(lane, along);
            builder.store(&ranks, &at, 0);
            builder.nest(&inner, |builder, other| {
                let (a, b) = (x.at(&axes.source(lane, other)), x.at(&at));
                let (a, b) = (builder.bind(a), builder.bind(b));
                let earlier = is_earlier(other, along);
                let before =
                    is_before(x.dtype, order, &a, &b).or(is_equal(x.dtype, &a, &b).and(earlier));
                builder.update(&ranks, &at, BinOp::Add, select(before, 1, 0));
            });
        });
    });
    ranks
}

/// Whether an index is before another one in row-major order.
fn is_earlier(a: &[Scalar], b: &[Scalar]) -> Scalar {
    let pairs = a.iter().zip(b).rev();
    pairs.fold(false.into(), |rest, (a, b)| match a.less(b) {
        less if rest == Scalar::from(false) => less,
        less => less.or(a.equals(b).and(rest)),
    })
}

/// `sort`, `argsort` and `topk`: what has a rank below the extent of the result is moved there.
pub(super) fn sorted(request: &Request) -> Option<Builder> {
    let x = request.data()?;
    let axis = request.axis("axis", x.rank())?;
    let name = request.row.name;
    let descending = request.bool(if name == "topk" { "largest" } else { "descending" })?;
    let order = if descending { Order::Descending } else { Order::Ascending };
    let axes = Axes::over(x.rank(), &[axis], false);
    let (param, wants_values) = (request.inputs[0].param, wants_values(request)?);
    let mut builder = Builder::new(request);
    let (x, outputs) = (builder.input(param)?, builder.outputs.clone());
    // Ranks come to every place, which only arithmetic knows: so that others see it too, something is written to each before.
    for output in &outputs {
        builder.fill(output, |_| integer(output.dtype, 0));
    }
    let ranks = ranks(&mut builder, &x, &axes, order);
    builder.nest(&axes.outer(&x.dims), |builder, lane| {
        builder.nest(&axes.inner(&x.dims), |builder, along| {
            let from = axes.source(lane, along);
            let rank = builder.bind(ranks.at(&from));
            for (output, &is_value) in outputs.iter().zip(&wants_values) {
                let value = if is_value {
                    x.at(&from)
                } else {
                    along[0].clone().cast(DType::I64, output.dtype)
                };
                let to = placed(lane, &axes, axis, rank.clone());
                if output.dims[axis] == x.dims[axis] {
                    builder.store(output, &to, value);
                } else {
                    let inside = rank.less(&output.dims[axis]);
                    builder.when(inside, |builder| builder.store(output, &to, value));
                }
            }
        });
    });
    Some(builder)
}

/// For each result, whether it holds the elements; otherwise it holds their places.
fn wants_values(request: &Request) -> Option<Vec<bool>> {
    Some(match request.row.name {
        "sort" => vec![true],
        "argsort" => vec![false],
        _ => match request.str("ret_type")? {
            "both" => vec![true, false],
            "values" => vec![true],
            _ => vec![false],
        },
    })
}

/// The lower median: the element whose rank is in the middle, or the first NaN.
pub(super) fn median(request: &Request) -> Option<Builder> {
    let axes = Axes::of(request)?;
    let mut builder = Builder::new(request);
    let (x, outputs) = (builder.input("x")?, builder.outputs.clone());
    let inner = axes.inner(&x.dims);
    let single = Axes::over(
        x.rank(),
        &request.axes("axis", x.rank())?.unwrap_or_else(|| (0..x.rank()).collect()),
        false,
    );
    let ranks = ranks(&mut builder, &x, &single, Order::Ascending);
    let count = inner.iter().fold(Scalar::from(1), |count, dim| count * dim);
    let values = outputs[0].clone();
    // Whether a NaN was found so far.
    let found = builder.allocate("N", &values.dims, DType::Bool);
    builder.nest(&values.dims, |builder, at| {
        // One element is in the middle; for others to see that there is a result, it has one before.
        for output in &outputs {
            builder.store(output, at, integer(output.dtype, 0));
        }
        builder.store(&found, at, false);
        builder.nest(&inner, |builder, along| {
            let from = axes.source(at, along);
            let element = builder.bind(x.at(&from));
            let middle = ranks.at(&from).equals((count - 1).floor_div(2));
            let is_nan = if x.dtype.is_float() { element.is_nan() } else { false.into() };
            let is_nan = builder.bind(is_nan);
            let first = found.at(at).not().and(is_nan.clone().or(middle));
            builder.when(first, |builder| {
                builder.store(&values, at, element);
                if let (Some(places), [place]) = (outputs.get(1), along) {
                    builder.store(places, at, place);
                }
                builder.store(&found, at, is_nan);
            });
        });
    });
    Some(builder)
}
