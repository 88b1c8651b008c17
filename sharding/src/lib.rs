//! Floor 3: placements of distributed tensors. [`propagate`] chooses a placement for each value of a function, [`lower`]
//! makes of it one program that every rank of the mesh runs on its own shards, [`run`](mod@run) runs that program.
//!
//! Functions are operator calls, branches that all ranks take alike, and checks of what all have; anything else is refused with its place.

pub mod annotated;
mod beam;
mod branches;
mod calls;
pub mod data;
pub mod layout;
pub mod lower;
pub mod movement;
mod plan;
mod program;
pub mod propagate;
mod rewritten;
pub mod run;
pub mod signature;
pub mod tensor;

use relax_semantics::check::{Phase, check};
use relax_syntax::Name;
use relax_syntax::diagnostic::{Diagnostic, Severity};
use relax_syntax::facts::Facts;
use relax_syntax::ir::{Function, Module};
use std::collections::BTreeMap;

/// A function with its layouts, and its local program.
#[derive(Clone, Debug)]
pub struct Sharded {
    /// The layouts and redistributions.
    pub plan: propagate::Plan,
    /// The local program, checked.
    pub local: Module,
}

/// Shards a function of a checked module; costs are compared at `sizes` of symbolic dims.
///
/// # Errors
/// What is not supported, with its place.
pub fn shard(
    module: &Module,
    function: &Function,
    sizes: &BTreeMap<Name, i64>,
    facts: &mut dyn Facts,
) -> Result<Sharded, Diagnostic> {
    let plan = propagate::propagate(module, function, sizes, facts)?;
    let local = lower::lower(module, function, &plan, facts);
    let checked = check(&local, facts, Phase::Surface);
    let mut errors = checked.diagnostics.iter().filter(|found| found.severity == Severity::Error);
    if let Some(first) = errors.next() {
        let message = format!(
            "the local program of `{}` is not well-formed: {}",
            function.name, first.message
        );
        return Err(propagate::refused(first.primary.span, message));
    }
    Ok(Sharded { plan, local: checked.module })
}
