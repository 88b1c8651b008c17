//! Where the dims of a failed check come from, for its message: read off the code that ran before it.

use super::Run;
use super::slots::load;
use crate::instruction::{Code, Instruction, Operand, Text};
use crate::stop::{Span, Stop, Trap};
use std::collections::{BTreeMap, BTreeSet};

/// A slot that took a dim of a value.
struct Origin {
    slot: i64,
    name: Text,
    by: String,
    span: Span,
}

impl Run<'_> {
    /// Tells of each variable that a slot was computed from which value it has, and from where.
    pub(super) fn with_origins(&self, stop: Stop, heap: Operand, slot: i64) -> Stop {
        let (Stop::Trap(mut trap), Ok(values)) = (stop, self.heap(heap, "match_shape")) else {
            return Stop::trap("builtin.match_shape/C1", "`heap` must be a shape heap");
        };
        for origin in self.origins(slot) {
            let Ok(Some(value)) = load(values, "match_shape", origin.slot) else { continue };
            tell(&mut trap, self.text(origin.name), value, &origin);
        }
        Stop::Trap(trap)
    }

    /// A trap that names no other place learns the variables of the frame on top.
    pub(super) fn with_variables(&self, stop: Stop) -> Stop {
        let Stop::Trap(mut trap) = stop else { return stop };
        // A declared bound names the variable itself, and a check of a tensor program has the values that it is about.
        let is_told = trap.id.starts_with("bound/") || trap.id.starts_with("tir/");
        if trap.function.is_none() && trap.places.is_empty() && !is_told {
            let variables: Vec<String> = self.variables().into_values().collect();
            if !variables.is_empty() {
                trap.notes.push(format!("here {}", variables.join(", ")));
            }
        }
        Stop::Trap(trap)
    }

    /// The variables of the frame on top that have a value, by name, as text with the value and where it comes from.
    fn variables(&self) -> BTreeMap<&str, String> {
        let Some(frame) = self.frames.last() else { return BTreeMap::new() };
        let ran = &frame.function.code[..frame.next.min(frame.function.code.len())];
        let mut found = BTreeMap::new();
        for instruction in ran {
            let Instruction::MatchShape { heap, codes, terms, label, .. } = instruction else {
                continue;
            };
            let Ok(values) = self.heap(*heap, "match_shape") else { continue };
            for (axis, code) in codes.iter().enumerate() {
                let (Code::Store(slot), Some(&name)) = (code, terms.get(axis)) else { continue };
                let Ok(Some(value)) = load(values, "match_shape", *slot) else { continue };
                let (name, about) = (self.text(name), self.text(label.about));
                found
                    .entry(name)
                    .or_insert_with(|| format!("{name} = {value} (dim {axis} of {about})"));
            }
        }
        found
    }

    fn origins(&self, slot: i64) -> Vec<Origin> {
        let Some(frame) = self.frames.last() else { return Vec::new() };
        let ran = &frame.function.code[..frame.next.min(frame.function.code.len())];
        let (mut wanted, mut seen, mut found) = (vec![slot], BTreeSet::new(), Vec::new());
        while let Some(slot) = wanted.pop() {
            if !seen.insert(slot) {
                continue;
            }
            for (at, instruction) in ran.iter().enumerate().rev() {
                match instruction {
                    Instruction::ComputeDim { slot: to, a, b, .. } if *to == slot => {
                        wanted.extend([b, a].into_iter().filter_map(slot_of));
                        break;
                    }
                    Instruction::MatchShape { codes, terms, label, .. } => {
                        let Some(axis) = codes.iter().position(|code| *code == Code::Store(slot))
                        else {
                            continue;
                        };
                        let Some(&name) = terms.get(axis) else { break };
                        let by = format!("dim {axis} of {}", self.text(label.about));
                        found.push(Origin { slot, name, by, span: frame.function.span_at(at) });
                        break;
                    }
                    _ => {}
                }
            }
        }
        found
    }
}

fn slot_of(code: &Code) -> Option<i64> {
    match code {
        Code::Slot(slot) => Some(*slot),
        _ => None,
    }
}

fn tell(trap: &mut Trap, name: &str, value: i64, origin: &Origin) {
    trap.notes.push(format!("{name} = {value} was bound by {}", origin.by));
    trap.places.push((origin.span, format!("{name} = {value} comes from here")));
}
