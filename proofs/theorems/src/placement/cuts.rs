//! Where an axis of a term may be cut: at the indices at which operands are read.
//!
//! An index `o` of extent `e` may be that of an axis itself. Where a reshape merges an axis with those behind it, which have `k`
//! elements together, the axis is read at `o // k`; where it splits one, at `o * k + …`.

use super::{Call, Seen, name_of};
use crate::denotation::term::mentions;
use relax_syntax::Name;
use relax_syntax::annotation::Placement;
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::facts::{Answer, Facts};
use std::collections::BTreeSet;

/// A cut of an index, and of the axes of operands that are read at it.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Cut {
    /// One an operand.
    pub(super) operands: Vec<Placement>,
    /// How many elements of its axis one of a block is.
    pub(super) units: Vec<i64>,
    /// How many of the index one of a block is.
    pub(super) unit: i64,
}

impl Cut {
    pub(super) fn is_exact(&self) -> bool {
        self.unit == 1 && self.units.iter().all(|unit| *unit == 1)
    }
}

/// How an axis is read at an index.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum How {
    Exactly,
    /// At its quotient by a literal.
    Divided(i64),
    /// At a multiple of it, and a rest without it.
    Times(i64),
}

/// The cut of an index with its extent: `None` where an operand is read at something else that is made of it.
pub(super) fn of(
    seen: &Seen,
    call: &Call,
    (index, extent): (&Name, &Dim),
    facts: &mut dyn Facts,
) -> Option<Cut> {
    let has = |dim: &Dim| mentions(dim, &|name| name == index);
    if seen.others.iter().any(has) {
        return None;
    }
    let mut found = Vec::new();
    for (number, (dims, _)) in call.operands.iter().enumerate() {
        let own = name_of(number);
        let reads = seen.reads.iter().filter(|(name, _)| *name == own);
        let axes: BTreeSet<Option<(usize, How)>> =
            reads.map(|(_, at)| axis_of(at, index)).collect::<Option<_>>()?;
        found.push(match axes.into_iter().collect::<Vec<_>>()[..] {
            [] | [None] => None,
            [Some((axis, how))] if fits(&dims[axis], how, extent, facts) => Some((axis, how)),
            _ => return None,
        });
    }
    cut(&found)
}

/// The axis that is read at an index, and how; `None` where one is read in any other way.
fn axis_of(at: &[Dim], index: &Name) -> Option<Option<(usize, How)>> {
    let (mut found, mut rests) = (None, Vec::new());
    for (axis, dim) in at.iter().enumerate() {
        if !mentions(dim, &|name| name == index) {
            continue;
        }
        if let Some(divisor) = by_literal(dim, DimOp::FloorMod, index) {
            rests.push(divisor);
            continue;
        }
        if found.replace((axis, how(dim, index)?)).is_some() {
            return None;
        }
    }
    let fits = |(_, how): &(usize, How)| match how {
        How::Divided(divisor) => rests.iter().all(|rest| rest == divisor),
        _ => rests.is_empty(),
    };
    found.as_ref().map_or(rests.is_empty(), fits).then_some(found)
}

fn how(dim: &Dim, index: &Name) -> Option<How> {
    let is_index = |dim: &Dim| *dim == Dim::Var(index.clone());
    if is_index(dim) {
        return Some(How::Exactly);
    }
    if let Some(divisor) = by_literal(dim, DimOp::FloorDiv, index) {
        return Some(How::Divided(divisor));
    }
    let Dim::Op(DimOp::Add, both) = dim else { return None };
    let sides = [(&both.0, &both.1), (&both.1, &both.0)];
    sides.into_iter().find_map(|(side, rest)| {
        let factor = by_literal(side, DimOp::Mul, index)?;
        (!mentions(rest, &|name| name == index)).then_some(How::Times(factor))
    })
}

/// The literal beside an index in an operation; a factor may stand before it.
fn by_literal(dim: &Dim, op: DimOp, index: &Name) -> Option<i64> {
    let Dim::Op(own, both) = dim else { return None };
    let is_index = |dim: &Dim| *dim == Dim::Var(index.clone());
    let literal = match &**both {
        (a, Dim::Int(literal)) if is_index(a) => *literal,
        (Dim::Int(literal), b) if is_index(b) && op == DimOp::Mul => *literal,
        _ => return None,
    };
    (*own == op && literal > 1).then_some(literal)
}

/// Whether the extent of an axis is what its index makes of the extent of the cut one.
fn fits(dim: &Dim, how: How, extent: &Dim, facts: &mut dyn Facts) -> bool {
    let times = |dim: &Dim, factor| Dim::op(DimOp::Mul, dim.clone(), Dim::Int(factor));
    let (a, b) = match how {
        How::Exactly => (dim.clone(), extent.clone()),
        How::Divided(divisor) => (times(dim, divisor), extent.clone()),
        How::Times(factor) => (dim.clone(), times(extent, factor)),
    };
    facts.equal(&a, &b) == Answer::Proved
}

/// The cut of what is read so: one of a block is the largest part of each axis that no other one divides.
fn cut(found: &[Option<(usize, How)>]) -> Option<Cut> {
    let (mut divisor, mut factor) = (1, 1);
    for (_, how) in found.iter().flatten() {
        let (own, other) = match how {
            How::Exactly => continue,
            How::Divided(literal) => (&mut divisor, *literal),
            How::Times(literal) => (&mut factor, *literal),
        };
        if *own != 1 && *own != other {
            return None;
        }
        *own = other;
    }
    if divisor != 1 && factor != 1 {
        return None;
    }
    let unit_of = |how: &How| match how {
        How::Exactly => divisor,
        How::Divided(_) => 1,
        How::Times(literal) => *literal,
    };
    let operands = found.iter().map(|each| match each {
        Some((axis, _)) => Placement::Sharded(*axis),
        None => Placement::Replicated,
    });
    let units = found.iter().map(|each| each.as_ref().map_or(1, |(_, how)| unit_of(how)));
    Some(Cut { operands: operands.collect(), units: units.collect(), unit: divisor })
}
