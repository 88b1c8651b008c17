//! Reads of uninitialized elements, which stop a program. A term of a result does not show all of them: what was read may be written
//! over, or lie in a part that nothing uses. So programs that only one side runs must be known to read none, by themselves.

use super::Filled;
use super::metered::Metered;
use super::stops::{Guard, Stop, Test};
use super::values::{Call, Def, Entry, Id, Table};
use relax_syntax::ir::tensor::BufferId;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What is known of calls of tensor programs.
struct Reads<'a> {
    table: &'a Table,
    prover: &'a mut dyn FnMut() -> Metered,
    asked: Filled,
    /// For each call, by its address, parameters that it fills; none where it may read an uninitialized element of its own.
    filled: BTreeMap<*const Call, Option<BTreeSet<BufferId>>>,
}

/// Whether nothing that one side alone runs reads an uninitialized element: no program, no operator and no branch. What both sides run does so on
/// both.
///
/// # Errors
/// Why there is no proof.
pub(super) fn none_is_read(
    table: &Table,
    [before, after]: [&[Stop]; 2],
    prover: &mut dyn FnMut() -> Metered,
    filled: Filled,
) -> Result<(), String> {
    let mut reads = Reads { table, prover, asked: filled, filled: BTreeMap::new() };
    for (stops, others) in [(before, after), (after, before)] {
        for stop in stops.iter().filter(|stop| !others.contains(stop)) {
            if let Stop::Program(_, call) = stop.plain() {
                let given = call.buffers.iter().flatten();
                if reads.filled(call).is_none() || !given.copied().all(|id| reads.is_filled(id)) {
                    return Err("a program may read uninitialized elements".into());
                }
            }
            if let Stop::Guarded(guards, _) = stop {
                let mut asked = guards.iter().filter_map(|Guard { test, .. }| match test {
                    Test::Element(id) => Some(*id),
                    Test::Dims(_) => None,
                });
                if !asked.all(|id| reads.is_filled(id)) {
                    return Err("a condition may be an uninitialized element".into());
                }
            }
        }
    }
    let is_alone =
        |entry: &&Entry| matches!(entry.def, Def::Operator(..)) && entry.runs != [true; 2];
    let mut operators = table.entries.iter().filter(is_alone);
    if !operators.all(|entry| entry.def.operands().into_iter().all(|id| reads.is_filled(id))) {
        return Err("an operator may read uninitialized elements".into());
    }
    Ok(())
}

impl Reads<'_> {
    /// The parameters that a call fills of those that hold nothing before; nothing where it may read an uninitialized element.
    fn filled(&mut self, call: &Arc<Call>) -> Option<&BTreeSet<BufferId>> {
        let key = Arc::as_ptr(call);
        if !self.filled.contains_key(&key) {
            let empty = call.program.buffer_params().zip(&call.buffers);
            let empty = empty.filter(|(_, held)| held.is_none()).map(|(id, _)| id).collect();
            let known = (self.asked)(&call.program, &empty, &mut (self.prover)());
            self.filled.insert(key, known);
        }
        self.filled[&key].as_ref()
    }

    /// Whether every element of an entry is initialized. What a function is given is, what operators give, and what a function gives that is
    /// not looked into.
    fn is_filled(&mut self, mut id: Id) -> bool {
        loop {
            match &self.table.entries[id].def {
                Def::Opaque | Def::Constant(_) | Def::Operator(..) => return true,
                Def::Unseen | Def::Unwritten => return false,
                Def::Choice(condition, then, otherwise) => {
                    return [*condition, *then, *otherwise]
                        .into_iter()
                        .all(|part| self.is_filled(part));
                }
                Def::Program(call, at) => match call.buffers[*at] {
                    // What it does not write stays.
                    Some(before) => id = before,
                    None => {
                        let buffer = call.program.buffer_params().nth(*at);
                        let filled = self.filled(call);
                        return filled.zip(buffer).is_some_and(|(all, id)| all.contains(&id));
                    }
                },
            }
        }
    }
}
