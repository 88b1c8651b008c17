//! The program of a training step: the adjoint of a function, and what it calls.

use crate::recomputation::{Budget, BudgetError, MemoryPlan, differentiated_within};
use relax_driver::Target;
use relax_lower::pipeline::PIPELINE;
use relax_program::frontend::Program;
use relax_rewrite::pass::Settings;
use relax_rewrite::passes::gradient::{Options, adjoint_name};
use relax_rewrite::pipeline::{Failed, Unwatched, run};
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
    let settings = Settings { gradient: options, ..Settings::default() };
    let apply = |module: &Module, route: &_| {
        run(module, route, &settings, &mut Prover::new(), &mut Unwatched)
    };
    let ingested = apply(module, &PIPELINE.to(Phase::P0))?;
    let gradient = PIPELINE.named("gradient").expect("invariant: the pipeline has the pass");
    apply(&ingested, &gradient)
}

/// The adjoint of a function by some parameters, in a program of its own, with the places of the given one.
pub(crate) struct TrainingStep {
    pub(crate) program: Program,
    pub(crate) adjoint: Name,
    /// Of an adjoint that has a budget of memory.
    pub(crate) memory: Option<MemoryPlan>,
}

/// Within a budget of memory, where there is one.
pub(crate) fn training_step(
    program: &Program,
    function: &Name,
    wrt: Vec<Name>,
    budget: Option<(&Budget, &Target)>,
) -> Result<TrainingStep, BudgetError> {
    let options = Options { function: Some(function.clone()), wrt, ..Options::default() };
    let (module, memory) = match budget {
        None => (differentiated(&program.module, options)?, None),
        Some((budget, target)) => {
            let made = differentiated_within(&program.module, &options, budget, target)?;
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
