//! What a buffer holds: regions of elements, the last written first to look at, over what was there before.
//!
//! A region has an element for each value of its binders. No two values write the same element: the inverse
//! of its index, from a place to the values of the binders, shows that, and finds the value of an element.

use super::access::{Map, UNWRITTEN};
use crate::denotation::fuel;
use crate::denotation::ranges::assume_index;
use crate::denotation::term::{Domain, FoldOp, Known, Term, Test, mentions, unknown};
use relax_syntax::Name;
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::facts::{Answer, Claim, Facts, Relation};

/// A variable from a start to below a stop.
pub(super) type Range = (Name, Dim, Dim);

/// Elements that were written.
#[derive(Clone, Debug)]
pub(super) struct Region {
    pub(super) binders: Vec<Range>,
    pub(super) index: Vec<Dim>,
    pub(super) value: Term,
}

impl Region {
    /// A dim of the value where it is an element at a place: with values of binders, and with an index of the place for what the region
    /// writes as its index. They are equal there, and proofs need not find that out.
    fn placed(&self, dim: &Dim, at: &[Dim], values: &Map) -> Dim {
        match dim {
            Dim::Int(_) => dim.clone(),
            Dim::Var(name) => values.get(name).unwrap_or(dim).clone(),
            Dim::Op(op, sides) => {
                if let Some(axis) = self.index.iter().position(|index| index == dim) {
                    return at[axis].clone();
                }
                let [a, b] = [&sides.0, &sides.1].map(|side| self.placed(side, at, values));
                Dim::op(*op, a, b)
            }
        }
    }
}

/// What was there before.
#[derive(Clone, Debug, PartialEq)]
enum Base {
    Unwritten,
    Named(Name),
}

/// What a buffer holds.
#[derive(Clone, Debug)]
pub(super) struct Content {
    base: Base,
    pub(super) writes: Vec<Region>,
    /// How many of them stay whatever is written to the same elements: those before the statements of a branch.
    kept: usize,
}

impl Content {
    pub(super) fn unwritten() -> Self {
        Self { base: Base::Unwritten, writes: Vec::new(), kept: 0 }
    }

    pub(super) fn input(name: Name) -> Self {
        Self { base: Base::Named(name), writes: Vec::new(), kept: 0 }
    }

    /// What was last written to the same elements is gone.
    pub(super) fn write(&mut self, region: Region) {
        let same = |old: &Region| old.binders == region.binders && old.index == region.index;
        if self.writes.len() > self.kept && self.writes.last().is_some_and(same) {
            self.writes.pop();
        }
        self.writes.push(region);
    }

    /// Keeps what is written so far; gives how much was kept before.
    pub(super) fn begin(&mut self) -> usize {
        std::mem::replace(&mut self.kept, self.writes.len())
    }

    /// Takes what was written since the beginning, before which so much was kept.
    pub(super) fn end(&mut self, outer: usize) -> Vec<Region> {
        self.writes.split_off(std::mem::replace(&mut self.kept, outer))
    }
}

/// Asks for elements.
pub(super) struct Reader<'a> {
    pub(super) facts: &'a mut dyn Facts,
    pub(super) fresh: &'a mut usize,
}

/// How an element of a region is found: the values of the binders, and what must hold of them.
struct Found {
    values: Map,
    open: Vec<Claim>,
}

impl Reader<'_> {
    fn proves(&mut self, claim: &Claim) -> bool {
        self.facts.decide(claim) == Answer::Proved
    }

    fn equal(&mut self, a: &Dim, b: &Dim) -> bool {
        a == b || self.facts.equal(a, b) == Answer::Proved
    }

    /// The element at a place.
    pub(super) fn read(&mut self, content: &Content, shape: &[Dim], at: &[Dim]) -> Known<Term> {
        self.read_from(content, content.writes.len(), shape, at)
    }

    fn read_from(
        &mut self,
        content: &Content,
        count: usize,
        shape: &[Dim],
        at: &[Dim],
    ) -> Known<Term> {
        fuel::spend(1)?;
        let Some(region) = count.checked_sub(1).map(|last| &content.writes[last]) else {
            return Ok(match &content.base {
                Base::Named(name) => Term::Read(name.clone(), at.to_vec()),
                Base::Unwritten => Term::apply(Domain::Bits, UNWRITTEN, Vec::new()),
            });
        };
        let Some(found) = self.find(region, shape, at)? else {
            return self.read_from(content, count - 1, shape, at);
        };
        fuel::spend(fuel::size(&region.value))?;
        let here = region.value.with_dims(&|dim| region.placed(dim, at, &found.values));
        let here = self.renamed(&here);
        self.guarded(&found.open, here, content, count - 1, (shape, at))
    }

    /// The element where all claims hold, else what was there before.
    fn guarded(
        &mut self,
        open: &[Claim],
        here: Term,
        content: &Content,
        count: usize,
        (shape, at): (&[Dim], &[Dim]),
    ) -> Known<Term> {
        let Some((claim, rest)) = open.split_first() else { return Ok(here) };
        self.facts.push();
        self.facts.assume(claim.clone());
        let then = self.guarded(rest, here, content, count, (shape, at));
        self.facts.pop();
        self.facts.push();
        self.facts.assume(claim.opposite());
        let otherwise = self.read_from(content, count, shape, at);
        self.facts.pop();
        Ok(Term::choose(claim.clone(), then?, otherwise?))
    }

    /// Where in a region an element is; none if it is not in it.
    fn find(&mut self, region: &Region, shape: &[Dim], at: &[Dim]) -> Known<Option<Found>> {
        let Some(values) = self.inverse(region, shape, at) else {
            return unknown("a place cannot be told from what is written there");
        };
        let mut open = Vec::new();
        let mut claims = Vec::new();
        for (name, start, stop) in &region.binders {
            let value = values[name].clone();
            claims.push(Claim::new(start.substitute(&values), Relation::AtMost, value.clone()));
            claims.push(Claim::new(value, Relation::Less, stop.substitute(&values)));
        }
        for (index, at) in region.index.iter().zip(at) {
            claims.push(Claim::new(at.clone(), Relation::Equal, index.substitute(&values)));
        }
        for claim in claims {
            if claim.relation == Relation::Equal && self.equal(&claim.left, &claim.right) {
                continue;
            }
            if self.proves(&claim) {
                continue;
            }
            if self.proves(&claim.opposite()) {
                return Ok(None);
            }
            open.push(claim);
        }
        Ok(Some(Found { values, open }))
    }

    /// The only values of the binders for which the index can be a place.
    pub(super) fn inverse(&mut self, region: &Region, shape: &[Dim], at: &[Dim]) -> Option<Map> {
        if region.binders.is_empty() {
            return Some(Map::new());
        }
        if let Some(values) = linear_inverse(region, at) {
            return Some(values);
        }
        let places: Vec<Name> = at.iter().map(|_| self.name("y")).collect();
        let symbols: Vec<Dim> = places.iter().map(|name| Dim::Var(name.clone())).collect();
        for candidate in candidates(region, shape, &symbols) {
            if self.is_inverse(region, &candidate, &places) {
                let map = places.iter().cloned().zip(at.iter().cloned()).collect();
                let own = candidate.iter().map(|(name, dim)| (name.clone(), dim.substitute(&map)));
                return Some(own.collect());
            }
        }
        None
    }

    /// Whether the values found for the place of any binders are those binders.
    fn is_inverse(&mut self, region: &Region, candidate: &Map, places: &[Name]) -> bool {
        self.facts.push();
        for (name, start, stop) in &region.binders {
            if *start == Dim::Int(0) {
                assume_index(&(name.clone(), stop.clone()), &mut *self.facts);
            } else {
                let var = Dim::Var(name.clone());
                self.facts.assume(Claim::new(start.clone(), Relation::AtMost, var.clone()));
                self.facts.assume(Claim::new(var, Relation::Less, stop.clone()));
            }
        }
        let own: Map = places.iter().cloned().zip(region.index.iter().cloned()).collect();
        let back = region.binders.iter().all(|(name, ..)| {
            let value = candidate[name].substitute(&own);
            self.equal(&value, &Dim::Var(name.clone()))
        });
        self.facts.pop();
        back
    }

    fn name(&mut self, kind: &str) -> Name {
        *self.fresh += 1;
        format!("{kind}#{}", self.fresh).into()
    }

    /// With names of their own for the variables that a term binds.
    pub(super) fn renamed(&mut self, term: &Term) -> Term {
        let inner = |own: &mut Self, term: &Term| Box::new(own.renamed(term));
        match term {
            Term::Read(..) | Term::Number(..) | Term::Extent(_) | Term::Scalar(_) => term.clone(),
            Term::Apply(domain, name, args) => {
                let args = args.iter().map(|arg| self.renamed(arg)).collect();
                Term::Apply(*domain, name.clone(), args)
            }
            Term::If(test, then, otherwise) => {
                let test = match test {
                    Test::Dims(_) => test.clone(),
                    Test::Element(term) => Test::Element(inner(self, term)),
                };
                Term::If(test, inner(self, then), inner(self, otherwise))
            }
            Term::Fold(domain, op, binders, body) => {
                let map: Map = binders
                    .iter()
                    .map(|(name, _)| (name.clone(), Dim::Var(self.name("k"))))
                    .collect();
                let own = binders.iter().map(|(name, extent)| {
                    let Dim::Var(name) = &map[name] else { return (name.clone(), extent.clone()) };
                    (name.clone(), extent.substitute(&map))
                });
                let own = own.collect();
                let op = match op {
                    FoldOp::Row(name, at) => FoldOp::Row(name.clone(), at.clone()),
                    other => other.clone(),
                };
                let body = self.renamed(&body.substitute(&map));
                Term::Fold(*domain, op, own, Box::new(body))
            }
            Term::Lookup(index, (name, extent), body) => {
                let own = self.name("@");
                let map = Map::from([(name.clone(), Dim::Var(own.clone()))]);
                let body = self.renamed(&body.substitute(&map));
                Term::Lookup(inner(self, index), (own, extent.clone()), Box::new(body))
            }
        }
    }
}

/// `e = c * b + rest`: how often a variable is in a dim, and the rest, in which it is not.
pub(super) fn linear(dim: &Dim, var: &Name) -> Option<(i64, Dim)> {
    if !mentions(dim, &|name| name == var) {
        return Some((0, dim.clone()));
    }
    match dim {
        Dim::Var(_) => Some((1, Dim::Int(0))),
        Dim::Op(op @ (DimOp::Add | DimOp::Sub), operands) => {
            let (a, b) = (linear(&operands.0, var)?, linear(&operands.1, var)?);
            let sign = if *op == DimOp::Add { 1 } else { -1 };
            Some((a.0.checked_add(sign * b.0)?, Dim::op(*op, a.1, b.1)))
        }
        Dim::Op(DimOp::Mul, operands) => {
            let (a, b) = (&operands.0, &operands.1);
            let (factor, other) = match (a, b) {
                (Dim::Int(factor), other) | (other, Dim::Int(factor)) => (*factor, other),
                _ => return None,
            };
            let (count, rest) = linear(other, var)?;
            Some((count.checked_mul(factor)?, Dim::op(DimOp::Mul, Dim::Int(factor), rest)))
        }
        _ => None,
    }
}

/// The inverse of an index of which each binder can be solved for by sums and differences, or by a
/// division without rest, which is then to be shown.
fn linear_inverse(region: &Region, at: &[Dim]) -> Option<Map> {
    let mut values = Map::new();
    while values.len() < region.binders.len() {
        let mut progress = false;
        for (index, at) in region.index.iter().zip(at) {
            let index = index.substitute(&values);
            let mut open = region
                .binders
                .iter()
                .filter(|(name, ..)| !values.contains_key(name))
                .filter(|(name, ..)| mentions(&index, &|other| other == name));
            let (Some((name, ..)), None) = (open.next(), open.next()) else { continue };
            let Some((count, rest)) = linear(&index, name) else { continue };
            let difference = Dim::op(DimOp::Sub, at.clone(), rest.clone());
            let value = match count {
                1 => difference,
                -1 => Dim::op(DimOp::Sub, rest, at.clone()),
                0 => continue,
                _ => Dim::op(DimOp::FloorDiv, difference, Dim::Int(count)),
            };
            values.insert(name.clone(), value);
            progress = true;
        }
        if !progress {
            return None;
        }
    }
    Some(values)
}

/// What may be the inverse: one binder as the row-major place, or several as the parts of one.
fn candidates(region: &Region, shape: &[Dim], at: &[Dim]) -> Vec<Map> {
    let mut found = Vec::new();
    let place = |from: usize, to: usize| {
        let pairs = shape[from..to].iter().zip(&at[from..to]);
        pairs.fold(Dim::Int(0), |total, (extent, index)| {
            if total == Dim::Int(0) {
                index.clone()
            } else {
                Dim::op(DimOp::Add, Dim::op(DimOp::Mul, total, extent.clone()), index.clone())
            }
        })
    };
    // Binders that stand alone are solved for; what is left is one binder over adjacent axes, or several
    // binders in one axis.
    let mut known = Map::new();
    for (index, at) in region.index.iter().zip(at) {
        if let Dim::Var(name) = index
            && region.binders.iter().any(|(own, ..)| own == name)
        {
            known.insert(name.clone(), at.clone());
        }
    }
    let open: Vec<&Range> =
        region.binders.iter().filter(|(name, ..)| !known.contains_key(name)).collect();
    let uses = |name: &Name| -> Vec<usize> {
        let own = region.index.iter().enumerate();
        own.filter(|(_, index)| mentions(index, &|other| other == name)).map(|(at, _)| at).collect()
    };
    if let [(name, ..)] = open.as_slice() {
        let axes = uses(name);
        if let (Some(&first), Some(&last)) = (axes.first(), axes.last()) {
            let mut map = known.clone();
            map.insert(name.clone(), place(first, last + 1));
            found.push(map);
        }
    }
    let shared: Vec<usize> = open.iter().flat_map(|(name, ..)| uses(name)).collect();
    found.extend(by_digits(region, shape, at));
    if open.len() > 1
        && let Some(&axis) = shared.first()
        && shared.iter().all(|&other| other == axis)
    {
        let mut map = known;
        for (position, (name, ..)) in open.iter().enumerate() {
            let inner: Vec<Dim> =
                open[position + 1..].iter().map(|(_, _, stop)| stop.clone()).collect();
            let mut value = Dim::op(DimOp::FloorDiv, at[axis].clone(), Dim::product(&inner));
            if position > 0 {
                value = Dim::op(DimOp::FloorMod, value, open[position].2.clone());
            }
            map.insert(name.clone(), value);
        }
        found.push(map);
    }
    found
}

/// The inverse where binders are the last digits of an axis, as lanes of a vector are, and what is left is one binder
/// over adjacent axes, or binders that stand alone.
fn by_digits(region: &Region, shape: &[Dim], at: &[Dim]) -> Option<Map> {
    let mut index = region.index.clone();
    let (mut places, mut extents) = (at.to_vec(), shape.to_vec());
    let mut open: Vec<&Range> = region.binders.iter().collect();
    let mut map = Map::new();
    while let Some((number, axis, rest)) = last_digit(&open, &index) {
        let (name, _, stop) = open.remove(number);
        map.insert(name.clone(), Dim::op(DimOp::FloorMod, places[axis].clone(), stop.clone()));
        places[axis] = Dim::op(DimOp::FloorDiv, places[axis].clone(), stop.clone());
        extents[axis] = Dim::op(DimOp::FloorDiv, extents[axis].clone(), stop.clone());
        index[axis] = rest;
    }
    for (axis, index) in index.iter().enumerate() {
        if let Dim::Var(name) = index
            && open.iter().any(|(own, ..)| own == name)
        {
            map.insert(name.clone(), places[axis].clone());
        }
    }
    open.retain(|(name, ..)| !map.contains_key(name));
    let [(name, ..)] = open.as_slice() else { return open.is_empty().then_some(map) };
    let mut value: Option<Dim> = None;
    for (axis, index) in index.iter().enumerate() {
        if !mentions(index, &|other| other == name) {
            continue;
        }
        let extent = match index {
            Dim::Op(DimOp::FloorMod, sides) => &sides.1,
            _ => &extents[axis],
        };
        value = Some(match value {
            None => places[axis].clone(),
            Some(value) => {
                let row = Dim::op(DimOp::Mul, value, extent.clone());
                Dim::op(DimOp::Add, row, places[axis].clone())
            }
        });
    }
    map.insert(name.clone(), value?);
    Some(map)
}

/// A binder from 0 that one axis alone has as its last digit: its number, the axis, and the digits before.
fn last_digit(open: &[&Range], index: &[Dim]) -> Option<(usize, usize, Dim)> {
    open.iter().enumerate().find_map(|(number, (name, start, stop))| {
        let mut axes = (0..index.len()).filter(|&axis| mentions(&index[axis], &|own| own == name));
        let (Some(axis), None, Some(stop)) = (axes.next(), axes.next(), stop.as_int()) else {
            return None;
        };
        let (1, rest) = linear(&index[axis], name)? else { return None };
        let rest = quotient(&rest, stop)?;
        (*start == Dim::Int(0) && rest != Dim::Int(0)).then_some((number, axis, rest))
    })
}

/// A multiple of a number, divided by it.
fn quotient(dim: &Dim, by: i64) -> Option<Dim> {
    match dim {
        Dim::Int(value) => (by > 0 && value % by == 0).then(|| Dim::Int(value / by)),
        Dim::Op(op @ (DimOp::Add | DimOp::Sub), sides) => {
            Some(Dim::op(*op, quotient(&sides.0, by)?, quotient(&sides.1, by)?))
        }
        Dim::Op(DimOp::Mul, sides) => match quotient(&sides.0, by) {
            Some(part) => Some(Dim::op(DimOp::Mul, part, sides.1.clone())),
            None => Some(Dim::op(DimOp::Mul, sides.0.clone(), quotient(&sides.1, by)?)),
        },
        _ => None,
    }
}
