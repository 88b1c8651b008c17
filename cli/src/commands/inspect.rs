//! `relax inspect`: what is in a program, a model, a module file or a file of weights. Nothing is run.

mod memory;
mod model;
mod module;
mod program;
mod signature;
mod weights;

use super::loading::load;
use crate::args::InspectArgs;
use crate::exit::{Exit, Outcome};
use crate::files::{FileKind, kind_of, shown_name};
use crate::terminal::Terminal;
use relax_program::tensor_files::Weights;
use serde_json::Value;

/// What is said of a file: lines for people, and an object for tools.
struct Inspected {
    text: String,
    object: Value,
}

pub(super) fn inspect(args: &InspectArgs, terminal: &mut Terminal) -> Outcome {
    let name = shown_name(&args.file);
    let inspected = match kind_of(&args.file)? {
        FileKind::Module => {
            args.model.refuse()?;
            module::inspected(&args.file, &name)?
        }
        FileKind::Model => model::inspected(args, &name, terminal)?,
        FileKind::Text if Weights::is_weights(&args.file) => {
            args.model.refuse()?;
            weights::inspected(&args.file, &name)?
        }
        FileKind::Text => match load(&args.file, &args.model, terminal)? {
            Some(given) => program::inspected(&name, &given.program),
            None => return Ok(Exit::Wrong),
        },
    };
    terminal.tell(&inspected.text, || inspected.object)?;
    Ok(Exit::Fine)
}

/// `1 kernel`, `2 kernels`
fn counted(count: usize, word: &str) -> String {
    format!("{count} {word}{}", if count == 1 { "" } else { "s" })
}
