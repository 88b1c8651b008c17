//! Guards of the trace: those that the bounds and other guards imply are dropped, those that operators check anyway are not
//! required, and the rest are checked where the program begins.

use super::description::{Guard, GuardOrigin};
use super::walk::{Walk, printable};
use crate::argument::{Arg, key};
use crate::builder::{Builder, Line};
use crate::reason::{Done, unsupported};
use relax_syntax::dim::Dim;
use relax_syntax::dtype::DType;
use relax_syntax::facts::{Claim, Facts, Relation};

const COMPARED: usize = 64;

impl<'d> Walk<'d> {
    pub(crate) fn guards(&mut self, guards: &'d [Guard]) -> Done<()> {
        let mut required = Vec::new();
        for guard in guards {
            let text = printable(&guard.text);
            if guard.origin == GuardOrigin::Operator {
                self.notes
                    .push(format!("guard `{text}`: not required, operators check what they need"));
                continue;
            }
            let Some(claim) = &guard.claim else {
                return unsupported(format!(
                    "the guard `{text}` has a form that a description cannot say ({})",
                    guard.at.as_deref().unwrap_or("of unknown place")
                ));
            };
            let claim = self.claim(claim)?;
            if self.builder.proves(&claim) {
                self.notes.push(format!("guard `{text}`: implied by the bounds of the dims"));
                continue;
            }
            required.push((guard, claim));
        }
        let required = self.drop_specializations(required);
        let kept = self.minimal(&required);
        for ((guard, claim), kept) in required.iter().zip(kept) {
            let text = printable(&guard.text);
            if !kept {
                self.notes.push(format!("guard `{text}`: implied by other guards"));
                continue;
            }
            let place = guard.at.as_deref().map_or_else(String::new, |at| format!(" ({at})"));
            let message = format!("the model was exported for {text}{place}");
            require(&mut self.builder, claim, &message)?;
        }
        Ok(())
    }

    /// Leaves out what PyTorch's C++ asks and what says nothing but that no size is 0 or 1, where the other guards hold: PyTorch
    /// traces with sizes of 2 and more, which is no bound of the program.
    fn drop_specializations(&mut self, guards: Vec<(&'d Guard, Claim)>) -> Vec<(&'d Guard, Claim)> {
        let is_asked_in_calls = |guard: &Guard| guard.origin == GuardOrigin::Dispatcher;
        self.builder.facts.push();
        for (guard, claim) in &guards {
            if !is_asked_in_calls(guard) {
                self.builder.facts.assume(claim.clone());
            }
            for name in claim.vars() {
                let least = Claim::new(2, Relation::AtMost, Dim::Var(name.clone()));
                self.builder.facts.assume(least);
            }
        }
        let mut kept = Vec::new();
        for (guard, claim) in guards {
            if is_asked_in_calls(guard) && self.builder.proves(&claim) {
                let text = printable(&guard.text);
                let note =
                    format!("guard `{text}`: not required, it holds for all sizes of 2 and more");
                self.notes.push(note);
            } else {
                kept.push((guard, claim));
            }
        }
        self.builder.facts.pop();
        kept
    }

    fn minimal(&mut self, guards: &[(&Guard, Claim)]) -> Vec<bool> {
        let mut kept = vec![true; guards.len()];
        if guards.len() > COMPARED {
            return kept;
        }
        for place in (0..guards.len()).rev() {
            self.builder.facts.push();
            for (other, (_, claim)) in guards.iter().enumerate() {
                if other != place && kept[other] {
                    self.builder.facts.assume(claim.clone());
                }
            }
            kept[place] = !self.builder.proves(&guards[place].1);
            self.builder.facts.pop();
        }
        kept
    }
}

/// Stops the program with a message where a claim does not hold.
pub(crate) fn require(builder: &mut Builder, claim: &Claim, message: &str) -> Done<()> {
    if builder.proves(claim) {
        return Ok(());
    }
    let left = builder.integers(vec![claim.left.clone()], 0, DType::I64);
    let right = builder.integers(vec![claim.right.clone()], 0, DType::I64);
    let operator = match claim.relation {
        Relation::Equal => "equal",
        Relation::NotEqual => "not_equal",
        Relation::AtMost => "less_equal",
        Relation::Less => "less",
        Relation::Divides => return unsupported("a guard of divisibility"),
    };
    let condition = builder.call(operator, &[left.into(), right.into()])?;
    assert(builder, condition.into(), message);
    Ok(())
}

/// Stops the program with a message unless a bool of rank 0 is true.
pub(crate) fn assert(builder: &mut Builder, condition: Arg, message: &str) {
    let message: String = printable(message).replace(['{', '}'], "");
    builder.lines.push(Line::Assert { condition, message: key("format", message.as_str()) });
}
