//! Linear maps are equal where they are equal at each unit tensor.
//!
//! Both sides of a rule may be linear in elements of an operand: sums of elements, each multiplied by what does not depend on the
//! operand. Then the operand may be taken as the tensor that is 1 at one place and 0 elsewhere, for any place. What was a sum over
//! the operand is one summand, and the tests that were inside of sums are tests on free indices, which a proof splits on.
//! The bilinear form of a gradient, `sum(L(x) * g)`, becomes the element of the matrix of `L` in this way.

use super::cuts::{digits, renamed};
use super::denoter::{Denoter, extent};
use super::linear::is_linear;
use super::names::{ADD, DIVIDE, MAXIMUM, MINIMUM, MULTIPLY, NEGATIVE, SUBTRACT};
use super::program::rebuilt;
use super::term::{Binder, Domain, FoldOp, Known, Term, Test, domain_of};
use crate::rules::instance::dtype_of;
use crate::rules::rule::{Operand, Rule};
use relax_syntax::Name;
use relax_syntax::dim::Dim;
use relax_syntax::facts::{Claim, Relation};
use std::collections::{BTreeMap, BTreeSet};

/// Both sides at unit tensors for the operands in which both are linear, and the places of the ones.
pub(super) struct AtUnits {
    pub(super) left: Term,
    pub(super) right: Term,
    pub(super) places: Vec<Binder>,
}

/// The sides of a rule at unit tensors; none where they are linear in no operand.
pub(super) fn at_units(
    rule: &Rule,
    denoter: &mut Denoter,
    left: &Term,
    right: &Term,
) -> Option<AtUnits> {
    let mut own = AtUnits { left: left.clone(), right: right.clone(), places: Vec::new() };
    for param in &rule.params {
        let Operand::Tensor(axes, kind) = &param.what else { continue };
        if domain_of(dtype_of(kind, denoter.types), denoter.reals) != Domain::Real {
            continue;
        }
        let operand = BTreeSet::from([param.name.clone()]);
        let is_linear = [&own.left, &own.right]
            .into_iter()
            .all(|side| is_linear(side, &operand) && has_value(denoter, side));
        if !is_linear {
            continue;
        }
        let places: Vec<Binder> =
            axes.iter().map(|axis| (denoter.fresh("unit"), extent(axis))).collect();
        let unit = Unit { operand: param.name.clone(), places: &places };
        own.left = unit.in_term(&own.left).ok()?;
        own.right = unit.in_term(&own.right).ok()?;
        own.places.extend(places);
    }
    while own.splits_place() {}
    (!own.places.is_empty()).then_some(own)
}

impl AtUnits {
    /// Writes one place as two digits where a side divides it. Each digit has an extent below that of the place.
    fn splits_place(&mut self) -> bool {
        for (at, place) in self.places.iter().enumerate() {
            let Some((pair, dim)) = digits(place, &[&self.left, &self.right]) else { continue };
            let map = BTreeMap::from([(place.0.clone(), dim)]);
            self.left = self.left.substitute(&map);
            self.right = self.right.substitute(&map);
            self.places.splice(at..=at, pair);
            return true;
        }
        false
    }
}

/// Whether a term is a number whatever elements it has. At a unit tensor a product may not be compared at all, so a factor without a
/// value would not be seen.
fn has_value(denoter: &mut Denoter, term: &Term) -> bool {
    match term {
        Term::Read(..) | Term::Number(..) | Term::Extent(_) | Term::Scalar(_) => true,
        Term::Apply(Domain::Real, function, args) => match (function.as_str(), args.as_slice()) {
            (ADD | SUBTRACT | NEGATIVE | MULTIPLY | MAXIMUM | MINIMUM, args) => {
                args.iter().all(|arg| has_value(denoter, arg))
            }
            (DIVIDE, [a, b]) => has_value(denoter, a) && is_positive(denoter, b),
            _ => false,
        },
        Term::If(test, then, otherwise) => {
            let tested = match test {
                Test::Dims(_) => true,
                Test::Element(term) => has_value(denoter, term),
            };
            tested && has_value(denoter, then) && has_value(denoter, otherwise)
        }
        Term::Fold(Domain::Real, FoldOp::Add, _, body) => has_value(denoter, body),
        Term::Lookup(index, _, body) => has_value(denoter, index) && has_value(denoter, body),
        Term::Apply(..) | Term::Fold(..) => false,
    }
}

/// Whether a divisor is above 0 for all indices.
fn is_positive(denoter: &mut Denoter, term: &Term) -> bool {
    match term {
        Term::Number(_, value) => *value > 0.0,
        Term::Extent(dim) => denoter.at_most(1, dim.clone()),
        Term::Apply(Domain::Real, function, args) => match function.as_str() {
            MULTIPLY => args.iter().all(|arg| is_positive(denoter, arg)),
            MAXIMUM => {
                args.iter().all(|arg| has_value(denoter, arg))
                    && args.iter().any(|arg| is_positive(denoter, arg))
            }
            _ => false,
        },
        _ => false,
    }
}

/// A tensor that is 1 at one place.
struct Unit<'a> {
    operand: Name,
    places: &'a [Binder],
}

impl Unit<'_> {
    fn at(&self, axis: usize) -> Dim {
        Dim::Var(self.places[axis].0.clone())
    }

    /// The term with this tensor for the operand.
    fn in_term(&self, term: &Term) -> Known<Term> {
        rebuilt(term, &mut |term| match term {
            Term::Read(name, at) if *name == self.operand => Ok(Some(self.element(at))),
            Term::Fold(domain, op @ FoldOp::Add, binders, body) => {
                self.in_sum(*domain, op, binders, body).map(Some)
            }
            _ => Ok(None),
        })
    }

    /// A sum without the indices that must be a place of the one for the summand not to be 0.
    fn in_sum(&self, domain: Domain, op: &FoldOp, binders: &[Binder], body: &Term) -> Known<Term> {
        let (mut rest, mut inside) = (Vec::new(), Vec::new());
        let mut places = BTreeMap::new();
        for (name, extent) in binders {
            match self.forces(body, name) {
                Some(axis) => {
                    inside.push(Claim::new(self.at(axis), Relation::Less, extent.clone()));
                    places.insert(name.clone(), self.at(axis));
                }
                None => rest.push((name.clone(), extent.clone())),
            }
        }
        let body = self.in_term(&body.substitute(&places))?;
        let sum = if rest.is_empty() {
            body
        } else {
            Term::Fold(domain, op.clone(), renamed(&rest, &places), Box::new(body))
        };
        Ok(sum.where_all(inside.iter().map(|claim| claim.substitute(&places)), domain))
    }

    /// The axis of the operand in which a variable is the index of all elements that a linear term has.
    fn forces(&self, term: &Term, name: &Name) -> Option<usize> {
        match term {
            Term::Read(operand, at) if *operand == self.operand => {
                at.iter().position(|dim| matches!(dim, Dim::Var(own) if own == name))
            }
            Term::Apply(_, function, args) => match (function.as_str(), args.as_slice()) {
                (MULTIPLY | NEGATIVE, args) => args.iter().find_map(|arg| self.forces(arg, name)),
                (DIVIDE, [a, _]) => self.forces(a, name),
                (ADD | SUBTRACT, [a, b]) => self.alike(a, b, name),
                _ => None,
            },
            Term::If(_, then, otherwise) => self.alike(then, otherwise, name),
            Term::Fold(_, FoldOp::Add, _, body) | Term::Lookup(_, _, body) => {
                self.forces(body, name)
            }
            _ => None,
        }
    }

    fn alike(&self, a: &Term, b: &Term, name: &Name) -> Option<usize> {
        let is_zero = |term: &Term| matches!(term, Term::Number(_, value) if *value == 0.0);
        match (is_zero(a), is_zero(b)) {
            (true, _) => self.forces(b, name),
            (_, true) => self.forces(a, name),
            _ => self.forces(a, name).filter(|&axis| self.forces(b, name) == Some(axis)),
        }
    }

    fn element(&self, at: &[Dim]) -> Term {
        let equal =
            |(axis, dim): (usize, &Dim)| Claim::new(dim.clone(), Relation::Equal, self.at(axis));
        let one = Term::Number(Domain::Real, 1.0);
        one.where_all(at.iter().enumerate().map(equal), Domain::Real)
    }
}
