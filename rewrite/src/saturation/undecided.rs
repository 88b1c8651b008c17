//! What is worth a search of its own: conditions of rules that hold for some dims only, as guards over the dims of a
//! signature. A condition that is no comparison is asked for what would decide it: `n // 4 * 4 == n` asks for
//! `n % 4 == 0`.

use super::solve::Solved;
use crate::dims::assume_declared;
use crate::guarded::Guard;
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::facts::{Answer, Claim, Facts, Relation};
use relax_syntax::ir::Function;
use std::collections::BTreeMap;
use std::rc::Rc;

/// The most guards of a function for which it is searched again.
const MOST_GUARDS: usize = 6;
/// The most variables that a claim compares.
const MOST_VARIABLES: usize = 2;

/// Guards over the dims of the signature, the ones that were wanted most often first.
pub(super) fn undecided(
    function: &Function,
    visited: &[Rc<Solved>],
    facts: &mut dyn Facts,
) -> Vec<Guard> {
    let mut wanted: BTreeMap<&Guard, usize> = BTreeMap::new();
    for solved in visited {
        for (guard, count) in &solved.saturated.undecided {
            *wanted.entry(guard).or_default() += count;
        }
    }
    facts.push();
    assume_declared(facts, &function.dims);
    let mut found: BTreeMap<Guard, usize> = BTreeMap::new();
    for (guard, count) in wanted {
        let claims = guard.iter().map(|claim| comparison(function, claim, facts));
        if let Some(mut guard) = claims.collect::<Option<Guard>>() {
            guard.sort();
            guard.dedup();
            *found.entry(guard).or_default() += count;
        }
    }
    let mut found: Vec<(Guard, usize)> = found.into_iter().collect();
    found.sort_by(|(a, x), (b, y)| (a.len(), y, a).cmp(&(b.len(), x, b)));
    let mut guards: Vec<Guard> = Vec::new();
    for (guard, _) in found {
        let known = guards.iter().any(|known| are_equivalent(known, &guard, facts));
        if !known && guards.len() < MOST_GUARDS {
            guards.push(guard);
        }
    }
    facts.pop();
    guards
}

/// Whether each of two guards is proved where the other holds.
fn are_equivalent(a: &Guard, b: &Guard, facts: &mut dyn Facts) -> bool {
    let mut implies = |a: &Guard, b: &Guard| {
        facts.push();
        a.iter().for_each(|claim| facts.assume(claim.clone()));
        let implied = b.iter().all(|claim| facts.decide(claim) == Answer::Proved);
        facts.pop();
        implied
    };
    implies(a, b) && implies(b, a)
}

/// The claim as a comparison, equality or divisibility of dims of the signature, or one that decides it.
fn comparison(function: &Function, claim: &Claim, facts: &mut dyn Facts) -> Option<Claim> {
    if let Some(found) = is_simple(function, claim) {
        return Some(found);
    }
    facts.missing(claim).iter().find_map(|missing| is_simple(function, missing))
}

fn is_simple(function: &Function, claim: &Claim) -> Option<Claim> {
    let mut names = claim.vars();
    let in_signature = |name: &&relax_syntax::Name| {
        function.dims.iter().any(|dim| dim.in_signature && dim.name == **name)
    };
    let fine = !names.is_empty()
        && names.iter().all(in_signature)
        && is_linear(&claim.left)
        && is_linear(&claim.right);
    let few = names.len() <= MOST_VARIABLES;
    names.clear();
    let (left, right) = (claim.left.clone(), claim.right.clone());
    let found = match claim.relation {
        // What is empty costs nothing anyway.
        Relation::Equal if left.as_int() == Some(0) || right.as_int() == Some(0) => return None,
        Relation::Equal
            if left.as_int().is_some() || (right.as_int().is_none() && right < left) =>
        {
            Claim::new(right, Relation::Equal, left)
        }
        Relation::Divides if left.as_int().is_none_or(|step| step < 2) => return None,
        relation => Claim::new(left, relation, right),
    };
    (fine && few).then_some(found)
}

/// A variable, a literal, or a sum or multiple of such.
fn is_linear(dim: &Dim) -> bool {
    match dim {
        Dim::Int(_) | Dim::Var(_) => true,
        Dim::Op(DimOp::Add | DimOp::Sub, operands) => {
            is_linear(&operands.0) && is_linear(&operands.1)
        }
        Dim::Op(DimOp::Mul, operands) => {
            let literal = operands.0.as_int().is_some() || operands.1.as_int().is_some();
            literal && is_linear(&operands.0) && is_linear(&operands.1)
        }
        Dim::Op(..) => false,
    }
}
