//! The program of a training step: the adjoint of a function, and what it calls.

use crate::recomputation::{Budget, BudgetError, MemoryPlan, within};
use relax_driver::Target;
use relax_lower::pipeline::PIPELINE;
use relax_program::frontend::Program;
use relax_rewrite::pass::{Pass, Settings};
use relax_rewrite::passes::gradient::{Options, adjoint_name};
use relax_rewrite::pipeline::{Failed, Route, Unwatched, run};
use relax_semantics::check::Phase;
use relax_symbolic::Prover;
use relax_syntax::Name;
use relax_syntax::ir::Module;
use relax_syntax::ir::references::reached_from;

/// A module in phase P0, with the adjoint of a function.
///
/// # Errors
/// A function or parameter that is not there, or has no gradient.
pub fn differentiated(module: &Module, options: Options) -> Result<Module, Failed> {
    adjoint(&ingested(module)?, options, None)
}

/// In phase P0.
pub(crate) fn ingested(module: &Module) -> Result<Module, Failed> {
    let settings = Settings::default();
    run(module, &PIPELINE.to(Phase::P0), &settings, &mut Prover::new(), &mut Unwatched)
}

/// The adjoint of a function of an ingested module, then a pass on both.
pub(crate) fn adjoint(
    ingested: &Module,
    options: Options,
    after: Option<&'static Pass>,
) -> Result<Module, Failed> {
    let settings = Settings { gradient: options, ..Settings::default() };
    let apply = |module: &Module, route: &_| {
        run(module, route, &settings, &mut Prover::new(), &mut Unwatched)
    };
    let gradient = PIPELINE.named("gradient").expect("invariant: the pipeline has the pass");
    let module = apply(ingested, &gradient)?;
    after.map_or(Ok(module.clone()), |pass| apply(&module, &Route::Passes(vec![pass])))
}

/// The adjoint of a function by some parameters, in a program of its own, with the places of the given one.
pub(crate) struct TrainingStep {
    pub(crate) program: Program,
    pub(crate) adjoint: Name,
    /// Of an adjoint that has a budget of memory.
    pub(crate) memory: Option<MemoryPlan>,
}

/// By the weights, within a budget of memory where there is one, then after a pass.
pub(crate) fn training_step(
    program: &Program,
    options: &Options,
    budget: Option<(&Budget, &Target)>,
    after: Option<&'static Pass>,
) -> Result<TrainingStep, BudgetError> {
    let function = options.function.as_ref().expect("invariant: the function is named");
    let ingested = ingested(&program.module)?;
    let (module, memory) = match budget {
        None => (adjoint(&ingested, options.clone(), after)?, None),
        Some((budget, target)) => {
            let made = within(&ingested, options, budget, target, after)?;
            (made.module, Some(made.plan))
        }
    };
    let adjoint = adjoint_name(function);
    Ok(TrainingStep { program: only(program, module, &adjoint), adjoint, memory })
}

/// A module of one function and what it calls, so that nothing else is compiled.
pub(crate) fn reduced(mut module: Module, function: &Name) -> Module {
    let reached = reached_from(&module, vec![function.clone()]);
    module.definitions.retain(|definition| reached.contains(definition.name()));
    module
}

/// The same as a program.
pub(crate) fn only(program: &Program, module: Module, function: &Name) -> Program {
    let module = reduced(module, function);
    Program { source: program.source.clone(), module, diagnostics: Vec::new(), left: Vec::new() }
}
