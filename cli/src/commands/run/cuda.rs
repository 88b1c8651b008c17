//! Runs on an NVIDIA device: kernels are compiled for it, everything else is the virtual machine's.

use super::super::constants::{Constants, from, load_externals, open};
use super::super::opt::failed_run;
use super::compiled::{loaded, prepare, run};
use super::entry;
use crate::args::RunArgs;
use crate::exit::{Failure, Outcome};
use crate::terminal::Terminal;
use relax_corpus::pipeline::Program;
use relax_cuda::{DeviceKernels, Driver, build, lower_for_cuda};
use relax_lower::program::Around;
use relax_rewrite::pass::Settings;
use relax_rewrite::pipeline::Failed;
use relax_runtime::Module;
use relax_semantics::ops::Limits;
use relax_semantics::tensor::Tensor;
use relax_syntax::Name;
use std::collections::BTreeMap;

/// Compiles a program for the device and runs it.
pub(super) fn run_program(args: &RunArgs, program: &Program, terminal: &mut Terminal) -> Outcome {
    let function = entry(&program.module, &args.entry)?;
    let path = args.params.as_deref();
    load_externals(&program.module, path)?;
    let constants = from(&program.module, function, open(path)?.as_ref())?;
    run_with(args, program, constants, terminal)
}

/// The same for a program whose constants are at hand.
pub(super) fn run_with(
    args: &RunArgs,
    program: &Program,
    constants: Constants,
    terminal: &mut Terminal,
) -> Outcome {
    let Constants { externals, parameters } = constants;
    let module = match compiled(program, &externals)? {
        Ok(module) => module,
        Err(failed) => return failed_run(&failed, program, terminal),
    };
    let source = program.source.clone();
    run(args, prepare(args, module, &program.module, &parameters, source)?, terminal)
}

/// A program on the first device; the inner error is that of a pass.
pub(super) fn compiled(
    program: &Program,
    externals: &BTreeMap<Name, Tensor>,
) -> Result<Result<Module, Failed>, Failure> {
    let lowered = match lower_for_cuda(&program.module, &Settings::default()) {
        Ok(lowered) => lowered,
        Err(failed) => return Ok(Err(failed)),
    };
    let around = Around { externals, source: &program.source, signatures: &program.module };
    let built = build(&lowered, &around, Limits::default())
        .map_err(|unsupported| Failure::missing(format!("not supported: {unsupported}")))?
        .map_err(Failure::missing)?;
    let driver = Driver::new(&built.text).map_err(Failure::missing)?;
    let kernels = DeviceKernels::new(driver, built.kernels, built.reference);
    let module = Module::new(built.image, Box::new(kernels));
    loaded(module, &program.source.name).map(Ok)
}
