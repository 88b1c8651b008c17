//! `relax opt`: a program in a later phase, as text. In this version: in normal form.

use super::load_for;
use crate::args::{OptArgs, Phase};
use crate::exit::{Exit, Failure, Outcome};
use crate::files::write_whole;
use crate::terminal::Terminal;
use relax_corpus::pipeline::print;

pub(super) fn opt(args: &OptArgs, terminal: &mut Terminal) -> Outcome {
    if args.to != Phase::P0 {
        return Err(Failure::missing("the phases from P1 on are not in this version: --to P0"));
    }
    // What is printed is in the phase that was asked for, or nothing is.
    let phase = Some(args.to.into());
    let Some(program) = load_for(&args.file, phase, terminal)? else { return Ok(Exit::Wrong) };
    let text = print(&program.module);
    match &args.output {
        Some(path) => write_whole(path, text.as_bytes())?,
        None => terminal.result(&text)?,
    }
    Ok(Exit::Fine)
}
