//! `relax run`: a function of a program on given inputs, in the reference interpreter.

mod arguments;
mod output;

use super::constants;
use super::load;
use super::nearest::unknown;
use crate::args::{Backend, Format, RunArgs};
use crate::exit::{Exit, Failure, Outcome};
use crate::report::{finding_of_stop, show};
use crate::terminal::Terminal;
use arguments::Inputs;
use relax_corpus::pipeline::{Program, RunOptions, run as interpret};
use relax_semantics::show::show as show_value;
use relax_semantics::tir::Mode;
use relax_syntax::ir::Function;
use std::sync::Arc;

pub(super) fn run(args: &RunArgs, terminal: &mut Terminal) -> Outcome {
    if args.backend != Backend::Interp {
        return Err(Failure::missing(
            "this backend is not built in this version; the interpreter is: --backend interp",
        ));
    }
    let max_bytes = size(&args.max_memory)?;
    let Some(program) = load(&args.file, terminal)? else { return Ok(Exit::Wrong) };
    let function = entry(&program, &args.entry)?;
    let constants = constants::load(&program.module, function, args.params.as_deref())?;
    let inputs = Inputs::new(args, function, max_bytes)?;
    let arguments = inputs.read(&constants)?;
    let options = RunOptions {
        externals: Arc::new(constants.externals),
        memory: Some(max_bytes),
        steps: args.max_steps,
        loops: if args.lock_step { Mode::LockStep } else { Mode::Sequential },
    };
    let ran = interpret(&program.module, &args.entry, arguments, &options);
    for line in &ran.printed {
        terminal.result(&format!("{line}\n"))?;
    }
    let value = match ran.result {
        Ok(value) => value,
        Err(stop) => {
            let (finding, exit) = finding_of_stop(&stop);
            show(terminal, &program.source, &[finding]);
            return Ok(exit);
        }
    };
    if let Some(path) = &args.output {
        output::write(path, &value)?;
    }
    match terminal.format {
        Format::Json => terminal.result(&output::json_line(&value))?,
        Format::Text if args.output.is_none() => terminal.result(&show_value(&value))?,
        Format::Text => {}
    }
    Ok(Exit::Fine)
}

fn entry<'p>(program: &'p Program, name: &str) -> Result<&'p Function, Failure> {
    program.module.function(name).ok_or_else(|| {
        if program.module.tensor_program(name).is_some() {
            return Failure::usage(format!(
                "`{name}` is a tensor program: call it from a graph function with call_tir"
            ));
        }
        let known: Vec<&str> = program.module.functions().map(|f| f.name.as_str()).collect();
        unknown("graph function", name, &known)
    })
}

/// `8G`, `512M`, `4096`
fn size(text: &str) -> Result<u64, Failure> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let factor = match text[digits.len()..].to_ascii_uppercase().as_str() {
        "" | "B" => Some(1_u64),
        "K" | "KB" | "KIB" => Some(1 << 10),
        "M" | "MB" | "MIB" => Some(1 << 20),
        "G" | "GB" | "GIB" => Some(1 << 30),
        "T" | "TB" | "TIB" => Some(1 << 40),
        _ => None,
    };
    let number = digits.parse::<u64>().ok();
    let bytes = number.zip(factor).and_then(|(number, factor)| number.checked_mul(factor));
    bytes.ok_or_else(|| {
        Failure::usage(format!("--max-memory: expected bytes or 8G, found `{text}`"))
    })
}
