//! From a module to one that the machine runs, its kernels on a device: text → P2.3 with bound threads → program.

use relax_driver::{Target, lower};
use relax_lower::lowered::Lowered;
use relax_lower::program::{Around, kernels, lower_program, watch_kernels};
use relax_reference::{Printed, register};
use relax_rewrite::pass::{self, Settings};
use relax_rewrite::pipeline::{Failed as NotLowered, Unwatched};
use relax_runtime as machine;
use relax_runtime::program::Numerics;
use relax_semantics::ops::Limits;
use relax_semantics::tensor::Tensor;
use relax_syntax::Name;
use relax_syntax::ir::Module;
use relax_syntax::span::Source;
use relax_webgpu::{Calls, Device, WgpuKernels};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A module on a device, which counts its calls there.
pub(crate) fn load(
    part: &Module,
    (source, externals): (&Source, &BTreeMap<Name, Tensor>),
    (device, sums): (&Arc<Device>, Numerics),
    calls: &Calls,
) -> Result<machine::Module, String> {
    let target = Target::of(pass::Device::Wgpu, sums);
    let lowered = lower(&target, part, &Settings::default(), &mut Unwatched);
    let lowered = lowered.map_err(|failed| match failed {
        NotLowered::Refused { pass, .. } => format!("the pass `{pass}` refuses it"),
        NotLowered::Broken { pass, .. } => format!("the pass `{pass}` breaks it"),
        NotLowered::Stopped { pass, why } => format!("the pass `{pass}`: {why}"),
    })?;
    let around = Around { externals, source, signatures: part };
    let limits = Limits::default();
    let Lowered { module: lowered, summaries, .. } = lowered;
    let image = lower_program(&lowered, &around);
    let mut image = image.map_err(|unsupported| unsupported.to_string())?;
    watch_kernels(&mut image, &lowered, |program| summaries.on(program));
    let programs = kernels(&lowered);
    let device = Arc::clone(device);
    let kernels = WgpuKernels::new(device, &lowered, &programs, (limits.clone(), Some(source)))?;
    let kernels = kernels.counted(calls.clone());
    let mut module =
        machine::Module::new(image, Box::new(kernels)).map_err(|error| error.to_string())?;
    // Operators that no tensor program stands for.
    register(&mut module, &limits, &Printed::default())?;
    Ok(module)
}
