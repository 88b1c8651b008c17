//! A function for the dims at which a guard holds: it declares the guard. What is equal to another dim is written as
//! that dim, a bound or divisor becomes one of the variable; so everything that reads the version, from deduction to
//! the kernels, knows what the guard knew. What a declaration cannot say is assumed by the search alone.

use super::Guard;
use crate::substitute::replace_dims;
use relax_syntax::Name;
use relax_syntax::dim::Dim;
use relax_syntax::facts::{Claim, Relation};
use relax_syntax::ir::{DimVar, Function};
use std::collections::BTreeMap;

/// A function that is called where a guard holds.
#[derive(Clone, Debug)]
pub(crate) struct Specialized {
    pub(crate) function: Function,
    /// What the declarations do not say of the guard.
    pub(crate) assumed: Guard,
    /// What was written for dims.
    pub(crate) dims: BTreeMap<Name, Dim>,
}

/// The function for dims at which a guard holds; `None` where a declaration would contradict another.
pub(crate) fn specialize(function: &Function, guard: &Guard) -> Option<Specialized> {
    let mut made =
        Specialized { function: function.clone(), assumed: Guard::new(), dims: BTreeMap::new() };
    for claim in guard {
        let side = |dim: &Dim| dim.substitute(&made.dims);
        let claim = Claim::new(side(&claim.left), claim.relation, side(&claim.right));
        made.declare(claim)?;
    }
    Some(made)
}

impl Specialized {
    fn declare(&mut self, claim: Claim) -> Option<()> {
        let Claim { left, relation, right } = &claim;
        match (relation, left, right) {
            (Relation::Equal, a, b) if a == b => {}
            (Relation::Equal, a, b) => {
                // The later variable goes, so that the earlier ones keep their places.
                match self.place(a).max(self.place(b)) {
                    Some(at) => {
                        let name = self.function.dims[at].name.clone();
                        let other = if *a == Dim::Var(name.clone()) { b } else { a };
                        return self.replace(&name, other.clone(), claim.clone());
                    }
                    None => self.assumed.push(claim),
                }
            }
            (Relation::AtMost, Dim::Var(name), Dim::Int(most)) => self.var(name)?.at_most(*most),
            (Relation::AtMost, Dim::Int(least), Dim::Var(name)) => {
                self.var(name)?.at_least(*least);
            }
            (Relation::Less, Dim::Var(name), Dim::Int(most)) => {
                self.var(name)?.at_most(most.checked_sub(1)?);
            }
            (Relation::Less, Dim::Int(least), Dim::Var(name)) => {
                self.var(name)?.at_least(least.checked_add(1)?);
            }
            (Relation::NotEqual, Dim::Var(name), Dim::Int(0)) => self.var(name)?.at_least(1),
            (Relation::Divides, Dim::Int(step), Dim::Var(name)) => self.var(name)?.step(*step)?,
            _ => self.assumed.push(claim),
        }
        self.function.dims.iter().all(has_value).then_some(())
    }

    /// The place of a variable of the signature.
    fn place(&self, dim: &Dim) -> Option<usize> {
        let Dim::Var(name) = dim else { return None };
        self.function.dims.iter().position(|dim| dim.in_signature && dim.name == *name)
    }

    fn var(&mut self, name: &Name) -> Option<Declared<'_>> {
        let mut dims = self.function.dims.iter_mut();
        dims.find(|dim| dim.in_signature && dim.name == *name).map(Declared)
    }

    /// Writes a dim in the place of a variable.
    fn replace(&mut self, name: &Name, dim: Dim, claim: Claim) -> Option<()> {
        let at = self.function.dims.iter().position(|own| own.name == *name)?;
        let own = self.function.dims[at].clone();
        match &dim {
            Dim::Int(value) if !admits(&own, *value) => return None,
            Dim::Int(_) => {}
            Dim::Var(other) => {
                let mut other = self.var(other)?;
                own.lower.into_iter().for_each(|least| other.at_least(least));
                own.upper.into_iter().for_each(|most| other.at_most(most));
                if let Some(step) = own.multiple_of {
                    other.step(step)?;
                }
            }
            // A sum may be negative, so that it is no extent by itself.
            Dim::Op(..) => {
                self.assumed.push(claim);
                return Some(());
            }
        }
        self.function.dims.remove(at);
        let one = BTreeMap::from([(name.clone(), dim.clone())]);
        self.dims.values_mut().for_each(|known| *known = known.substitute(&one));
        self.dims.insert(name.clone(), dim);
        replace_dims(&mut self.function, one);
        self.function.dims.iter().all(has_value).then_some(())
    }
}

/// A variable that learns more.
struct Declared<'d>(&'d mut DimVar);

impl Declared<'_> {
    fn at_least(&mut self, least: i64) {
        let known = self.0.lower.unwrap_or(0);
        if least > known {
            self.0.lower = Some(least);
        }
    }

    fn at_most(&mut self, most: i64) {
        self.0.upper = Some(self.0.upper.map_or(most, |known| known.min(most)));
    }

    fn step(&mut self, step: i64) -> Option<()> {
        let known = self.0.multiple_of.unwrap_or(1);
        if step < 1 {
            return None;
        }
        let (mut a, mut b) = (known, step);
        while b != 0 {
            (a, b) = (b, a % b);
        }
        self.0.multiple_of = Some(known.checked_mul(step / a)?);
        Some(())
    }
}

/// Whether a value satisfies what is declared.
pub(crate) fn admits(dim: &DimVar, value: i64) -> bool {
    dim.lower.unwrap_or(0).max(0) <= value
        && dim.upper.is_none_or(|upper| value <= upper)
        && dim.multiple_of.is_none_or(|step| value % step == 0)
}

/// Whether some value does.
fn has_value(dim: &DimVar) -> bool {
    let (low, step) = (dim.lower.unwrap_or(0).max(0), dim.multiple_of.unwrap_or(1).max(1));
    let Some(up) = low.checked_add(step - 1) else { return false };
    admits(dim, up - up % step)
}
