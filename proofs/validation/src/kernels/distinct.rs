//! Iterations that may run at the same time write different elements. The witness is the inverse map: from equal
//! indices it follows that the variable of the loop is equal.

use super::Found;
use super::scope::Scope;
use super::values::is_of_values;
use super::walk::Store;
use crate::obligation::Outcome;
use relax_syntax::Name;
use relax_syntax::dim::Dim;
use relax_syntax::facts::{Claim, Relation};
use relax_syntax::ir::TensorProgram;
use std::collections::BTreeMap;

/// What is appended to the name of a variable in the other iteration.
const OTHER: &str = " other";

pub(super) fn obligations(
    program: &TensorProgram,
    stores: &[Store],
    scope: &mut Scope,
) -> Vec<Found> {
    let mut found = Vec::new();
    for store in stores {
        for at in store.allocated..store.loops.len() {
            let around = &store.loops[at];
            if !around.concurrent && !is_spatial(store, &around.name) {
                continue;
            }
            let outcome = tells_apart(store, at, scope);
            let (buffer, var) =
                (&program.buffer(store.buffer).name, &program.scalar(around.var).name);
            let place = format!("access {}, `{buffer}`", store.number);
            found.push((place, format!("different `{var}` write different elements"), outcome));
        }
    }
    found
}

/// A loop variable that occurs in an index, or in a spatial axis.
fn is_spatial(store: &Store, name: &Name) -> bool {
    let mut occurs = false;
    let dims = store.indices.iter().flatten().chain(&store.spatial);
    dims.for_each(|dim| dim.visit_vars(&mut |var| occurs |= var == name));
    occurs
}

fn tells_apart(store: &Store, at: usize, scope: &mut Scope) -> Outcome {
    let Some(indices) = &store.indices else {
        return Outcome::Unproved("an index is no index arithmetic".to_owned());
    };
    // Loops around are in the same iteration.
    let inner = store.loops[at..].iter();
    let other: BTreeMap<Name, Dim> = inner
        .map(|around| (around.name.clone(), Dim::Var(Name::new(format!("{}{OTHER}", around.name)))))
        .collect();
    scope.facts.push();
    for claim in store.known.iter().filter(|claim| !is_of_values(claim)) {
        scope.facts.assume(claim.clone());
    }
    let inner = store.known[store.loops[at].known..].iter();
    for claim in inner.filter(|claim| !is_of_values(claim)) {
        scope.facts.assume(claim.substitute(&other));
    }
    for index in indices {
        scope.facts.assume(Claim::new(index.clone(), Relation::Equal, index.substitute(&other)));
    }
    let name = &store.loops[at].name;
    let same = Claim::new(Dim::Var(name.clone()), Relation::Equal, other[name].clone());
    let proved = scope.proves(&same);
    scope.facts.pop();
    if proved {
        Outcome::Proved
    } else {
        Outcome::Unproved("two iterations may write one element".to_owned())
    }
}
