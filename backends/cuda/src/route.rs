//! From a module to the one that kernels for a device are printed from: the pipeline, and what schedules
//! loops for blocks and threads.

use relax_lower::passes::schedule_gpu;
use relax_lower::route::lower_with;
use relax_rewrite::pass::{Settings, Target};
use relax_rewrite::pipeline::{Failed, Unwatched};
use relax_syntax::ir::Module;

/// A module as the machine runs it with kernels on a device.
///
/// # Errors
/// The pass that refuses the module.
pub fn lower_for_cuda(module: &Module, settings: &Settings) -> Result<Module, Failed> {
    let settings = Settings { target: Target::Cuda, ..settings.clone() };
    lower_with(module, &settings, &schedule_gpu::PASS, &mut Unwatched)
}
