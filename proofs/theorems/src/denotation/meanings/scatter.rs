//! Elements written to places: a slice of an axis, or places that other elements tell.

use super::indexing::without_casts;
use super::indices::{Ranged, as_index};
use super::{Meaning, add, meaning, shape_of_first, sub};
use crate::denotation::denoter::{Denoter, Stops, extent, tensor};
use crate::denotation::names::{ADD, EQUAL};
use crate::denotation::ranges::assume_index;
use crate::denotation::term::{Binder, Domain, FoldOp, Known, Term, Test, mentions, unknown};
use crate::rules::rule::{Arg, Axis, Call, Node};
use relax_syntax::dim::Dim;
use relax_syntax::dtype::DType;
use relax_syntax::facts::{Claim, Relation};

pub(super) static MEANINGS: &[Meaning] = &[
    meaning("slice_scatter", shape_of_first, slice),
    Meaning { stops, ..meaning("scatter_elements", shape_of_first, scattered) },
    Meaning {
        stops: |denoter, call| Rows::of(denoter, call).map(|_| ()),
        ..meaning("scatter_nd", shape_of_first, rows)
    },
];

fn integer(call: &Call, param: &str) -> Known<Dim> {
    match call.arg(param) {
        Arg::Integer(dim) => Ok(dim.clone()),
        _ => unknown(format!("`{param}` is not written out")),
    }
}

/// `src` from `start` up to `end`, which lie in the axis, and the data elsewhere.
fn slice(denoter: &mut Denoter, call: &Call, at: &[Dim]) -> Known<Term> {
    let (data, src) = (tensor(call, "input_tensor")?, tensor(call, "src")?);
    let shape = denoter.shape(data)?;
    let axis = denoter.axis(&shape, &integer(call, "axis")?)?;
    let (start, end) = (integer(call, "start")?, integer(call, "end")?);
    let inside = denoter.at_most(0, start.clone())
        && denoter.at_most(start.clone(), end.clone())
        && denoter.at_most(end.clone(), extent(&shape[axis]));
    if !inside || integer(call, "step")? != Dim::Int(1) {
        return unknown("a slice that may leave its axis, or with gaps");
    }
    let own = denoter.element(data, at)?;
    let mut index = at.to_vec();
    index[axis] = sub(at[axis].clone(), start.clone());
    let written = denoter.element(src, &index)?;
    let is_before = Claim::new(at[axis].clone(), Relation::Less, start);
    let is_within = Claim::new(at[axis].clone(), Relation::Less, end);
    Ok(Term::choose(is_before, own.clone(), Term::choose(is_within, written, own)))
}

/// Updates of as many rows as there are indices, one after the other from a row that lies so that all are in the data.
struct Rows {
    start: Ranged,
    first: Dim,
    count: Dim,
}

impl Rows {
    fn of(denoter: &mut Denoter, call: &Call) -> Known<Self> {
        let (data, indices) = (tensor(call, "data")?, tensor(call, "indices")?);
        let (shape, places) = (denoter.shape(data)?, denoter.shape(indices)?);
        let ([Axis::Dim(extent), ..], [Axis::Dim(count), Axis::Dim(Dim::Int(1))]) =
            (shape.as_slice(), places.as_slice())
        else {
            return unknown("indices of other axes than the first");
        };
        if denoter.dtype(indices)? != DType::I64
            || *call.arg("reduction") != Arg::Str("update".into())
        {
            return unknown("updates that are combined, or places that may wrap");
        }
        let row = (denoter.fresh("k"), count.clone());
        denoter.facts.push();
        assume_index(&row, &mut *denoter.facts);
        let found = Self::from_first(denoter, indices, &row, extent);
        denoter.facts.pop();
        found
    }

    fn from_first(
        denoter: &mut Denoter,
        indices: &Node,
        (k, count): &Binder,
        extent: &Dim,
    ) -> Known<Self> {
        let row = Dim::Var(k.clone());
        let index = denoter.element(indices, &[row.clone(), Dim::Int(0)])?;
        let Some(start) = Ranged::of(denoter, &index) else {
            return unknown("rows that are not known to be in order");
        };
        if !start.is_within(denoter, extent) {
            return unknown("rows that may be out of range");
        }
        let first = denoter.facts.simplify(&sub(start.offset.clone(), row));
        if mentions(&first, &|name| name == k) || !start.is_free_of(k) {
            return unknown("rows that are not one after the other");
        }
        Ok(Self { start, first, count: count.clone() })
    }
}

/// The updates from the first row on, and the data before and after them.
fn rows(denoter: &mut Denoter, call: &Call, at: &[Dim]) -> Known<Term> {
    let Rows { start, first, count } = Rows::of(denoter, call)?;
    let (data, updates) = (tensor(call, "data")?, tensor(call, "updates")?);
    let own = denoter.element(data, at)?;
    start.looked_up(denoter, first, &mut |denoter, first| {
        let mut index = at.to_vec();
        index[0] = sub(at[0].clone(), first.clone());
        let is_before = Claim::new(at[0].clone(), Relation::Less, first.clone());
        let is_within = Claim::new(at[0].clone(), Relation::Less, add(first, count.clone()));
        denoter.facts.push();
        denoter.facts.assume(is_before.opposite());
        denoter.facts.assume(is_within.clone());
        let written = denoter.element(updates, &index);
        denoter.facts.pop();
        let written = written?;
        let after = Term::choose(is_within, written, own.clone());
        Ok(Term::choose(is_before, own.clone(), after))
    })
}

/// A call of `scatter_elements`: the axis, the extents of the data, and how many updates there are along the axis.
struct Scatter {
    axis: usize,
    shape: Vec<Axis>,
    updates: Vec<Axis>,
}

impl Scatter {
    fn of(denoter: &mut Denoter, call: &Call) -> Known<Self> {
        let shape = denoter.shape(tensor(call, "data")?)?;
        let updates = denoter.shape(tensor(call, "indices")?)?;
        let axis = denoter.axis(&shape, &integer(call, "axis")?)?;
        let alike = shape.len() == updates.len()
            && (0..shape.len()).all(|at| at == axis || denoter.same(&shape[at], &updates[at]));
        if alike { Ok(Self { axis, shape, updates }) } else { unknown("updates of a part only") }
    }

    fn writes_nothing(&self, denoter: &mut Denoter) -> bool {
        denoter.equal(&extent(&self.updates[self.axis]), &Dim::Int(0))
    }

    /// The place along the axis that is written: a negative index counts from the end.
    fn place(&self, denoter: &mut Denoter, call: &Call, at: &[Dim]) -> Known<Result<Dim, Term>> {
        let indices = tensor(call, "indices")?;
        let index = denoter.element(indices, at)?;
        if denoter.dtype(indices)? == DType::I64
            && let Some(known) = as_index(denoter, &index)
            && denoter.at_most(0, known.clone())
        {
            return Ok(Ok(known));
        }
        let extent = Term::Extent(extent(&self.shape[self.axis]));
        let index = vec![without_casts(index), extent];
        Ok(Err(Term::apply(Domain::Ring, "from the end", index)))
    }
}

/// The element of the data and the sum of the updates whose index it has.
fn scattered(denoter: &mut Denoter, call: &Call, at: &[Dim]) -> Known<Term> {
    let own = Scatter::of(denoter, call)?;
    let data = tensor(call, "data")?;
    let element = denoter.element(data, at)?;
    if own.writes_nothing(denoter) {
        return Ok(element);
    }
    let domain = denoter.domain(data)?;
    if *call.arg("reduction") != Arg::Str(ADD.into()) || domain == Domain::Bits {
        return unknown("only sums without rounding do not depend on the order of updates");
    }
    let name = denoter.fresh("k");
    let mut place = at.to_vec();
    place[own.axis] = Dim::Var(name.clone());
    let test = match own.place(denoter, call, &place)? {
        Ok(known) => Test::Dims(Claim::new(known, Relation::Equal, at[own.axis].clone())),
        Err(index) => {
            let here = vec![index, Term::Extent(at[own.axis].clone())];
            Test::Element(Box::new(Term::apply(Domain::Ring, EQUAL, here)))
        }
    };
    let update = Box::new(denoter.element(tensor(call, "updates")?, &place)?);
    let body = Term::If(test, update, Box::new(Term::Number(domain, 0.0)));
    let binder = (name, extent(&own.updates[own.axis]));
    let sum = Term::Fold(domain, FoldOp::Add, vec![binder], Box::new(body));
    Ok(Term::apply(domain, ADD, vec![element, sum]))
}

/// An index out of range stops the program.
fn stops(denoter: &mut Denoter, call: &Call) -> Known<()> {
    let own = Scatter::of(denoter, call)?;
    if own.writes_nothing(denoter) {
        return Ok(());
    }
    let over = denoter.indices(&own.updates);
    let at: Vec<Dim> = over.iter().map(|(name, _)| Dim::Var(name.clone())).collect();
    let end = extent(&own.shape[own.axis]);
    let place = own.place(denoter, call, &at)?;
    let index = match place {
        Ok(known) if denoter.proves(&Claim::new(known.clone(), Relation::Less, end.clone())) => {
            return Ok(());
        }
        Ok(known) => Term::Extent(known),
        Err(index) => index,
    };
    let what = "index/range".to_owned();
    denoter.stops.push(Stops { what, over, terms: vec![index, Term::Extent(end)] });
    Ok(())
}
