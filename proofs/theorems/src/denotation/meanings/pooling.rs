//! Extremes and averages over windows. Along each axis a window has a count of elements; the average divides by the product of the counts.

use super::convolution::{Spatial, Way, layout, lettered, numbers, out_layout, spatial};
use super::{Meaning, add, meaning, mul, sub};
use crate::denotation::denoter::{Denoter, tensor};
use crate::denotation::names::{DIVIDE, MAXIMUM};
use crate::denotation::term::{Binder, Domain, FoldOp, Known, Term, unknown};
use crate::rules::rule::{Arg, Axis, Call, Entry};
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::facts::{Claim, Relation};
use std::collections::BTreeMap;

pub(super) static MEANINGS: &[Meaning] = &[
    meaning("nn.max_pool1d", shape, greatest),
    meaning("nn.max_pool2d", shape, greatest),
    meaning("nn.avg_pool1d", shape, average),
    meaning("nn.avg_pool2d", shape, average),
    meaning("nn.adaptive_avg_pool2d", adaptive_shape, adaptive_average),
];

/// Data by the letters of their axes, and the layout of the result.
struct Layouts {
    data: BTreeMap<char, Dim>,
    own: Vec<char>,
    out: Vec<char>,
}

impl Layouts {
    fn of(denoter: &mut Denoter, call: &Call) -> Known<Self> {
        let own = layout(call, "layout")?;
        let out = out_layout(call, &own)?;
        let data = lettered(denoter, call, "data", &own)?;
        Ok(Self { data, own, out })
    }

    /// The result, with other extents for some letters.
    fn shape(&self, denoter: &mut Denoter, others: &BTreeMap<char, Dim>) -> Vec<Axis> {
        let axis = |letter: &char| {
            let dim = others.get(letter).unwrap_or(&self.data[letter]);
            Axis::Dim(denoter.facts.simplify(dim))
        };
        self.out.iter().map(axis).collect()
    }

    /// The index of an element of the result by letters.
    fn index(&self, at: &[Dim]) -> BTreeMap<char, Dim> {
        self.out.iter().copied().zip(at.iter().cloned()).collect()
    }

    fn element(
        &self,
        denoter: &mut Denoter,
        call: &Call,
        at: &BTreeMap<char, Dim>,
    ) -> Known<(Domain, Term)> {
        let data = tensor(call, "data")?;
        let domain = denoter.domain(data)?;
        if domain != Domain::Real {
            return unknown("an average that is rounded");
        }
        let at: Vec<Dim> = self.own.iter().map(|letter| at[letter].clone()).collect();
        Ok((domain, denoter.element(data, &at)?))
    }
}

/// The windows of a call, an axis and its size each.
fn windows(call: &Call, rank: usize) -> Known<Vec<(Spatial, Dim)>> {
    let axes = spatial(call, rank, Way::Forward)?;
    let sizes = numbers(call, "pool_size", axes.len())?;
    if sizes.len() != axes.len() {
        return unknown("not one size an axis");
    }
    Ok(axes.into_iter().zip(sizes).collect())
}

fn shape(denoter: &mut Denoter, call: &Call) -> Known<Vec<Axis>> {
    let own = Layouts::of(denoter, call)?;
    let mut extents = BTreeMap::new();
    for (axis, size) in windows(call, own.own.len())? {
        let data = &own.data[&axis.letter];
        let extent = if *call.arg("ceil_mode") == Arg::Bool(true) {
            counted_up(&axis, data, &size)
        } else {
            axis.extent(data, &size, Way::Forward)
        };
        extents.insert(axis.letter, extent);
    }
    Ok(own.shape(denoter, &extents))
}

/// The windows along an axis where the last one may stick out at the end: it starts in the data or the padding before them, if it
/// is not one that fits.
fn counted_up(axis: &Spatial, data: &Dim, size: &Dim) -> Dim {
    let op = |op, a: &Dim, b: &Dim| Dim::op(op, a.clone(), b.clone());
    let one = Dim::Int(1);
    let reach = add(mul(axis.dilation.clone(), sub(size.clone(), one.clone())), one.clone());
    let padded = add(data.clone(), add(axis.before.clone(), axis.after.clone()));
    let moves = op(DimOp::CeilDiv, &sub(padded, reach.clone()), &axis.stride);
    let all = add(moves.clone(), one);
    let in_data = op(DimOp::CeilDiv, &add(data.clone(), axis.before.clone()), &axis.stride);
    let slack = sub(reach, axis.after.clone()).as_int();
    match (slack, axis.stride.as_int()) {
        (Some(slack), Some(stride)) if stride <= slack => all,
        (Some(slack), _) if slack >= 0 => op(DimOp::Min, &all, &in_data),
        _ => op(DimOp::Max, &moves, &op(DimOp::Min, &all, &in_data)),
    }
}

/// A sum over a window, divided by what it counts along each axis, or by 1 where that is nothing: there the sum is 0.
fn average(denoter: &mut Denoter, call: &Call, at: &[Dim]) -> Known<Term> {
    let own = Layouts::of(denoter, call)?;
    let pads = *call.arg("count_include_pad") == Arg::Bool(true);
    let mut place = own.index(at);
    let (mut binders, mut tests, mut counts) = (Vec::<Binder>::new(), Vec::new(), Vec::new());
    for (axis, size) in windows(call, own.own.len())? {
        let data = own.data[&axis.letter].clone();
        let index = place[&axis.letter].clone();
        let counted = Counted { axis: &axis, size: &size, index: &index };
        let end = if pads { add(data.clone(), axis.after.clone()) } else { data.clone() };
        counts.push(counted.by(denoter, !pads, &end));
        let name = denoter.fresh("k");
        let reached = axis.place(&index, &Dim::Var(name.clone()));
        binders.push((name, size.clone()));
        tests.push(Claim::new(0, Relation::AtMost, reached.clone()));
        tests.push(Claim::new(reached.clone(), Relation::Less, data));
        place.insert(axis.letter, reached);
    }
    let (domain, element) = own.element(denoter, call, &place)?;
    let body = element.where_all(tests.into_iter(), domain);
    let sum = Term::Fold(domain, FoldOp::Add, binders, Box::new(body));
    Ok(divided(domain, sum, counts))
}

/// The greatest element of a window; padding is less than every float.
fn greatest(denoter: &mut Denoter, call: &Call, at: &[Dim]) -> Known<Term> {
    let own = Layouts::of(denoter, call)?;
    let data = tensor(call, "data")?;
    let domain = denoter.domain(data)?;
    let mut place = own.index(at);
    let (mut binders, mut tests) = (Vec::<Binder>::new(), Vec::new());
    for (axis, size) in windows(call, own.own.len())? {
        let name = denoter.fresh("k");
        let reached = axis.place(&place[&axis.letter], &Dim::Var(name.clone()));
        binders.push((name, size));
        let is_padded = axis.before != Dim::Int(0) || axis.after != Dim::Int(0);
        if is_padded || *call.arg("ceil_mode") == Arg::Bool(true) {
            tests.push(Claim::new(0, Relation::AtMost, reached.clone()));
            tests.push(Claim::new(reached.clone(), Relation::Less, own.data[&axis.letter].clone()));
        }
        place.insert(axis.letter, reached);
    }
    if !tests.is_empty() && domain != Domain::Bits {
        return unknown("padding below every integer");
    }
    let index: Vec<Dim> = own.own.iter().map(|letter| place[letter].clone()).collect();
    let element = denoter.element(data, &index)?;
    let least = Term::Number(domain, f64::NEG_INFINITY);
    let choose = |term, claim| Term::choose(claim, term, least.clone());
    let body = tests.into_iter().rev().fold(element, choose);
    Ok(Term::Fold(domain, FoldOp::Max, binders, Box::new(body)))
}

fn divided(domain: Domain, sum: Term, counts: Vec<Term>) -> Term {
    counts.into_iter().fold(sum, |sum, count| Term::apply(domain, DIVIDE, vec![sum, count]))
}

/// A window along an axis.
struct Counted<'a> {
    axis: &'a Spatial,
    size: &'a Dim,
    index: &'a Dim,
}

impl Counted<'_> {
    /// How many elements it has before an end, and from the first one of the data on if so; at least 1.
    fn by(&self, denoter: &mut Denoter, from_first: bool, end: &Dim) -> Term {
        let name = denoter.fresh("k");
        let reached = self.axis.place(self.index, &Dim::Var(name.clone()));
        let one = Term::Number(Domain::Real, 1.0);
        let first = from_first.then(|| Claim::new(0, Relation::AtMost, reached.clone()));
        let is_before = Claim::new(reached, Relation::Less, end.clone());
        let counted = first.into_iter().chain([is_before]);
        let body = one.clone().where_all(counted, Domain::Real);
        let binders = vec![(name, self.size.clone())];
        let count = Term::Fold(Domain::Real, FoldOp::Add, binders, Box::new(body));
        Term::apply(Domain::Real, MAXIMUM, vec![count, one])
    }
}

/// The height and width of the result.
fn sizes(own: &Layouts, call: &Call) -> Known<BTreeMap<char, Dim>> {
    let size = |entry: &Entry| match entry {
        Entry::One(dim) => Ok(dim.clone()),
        _ => unknown("sizes that are not written out"),
    };
    let given = match call.arg("output_size") {
        Arg::None => vec![own.data[&'H'].clone(), own.data[&'W'].clone()],
        Arg::Integer(dim) => vec![dim.clone(); 2],
        Arg::List(entries) => entries.iter().map(size).collect::<Known<_>>()?,
        _ => return unknown("sizes that are not written out"),
    };
    match given.as_slice() {
        [both] => Ok(BTreeMap::from([('H', both.clone()), ('W', both.clone())])),
        [height, width] => Ok(BTreeMap::from([('H', height.clone()), ('W', width.clone())])),
        _ => unknown("not one size an axis"),
    }
}

fn adaptive_shape(denoter: &mut Denoter, call: &Call) -> Known<Vec<Axis>> {
    let own = Layouts::of(denoter, call)?;
    let sizes = sizes(&own, call)?;
    Ok(own.shape(denoter, &sizes))
}

/// Of m windows over n elements, window i goes from `i * n // m` to `ceil((i + 1) * n / m)`. None is empty, since n is at least 1.
fn adaptive_average(denoter: &mut Denoter, call: &Call, at: &[Dim]) -> Known<Term> {
    let own = Layouts::of(denoter, call)?;
    let mut place = own.index(at);
    let (mut binders, mut counts) = (Vec::new(), Vec::new());
    for (letter, size) in sizes(&own, call)? {
        let (index, data) = (place[&letter].clone(), own.data[&letter].clone());
        let begin = Dim::op(DimOp::FloorDiv, mul(index.clone(), data.clone()), size.clone());
        let end = Dim::op(DimOp::CeilDiv, mul(add(index, Dim::Int(1)), data), size);
        let extent = sub(end, begin.clone());
        let name = denoter.fresh("k");
        place.insert(letter, add(begin, Dim::Var(name.clone())));
        let one = Term::Number(Domain::Real, 1.0);
        let count = Term::Extent(extent.clone());
        counts.push(Term::apply(Domain::Real, MAXIMUM, vec![count, one]));
        binders.push((name, extent));
    }
    let (domain, element) = own.element(denoter, call, &place)?;
    let sum = Term::Fold(domain, FoldOp::Add, binders, Box::new(element));
    Ok(divided(domain, sum, counts))
}
