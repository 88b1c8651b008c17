//! What a build leaves to the slow way, as diagnostics: operators that stay with the reference library, and `parallel` loops on one thread.

use crate::exit::Exit;
use crate::report::show_diagnostics;
use crate::terminal::{Terminal, Verbosity};
use relax_driver::{Target, lower};
use relax_lower::passes::parallelize_loops::loops_on_one_thread;
use relax_program::frontend::Program;
use relax_rewrite::accounts::Accounts;
use relax_rewrite::fallback::Fallback;
use relax_rewrite::pass::Settings;
use relax_rewrite::pipeline::Unwatched;
use relax_semantics::check::Phase;
use relax_symbolic::Prover;
use relax_syntax::diagnostic::Diagnostic;

/// Whether that is allowed.
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
    show(found.iter().map(Fallback::diagnostic).collect(), policy, program, terminal)
}

/// Shows the `parallel` loops that run on one thread alike.
pub(super) fn show_loops(policy: Policy, program: &Program, terminal: &mut Terminal) -> Exit {
    show(loops_on_one_thread(&program.module, &mut Prover::new()), policy, program, terminal)
}

fn show(
    found: Vec<Diagnostic>,
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
    let all: Vec<_> = found.into_iter().map(as_policy).collect();
    show_diagnostics(terminal, &program.source, &all)
}

/// What a build of a well-formed program would leave to the reference library.
pub(super) fn of_build(program: &Program) -> Vec<Fallback> {
    if Phase::of_module(&program.module).is_ok_and(|phase| phase >= Phase::P21) {
        return Vec::new();
    }
    let mut unwatched = Unwatched;
    let mut watch = Accounts::before(&mut unwatched);
    // `relax build` reports a program that a pass refuses.
    let _ = lower(&Target::default(), &program.module, &Settings::default(), &mut watch);
    watch.fallbacks
}
