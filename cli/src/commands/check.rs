//! `relax check`: everything that is wrong with programs, in one run.

use super::fallbacks::{Policy, of_build, show_fallbacks};
use super::fixes::fixed;
use super::static_failures::static_failures;
use super::{at_most_one_stdin, load_for};
use crate::args::CheckArgs;
use crate::exit::{Exit, Outcome};
use crate::report::show_diagnostics;
use crate::terminal::{Terminal, Verbosity};
use relax_lower::demands::demands;
use relax_program::frontend::{Program, located};
use relax_semantics::check::Phase;
use std::path::Path;

pub(super) fn check(args: &CheckArgs, terminal: &mut Terminal) -> Outcome {
    let phase = args.phase.map(Phase::from);
    at_most_one_stdin(args.files.iter().map(AsRef::as_ref))?;
    let mut exit = Exit::Fine;
    for path in &args.files {
        if args.fix && !fixed(path, phase, terminal)? {
            exit = Exit::Wrong;
            continue;
        }
        match load_for(path, phase, terminal)? {
            Some(program) => {
                if failures(&program, phase, args.deny.is_some(), terminal) != Exit::Fine {
                    exit = Exit::Wrong;
                    continue;
                }
                tell(path, &program, terminal);
            }
            None => exit = Exit::Wrong,
        }
    }
    Ok(exit)
}

/// Reports checks that fail whenever they are reached, and what the phase demands of memory and calls by name; `Wrong` when
/// one of them is an error, or a warning that is denied.
fn failures(
    program: &Program,
    phase: Option<Phase>,
    are_warnings_denied: bool,
    terminal: &mut Terminal,
) -> Exit {
    let mut found = static_failures(&program.module, &program.left);
    let recorded = Phase::of_module(&program.module).unwrap_or(Phase::Surface);
    found.extend(demands(&program.module, phase.unwrap_or(recorded)));
    located(&program.source, &mut found);
    let all = program.diagnostics.len() + found.len();
    match show_diagnostics(terminal, &program.source, &found) {
        Exit::Fine if are_warnings_denied && all > 0 => Exit::Wrong,
        exit => exit,
    }
}

fn tell(path: &Path, program: &Program, terminal: &mut Terminal) {
    if terminal.verbosity == Verbosity::Verbose {
        show_fallbacks(&of_build(program), Policy::Warn, program, terminal);
    }
    for left in &program.left {
        let (line, _) = program.source.line_column(left.span.start);
        let place = format!("{}:{line}", path.display());
        terminal.detail(&format!("{place}: checked at run time: {}", left.text));
    }
    let count = program.module.definitions.len();
    terminal.detail(&format!(
        "{}: well-formed; {count} definition{}, normalized",
        path.display(),
        if count == 1 { "" } else { "s" }
    ));
}
