//! Runs on the virtual machine: of a module file, or of a program that is compiled for it.

use super::super::build::{compiler, refused};
use super::super::cache::cache;
use super::super::calls::Calls;
use super::super::constants::{
    Constants, from, load as load_constants, load_externals, of_parameters, open_within,
};
use super::super::kept::{Kept, Parameters};
use super::super::kernel_check;
use super::super::numerics;
use super::super::profile::Known;
use super::super::rewritten::Rules;
use super::super::tune::known;
use super::arguments::Inputs;
use super::ranks_file::not_alone;
use super::{entry, finish, size};
use crate::args::RunArgs;
use crate::exit::{Failure, Outcome};
use crate::files::shown_name;
use crate::terminal::Terminal;
use relax_cpu::Cpu;
use relax_driver::{
    Bound, CompileError, KernelCheck, Target, Toolchain, backend, compile, compile_on,
};
use relax_program::frontend::{Program, Ran};
use relax_reference::{Printed, register, stop_to_semantics, to_machine, to_semantics};
use relax_rewrite::accounts::Accounts;
use relax_rewrite::pass::Device;
use relax_rewrite::pipeline::{Unwatched, Watch};
use relax_runtime::file::LoadError;
use relax_runtime::program::Numerics;
use relax_runtime::{self as machine, Limits, Module};
use relax_semantics::ops;
use relax_semantics::stop::Stop;
use relax_semantics::tensor::Tensor;
use relax_semantics::value::Value;
use relax_syntax::Name;
use relax_syntax::ir::{self, output_names};
use relax_syntax::span::Source;
use std::collections::BTreeMap;
use std::num::NonZero;
use std::sync::Arc;

/// A module that is loaded, and the arguments of a call.
pub(in crate::commands) struct Prepared {
    pub(in crate::commands) module: Module,
    pub(in crate::commands) source: Source,
    entry: String,
    arguments: Vec<machine::Value>,
    /// Of the outputs, where the function has some.
    names: Vec<Name>,
    printed: Printed,
}

/// Runs a module file.
pub(super) fn run_file(args: &RunArgs, terminal: &mut Terminal) -> Outcome {
    run(args, prepare_file(args)?, terminal)
}

pub(super) fn run(args: &RunArgs, mut prepared: Prepared, terminal: &mut Terminal) -> Outcome {
    kernel_check::warn(prepared.module.metadata().kernel_check.as_ref(), terminal);
    // Modules of devices do not record theirs.
    let is_on_processor = matches!(args.backend, Device::Interp | Device::Cpu);
    if is_on_processor {
        numerics::detail(&shown_name(&args.file), &prepared.module, terminal);
    }
    let calls = args.trace.as_ref().map(|path| (path, Calls::new()));
    if let Some((_, calls)) = &calls {
        prepared.module.watch(Box::new(calls.clone()));
    }
    let result = prepared.call()?;
    if let Some((path, calls)) = calls {
        let known = Known::of(&prepared.module, &prepared.source, is_on_processor);
        calls.write(path, Some(&known))?;
    }
    if let Some(account) = prepared.module.account() {
        terminal.detail(&account);
    }
    let ran = Ran { result, printed: prepared.printed.take() };
    finish(args, (&prepared.source, &prepared.names), ran, terminal)
}

/// Loads a module file and reads the arguments.
pub(in crate::commands) fn prepare_file(args: &RunArgs) -> Result<Prepared, Failure> {
    let name = shown_name(&args.file);
    let module = loaded(Module::open(&args.file, limits(args)?), &name)?;
    if !module.ranks().is_empty() {
        return Err(not_alone(module.ranks(), &name)?);
    }
    let signatures = signatures(&module, &name)?;
    let function = entry(&signatures, &args.entry)?;
    let (params, limit) = (args.params.as_deref(), size("--max-memory", &args.max_memory)?);
    let constants = load_constants(&signatures, function, params, limit)?;
    let source = Source::new(module.metadata().source_name.as_str(), module.source());
    prepare(args, module, &signatures, &constants.parameters, source)
}

/// A device as the command compiles for it: for this processor with the C compiler of the system.
pub(in crate::commands) fn target(
    device: Device,
    numerics: Numerics,
    check: KernelCheck,
) -> Result<Target, Failure> {
    let target = Target::of(device, numerics);
    Ok(match device {
        Device::Cpu => target.by(toolchain(check)?),
        _ => target,
    })
}

/// The C compiler of the system, for this processor.
pub(in crate::commands) fn toolchain(check: KernelCheck) -> Result<Toolchain, Failure> {
    Ok(Toolchain { compiler: compiler(&Cpu::Native)?, cache: cache()?.clone(), check })
}

/// A program on the first device of a target, with versions of products as they were measured on it, unless the target names
/// some. `refused` says what is in the way.
pub(in crate::commands) fn compiled(
    program: &Program,
    mut target: Target,
    externals: Arc<BTreeMap<Name, Tensor>>,
    limits: Limits,
    watch: &mut dyn Watch,
    refused: &mut dyn FnMut(CompileError) -> Failure,
) -> Result<Module, Failure> {
    let device = backend(target.device).open().map_err(&mut *refused)?;
    if let (Some(identity), None) = (device.identity(), &target.tuning.products) {
        target.tuning.products = known(&identity)?;
    }
    let made = compile_on(device, program, &target, &Bound::of(externals), watch);
    loaded(made.map_err(refused)?.load(limits), &program.source.name)
}

/// Compiles a program whose constants are at hand and reads the arguments.
pub(in crate::commands) fn prepare_with(
    args: &RunArgs,
    program: &Program,
    constants: Constants,
    terminal: &mut Terminal,
) -> Result<Prepared, Failure> {
    let Constants { externals, parameters, .. } = constants;
    let numerics = args.numerics.chosen();
    let rules = Rules::asked(&args.rules, (&program.module, numerics), terminal)?;
    let target = target(args.backend, numerics, args.kernel_check.policy())?;
    let (target, limits) = (rules.of(target), limits(args)?);
    let mut unwatched = Unwatched;
    let mut watch = Accounts::before(&mut unwatched);
    let refused = &mut |error| refused(error, program, terminal);
    let module = compiled(program, target, Arc::new(externals), limits, &mut watch, refused)?;
    rules.tell(&shown_name(&args.file), &watch.rewrites, terminal);
    prepare(args, module, &program.module, &parameters, program.source.clone())
}

/// Compiles a program, or finds what was made of it before, and reads the arguments.
pub(in crate::commands) fn prepare_program(
    args: &RunArgs,
    program: &Program,
    terminal: &mut Terminal,
) -> Result<Prepared, Failure> {
    let function = entry(&program.module, &args.entry)?;
    let (path, source) = (args.params.as_deref(), program.source.clone());
    if args.backend != Device::Cpu {
        let limit = size("--max-memory", &args.max_memory)?;
        let constants = load_constants(&program.module, function, path, limit)?;
        return prepare_with(args, program, constants, terminal);
    }
    load_externals(&program.module, path)?;
    let numerics = args.numerics.chosen();
    let rules = Rules::asked(&args.rules, (&program.module, numerics), terminal)?;
    let target = target(args.backend, numerics, args.kernel_check.policy())?;
    let target = rules.of(target);
    // What is kept does not say what rules did.
    let kept = match rules.are_given() {
        true => None,
        false => Kept::of(program, Parameters::Free, &target)?,
    };
    let known = kept.as_ref().and_then(|kept| kept.find(path));
    let (limits, max_bytes) = (limits(args)?, size("--max-memory", &args.max_memory)?);
    // What is damaged there is made anew.
    if let Some(module) = known.and_then(|path| Module::open(&path, limits).ok()) {
        // The file is not read again where every parameter has an input.
        let is_asked = args.input.len() < function.lambda.params.len();
        let parameters = of_parameters(function, path.filter(|_| is_asked), max_bytes)?;
        return prepare(args, module, &program.module, &parameters, source);
    }
    let weights = open_within(path, max_bytes)?;
    let Constants { externals, parameters, .. } =
        from(&program.module, function, weights.as_ref())?;
    let mut unwatched = Unwatched;
    let mut watch = Accounts::before(&mut unwatched);
    let made = compile(program, &target, &Bound::of(Arc::new(externals)), &mut watch);
    let image = made.and_then(relax_driver::Artifact::into_file);
    let image = image.map_err(|error| refused(error, program, terminal))?;
    rules.tell(&shown_name(&args.file), &watch.rewrites, terminal);
    let kept = kept.filter(|_| !Rules::changed(&watch.rewrites));
    let module = match kept.and_then(|kept| kept.keep(weights.as_ref(), &image)) {
        Some(path) => Module::open(&path, limits),
        None => Module::load_with(&image.to_bytes(), limits),
    };
    let module = loaded(module, &source.name)?;
    prepare(args, module, &program.module, &parameters, source)
}

/// Limits of operators that the reference library computes.
pub(super) fn of_operators(max_bytes: u64) -> ops::Limits {
    ops::Limits { tensor_bytes: max_bytes, total_bytes: max_bytes, ..ops::Limits::default() }
}

pub(super) fn limits(args: &RunArgs) -> Result<Limits, Failure> {
    Ok(Limits {
        bytes: usize::try_from(size("--max-memory", &args.max_memory)?).unwrap_or(usize::MAX),
        steps: args.max_steps.unwrap_or(u64::MAX),
        threads: args.threads.map_or(0, NonZero::get),
        ..Limits::default()
    })
}

/// What is in the way of a module file, as the command tells it.
pub(in crate::commands) fn loaded<T>(
    module: Result<T, LoadError>,
    name: &str,
) -> Result<T, Failure> {
    module.map_err(|error| unloadable(error, name))
}

pub(in crate::commands) fn unloadable(error: LoadError, name: &str) -> Failure {
    let text = format!("{name}: {error}");
    match error {
        LoadError::Target(_) | LoadError::Kernels(_) => Failure::missing(text),
        LoadError::Unreadable { .. } => Failure::usage(error),
        _ => Failure::usage(text),
    }
}

/// What the functions of a module file take.
pub(in crate::commands) fn signatures(module: &Module, name: &str) -> Result<ir::Module, Failure> {
    let text = module.metadata().signatures.as_str();
    let program = Program::load(Source::new("signatures", text));
    if program.has_errors() {
        return Err(Failure::usage(format!("{name}: the signatures of its functions do not read")));
    }
    Ok(program.module)
}

pub(super) fn prepare(
    args: &RunArgs,
    mut module: Module,
    signatures: &ir::Module,
    parameters: &BTreeMap<Name, Tensor>,
    source: Source,
) -> Result<Prepared, Failure> {
    let max_bytes = size("--max-memory", &args.max_memory)?;
    let function = entry(signatures, &args.entry)?;
    let arguments = Inputs::new(args, function, max_bytes)?.read(parameters)?;
    let arguments = arguments.iter().map(to_machine).collect::<Result<Vec<_>, _>>();
    let arguments = arguments.map_err(Failure::usage)?;
    let printed = Printed::default();
    register(&mut module, &of_operators(max_bytes), &printed).map_err(Failure::usage)?;
    let names = output_names(&function.lambda.attrs);
    Ok(Prepared { module, source, entry: args.entry.clone(), arguments, names, printed })
}

impl Prepared {
    fn function(&self) -> Result<machine::Callable<'_>, Failure> {
        let name = &self.entry;
        self.module.function(name).ok_or_else(|| {
            Failure::usage(format!("the module does not offer `{name}`: it is private"))
        })
    }

    /// Calls the function.
    pub(in crate::commands) fn call(&self) -> Result<Result<Value, Stop>, Failure> {
        Ok(outcome(&self.module, self.function()?.call(&self.arguments)))
    }

    /// Calls it, and forgets what comes of it.
    pub(in crate::commands) fn call_only(&self) -> Result<(), Failure> {
        let _ = self.function()?.call(&self.arguments);
        let _ = self.printed.take();
        Ok(())
    }
}

/// With the reference library.
pub(in crate::commands) fn registered(
    mut module: machine::Module,
) -> Result<machine::Module, Failure> {
    register(&mut module, &ops::Limits::default(), &Printed::default()).map_err(Failure::usage)?;
    Ok(module)
}

/// A result of the machine as the interpreter would have it.
fn outcome(
    module: &machine::Module,
    result: Result<machine::Value, machine::Stop>,
) -> Result<Value, Stop> {
    let mut named =
        |value: &machine::Value| module.name_of(value).map(|name| Value::Global(name.into()));
    match result {
        Ok(value) => to_semantics(&value, &mut named).map_err(Stop::Unsupported),
        Err(stop) => Err(stop_to_semantics(stop)),
    }
}
