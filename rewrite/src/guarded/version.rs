//! One version of a function beside what is left of it.

use super::choose::guarded_body;
use super::specialize::{Specialized, specialize};
use super::{Guard, Way, are_tensors, make_private, repeated};
use crate::dims::assume_declared;
use crate::names::Names;
use relax_semantics::check::Checked;
use relax_syntax::Name;
use relax_syntax::annotation::Annotation;
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::facts::{Answer, Claim, Facts, Relation};
use relax_syntax::ir::{AttrValue, Function, attr};
use std::collections::BTreeMap;

/// Says that a function is what is left of one that has versions, and for what they were made.
pub(crate) const OTHERWISE: &str = "otherwise";
/// The greatest bound that is looked for.
const MOST: i64 = 1024;

/// A function for the dims at which a guard holds.
pub(crate) struct Version {
    /// A private function that declares the guard.
    pub(crate) special: Function,
    guard: Guard,
    /// What the function gives, where it is known: from the version the same is deduced in other words, as `0` for a dim
    /// that is.
    result: Option<Annotation>,
}

impl Version {
    /// `None` where nothing is asked for, or a declaration cannot say it.
    pub(crate) fn of(function: &Function, wanted: Vec<Claim>, checked: &Checked) -> Option<Self> {
        let mut guard = Guard::new();
        for claim in wanted {
            if !guard.contains(&claim) {
                guard.push(claim);
            }
        }
        if guard.is_empty() || attr(&function.lambda.attrs, "primitive").is_some() {
            return None;
        }
        let Specialized { function: mut special, assumed, .. } = specialize(function, &guard)?;
        let result = checked.results.get(&function.name).filter(|it| are_tensors(it))?;
        let result = repeated(result);
        make_private(&mut special);
        assumed.is_empty().then_some(Self { special, guard, result })
    }

    /// The function that chooses, the version, and what is called for all other dims, with its mark.
    pub(crate) fn beside(
        self,
        function: &Function,
        mark: AttrValue,
        names: &mut Names,
    ) -> [Function; 3] {
        let mut otherwise = function.clone();
        otherwise.name = names.numbered_from_one(&function.name);
        make_private(&mut otherwise);
        otherwise.lambda.attrs.retain(|(name, _)| *name != OTHERWISE);
        otherwise.lambda.attrs.push((Name::new(OTHERWISE), mark));
        let special =
            Way { name: self.special.name.clone(), guard: self.guard, result: self.result };
        let last = Way { name: otherwise.name.clone(), guard: Guard::new(), result: None };
        [guarded_body(function, &[special, last], names), self.special, otherwise]
    }
}

/// The claim as something that a signature can declare, or a bound from which it follows.
pub(crate) fn declarable(
    function: &Function,
    claim: &Claim,
    facts: &mut dyn Facts,
) -> Option<Claim> {
    let in_signature =
        |name: &&Name| function.dims.iter().any(|dim| dim.in_signature && dim.name == **name);
    let pair = broadcast_pair(claim);
    let claim = pair.as_ref().unwrap_or(claim);
    let names = claim.vars();
    if !names.iter().all(in_signature) {
        return None;
    }
    match (claim.relation, &claim.left, &claim.right) {
        (Relation::Equal, Dim::Var(_), Dim::Var(_) | Dim::Int(_))
        | (Relation::Equal, Dim::Int(_), Dim::Var(_)) => Some(claim.clone()),
        (Relation::Divides, Dim::Int(step), Dim::Var(_)) if *step > 1 => Some(claim.clone()),
        _ => match names.into_iter().collect::<Vec<_>>()[..] {
            [name] => bound(function, name, claim, facts),
            _ => None,
        },
    }
}

/// Of a broadcast that only the run decides, `(n - m) * (n - 1) * (m - 1) == 0`: the case of equal dims.
fn broadcast_pair(claim: &Claim) -> Option<Claim> {
    fn pair(dim: &Dim) -> Option<Claim> {
        let Dim::Op(op, operands) = dim else { return None };
        match (op, &operands.0, &operands.1) {
            (DimOp::Mul, a, b) => pair(a).or_else(|| pair(b)),
            (DimOp::Sub, a @ Dim::Var(_), b @ Dim::Var(_)) => {
                Some(Claim::new(a.clone(), Relation::Equal, b.clone()))
            }
            _ => None,
        }
    }
    let is_product = claim.relation == Relation::Equal && claim.right == Dim::Int(0);
    pair(&claim.left).filter(|_| is_product && matches!(claim.left, Dim::Op(DimOp::Mul, _)))
}

/// The weakest bound of the one variable of a claim that is proved to decide it: a lower one, else an upper one.
fn bound(function: &Function, name: &Name, claim: &Claim, facts: &mut dyn Facts) -> Option<Claim> {
    let holds = |value: i64| claim.holds(&BTreeMap::from([(name.clone(), value)])) == Some(true);
    let last_failure = (0..=MOST).rev().find(|&value| !holds(value));
    let first_failure = (0..=MOST).find(|&value| !holds(value));
    let var = Dim::Var(name.clone());
    let lower = last_failure.filter(|&last| last < MOST);
    let lower = lower.map(|last| Claim::new(last + 1, Relation::AtMost, var.clone()));
    let upper = first_failure.filter(|&first| first > 0);
    let upper = upper.map(|first| Claim::new(var, Relation::AtMost, first - 1));
    [lower, upper].into_iter().flatten().find(|bound| {
        facts.push();
        assume_declared(facts, &function.dims);
        facts.assume(bound.clone());
        let decides = facts.decide(claim) == Answer::Proved;
        facts.pop();
        decides
    })
}
