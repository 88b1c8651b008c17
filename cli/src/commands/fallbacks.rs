//! Operators that stay with the reference library, as diagnostics.

use crate::exit::Exit;
use crate::report::show_diagnostics;
use crate::terminal::{Terminal, Verbosity};
use relax_driver::{Target, lower};
use relax_program::frontend::Program;
use relax_rewrite::fallback::{Fallback, Fallbacks};
use relax_rewrite::pass::Settings;
use relax_rewrite::pipeline::Unwatched;
use relax_semantics::check::Phase;
use relax_syntax::diagnostic::Diagnostic;

/// The host function that interprets an operator.
pub(super) const RUN_OPERATOR: &str = "builtin.run_operator";

/// Whether such calls are allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Policy {
    Warn,
    Deny,
}

/// Shows the calls: as warnings, or as errors where they are denied.
pub(super) fn show_fallbacks(
    found: &[Fallback],
    policy: Policy,
    program: &Program,
    terminal: &mut Terminal,
) -> Exit {
    if policy == Policy::Warn && terminal.verbosity == Verbosity::Quiet {
        return Exit::Fine;
    }
    let as_policy = |diagnostic: Diagnostic| match policy {
        Policy::Warn => diagnostic.as_warning(),
        Policy::Deny => diagnostic,
    };
    let all: Vec<_> = found.iter().map(|call| as_policy(call.diagnostic())).collect();
    show_diagnostics(terminal, &program.source, &all)
}

/// What a build of a well-formed program would leave to the reference library.
pub(super) fn of_build(program: &Program) -> Vec<Fallback> {
    if Phase::of_module(&program.module).is_ok_and(|phase| phase >= Phase::P21) {
        return Vec::new();
    }
    let mut unwatched = Unwatched;
    let mut watch = Fallbacks::before(&mut unwatched);
    // `relax build` reports a program that a pass refuses.
    let _ = lower(&Target::default(), &program.module, &Settings::default(), &mut watch);
    watch.found
}
