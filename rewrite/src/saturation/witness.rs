//! Whether a guard is ever taken: dims that satisfy what is known of a function's dims, the guard, and none of the
//! guards before it. Dims are looked for among samples first; then the prover is asked for some, with its solver
//! where it has one. Known is what is declared, and what the casts say that every call of the function passes.

use super::extract::Values;
use super::guards::holds;
use crate::dims::assume_declared;
use crate::guarded::Guard;
use relax_semantics::check::Checked;
use relax_syntax::Name;
use relax_syntax::annotation::{Annotation, Extents};
use relax_syntax::dim::Dim;
use relax_syntax::facts::{Answer, Claim, Facts, Relation};
use relax_syntax::ir::{Atom, Expr, Function};
use std::collections::BTreeMap;

/// What is known of the dims that take a version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Witness {
    /// These do.
    Dims(BTreeMap<Name, i64>),
    /// Whether there are any is not decided.
    Unknown,
}

/// What holds of the dims of a function, wherever its result is reached.
pub(super) fn known_of(function: &Function, checked: &Checked) -> Vec<Claim> {
    let mut claims = Vec::new();
    let Some(body) = &function.lambda.body else { return claims };
    let annotations = &checked.annotations[&function.name];
    let mut bound: BTreeMap<Name, Dim> = BTreeMap::new();
    for binding in body.blocks.iter().flat_map(|block| &block.bindings) {
        let Expr::MatchCast(Atom::Var(value), wanted) = &binding.expr else { continue };
        let of = |cast: &&relax_semantics::check::Cast| {
            cast.function == function.name && cast.var == binding.var
        };
        for (name, dim) in checked.casts.iter().filter(of).flat_map(|cast| &cast.binds) {
            bound.insert(name.clone(), dim.substitute(&bound));
        }
        equal_dims(&annotations[value.0 as usize], wanted, &bound, &mut claims);
    }
    claims
}

fn equal_dims(
    known: &Annotation,
    wanted: &Annotation,
    bound: &BTreeMap<Name, Dim>,
    claims: &mut Vec<Claim>,
) {
    let (Annotation::Tensor(known), Annotation::Tensor(wanted)) = (known, wanted) else { return };
    let (Extents::Known(known), Extents::Known(wanted)) = (&known.extents, &wanted.extents) else {
        return;
    };
    for (a, b) in known.iter().zip(wanted) {
        let (a, b) = (a.substitute(bound), b.substitute(bound));
        if a != b {
            claims.push(Claim::new(a, Relation::Equal, b));
        }
    }
}

/// Dims that take a version; `None` where it is proved that there are none.
pub(super) fn witness(
    function: &Function,
    known: &[Claim],
    (guard, before): (&Guard, &[&Guard]),
    samples: &[Values],
    facts: &mut dyn Facts,
) -> Option<Witness> {
    let takes = |values: &&Values| {
        holds(guard, values)
            && before.iter().all(|guard| !holds(guard, values))
            && known.iter().all(|claim| claim.holds(values) == Some(true))
    };
    if let Some(found) = samples.iter().find(takes) {
        return Some(Witness::Dims(found.clone()));
    }
    facts.push();
    assume_declared(facts, &function.dims);
    known.iter().chain(guard).for_each(|claim| facts.assume(claim.clone()));
    let found = beyond(function, before, facts);
    facts.pop();
    found
}

/// Dims that satisfy the facts and none of some guards: one part of each fails.
fn beyond(function: &Function, before: &[&Guard], facts: &mut dyn Facts) -> Option<Witness> {
    let Some((guard, rest)) = before.split_first() else { return asked(function, facts) };
    let mut found = None;
    for claim in *guard {
        facts.push();
        facts.assume(claim.opposite());
        let here = beyond(function, rest, facts);
        facts.pop();
        match here {
            Some(Witness::Dims(_)) => return here,
            Some(Witness::Unknown) => found = here,
            None => {}
        }
    }
    found
}

/// Whether the facts contradict each other, and dims that satisfy them.
fn asked(function: &Function, facts: &mut dyn Facts) -> Option<Witness> {
    match facts.decide(&Claim::new(1, Relation::AtMost, 0)) {
        Answer::Proved => None,
        Answer::Unknown => Some(Witness::Unknown),
        Answer::Refuted(mut values) => {
            let signature = function.dims.iter().filter(|dim| dim.in_signature);
            let names: Vec<&Name> = signature.map(|dim| &dim.name).collect();
            values.retain(|name, _| names.contains(&name));
            Some(Witness::Dims(values))
        }
    }
}
