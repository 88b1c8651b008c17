//! From a module to the one that kernels are printed from: the pipeline, and the loops of the tensor programs bound to blocks
//! and threads.

use relax_lower::passes::{schedule_gpu, schedule_gpu_freely};
use relax_lower::pipeline::PIPELINE;
use relax_lower::route::lower_scheduled;
use relax_lower::scheduled::ScheduledModule;
use relax_rewrite::pass::{Device, Settings};
use relax_rewrite::pipeline::{Failed, Route, Unwatched, run};
use relax_runtime::program::Numerics;
use relax_symbolic::Prover;
use relax_syntax::ir::Module;
use relax_tir::analysis::access_summary::AccessSummaries;

/// A module as the machine runs it on a device of WebGPU. Where sums may have any order, the threads of a block share a row.
///
/// # Errors
/// The pass that refuses the module.
pub fn lower_for_webgpu(
    module: &Module,
    settings: &Settings,
    sums: Numerics,
) -> Result<ScheduledModule, Failed> {
    let settings = &Settings { device: Device::Wgpu, ..settings.clone() };
    let schedule = match sums {
        Numerics::Exact => &schedule_gpu::PASS,
        Numerics::Reassociated => &schedule_gpu_freely::PASS,
    };
    let mut summaries = AccessSummaries::default();
    let module =
        lower_scheduled(&PIPELINE, module, settings, &mut Unwatched, &mut |legal, watch| {
            summaries = AccessSummaries::of(legal);
            let route = Route::Passes(vec![schedule]);
            run(legal, &route, settings, &mut Prover::new(), watch)
        })?;
    Ok(ScheduledModule { module, summaries })
}
