//! What one side of a comparison leaves for the other one: values that have the same place in both are compared, and what
//! is equal is one entry from there on, so that what is made of them is compared no deeper.

use super::evaluate::{Scope, Side};
use super::values::{Id, Value};
use relax_syntax::Name;
use relax_syntax::ir::Atom;
use std::collections::BTreeMap;

/// What one side computes on its way, for the other one to compare its own values with.
#[derive(Default)]
pub(super) struct Trace {
    /// What the bindings of the function itself hold, by their names.
    pub(super) bound: BTreeMap<Name, Value>,
    /// What is left in memory by each call in place of the function itself, by the names of variables, in order.
    pub(super) written: BTreeMap<Name, Vec<Id>>,
    /// The arguments of each call with an effect.
    pub(super) handed: Vec<Vec<Value>>,
}

impl Side<'_> {
    /// Whether what is equal here is so everywhere: nothing was learnt of the branches around.
    pub(super) fn may_meet(&self) -> bool {
        self.branch.is_empty() || !self.learnt
    }

    /// What a call in place left in memory that variables of the function itself name.
    pub(super) fn note_written(&mut self, scope: &Scope, args: &[Atom], before: &[Id]) {
        if self.stack.len() != 1 || !self.may_meet() {
            return;
        }
        for arg in args {
            let Atom::Var(var) = arg else { continue };
            let Some(Value::Cell(cell)) = scope.vars.get(var) else { continue };
            let id = self.cells[*cell];
            if before[*cell] == id {
                continue;
            }
            let name = &scope.function.var(*var).name;
            let count = self.trace.written.get(name).map_or(0, Vec::len);
            let known = self.cut.and_then(|cut| cut.written.get(name)?.get(count));
            if let Some(&known) = known {
                self.meet(&Value::Entry(known), &Value::Entry(id));
            }
            self.trace.written.entry(name.clone()).or_default().push(id);
        }
    }

    /// What a call with an effect is given: what is equal to what the same call of the other side is given is one entry.
    pub(super) fn meet_handed(&mut self, args: &[Value]) {
        let args: Vec<Value> = args.iter().map(|arg| self.settled(arg.clone())).collect();
        let known = self.cut.and_then(|cut| cut.handed.get(self.trace.handed.len()));
        if let Some(known) = known.filter(|known| known.len() == args.len() && self.may_meet()) {
            known.iter().zip(&args).for_each(|(known, arg)| self.meet(known, arg));
        }
        self.trace.handed.push(args);
    }
}
