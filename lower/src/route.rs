//! The way down of every backend: the pipeline, and between its early build and the machine's phase what schedules tensor
//! programs for one kind of device.

use crate::pipeline::PIPELINE;
use relax_rewrite::pass::{Pass, Settings};
use relax_rewrite::pipeline::Pipeline;
use relax_rewrite::pipeline::{Failed, Route, Watch, run};
use relax_semantics::check::Phase;
use relax_symbolic::Prover;
use relax_syntax::ir::Module;

/// A module at P2.3, on whose tensor programs `schedule` was run at P2.1, pass by pass. One that is beyond it goes on as it is.
///
/// # Errors
/// The pass that refuses the module.
pub fn lower_with(
    module: &Module,
    settings: &Settings,
    schedule: &[&'static Pass],
    watch: &mut dyn Watch,
) -> Result<Module, Failed> {
    lower_scheduled(&PIPELINE, module, settings, watch, &mut |module, watch| {
        let route = Route::Passes(schedule.to_vec());
        run(module, &route, settings, &mut Prover::new(), watch)
    })
}

/// What is done with tensor programs that are as the passes for all devices leave them.
pub type Schedule<'s> = dyn FnMut(&Module, &mut dyn Watch) -> Result<Module, Failed> + 's;

/// A module at P2.3 by a pipeline, with what `schedule` made of it at P2.1. One that is beyond it goes on as it is.
///
/// # Errors
/// The pass that refuses the module.
pub fn lower_scheduled(
    pipeline: &'static Pipeline,
    module: &Module,
    settings: &Settings,
    watch: &mut dyn Watch,
    schedule: &mut Schedule<'_>,
) -> Result<Module, Failed> {
    let pass = |module: &Module, route: &Route, watch: &mut dyn Watch| {
        run(module, route, settings, &mut Prover::new(), watch)
    };
    let early = Phase::of_module(module).is_ok_and(|phase| phase <= Phase::P21);
    if !early {
        return pass(module, &pipeline.to(Phase::P23), watch);
    }
    let legal = pass(module, &pipeline.to(Phase::P21), watch)?;
    let scheduled = schedule(&legal, watch)?;
    pass(&scheduled, &pipeline.to(Phase::P23), watch)
}
