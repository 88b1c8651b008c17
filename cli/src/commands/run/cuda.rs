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
use relax_runtime::Module;
use relax_semantics::ops::Limits;

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
    let lowered = match lower_for_cuda(&program.module, &Settings::default()) {
        Ok(lowered) => lowered,
        Err(failed) => return failed_run(&failed, program, terminal),
    };
    let around =
        Around { externals: &externals, source: &program.source, signatures: &program.module };
    let built = build(&lowered, &around, Limits::default())
        .map_err(|unsupported| Failure::missing(format!("not supported: {unsupported}")))?
        .map_err(Failure::missing)?;
    let driver = Driver::new(&built.text).map_err(Failure::missing)?;
    let kernels = DeviceKernels::new(driver, built.kernels, built.reference);
    let name = &program.source.name;
    let module = loaded(Module::new(built.image, Box::new(kernels)), name)?;
    let source = program.source.clone();
    run(args, prepare(args, module, &program.module, &parameters, source)?, terminal)
}
