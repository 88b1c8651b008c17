//! Gradient checkpointing (Chen et al. 2016) under a budget of memory: the adjoint that recomputes as little as the budget allows.
//!
//! The forward computation is cut into segments, which the backward computation repeats ([`Segments`]). Each number of segments
//! has its plan of memory, whose peak is a formula in the dims. The least number is taken whose peak is within the budget for the given
//! dims. Only memory plans are compared, so the choice is the same in every run, and results are those of an adjoint without segments.

use crate::gradient::{adjoint, ingested, reduced};
use relax_driver::{Target, pipeline};
use relax_lower::report::{figures, memory_report, peak_formula};
use relax_rewrite::inlined::with_calls_inlined;
use relax_rewrite::pass::{Pass, Settings};
use relax_rewrite::passes::gradient::{Options, Segments, adjoint_name};
use relax_rewrite::pipeline::{Failed, Unwatched, run};
use relax_semantics::check::Phase;
use relax_symbolic::Prover;
use relax_syntax::Name;
use relax_syntax::dim::Dim;
use relax_syntax::ir::Module;
use std::collections::BTreeMap;
use thiserror::Error;

/// How many bytes an adjoint may take, for which dims.
#[derive(Clone, Debug)]
pub struct Budget {
    /// Of its storages, those of functions that it calls included, but for parameters.
    pub bytes: i64,
    /// Values of symbolic variables.
    pub dims: BTreeMap<Name, i64>,
}

/// An adjoint within a budget.
#[derive(Clone, Debug)]
pub struct Recomputing {
    /// In phase P0, as [`crate::differentiated`] gives it.
    pub module: Module,
    /// What it takes.
    pub plan: MemoryPlan,
}

/// What the memory plan of an adjoint takes.
#[derive(Clone, Debug)]
pub struct MemoryPlan {
    /// The adjoint, to which the bytes belong with all that it calls.
    pub function: Name,
    /// Into how many segments the function is cut; 1: nothing is computed again.
    pub segments: usize,
    /// Bytes that the memory plan takes at most, for the dims of the budget.
    pub peak: i64,
    /// The same for all dims; `None` where those of a called function are not known.
    pub formula: Option<Dim>,
}

impl MemoryPlan {
    /// The bytes and the number of segments for people, a line each.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let Self { function, segments, peak, formula } = self;
        let segments = match segments {
            1 => "nothing is computed again".to_owned(),
            count => format!("{count} segments, which are computed again but for the last"),
        };
        let peak = format!("memory of `{function}`: at most {peak} bytes; {segments}");
        let formula = formula.iter().map(|formula| format!("for all dims: {formula} bytes"));
        std::iter::once(peak).chain(formula).collect()
    }

    /// The bytes for other dims; `None` where they are not known.
    #[must_use]
    pub fn bytes(&self, dims: &BTreeMap<Name, i64>) -> Option<i64> {
        self.formula.as_ref()?.eval(&|name| dims.get(name).copied()).ok()
    }
}

/// Why there is no adjoint within a budget.
#[derive(Debug, Error)]
pub enum BudgetError {
    /// The program has no gradient.
    #[error("the program cannot be differentiated: {0:?}")]
    Gradient(Box<Failed>),
    /// A dim has no value, or bytes for these dims leave i64.
    #[error("{0}")]
    Dims(String),
    /// Every number of segments takes more.
    #[error(
        "the adjoint takes at least {least} bytes for these dims, with {segments} segments: more than {budget}"
    )]
    TooSmall {
        /// Bytes that were allowed.
        budget: i64,
        /// Bytes of the plan that takes the fewest.
        least: i64,
        /// Of that plan.
        segments: usize,
    },
}

impl From<Failed> for BudgetError {
    fn from(failed: Failed) -> Self {
        Self::Gradient(Box::new(failed))
    }
}

/// The adjoint of a function of a module, cut into as few segments as a budget allows for code of a target.
///
/// # Errors
/// A function that has no gradient, dims without a value, or a budget that no number of segments keeps.
pub fn differentiated_within(
    module: &Module,
    options: &Options,
    budget: &Budget,
    target: &Target,
) -> Result<Recomputing, BudgetError> {
    within(&ingested(module)?, options, budget, target, None)
}

/// The same of an ingested module, after a pass on adjoints.
pub(crate) fn within(
    ingested: &Module,
    options: &Options,
    budget: &Budget,
    target: &Target,
    after: Option<&'static Pass>,
) -> Result<Recomputing, BudgetError> {
    let mut least: Option<(i64, usize)> = None;
    let mut most = 1;
    let mut count = 1;
    while count <= most {
        let segments = Segments { count, dims: budget.dims.clone() };
        let made = adjoint(ingested, Options { segments, ..options.clone() }, after)?;
        let (peak, formula) = planned(&made, options, budget, target)?;
        if peak <= budget.bytes {
            let name = options.function.as_ref().expect("invariant: the function is named");
            let function = adjoint_name(name);
            let plan = MemoryPlan { function, segments: count, peak, formula };
            return Ok(Recomputing { module: made, plan });
        }
        if least.is_none_or(|(least, _)| peak < least) {
            least = Some((peak, count));
        }
        if count == 1 {
            most = bindings(ingested, options);
        }
        // Few segments one by one; of many the next number differs little.
        count += 1 + count / 4;
    }
    let (least, segments) = least.expect("invariant: one segment was tried");
    Err(BudgetError::TooSmall { budget: budget.bytes, least, segments })
}

/// The peak of the memory plan of an adjoint, for the dims of a budget and for all.
fn planned(
    module: &Module,
    options: &Options,
    budget: &Budget,
    target: &Target,
) -> Result<(i64, Option<Dim>), BudgetError> {
    let function = options.function.as_ref().expect("invariant: the function is named");
    let adjoint = adjoint_name(function);
    let settings =
        Settings { device: target.device, numerics: target.numerics, ..Settings::default() };
    let route = pipeline(target).stages.to(Phase::P21);
    let own = reduced(module.clone(), &adjoint);
    let lowered = run(&own, &route, &settings, &mut Prover::new(), &mut Unwatched)?;
    let functions = memory_report(&lowered, &mut Prover::new());
    let formula = peak_formula(&functions, &adjoint, &mut Prover::new());
    if let Some(found) = figures(&functions, &adjoint, &budget.dims) {
        return Ok((found.planned, formula));
    }
    let own = functions.iter().find(|function| function.function == adjoint);
    let dims = own.map_or(&[][..], |function| &function.dims);
    let missing: Vec<&str> =
        dims.iter().filter(|dim| !budget.dims.contains_key(*dim)).map(Name::as_str).collect();
    Err(BudgetError::Dims(if missing.is_empty() {
        "how many bytes the adjoint takes is not known for these dims".to_owned()
    } else {
        format!("a budget is for given dims: give values of {}", missing.join(", "))
    }))
}

/// How many bindings the function has, with those of functions that it calls in their place.
fn bindings(module: &Module, options: &Options) -> usize {
    let count = |module: &Module, name: &Name| {
        let body = module.function(name).and_then(|function| function.lambda.body.as_ref());
        body.map_or(0, |body| body.bindings().count())
    };
    options.function.as_ref().map_or(0, |name| {
        match with_calls_inlined(module, name, &mut Prover::new()) {
            Ok(Some(inlined)) => count(&inlined, name),
            _ => count(module, name),
        }
    })
}
