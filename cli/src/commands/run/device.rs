//! Runs on the virtual machine whose kernels a device of WebGPU runs.

use super::super::constants::{Constants, load as load_constants};
use super::super::opt::failed_run;
use super::compiled::{prepare, run};
use super::entry;
use crate::args::RunArgs;
use crate::exit::{Failure, Outcome};
use crate::terminal::Terminal;
use relax_corpus::pipeline::Program;
use relax_lower::program::{Around, kernels, lower_program};
use relax_rewrite::pass::Settings;
use relax_runtime::Module;
use relax_semantics::ops::Limits;
use relax_webgpu::{Device, Doubles, WgpuKernels, lower_for_webgpu};
use std::sync::Arc;

/// Compiles a program for the first device that is there, and runs it.
pub(super) fn run_program(args: &RunArgs, program: &Program, terminal: &mut Terminal) -> Outcome {
    let function = entry(&program.module, &args.entry)?;
    let constants = load_constants(&program.module, function, args.params.as_deref())?;
    run_with(args, program, constants, terminal)
}

/// The same of a program whose constants are at hand.
pub(super) fn run_with(
    args: &RunArgs,
    program: &Program,
    constants: Constants,
    terminal: &mut Terminal,
) -> Outcome {
    let device = Arc::new(Device::open(Doubles::Native).map_err(Failure::missing)?);
    let Constants { externals, parameters } = constants;
    let externals = Arc::new(externals);
    let settings = Settings { params: Arc::clone(&externals), ..Settings::default() };
    let lowered = match lower_for_webgpu(&program.module, &settings) {
        Ok(lowered) => lowered,
        Err(failed) => return failed_run(&failed, program, terminal),
    };
    let around =
        Around { externals: &externals, source: &program.source, signatures: &program.module };
    let image = lower_program(&lowered, &around);
    let image = image.map_err(|why| Failure::missing(format!("not supported: {why}")))?;
    let programs = kernels(&lowered);
    let known = (Limits::default(), Some(&program.source));
    let kernels = WgpuKernels::new(device, &lowered, &programs, known).map_err(Failure::missing)?;
    let module = Module::new(image, Box::new(kernels)).map_err(Failure::missing)?;
    let prepared = prepare(args, module, &program.module, &parameters, program.source.clone())?;
    run(args, prepared, terminal)
}
