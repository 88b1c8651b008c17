//! Runs on the virtual machine: of a module file, or of a program that is compiled for it.

use super::super::build::{Bound, image};
use super::super::constants::{Constants, load as load_constants};
use super::super::opt::failed_run;
use super::arguments::Inputs;
use super::{entry, finish, size};
use crate::args::RunArgs;
use crate::exit::{Failure, Outcome};
use crate::files::shown_name;
use crate::terminal::Terminal;
use relax_corpus::pipeline::{Program, Ran};
use relax_emit::Sums;
use relax_reference::{Printed, register, stop_to_semantics, to_machine, to_semantics};
use relax_runtime::file::LoadError;
use relax_runtime::{self as machine, Limits};
use relax_semantics::ops;
use relax_semantics::stop::Stop;
use relax_semantics::value::Value;
use relax_syntax::ir::Module;
use relax_syntax::span::Source;
use std::sync::Arc;

/// Runs a module file.
pub(super) fn run_file(args: &RunArgs, bytes: &[u8], terminal: &mut Terminal) -> Outcome {
    let name = shown_name(&args.file);
    let module = load(args, bytes, &name)?;
    let signatures = signatures(&module, &name)?;
    let function = entry(&signatures, &args.entry)?;
    let constants = load_constants(&signatures, function, args.params.as_deref())?;
    let source = Source::new(module.metadata().source_name.as_str(), module.source());
    call(args, module, &signatures, &constants, &source, terminal)
}

/// Compiles a program and runs it.
pub(super) fn run_program(
    args: &RunArgs,
    program: &Program,
    constants: &Constants,
    terminal: &mut Terminal,
) -> Outcome {
    let bound =
        Bound { params: Arc::new(constants.externals.clone()), binds: false, sums: Sums::Exact };
    let image = match image(program, &bound)? {
        Ok(image) => image,
        Err(failed) => return failed_run(&failed, program, terminal),
    };
    let module = load(args, &image.to_bytes(), &program.source.name)?;
    call(args, module, &program.module, constants, &program.source, terminal)
}

fn load(args: &RunArgs, bytes: &[u8], name: &str) -> Result<machine::Module, Failure> {
    let bytes_limit = usize::try_from(size(&args.max_memory)?).unwrap_or(usize::MAX);
    let limits = Limits {
        bytes: bytes_limit,
        steps: args.max_steps.unwrap_or(u64::MAX),
        ..Limits::default()
    };
    machine::Module::load_with(bytes, limits).map_err(|error| {
        let text = format!("{name}: {error}");
        match error {
            LoadError::Target(_) | LoadError::Kernels(_) => Failure::missing(text),
            _ => Failure::usage(text),
        }
    })
}

/// What the functions of a module file take.
fn signatures(module: &machine::Module, name: &str) -> Result<Module, Failure> {
    let text = module.metadata().signatures.as_str();
    let program = Program::load(Source::new("signatures", text));
    if program.has_errors() {
        return Err(Failure::usage(format!("{name}: the signatures of its functions do not read")));
    }
    Ok(program.module)
}

fn call(
    args: &RunArgs,
    mut module: machine::Module,
    signatures: &Module,
    constants: &Constants,
    source: &Source,
    terminal: &mut Terminal,
) -> Outcome {
    let max_bytes = size(&args.max_memory)?;
    let function = entry(signatures, &args.entry)?;
    let arguments = Inputs::new(args, function, max_bytes)?.read(constants)?;
    let limits =
        ops::Limits { tensor_bytes: max_bytes, total_bytes: max_bytes, ..ops::Limits::default() };
    let printed = Printed::default();
    register(&mut module, &limits, &printed).map_err(Failure::usage)?;
    let result = perform(&module, &args.entry, &arguments)?;
    finish(args, source, Ran { result, printed: printed.take() }, terminal)
}

fn perform(
    module: &machine::Module,
    name: &str,
    arguments: &[Value],
) -> Result<Result<Value, Stop>, Failure> {
    let function = module.function(name);
    let function = function.ok_or_else(|| {
        Failure::usage(format!("the module does not offer `{name}`: it is private"))
    })?;
    let arguments = arguments.iter().map(to_machine).collect::<Result<Vec<_>, _>>();
    let arguments = arguments.map_err(Failure::usage)?;
    let mut named =
        |value: &machine::Value| module.name_of(value).map(|name| Value::Global(name.into()));
    Ok(match function.call(&arguments) {
        Ok(value) => to_semantics(&value, &mut named).map_err(Stop::Unsupported),
        Err(stop) => Err(stop_to_semantics(stop)),
    })
}
