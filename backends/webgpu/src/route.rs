//! From a module to the one that kernels are printed from: the pipeline, and the loops of the tensor programs bound to blocks
//! and threads.

use relax_lower::passes::schedule_gpu;
use relax_lower::route::lower_with;
use relax_rewrite::pass::Settings;
use relax_rewrite::pipeline::{Failed, Unwatched};
use relax_syntax::ir::Module;

/// A module as the machine runs it on a device of WebGPU.
///
/// # Errors
/// The pass that refuses the module.
pub fn lower_for_webgpu(module: &Module, settings: &Settings) -> Result<Module, Failed> {
    lower_with(module, settings, &schedule_gpu::PASS, &mut Unwatched)
}
