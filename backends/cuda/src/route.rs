//! From a module to the one that kernels for a device are printed from: the pipeline, and what schedules
//! loops for blocks and threads.

use relax_lower::gpu::{Limits, schedule};
use relax_lower::passes::schedule_gpu;
use relax_lower::pipeline::PIPELINE;
use relax_rewrite::pass::{Settings, Target};
use relax_rewrite::pipeline::{Failed, Route, Unwatched, run};
use relax_semantics::check::Phase;
use relax_symbolic::Prover;
use relax_syntax::facts::Facts;
use relax_syntax::ir::{Definition, Module};

/// The tensor programs of a module with their loops bound to blocks and threads, where they are not yet.
#[must_use]
pub fn scheduled(module: &Module, facts: &mut dyn Facts) -> Module {
    let mut result = module.clone();
    for definition in &mut result.definitions {
        if let Definition::Tensor(program) = definition
            && let Some(bound) = schedule(program, facts, Limits::default())
        {
            *program = bound;
        }
    }
    result
}

/// A module as the machine runs it with kernels on a device.
///
/// # Errors
/// The pass that refuses the module.
pub fn lower_for_cuda(module: &Module, settings: &Settings) -> Result<Module, Failed> {
    // What a library computes is a host function here: programs keep their operators.
    let settings = Settings { target: Target::Cpu, ..settings.clone() };
    let pass = |module: &Module, route: &Route| {
        run(module, route, &settings, &mut Prover::new(), &mut Unwatched)
    };
    let early = Phase::of_module(module).is_ok_and(|phase| phase <= Phase::P21);
    if !early {
        return pass(module, &PIPELINE.to(Phase::P23));
    }
    let legal = pass(module, &PIPELINE.to(Phase::P21))?;
    let scheduled = pass(&legal, &Route::Passes(vec![&schedule_gpu::PASS]))?;
    pass(&scheduled, &PIPELINE.to(Phase::P23))
}
