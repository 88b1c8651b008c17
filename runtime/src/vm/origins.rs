//! Where the dims of a failed check come from, for its message: read off the code that ran before it.

use super::Run;
use super::slots::load;
use crate::instruction::{Code, Instruction, Operand, Text};
use crate::stop::{Span, Stop, Trap};
use std::collections::BTreeSet;

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
