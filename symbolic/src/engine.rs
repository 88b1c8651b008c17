//! From dims to canonical polynomials under the facts of a context.
//!
//! Normalization takes every divisor to be nonzero and lists those that are not obviously so; a
//! claim is proved only when each of them is proved nonzero too.

use crate::atoms::{Atom, Atoms};
use crate::context::Context;
use crate::intervals::Bounds;
use crate::journal::{Event, Journal};
use crate::lemmas::Lemmas;
use crate::polynomial::{AtomId, Poly};
use crate::thorough::Reach;
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::facts::{Claim, Relation};
use std::collections::BTreeMap;

/// How deep a dim may nest to be looked at.
const MAX_DEPTH: usize = 200;
/// How many operations a dim may have to be looked at.
const MAX_SIZE: usize = 1500;

/// The table of atoms and the work that is left for the current question.
#[derive(Clone, Debug, Default)]
pub(crate) struct Engine {
    pub(crate) atoms: Atoms,
    /// Steps left; at 0 everything undecided is unknown.
    pub(crate) fuel: u32,
    pub(crate) journal: Journal,
    pub(crate) lemmas: Lemmas,
    pub(crate) reach: Reach,
    divisors: Vec<Poly>,
}

impl Engine {
    /// Uses up `steps`; `None` when none are left.
    pub(crate) fn spend(&mut self, steps: usize) -> Option<()> {
        let steps = u32::try_from(steps).ok()?;
        match self.fuel.checked_sub(steps) {
            Some(left) => {
                self.fuel = left;
                Some(())
            }
            None => {
                self.fuel = 0;
                None
            }
        }
    }

    /// Bounds under the facts of `context`.
    pub(crate) fn bounds<'a>(&'a self, context: &'a Context) -> Bounds<'a> {
        Bounds::new(&self.atoms, context)
    }

    /// The canonical form of `dim` and the divisors in it, inner ones first.
    pub(crate) fn canonical(&mut self, context: &Context, dim: &Dim) -> Option<(Poly, Vec<Poly>)> {
        if !is_moderate(dim) {
            return None;
        }
        self.divisors.clear();
        let poly = self.polynomial(context, dim)?;
        Some((poly, std::mem::take(&mut self.divisors)))
    }

    /// The polynomial that a claim is about (`left - right == 0` or `!= 0`, `right - left >= 0`,
    /// `right - left - 1 >= 0`, remainder `== 0`), and the divisors, inner ones first.
    pub(crate) fn claimed(
        &mut self,
        context: &Context,
        claim: &Claim,
    ) -> Option<(Poly, Vec<Poly>)> {
        let (left, mut divisors) = self.canonical(context, &claim.left)?;
        let (right, more) = self.canonical(context, &claim.right)?;
        divisors.extend(more);
        let poly = match claim.relation {
            Relation::Equal | Relation::NotEqual => left.sub(&right)?,
            Relation::AtMost => right.sub(&left)?,
            Relation::Less => right.sub(&left)?.plus(-1)?,
            Relation::Divides => {
                if left.as_constant().is_none_or(|value| value == 0) {
                    divisors.push(left.clone());
                }
                let quotient = self.floor_div(context, &right, &left)?;
                right.sub(&left.mul(&quotient)?)?
            }
        };
        Some((self.reduced(context, poly)?, divisors))
    }

    fn polynomial(&mut self, context: &Context, dim: &Dim) -> Option<Poly> {
        self.spend(1)?;
        match dim {
            Dim::Int(value) => Some(Poly::constant(i128::from(*value))),
            Dim::Var(name) => {
                let id = self.atoms.intern(Atom::Var(name.clone()))?;
                Some(self.value_of(context, id))
            }
            Dim::Op(op, operands) => {
                let a = self.polynomial(context, &operands.0)?;
                let b = self.polynomial(context, &operands.1)?;
                self.operation(context, *op, &a, &b)
            }
        }
    }

    fn operation(&mut self, context: &Context, op: DimOp, a: &Poly, b: &Poly) -> Option<Poly> {
        self.spend(a.terms().len() + b.terms().len())?;
        if matches!(op, DimOp::FloorDiv | DimOp::FloorMod | DimOp::CeilDiv)
            && b.as_constant().is_none_or(|value| value == 0)
        {
            self.divisors.push(b.clone());
        }
        if op == DimOp::Mul {
            self.spend(a.terms().len() * b.terms().len())?;
        }
        self.combined(context, op, a, b)
    }

    /// The operation on canonical polynomials.
    pub(crate) fn combined(
        &mut self,
        context: &Context,
        op: DimOp,
        a: &Poly,
        b: &Poly,
    ) -> Option<Poly> {
        let poly = match op {
            DimOp::Add => a.add(b),
            DimOp::Sub => a.sub(b),
            DimOp::Mul => a.mul(b),
            DimOp::FloorDiv => self.floor_div(context, a, b),
            DimOp::FloorMod => a.sub(&b.mul(&self.floor_div(context, a, b)?)?),
            DimOp::CeilDiv => self.floor_div(context, &a.scale(-1)?, b)?.scale(-1),
            DimOp::Min => self.least(context, vec![a.clone(), b.clone()]),
            DimOp::Max => self.greatest(context, vec![a.clone(), b.clone()]),
        };
        self.reduced(context, poly?)
    }

    /// The atom, or what an equation says that it is.
    pub(crate) fn value_of(&self, context: &Context, id: AtomId) -> Poly {
        context.solved.get(&id).cloned().unwrap_or_else(|| Poly::atom(id))
    }

    /// `poly` with all solved atoms replaced, canonical again.
    pub(crate) fn rebuild(&mut self, context: &Context, poly: &Poly) -> Option<Poly> {
        self.rebuild_with(context, poly, &mut BTreeMap::new())
    }

    fn rebuild_with(
        &mut self,
        context: &Context,
        poly: &Poly,
        done: &mut BTreeMap<AtomId, Poly>,
    ) -> Option<Poly> {
        if !self.is_outdated(context, poly) {
            return Some(poly.clone());
        }
        let mut sum = Poly::default();
        for (mono, coefficient) in poly.terms() {
            let mut product = Poly::constant(*coefficient);
            for &id in mono.atoms() {
                let value = self.rebuild_atom(context, id, done)?;
                self.spend(product.terms().len() * value.terms().len())?;
                product = product.mul(&value)?;
            }
            sum = sum.add(&product)?;
        }
        self.reduced(context, sum)
    }

    /// Whether an equation rewrites something in `poly`.
    pub(crate) fn is_outdated(&self, context: &Context, poly: &Poly) -> bool {
        let mut ids = poly.terms().iter().flat_map(|(mono, _)| mono.atoms());
        ids.any(|&id| self.is_atom_outdated(context, id)) || context.ideal.rewrites(poly)
    }

    /// Whether an equation rewrites the atom or something inside it.
    pub(crate) fn is_atom_outdated(&self, context: &Context, id: AtomId) -> bool {
        let is_solved = |inner: &AtomId| context.solved.contains_key(inner);
        let is_rewritten = |inner: &AtomId| {
            self.atoms.at(*inner).operands().iter().any(|poly| context.ideal.rewrites(poly))
        };
        let inside = self.atoms.inside(id);
        (!context.solved.is_empty() && inside.iter().any(is_solved))
            || (!context.ideal.is_empty() && inside.iter().any(is_rewritten))
    }

    fn rebuild_atom(
        &mut self,
        context: &Context,
        id: AtomId,
        done: &mut BTreeMap<AtomId, Poly>,
    ) -> Option<Poly> {
        if let Some(value) = context.solved.get(&id).or_else(|| done.get(&id)) {
            return Some(value.clone());
        }
        if !self.is_atom_outdated(context, id) {
            return Some(Poly::atom(id));
        }
        self.spend(1)?;
        let value = match self.atoms.at(id).clone() {
            Atom::Var(_) | Atom::Quotient { .. } => Poly::atom(id),
            Atom::Div(numerator, divisor) => {
                let numerator = self.rebuild_with(context, &numerator, done)?;
                let divisor = self.rebuild_with(context, &divisor, done)?;
                self.floor_div(context, &numerator, &divisor)?
            }
            Atom::Min(args) => {
                let args = args.iter().map(|arg| self.rebuild_with(context, arg, done));
                let args = args.collect::<Option<Vec<_>>>()?;
                self.least(context, args)?
            }
            Atom::Max(args) => {
                let args = args.iter().map(|arg| self.rebuild_with(context, arg, done));
                let args = args.collect::<Option<Vec<_>>>()?;
                self.greatest(context, args)?
            }
        };
        let own = self.atoms.at(id).clone();
        self.note(|| Event::Value(own, value.clone()));
        done.insert(id, value.clone());
        Some(value)
    }

    /// The atom as a polynomial, or what an equation says that it is.
    pub(crate) fn interned(&mut self, context: &Context, atom: Atom) -> Option<Poly> {
        let id = self.atoms.intern(atom)?;
        Some(self.value_of(context, id))
    }
}

/// Whether `dim` is small enough to be looked at; walks without recursion.
pub(crate) fn is_moderate(dim: &Dim) -> bool {
    let mut stack = vec![(dim, 0)];
    let mut size = 0;
    while let Some((dim, depth)) = stack.pop() {
        size += 1;
        if size > MAX_SIZE || depth > MAX_DEPTH {
            return false;
        }
        if let Dim::Op(_, operands) = dim {
            stack.push((&operands.0, depth + 1));
            stack.push((&operands.1, depth + 1));
        }
    }
    true
}
