//! Programs for an NVIDIA device.

use super::super::tune::Identity;
use super::accelerated::Versions;
use super::compiled::loaded;
use crate::exit::Failure;
use relax_cuda::{DeviceKernels, Driver, Products, build, devices, lower_for_cuda};
use relax_lower::program::Around;
use relax_program::frontend::Program;
use relax_rewrite::pass::Device;
use relax_rewrite::pass::Settings;
use relax_rewrite::pipeline::Failed;
use relax_runtime::Module;
use relax_semantics::ops::Limits;
use relax_semantics::tensor::Tensor;
use relax_syntax::Name;
use std::collections::BTreeMap;

/// What the first device is known by.
pub(super) fn identity() -> Result<Identity, Failure> {
    let found = devices().map_err(Failure::missing)?.into_iter().next();
    let found = found.ok_or_else(|| Failure::missing("there is no device of CUDA"))?;
    let driver = format!("{}, {}", found.architecture, found.driver);
    Ok(Identity { backend: Device::Cuda, name: found.name, driver })
}

/// A program on the first device; the inner error is that of a pass.
pub(super) fn compiled(
    program: &Program,
    externals: &BTreeMap<Name, Tensor>,
    by: Products,
    versions: Versions,
) -> Result<Result<Module, Failed>, Failure> {
    let settings = Settings { products: versions.on(&identity()?)?, ..Settings::default() };
    let lowered = match lower_for_cuda(&program.module, &settings, by) {
        Ok(lowered) => lowered,
        Err(failed) => return Ok(Err(failed)),
    };
    let around = Around { externals, source: &program.source, signatures: &program.module };
    let built = build(&lowered, &around, Limits::default(), by)
        .map_err(|unsupported| Failure::missing(format!("not supported: {unsupported}")))?
        .map_err(Failure::missing)?;
    let driver = Driver::new(&built.text).map_err(Failure::missing)?;
    let kernels = DeviceKernels::new(driver, built.kernels, built.reference);
    let module = Module::new(built.image, Box::new(kernels));
    loaded(module, &program.source.name).map(Ok)
}
