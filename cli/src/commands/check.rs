//! `relax check`: everything that is wrong with programs, in one run.

use super::{at_most_one_stdin, load, require_phase};
use crate::args::CheckArgs;
use crate::exit::{Exit, Outcome};
use crate::terminal::Terminal;
use relax_corpus::pipeline::Program;
use std::path::Path;

pub(super) fn check(args: &CheckArgs, terminal: &mut Terminal) -> Outcome {
    if let Some(phase) = args.phase {
        require_phase(phase)?;
    }
    at_most_one_stdin(args.files.iter().map(AsRef::as_ref))?;
    let mut exit = Exit::Fine;
    for path in &args.files {
        match load(path, terminal)? {
            Some(program) => tell(path, &program, terminal),
            None => exit = Exit::Wrong,
        }
    }
    Ok(exit)
}

fn tell(path: &Path, program: &Program, terminal: &mut Terminal) {
    for check in program.run_time_checks() {
        terminal.detail(&format!("{}: checked at run time: {check}", path.display()));
    }
    let count = program.module.definitions.len();
    terminal.detail(&format!(
        "{}: well-formed; {count} definition{}, normalized",
        path.display(),
        if count == 1 { "" } else { "s" }
    ));
}
