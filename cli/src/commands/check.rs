//! `relax check`: everything that is wrong with programs, in one run.

use super::at_most_one_stdin;
use super::fallbacks::{Policy, of_build, show_fallbacks};
use super::fixes::fixed;
use super::loading::load_for;
use crate::args::CheckArgs;
use crate::exit::{Exit, Failure, Outcome};
use crate::files::{FileKind, is_stdin, kind_of, shown_name};
use crate::report::show_diagnostics;
use crate::terminal::{Terminal, Verbosity};
use relax_lower::demands::demands;
use relax_lower::static_failures::static_failures;
use relax_program::frontend::{Program, located};
use relax_semantics::check::Phase;
use serde_json::{Value, json};
use std::path::Path;

pub(super) fn check(args: &CheckArgs, terminal: &mut Terminal) -> Outcome {
    let phase = args.phase.map(Phase::from);
    at_most_one_stdin(args.files.iter().map(AsRef::as_ref))?;
    let mut exit = Exit::Fine;
    for path in &args.files {
        terminal.doing(format!("checking {}", shown_name(path)));
        let found = match checked(args, path, phase, terminal) {
            // The other files are checked all the same.
            Err(Failure::Message { exit, text }) if args.files.len() > 1 => {
                terminal.failure(exit, &text);
                exit
            }
            other => other?,
        };
        exit = if found.code() > exit.code() { found } else { exit };
    }
    Ok(exit)
}

/// Checks a file and says what came of it.
fn checked(
    args: &CheckArgs,
    path: &Path,
    phase: Option<Phase>,
    terminal: &mut Terminal,
) -> Outcome {
    let before = terminal.shown;
    let mut left = Vec::new();
    let exit = file(args, path, phase, &mut left, terminal)?;
    let shown = terminal.shown;
    terminal.object(|| {
        json!({
            "type": "check",
            "file": shown_name(path),
            "verdict": if exit == Exit::Fine { "well-formed" } else { "wrong" },
            "errors": shown.errors - before.errors,
            "warnings": shown.warnings - before.warnings,
            "left_to_run_time": left,
        })
    })?;
    Ok(exit)
}

fn file(
    args: &CheckArgs,
    path: &Path,
    phase: Option<Phase>,
    left: &mut Vec<Value>,
    terminal: &mut Terminal,
) -> Outcome {
    if args.fix {
        if is_stdin(path) && terminal.log().is_some() {
            return Err(Failure::usage(
                "--fix prints the standard input fixed: give another --format",
            ));
        }
        if kind_of(path)? != FileKind::Text {
            let name = shown_name(path);
            return Err(Failure::usage(format!("{name}: --fix edits texts of programs")));
        }
        if !fixed(path, phase, terminal)? {
            return Ok(Exit::Wrong);
        }
    }
    let Some(given) = load_for(path, &args.model, phase, terminal)? else {
        return Ok(Exit::Wrong);
    };
    let program = given.program;
    if failures(&program, phase, args.deny.is_some(), terminal) != Exit::Fine {
        return Ok(Exit::Wrong);
    }
    left.extend(program.left.iter().map(|left| {
        let (line, _) = program.source.line_column(left.span.start);
        json!({ "line": line, "check": left.text })
    }));
    tell(path, &program, terminal);
    Ok(Exit::Fine)
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
