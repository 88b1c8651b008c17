//! Tensor programs whose results are not compared. That a program reads an uninitialized element shows in the elements of its
//! results. Where these are not compared, a trap of one side would not be found, and all of them must be known to be written.

use super::prove::Elements;
use super::stops::{Guard, Stop, Test};
use super::values::{Argument, Id, Table, Value};
use crate::denotation::program::has_unwritten;
use crate::denotation::ranges::assume_index;
use relax_syntax::Name;
use relax_syntax::dim::Dim;
use std::collections::BTreeSet;

/// Whether the results of each program that only one side runs are compared, or known to be written by it.
///
/// # Errors
/// Why there is no proof.
pub(super) fn all_compared(
    elements: &mut Elements,
    results: &[&Value],
    [before, after]: [&[Stop]; 2],
) -> Result<(), String> {
    let table = elements.table;
    let mut roots = Vec::new();
    results.iter().for_each(|value| note(value, &mut roots));
    before.iter().chain(after).for_each(|stop| note_read(stop, &mut roots));
    // What was proved equal on the way was compared.
    roots.extend((0..table.entries.len()).filter(|&id| table.is_merged(id)));
    let reached = reached(table, roots);
    for (stops, others) in [(before, after), (after, before)] {
        for stop in stops.iter().filter(|stop| !others.contains(stop)) {
            let Stop::Program(key, call) = stop.plain() else { continue };
            let parts = 0..call.program.buffers.len();
            let parts = parts.filter_map(|part| table.of_key(&format!("{key}#{part}")));
            let parts: Vec<Id> = parts.collect();
            let is_compared = parts.iter().any(|id| reached.contains(id));
            let is_written = |all: &[Id], elements: &mut Elements| {
                all.iter().all(|&id| elements.are_written(id))
            };
            if !is_compared && (parts.is_empty() || !is_written(&parts, elements)) {
                return Err(
                    "a program whose results are not used may read uninitialized elements".into()
                );
            }
        }
    }
    Ok(())
}

impl Elements<'_> {
    /// Whether something is known to be written to each element.
    fn are_written(&mut self, id: Id) -> bool {
        let table = self.table;
        let Some((dims, _)) = table.tensor(id) else { return false };
        let mut at = Vec::new();
        self.facts.push();
        for dim in dims.iter().cloned() {
            *self.fresh += 1;
            let binder: (Name, Dim) = (format!("o#{}", self.fresh).into(), dim);
            assume_index(&binder, &mut *self.facts);
            at.push(Dim::Var(binder.0));
        }
        let term = self.element(id, &at, true);
        self.facts.pop();
        term.is_ok_and(|term| !has_unwritten(&term))
    }
}

fn note(value: &Value, ids: &mut Vec<Id>) {
    match value {
        Value::Entry(id) => ids.push(*id),
        Value::Tuple(items) => items.iter().for_each(|item| note(item, ids)),
        _ => {}
    }
}

/// The entries that a stop is about, whose elements are compared with it.
fn note_read(stop: &Stop, ids: &mut Vec<Id>) {
    if let Stop::Guarded(guards, _) = stop {
        ids.extend(guards.iter().filter_map(|Guard { test, .. }| match test {
            Test::Element(id) => Some(*id),
            Test::Dims(_) => None,
        }));
    }
    if let Stop::Operator(_, applied) = stop.plain() {
        for arg in &applied.args {
            match arg {
                Argument::Tensor(id) => ids.push(*id),
                Argument::Tensors(all) => ids.extend(all),
                Argument::Known(_) => {}
            }
        }
    }
}

/// The entries that some are made of, by what was noted of each and of those that are equal to it.
fn reached(table: &Table, mut open: Vec<Id>) -> BTreeSet<Id> {
    let mut reached = BTreeSet::new();
    while let Some(id) = open.pop() {
        if reached.insert(id) {
            open.push(table.find(id));
            open.extend(table.entries[id].def.operands());
        }
    }
    reached
}
