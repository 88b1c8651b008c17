//! `unique`: items in order, of which those that differ from the one before begin groups.

use super::Request;
use super::builder::{Buffer, Builder};
use super::ranking::{Items, Order, is_before, order};
use super::reduction::Axes;
use crate::formula::{Scalar, select};
use relax_syntax::dim::Dim;
use relax_syntax::dtype::DType;
use relax_syntax::ir::tensor::BinOp;

/// What is told apart: elements of the flattened tensor, or slices along an axis.
struct Compared {
    x: Buffer,
    /// An item for each element, or one for each slice.
    items: Items,
    axis: Option<usize>,
    /// The dims of a slice.
    slice: Vec<Dim>,
    /// Which of two slices comes before the other, where their elements so far say so.
    decided: Option<Buffer>,
}

impl Compared {
    fn of(request: &Request, builder: &mut Builder) -> Option<Self> {
        let x = builder.input("x")?;
        if request.is_none("axis") {
            let all: Vec<usize> = (0..x.rank()).collect();
            let items = Items { dims: x.dims.clone(), axes: Axes::over(x.rank(), &all, false) };
            return Some(Self { x, items, axis: None, slice: Vec::new(), decided: None });
        }
        let axis = request.axis("axis", x.rank())?;
        let items = Items::along(&[x.dims[axis].clone()], 0);
        let mut slice = x.dims.clone();
        slice.remove(axis);
        let decided = Some(builder.allocate("D", &[], DType::I64));
        Some(Self { x, items, axis: Some(axis), slice, decided })
    }

    /// Where an element of an item lies.
    fn at(&self, place: &Scalar, within: &[Scalar]) -> Vec<Scalar> {
        let Some(axis) = self.axis else { return self.items.at(&[], place) };
        let mut at = within.to_vec();
        at.insert(axis, place.clone());
        at
    }

    /// Whether an item comes before another one: slices by the first elements that differ.
    fn is_before(&self, builder: &mut Builder, pair: [&Scalar; 2]) -> Scalar {
        let dtype = self.x.dtype;
        let before = |a: &Scalar, b: &Scalar| is_before(dtype, Order::Ascending, a, b);
        let Some(decided) = &self.decided else {
            let [a, b] = pair.map(|place| builder.bind(self.x.at(&self.at(place, &[]))));
            return before(&a, &b);
        };
        builder.store(decided, &[], 0);
        builder.nest(&self.slice, |builder, within| {
            builder.when(decided.at(&[]).equals(0), |builder| {
                let [a, b] = pair.map(|place| builder.bind(self.x.at(&self.at(place, within))));
                let later = select(before(&b, &a), 2, 0);
                builder.store(decided, &[], select(before(&a, &b), 1, later));
            });
        });
        decided.at(&[]).equals(1)
    }

    fn order(&self, builder: &mut Builder) -> Buffer {
        order(builder, &self.items, &|builder, _, pair| self.is_before(builder, pair))
    }

    /// Statements for each place in the order, with the item there and whether it differs from the one before.
    fn each(
        &self,
        builder: &mut Builder,
        places: &Buffer,
        begins: &Buffer,
        body: impl FnOnce(&mut Builder, &[Scalar], &Scalar, &Scalar),
    ) {
        self.items.each(builder, &[], |builder, at, rank| {
            let item = builder.bind(places.at(at));
            builder.store(begins, &[], 1);
            builder.when(rank.greater(0), |builder| {
                let last = places.at(&self.items.at(&[], &(rank - 1)));
                let last = builder.bind(last);
                let differs = self.is_before(builder, [&last, &item]);
                builder.store(begins, &[], select(differs, 1, 0));
            });
            let begun = builder.bind(begins.at(&[]));
            body(builder, at, &item, &begun);
        });
    }
}

/// How many different items there are.
pub(in crate::ops) fn count(request: &Request) -> Option<Builder> {
    let mut builder = Builder::new(request);
    let compared = Compared::of(request, &mut builder)?;
    let output = builder.output();
    let places = compared.order(&mut builder);
    let begins = builder.allocate("F", &[], DType::I64);
    builder.nest(&[], |builder, _| {
        builder.store(&output, &[0.into()], 0);
        compared.each(builder, &places, &begins, |builder, _, _, begun| {
            builder.update(&output, &[0.into()], BinOp::Add, begun.clone());
        });
    });
    Some(builder)
}

/// The different items, and where each first is, which one each item is and how often it is there.
pub(in crate::ops) fn unique(request: &Request) -> Option<Builder> {
    let mut builder = Builder::new(request);
    let compared = Compared::of(request, &mut builder)?;
    let wanted = ["return_index", "return_inverse", "return_counts"];
    let mut outputs = builder.outputs.clone().into_iter();
    let values = outputs.next()?;
    let mut others = Vec::new();
    for name in wanted {
        others.push(if request.bool(name)? { Some(outputs.next()?) } else { None });
    }
    let sorted = request.bool("sorted")?;
    // Each group has a place, which only elements decide: so that others see it too, something is written to each before.
    builder.fill(&values, |_| super::creation::integer(values.dtype, 0));
    others.iter().flatten().for_each(|output| builder.fill(output, |_| 0.into()));
    let places = compared.order(&mut builder);
    let begins = builder.allocate("F", &[], DType::I64);
    // The last group, and the place of its first item.
    let [group, first] = ["G", "H"].map(|name| builder.allocate(name, &[], DType::I64));
    let items = &compared.items;
    // Groups before each item by first occurrence.
    let earlier = (!sorted).then(|| builder.allocate("E", &items.dims, DType::I64));
    builder.nest(&[], |builder, _| {
        if let Some(earlier) = &earlier {
            items.each(builder, &[], |builder, at, _| builder.store(earlier, at, 0));
            compared.each(builder, &places, &begins, |builder, _, item, begun| {
                builder.store(earlier, &items.at(&[], item), begun.clone());
            });
            builder.store(&group, &[], 0);
            items.each(builder, &[], |builder, at, _| {
                let begun = builder.bind(earlier.at(at));
                builder.store(earlier, at, group.at(&[]));
                builder.update(&group, &[], BinOp::Add, begun);
            });
        }
        builder.store(&group, &[], -1);
        builder.store(&first, &[], 0);
        compared.each(builder, &places, &begins, |builder, _, item, begun| {
            builder.update(&group, &[], BinOp::Add, begun.clone());
            builder.when(begun.equals(1), |builder| builder.store(&first, &[], item.clone()));
            let place = match &earlier {
                Some(earlier) => earlier.at(&items.at(&[], &first.at(&[]))),
                None => group.at(&[]),
            };
            let place = builder.bind(place);
            let [index, inverse, counts] = [0, 1, 2].map(|at| others[at].as_ref());
            builder.when(begun.equals(1), |builder| {
                builder.nest(&compared.slice, |builder, within| {
                    let value = compared.x.at(&compared.at(item, within));
                    builder.store(&values, &result_at(compared.axis, &place, within), value);
                });
                if let Some(index) = index {
                    builder.store(index, std::slice::from_ref(&place), item.clone());
                }
            });
            if let Some(inverse) = inverse {
                builder.store(inverse, std::slice::from_ref(item), place.clone());
            }
            if let Some(counts) = counts {
                builder.update(counts, std::slice::from_ref(&place), BinOp::Add, 1.into());
            }
        });
    });
    Some(builder)
}

/// Where an element of a group's first item goes.
fn result_at(axis: Option<usize>, place: &Scalar, within: &[Scalar]) -> Vec<Scalar> {
    let mut at = within.to_vec();
    at.insert(axis.unwrap_or(0), place.clone());
    at
}
