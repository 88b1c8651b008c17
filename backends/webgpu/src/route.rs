//! From a module to the one that kernels are printed from: the pipeline, and the loops of the tensor programs bound to blocks
//! and threads.

use relax_lower::passes::schedule_gpu;
use relax_lower::pipeline::PIPELINE;
use relax_rewrite::pass::Settings;
use relax_rewrite::pipeline::{Failed, Route, Unwatched, run};
use relax_semantics::check::Phase;
use relax_symbolic::Prover;
use relax_syntax::ir::Module;

/// A module as the machine runs it on a device of WebGPU.
///
/// # Errors
/// The pass that refuses the module.
pub fn lower_for_webgpu(module: &Module, settings: &Settings) -> Result<Module, Failed> {
    let pass = |module: &Module, route: &Route| {
        run(module, route, settings, &mut Prover::new(), &mut Unwatched)
    };
    let early = Phase::of_module(module).is_ok_and(|phase| phase <= Phase::P21);
    if !early {
        return pass(module, &PIPELINE.to(Phase::P23));
    }
    let legal = pass(module, &PIPELINE.to(Phase::P21))?;
    // A program with threads of its own that the binding cannot take in is printed as it stands.
    let bound = pass(&legal, &Route::Passes(vec![&schedule_gpu::PASS])).unwrap_or(legal);
    pass(&bound, &PIPELINE.to(Phase::P23))
}
