//! Loads: places that dims tell, or other elements; each lies in its buffer, or the program may stop.

use super::Machine;
use super::scalar::Condition;
use crate::denotation::functions::{cast_of, widens};
use crate::denotation::names::{MAXIMUM, MINIMUM};
use crate::denotation::term::{Domain, Known, Term, Test};
use relax_syntax::dim::Dim;
use relax_syntax::dtype::DType;
use relax_syntax::facts::{Claim, Relation};
use relax_syntax::ir::tensor::{BufferId, TExpr};
use std::collections::BTreeMap;

impl Machine<'_> {
    pub(super) fn load(&mut self, buffer: BufferId, indices: &[TExpr]) -> Known<Term> {
        let mut places = Vec::with_capacity(indices.len());
        for index in indices {
            let dtype = self.typing.dtype(index);
            places.push(self.value(index, dtype)?);
        }
        let shape = self.shape(buffer);
        self.load_at(buffer, &shape, &places, Vec::new())
    }

    fn load_at(
        &mut self,
        buffer: BufferId,
        shape: &[Dim],
        places: &[Term],
        mut at: Vec<Dim>,
    ) -> Known<Term> {
        let Some((place, rest)) = places.split_first() else {
            let term = self.content(buffer, shape, &at)?;
            if has_unwritten(&term) {
                self.stop("tir/uninitialized", vec![term.clone()]);
            }
            return Ok(term);
        };
        let extent = &shape[at.len()];
        match place {
            Term::Extent(dim) => {
                self.in_bounds(dim, extent);
                at.push(dim.clone());
                self.load_at(buffer, shape, rest, at)
            }
            Term::If(test, then, otherwise) => {
                let condition = match test {
                    Test::Dims(claim) => Condition::Claim(claim.clone()),
                    Test::Element(term) => Condition::Truth((**term).clone()),
                };
                let mut load = |holds: bool, chosen: &Term| {
                    let mut places = vec![chosen.clone()];
                    places.extend_from_slice(rest);
                    let at = at.clone();
                    self.under(&condition, holds, |own| own.load_at(buffer, shape, &places, at))
                };
                let (then, otherwise) = (load(true, then)?, load(false, otherwise)?);
                Ok(condition.choose(then, otherwise))
            }
            _ => {
                let index = without_casts(place.clone());
                if !self.is_index(place, &index, extent) {
                    let terms = vec![index.clone(), Term::Extent(extent.clone())];
                    self.stop("tir/out_of_bounds", terms);
                }
                let name = self.fresh("@");
                let var = Dim::Var(name.clone());
                self.facts.push();
                self.facts.assume(Claim::new(0, Relation::AtMost, var.clone()));
                self.facts.assume(Claim::new(var.clone(), Relation::Less, extent.clone()));
                at.push(var);
                let body = self.load_at(buffer, shape, rest, at);
                self.facts.pop();
                Ok(Term::Lookup(Box::new(index), (name, extent.clone()), Box::new(body?)))
            }
        }
    }

    pub(super) fn in_bounds(&mut self, index: &Dim, extent: &Dim) {
        self.needs("tir/out_of_bounds", Relation::AtMost, &Dim::Int(0), index);
        self.needs("tir/out_of_bounds", Relation::Less, index, extent);
    }

    /// Whether an integer is known to be an index below an extent.
    fn is_index(&mut self, place: &Term, index: &Term, extent: &Dim) -> bool {
        (self.at_least(place, 0) && self.below(place, extent))
            || self.is_guarded(place, extent)
            || self.is_checked(index, extent)
    }

    fn at_least(&mut self, term: &Term, bound: i64) -> bool {
        match term {
            Term::Extent(dim) => self.proves(&Claim::new(bound, Relation::AtMost, dim.clone())),
            Term::Apply(_, name, args) => match (name.as_str(), args.as_slice()) {
                (MINIMUM, [a, b]) => self.at_least(a, bound) && self.at_least(b, bound),
                (MAXIMUM, [a, b]) => self.at_least(a, bound) || self.at_least(b, bound),
                ("floor_mod", [_, b]) => bound <= 0 && self.is_positive(b),
                ("astype u64 i64", [a]) => {
                    bound <= 0 && self.at_least(a, 0) && self.below(a, &Dim::Int(i64::MAX))
                }
                _ => false,
            },
            Term::If(_, a, b) => self.at_least(a, bound) && self.at_least(b, bound),
            _ => false,
        }
    }

    fn below(&mut self, term: &Term, bound: &Dim) -> bool {
        match term {
            Term::Extent(dim) => {
                self.proves(&Claim::new(dim.clone(), Relation::Less, bound.clone()))
            }
            Term::Apply(_, name, args) => match (name.as_str(), args.as_slice()) {
                (MINIMUM, [a, b]) => self.below(a, bound) || self.below(b, bound),
                (MAXIMUM, [a, b]) => self.below(a, bound) && self.below(b, bound),
                ("floor_mod", [_, b]) => match dim_of(b) {
                    Some(dim) => {
                        let claim = Claim::new(dim, Relation::AtMost, bound.clone());
                        self.is_positive(b) && (*bound == Dim::Int(i64::MAX) || self.proves(&claim))
                    }
                    None => false,
                },
                ("astype u64 i64", [a]) => self.at_least(a, 0) && self.below(a, bound),
                _ => false,
            },
            Term::If(_, a, b) => self.below(a, bound) && self.below(b, bound),
            _ => false,
        }
    }

    fn is_positive(&mut self, term: &Term) -> bool {
        dim_of(term).is_some_and(|dim| self.proves(&Claim::new(1, Relation::AtMost, dim)))
    }

    /// Whether it stands where a condition says so.
    fn is_guarded(&mut self, place: &Term, extent: &Dim) -> bool {
        let known: Vec<(Term, Dim)> = self
            .path
            .iter()
            .filter(|(_, holds)| *holds)
            .filter_map(|(condition, _)| index_check(condition))
            .collect();
        known.iter().any(|(index, bound)| {
            (index == place || *index == without_casts(place.clone())) && bound == extent
        })
    }

    /// Whether a check before has looked at all elements of which it is one.
    fn is_checked(&mut self, index: &Term, extent: &Dim) -> bool {
        let Term::Read(name, at) = index else { return false };
        for (known, bound, binders) in self.checked.clone() {
            let Term::Read(other, places) = &known else { continue };
            if other != name || bound != *extent || places.len() != binders.len() {
                continue;
            }
            let all = places.iter().zip(at).zip(&binders).all(|((place, at), (var, n))| {
                *place == Dim::Var(var.clone())
                    && self.proves(&Claim::new(0, Relation::AtMost, at.clone()))
                    && self.proves(&Claim::new(at.clone(), Relation::Less, n.clone()))
            });
            if all {
                return true;
            }
        }
        false
    }
}

/// The dim that an integer is, in any dtype of 64 bits.
fn dim_of(term: &Term) -> Option<Dim> {
    match term {
        Term::Extent(dim) => Some(dim.clone()),
        Term::Apply(_, name, args) if name == "astype i64 u64" => dim_of(args.first()?),
        _ => None,
    }
}

/// The integer that a condition says to be an index below an extent.
pub(super) fn index_check(condition: &Condition) -> Option<(Term, Dim)> {
    let Condition::Both(low, high) = condition else { return None };
    let (Condition::Truth(low), Condition::Truth(high)) = (&**low, &**high) else { return None };
    let (Term::Apply(_, ge, a), Term::Apply(_, lt, b)) = (low, high) else { return None };
    let ([x, Term::Extent(Dim::Int(0))], [y, Term::Extent(extent)]) = (a.as_slice(), b.as_slice())
    else {
        return None;
    };
    let fits = ge == "greater_equal" && lt == "less" && x == y;
    fits.then(|| (without_casts(x.clone()), extent.clone()))
}

/// An index in a dtype that holds every number of another is the same index.
pub(crate) fn without_casts(index: Term) -> Term {
    if let Term::Apply(Domain::Ring, name, args) = &index
        && let Some((from, to)) = cast_of(name)
        && from.is_integer()
        && (widens(from, to) || (from, to) == (DType::U64, DType::I64))
        && let [inner] = args.as_slice()
    {
        return without_casts(inner.clone());
    }
    index
}

pub(crate) fn has_unwritten(term: &Term) -> bool {
    match term {
        Term::Apply(_, name, args) => name == UNWRITTEN || args.iter().any(has_unwritten),
        Term::If(_, a, b) => has_unwritten(a) || has_unwritten(b),
        Term::Fold(_, _, _, body) | Term::Lookup(_, _, body) => has_unwritten(body),
        _ => false,
    }
}

/// An element that nothing wrote.
pub(super) const UNWRITTEN: &str = "unwritten";

/// Dims for variables.
pub(super) type Map = BTreeMap<relax_syntax::Name, Dim>;
