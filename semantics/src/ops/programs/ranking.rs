//! Sorting: the places of items in order, equal ones as they were and NaNs last.

use super::Request;
use super::builder::{Buffer, Builder};
use super::creation::integer;
use super::movement::{flat, split, with};
use super::reduction::Axes;
use crate::formula::{Scalar, select};
use relax_syntax::dim::Dim;
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

/// What is sorted: items, each known by its place among those of a lane.
pub(super) struct Items {
    /// The dims of a tensor with an element for each item.
    pub(super) dims: Vec<Dim>,
    /// Which of its axes an item is found along; the others are lanes.
    pub(super) axes: Axes,
}

impl Items {
    /// Along one axis of a tensor.
    pub(super) fn along(dims: &[Dim], axis: usize) -> Self {
        Self { dims: dims.to_vec(), axes: Axes::over(dims.len(), &[axis], false) }
    }

    pub(super) fn lanes(&self) -> Vec<Dim> {
        self.axes.outer(&self.dims)
    }

    pub(super) fn inner(&self) -> Vec<Dim> {
        self.axes.inner(&self.dims)
    }

    /// How many there are in a lane.
    pub(super) fn count(&self) -> Scalar {
        self.inner().iter().fold(Scalar::from(1), |count, dim| count * dim)
    }

    /// The index of an item.
    pub(super) fn at(&self, lane: &[Scalar], place: &Scalar) -> Vec<Scalar> {
        self.axes.source(lane, &split(&self.inner(), place))
    }

    /// Statements for each item, with its index and its place.
    pub(super) fn each(
        &self,
        builder: &mut Builder,
        lane: &[Scalar],
        body: impl FnOnce(&mut Builder, &[Scalar], Scalar),
    ) {
        let inner = self.inner();
        builder.nest(&inner, |builder, along| {
            let place = builder.bind(flat(&inner, along));
            body(builder, &self.axes.source(lane, along), place);
        });
    }
}

/// Runs are twice as long at each level: there are fewer than 2^62 items.
const LEVELS: i64 = 62;

/// Prints statements that compare the items at two places of a lane.
type Compare<'a> = dyn Fn(&mut Builder, &[Scalar], [&Scalar; 2]) -> Scalar + 'a;

/// The places of the items of each lane in order, as a buffer of the items' dims: merges of runs from the bottom up,
/// in `n log n` steps, with equal items in the order in which they were. `before` gives whether one item comes before another.
pub(super) fn order(builder: &mut Builder, items: &Items, before: &Compare) -> Buffer {
    let (lanes, count) = (items.lanes(), items.count());
    let places = builder.allocate("P", &items.dims, DType::I64);
    let merged = builder.allocate("Q", &items.dims, DType::I64);
    // The next item of either run, and whether the second one's is next.
    let next = ["A", "B"].map(|name| builder.allocate(name, &lanes, DType::I64));
    let second = builder.allocate("C", &lanes, DType::I64);
    let widths = builder.allocate("W", &lanes, DType::I64);
    // Whatever is read below is written here, where everybody sees it.
    for buffer in [&places, &merged] {
        builder.fill(buffer, |at| flat(&items.inner(), &items.axes.inner(at)));
    }
    for (buffer, first) in [(&next[0], 0), (&next[1], 0), (&second, 0), (&widths, 1)] {
        builder.fill(buffer, |_| first.into());
    }
    builder.nest(&lanes, |builder, lane| {
        builder.nest(&[Dim::Int(LEVELS)], |builder, _| {
            let width = builder.bind(widths.at(lane));
            builder.when(width.less(&count), |builder| {
                next.iter().for_each(|run| builder.store(run, lane, 0));
                items.each(builder, lane, |builder, at, place| {
                    let begin = builder.bind(place.clone() - place.clone() % (width.clone() * 2));
                    let middle = builder.bind((begin.clone() + &width).min(&count));
                    let end = builder.bind((middle.clone() + &width).min(&count));
                    builder.when(place.equals(&begin), |builder| {
                        builder.store(&next[0], lane, &begin);
                        builder.store(&next[1], lane, &middle);
                    });
                    let [a, b] = [0, 1].map(|run| builder.bind(next[run].at(lane)));
                    builder.store(&second, lane, select(a.at_least(&middle), 1, 0));
                    builder.when(a.less(&middle).and(b.less(&end)), |builder| {
                        let pair = [&b, &a].map(|at| places.at(&items.at(lane, at)));
                        let pair = pair.map(|place| builder.bind(place));
                        let is_before = before(builder, lane, [&pair[0], &pair[1]]);
                        builder.store(&second, lane, select(is_before, 1, 0));
                    });
                    let taken = builder.bind(second.at(lane));
                    let from = builder.bind(select(taken.equals(1), &b, &a));
                    builder.store(&merged, at, places.at(&items.at(lane, &from)));
                    builder.update(&next[1], lane, BinOp::Add, taken.clone());
                    builder.update(&next[0], lane, BinOp::Add, Scalar::from(1) - taken);
                });
                items.each(builder, lane, |builder, at, _| {
                    builder.store(&places, at, merged.at(at));
                });
                builder.update(&widths, lane, BinOp::Add, width);
            });
        });
    });
    places
}

/// The places of the elements of a tensor in order.
fn order_of(builder: &mut Builder, x: &Buffer, items: &Items, order_: Order) -> Buffer {
    order(builder, items, &|builder, lane, pair| {
        let [a, b] = pair.map(|place| builder.bind(x.at(&items.at(lane, place))));
        is_before(x.dtype, order_, &a, &b)
    })
}

/// `sort`, `argsort` and `topk`: the first of the elements in order, as many as the result has.
pub(in crate::ops) fn sorted(request: &Request) -> Option<Builder> {
    let x = request.data()?;
    let axis = request.axis("axis", x.rank())?;
    let name = request.row.name;
    let descending = request.bool(if name == "topk" { "largest" } else { "descending" })?;
    let order = if descending { Order::Descending } else { Order::Ascending };
    let items = Items::along(&x.dims, axis);
    let (param, wants_values) = (request.inputs[0].param, wants_values(request)?);
    let mut builder = Builder::new(request);
    let (x, outputs) = (builder.input(param)?, builder.outputs.clone());
    let places = order_of(&mut builder, &x, &items, order);
    // That the result has no more places than there are elements, only the call knows: loops are over those, and for others to see
    // that every place is written, something is written to each before.
    let is_whole = outputs[0].dims == x.dims;
    for output in outputs.iter().filter(|_| !is_whole) {
        builder.fill(output, |_| integer(output.dtype, 0));
    }
    for (output, &is_value) in outputs.iter().zip(&wants_values) {
        builder.nest(&x.dims, |builder, at| {
            let store = |builder: &mut Builder| {
                let place = builder.bind(places.at(at));
                let value = if is_value {
                    x.at(&with(at, axis, place))
                } else {
                    place.cast(DType::I64, output.dtype)
                };
                builder.store(output, at, value);
            };
            if is_whole {
                store(builder);
            } else {
                builder.when(at[axis].less(&output.dims[axis]), store);
            }
        });
    }
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

/// The lower median: the element in the middle of the order, or the first NaN.
pub(in crate::ops) fn median(request: &Request) -> Option<Builder> {
    let axes = Axes::of(request)?;
    let mut builder = Builder::new(request);
    let (x, outputs) = (builder.input("x")?, builder.outputs.clone());
    let reduced = request.axes("axis", x.rank())?.unwrap_or_else(|| (0..x.rank()).collect());
    let items = Items { dims: x.dims.clone(), axes: Axes::over(x.rank(), &reduced, false) };
    let places = order_of(&mut builder, &x, &items, Order::Ascending);
    let values = outputs[0].clone();
    // How many elements are numbers; the others come last.
    let numbers = builder.allocate("N", &values.dims, DType::I64);
    builder.nest(&values.dims, |builder, at| {
        builder.store(&numbers, at, 0);
        builder.nest(&axes.inner(&x.dims), |builder, along| {
            let element = builder.bind(x.at(&axes.source(at, along)));
            let is_nan = if x.dtype.is_float() { element.is_nan() } else { false.into() };
            builder.update(&numbers, at, BinOp::Add, select(is_nan, 0, 1));
        });
        let found = builder.bind(numbers.at(at));
        let middle = select(found.less(items.count()), &found, (items.count() - 1).floor_div(2));
        let middle = builder.bind(middle);
        // One place is in the middle; for others to see that there is a result, it has one before.
        for output in &outputs {
            builder.store(output, at, integer(output.dtype, 0));
        }
        let inner = items.inner();
        builder.nest(&inner, |builder, along| {
            builder.when(flat(&inner, along).equals(&middle), |builder| {
                let place = builder.bind(places.at(&axes.source(at, along)));
                let along = split(&inner, &place);
                builder.store(&values, at, x.at(&axes.source(at, &along)));
                if let (Some(places), [place]) = (outputs.get(1), &along[..]) {
                    builder.store(places, at, place);
                }
            });
        });
    });
    Some(builder)
}
