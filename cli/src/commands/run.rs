//! `relax run`: a function of a program on given inputs: in the reference interpreter, or compiled.

mod arguments;
mod compiled;
mod output;
mod processes;
mod ranks;
mod ranks_file;

use super::calls::Calls;
use super::constants::{self, Constants};
use super::import;
use super::loading::load_text;
use super::unknown::unknown;
use crate::args::{Format, RunArgs};
use crate::exit::{Exit, Failure, Outcome};
use crate::files::{FileKind, kind_of};
use crate::report::{finding_of_stop, show};
use crate::terminal::Terminal;
use arguments::Inputs;
pub(super) use compiled::{
    Prepared, compiled, loaded, prepare_file, prepare_program, prepare_with, registered,
    signatures, target, toolchain, unloadable,
};
pub(super) use output::collect;
pub(super) use ranks_file::signatures_of_ranks;
use relax_driver::ranks::Processes;
use relax_driver::{backend, sizes};
use relax_program::frontend::{Program, Ran, RunOptions, run as interpret};
use relax_rewrite::pass::Device;
use relax_semantics::interp::Observer;
use relax_semantics::show::show as show_value;
use relax_semantics::tir::Mode;
use relax_syntax::Name;
use relax_syntax::ir::{Function, Module, output_names};
use relax_syntax::span::Source;
use serde_json::json;
use std::sync::Arc;

pub(super) fn run(args: &RunArgs, terminal: &mut Terminal) -> Outcome {
    is_built(args.backend)?;
    ranks::refuse(args)?;
    if args.mpi {
        return processes::run(args, terminal);
    }
    let on = if args.ranks.is_some() { On::Threads } else { On::One };
    run_on(args, &on, terminal)
}

/// Who runs a function.
enum On {
    /// This process, without a mesh.
    One,
    /// All ranks of a mesh, in this process.
    Threads,
    /// All ranks of a mesh, each in a process.
    Processes(Arc<Processes>),
}

fn run_on(args: &RunArgs, on: &On, terminal: &mut Terminal) -> Outcome {
    let kind = kind_of(&args.file)?;
    if kind != FileKind::Model {
        args.model.refuse()?;
    }
    if kind == FileKind::Module {
        refuse_module(args)?;
        if !matches!(on, On::One) {
            return ranks_file::run(args, on, terminal);
        }
        return compiled::run_file(args, terminal);
    }
    if args.backend == Device::Interp {
        args.numerics.refuse_reassociation()?;
        if args.rules.rules.is_some() {
            return Err(Failure::usage("`--rules` is for compiled code: give a --backend"));
        }
    }
    if kind == FileKind::Model {
        return imported(args, on, terminal);
    }
    let Some(program) = load_text(&args.file, terminal)? else { return Ok(Exit::Wrong) };
    if args.backend == Device::Cpu {
        terminal.doing(format!("compiling {}", args.file.display()));
    }
    if args.backend == Device::Interp || !matches!(on, On::One) {
        let function = entry(&program.module, &args.entry)?;
        let (params, limit) = (args.params.as_deref(), size("--max-memory", &args.max_memory)?);
        let load = match on {
            On::One => constants::load,
            On::Threads | On::Processes(_) => constants::load_for_ranks,
        };
        let constants = load(&program.module, function, params, limit)?;
        return with_constants(args, (&program, on), constants, terminal);
    }
    let prepared = prepare_program(args, &program, terminal)?;
    compiled::run(args, prepared, terminal)
}

/// Whether this command has a backend; which one, where it has not.
pub(super) fn is_built(device: Device) -> Result<(), Failure> {
    backend(device).missing().map_or(Ok(()), |why| Err(Failure::missing(why)))
}

/// A module file is not run on a device beside the processor, nor with numerics that it was not built with.
pub(super) fn refuse_module(args: &RunArgs) -> Result<(), Failure> {
    if matches!(args.backend, Device::Cuda | Device::Wgpu) {
        return Err(Failure::missing("a module file has code for the processor; give the program"));
    }
    if args.rules.rules.is_some() {
        return Err(Failure::usage(
            "`--rules` is an option of `relax build`: a module file is rewritten when it is built",
        ));
    }
    args.numerics.refuse(
        "is an option of `relax build`: a module file has the numerics that it was built with",
    )
}

/// A model as a program, and what is asked of that.
pub(super) struct Model {
    pub(super) args: RunArgs,
    pub(super) program: Program,
    pub(super) constants: Constants,
}

/// Imports a model; what is wrong with it was shown where there is none. Inputs that decide shapes or axes go to the import.
pub(super) fn model(args: &RunArgs, terminal: &mut Terminal) -> Result<Option<Model>, Failure> {
    let (model, bound) = import::for_run(args, terminal)?;
    let Some(model) = model else { return Ok(None) };
    let mut args = args.clone();
    args.input.retain(|input| !bound.iter().any(|name| import::is_of(input, name)));
    for input in &mut args.input {
        *input = import::of_parameter(input, &model, &args.entry);
    }
    let import::Loaded { program, externals, .. } = model;
    let constants = Constants { externals, ..Constants::default() };
    Ok(Some(Model { args, program, constants }))
}

/// Imports a model and runs it.
fn imported(args: &RunArgs, on: &On, terminal: &mut Terminal) -> Outcome {
    let Some(model) = model(args, terminal)? else { return Ok(Exit::Wrong) };
    let Model { args, program, constants } = model;
    if args.backend == Device::Cpu {
        terminal.doing(format!("compiling {}", args.file.display()));
    }
    with_constants(&args, (&program, on), constants, terminal)
}

fn with_constants(
    args: &RunArgs,
    (program, on): (&Program, &On),
    constants: Constants,
    terminal: &mut Terminal,
) -> Outcome {
    match (args.backend, on) {
        (Device::Interp, _) => interpreted(args, (program, on), constants, terminal),
        (_, On::Threads | On::Processes(_)) => {
            ranks::run(args, on, (program, ranks::Engine::Compiled(constants)), terminal)
        }
        (_, On::One) => {
            let prepared = prepare_with(args, program, constants, terminal)?;
            compiled::run(args, prepared, terminal)
        }
    }
}

fn interpreted(
    args: &RunArgs,
    (program, on): (&Program, &On),
    constants: Constants,
    terminal: &mut Terminal,
) -> Outcome {
    let max_bytes = size("--max-memory", &args.max_memory)?;
    let function = entry(&program.module, &args.entry)?;
    let inputs = Inputs::new(args, function, max_bytes)?;
    let arguments = inputs.read_beside(&constants.parameters, &constants.stored)?;
    let names = output_names(&function.lambda.attrs);
    let calls = args.trace.as_ref().map(|_| Calls::new());
    let options = RunOptions {
        externals: Arc::new(constants.externals),
        memory: Some(max_bytes),
        steps: args.max_steps,
        loops: if args.lock_step { Mode::LockStep } else { Mode::Sequential },
        observer: calls.clone().map(|calls| Arc::new(calls) as Arc<dyn Observer>),
    };
    if !matches!(on, On::One) {
        let options = options.interpreter_options();
        let arguments = ranks::global(function, arguments, &constants.stored);
        let engine = ranks::Engine::Interpreter(arguments, options);
        return ranks::run(args, on, (program, engine), terminal);
    }
    terminal.doing(format!("running {}", args.entry));
    let ran = interpret(&program.module, &args.entry, arguments, &options);
    if let (Some(path), Some(calls)) = (&args.trace, calls) {
        calls.write(path, None)?;
    }
    finish(args, (&program.source, &names), ran, terminal)
}

/// Shows or writes what came of a run.
fn finish(
    args: &RunArgs,
    (source, names): (&Source, &[Name]),
    ran: Ran,
    terminal: &mut Terminal,
) -> Outcome {
    for line in &ran.printed {
        terminal.tell(&format!("{line}\n"), || json!({ "type": "printed", "text": line }))?;
    }
    let value = match ran.result {
        Ok(value) => value,
        Err(stop) => {
            let (finding, exit) = finding_of_stop(&stop, source);
            show(terminal, source, &[finding]);
            return Ok(exit);
        }
    };
    if let Some(path) = &args.output {
        output::write(path, &value, names)?;
    }
    match terminal.format {
        Format::Json => terminal.result(&output::json_line(&value, names))?,
        Format::Text if args.output.is_none() => terminal.result(&show_value(&value))?,
        Format::Text => {}
    }
    Ok(Exit::Fine)
}

pub(super) fn entry<'p>(module: &'p Module, name: &str) -> Result<&'p Function, Failure> {
    module.function(name).ok_or_else(|| {
        if module.tensor_program(name).is_some() {
            return Failure::usage(format!(
                "`{name}` is a tensor program: call it from a graph function with call_tir"
            ));
        }
        let known: Vec<&str> = module.functions().map(|f| f.name.as_str()).collect();
        unknown("graph function", name, &known)
    })
}

/// `8G`, `512M`, `4096`; `what` names the setting.
pub(super) fn size(what: &str, text: &str) -> Result<u64, Failure> {
    sizes::bytes(text)
        .ok_or_else(|| Failure::usage(format!("{what}: expected bytes or 8G, found `{text}`")))
}
