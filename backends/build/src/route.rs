//! From a module to the one that kernels are printed from: the pipeline, and the loops of the tensor programs
//! fused, so that a row is read again while it is in a cache. Threads share the loops that are left.

use relax_lower::passes::fuse_loops;
use relax_lower::route::lower_with;
use relax_rewrite::pass::Settings;
use relax_rewrite::pipeline::Failed;
use relax_syntax::ir::Module;

/// A module as the machine runs it on this processor.
///
/// # Errors
/// The pass that refuses the module.
pub fn lower_for_cpu(module: &Module, settings: &Settings) -> Result<Module, Failed> {
    lower_with(module, settings, &fuse_loops::PASS)
}
