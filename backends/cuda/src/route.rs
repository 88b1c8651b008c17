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
    // What a library computes is a host function here: programs keep their operators.
    let settings = Settings { target: Target::Cpu, ..settings.clone() };
    lower_with(module, &settings, &schedule_gpu::PASS, &mut Unwatched)
}
