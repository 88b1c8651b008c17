//! Whether rules see operators as their tensor programs compute them.

use super::evaluate::Side;
use super::metered::Metered;
use super::prove::Elements;
use super::signature_facts;
use super::values::{Def, Table};
use super::{FUEL, Outcome};
use crate::denotation::fuel;
use relax_syntax::facts::Facts;
use relax_syntax::ir::{Function, Module};

/// Compares the two denotations of each call of an operator in a function: the one that rules are proved with, and that of
/// the tensor program of the operator's row. Each is compared element by element, for all shapes; no proof where one of
/// them is not known.
pub fn compare_meanings(
    module: &Module,
    function: &Function,
    prover: &mut dyn FnMut() -> Box<dyn Facts>,
) -> Vec<(&'static str, Outcome)> {
    let (mut table, mut facts) = (Table::default(), Metered(prover()));
    let mut side = Side::new(module, module, &mut table, &mut facts, None, 0);
    if let Err(why) = side.run(function) {
        return vec![("", Outcome::Unproved(why))];
    }
    let mut fresh = side.fresh + 1_000_000;
    signature_facts(function, &mut facts);
    let mut outcomes = Vec::new();
    for id in 0..table.entries.len() {
        let Def::Operator(applied, _) = &table.get(id).def else { continue };
        let mut elements = Elements::new(&table, &mut facts, &mut fresh);
        let (outcome, _) = fuel::limited(FUEL, || elements.is_seen_alike(id));
        let outcome = outcome.map_or_else(Outcome::Unproved, |()| Outcome::Proved);
        outcomes.push((applied.row.name, outcome));
    }
    outcomes
}
