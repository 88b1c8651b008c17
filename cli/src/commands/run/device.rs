//! Programs for a device of WebGPU.

use super::super::tune::Identity;
use super::accelerated::Versions;
use crate::exit::Failure;
use relax_lower::program::{Around, kernels, lower_program, watch_kernels};
use relax_lower::scheduled::ScheduledModule;
use relax_program::frontend::Program;
use relax_rewrite::pass::Settings;
use relax_rewrite::pipeline::Failed;
use relax_runtime::Module;
use relax_runtime::program::Numerics;
use relax_semantics::ops::Limits;
use relax_semantics::tensor::Tensor;
use relax_syntax::Name;
use relax_webgpu::{Device, Formats, WgpuKernels, lower_for_webgpu};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The first device, and what it is known by.
pub(super) fn open() -> Result<(Device, Identity), Failure> {
    let device = Device::open(Formats::NATIVE).map_err(Failure::missing)?;
    let (name, driver) = (device.name().to_owned(), device.driver());
    Ok((device, Identity { backend: relax_rewrite::pass::Device::Wgpu, name, driver }))
}

/// A program on the first device; the inner error is that of a pass.
pub(super) fn compiled(
    program: &Program,
    externals: BTreeMap<Name, Tensor>,
    sums: Numerics,
    versions: Versions,
) -> Result<Result<Module, Failed>, Failure> {
    let (device, identity) = open()?;
    let device = Arc::new(device);
    let externals = Arc::new(externals);
    let products = versions.on(&identity)?;
    let settings = Settings { params: Arc::clone(&externals), products, ..Settings::default() };
    let ScheduledModule { module: lowered, summaries } =
        match lower_for_webgpu(&program.module, &settings, sums) {
            Ok(lowered) => lowered,
            Err(failed) => return Ok(Err(failed)),
        };
    let around =
        Around { externals: &externals, source: &program.source, signatures: &program.module };
    let image = lower_program(&lowered, &around);
    let mut image = image.map_err(|why| Failure::missing(format!("not supported: {why}")))?;
    watch_kernels(&mut image, &lowered, |program| summaries.on(program));
    let programs = kernels(&lowered);
    let known = (Limits::default(), Some(&program.source));
    let kernels = WgpuKernels::new(device, &lowered, &programs, known).map_err(Failure::missing)?;
    Module::new(image, Box::new(kernels)).map(Ok).map_err(Failure::missing)
}
