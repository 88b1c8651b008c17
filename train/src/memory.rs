//! The budget of memory of a training run: the dims that it is for, and what exceeds it.

use crate::config::{Config, ConfigError, MemoryConfig};
use crate::error::TrainError;
use crate::recomputation::{Budget, BudgetError, MemoryPlan};
use relax_program::signature::Dims;
use relax_syntax::Name;
use relax_syntax::ir::Function;
use relax_syntax::suggest::hint;
use std::collections::BTreeMap;

/// The budget for the greatest batches and windows, and for the dims that the configuration names.
pub(crate) fn budget(
    config: &Config,
    memory: &MemoryConfig,
    function: &Function,
) -> Result<Budget, ConfigError> {
    let bound = function.dims.iter().filter(|dim| dim.in_signature);
    let known: Vec<&str> = bound.map(|dim| dim.name.as_str()).collect();
    let cuts = config.data.batch.iter().chain(&config.data.length);
    let greatest = cuts.map(|cut| {
        let size = cut.sizes.iter().max().copied().unwrap_or(0);
        (cut.dim.value.clone(), i64::try_from(size).unwrap_or(i64::MAX))
    });
    let mut dims: BTreeMap<Name, i64> = config.dims.clone();
    dims.extend(greatest);
    for (name, value) in &memory.dims {
        if !known.contains(&name.value.as_str()) {
            let message = format!(
                "no parameter of `{}` has the symbolic variable `{}` (`memory.dims`)",
                function.name, name.value
            );
            return Err(ConfigError::new(name.span, message).with_help(hint(&name.value, &known)));
        }
        dims.insert(name.value.clone(), *value);
    }
    Ok(Budget { bytes: memory.budget.value, dims })
}

/// Why there is no adjoint, at the place of the budget where it is the reason.
pub(crate) fn refused(error: BudgetError, config: &Config) -> TrainError {
    match (error, &config.memory) {
        (BudgetError::Gradient(failed), _) => TrainError::Gradient(failed),
        (error, None) => TrainError::Input(error.to_string()),
        (error, Some(memory)) => {
            let help = match error {
                BudgetError::Dims(_) => {
                    "the table `[memory.dims]` gives values of symbolic variables"
                }
                _ => "smaller batches or windows take less",
            };
            let error = ConfigError::new(memory.budget.span, format!("`memory.budget`: {error}"));
            error.with_help(Some(help.to_owned())).into()
        }
    }
}

/// Whether a step with these dims is within the budget; steps of which the bytes are not known are.
pub(crate) fn check(
    config: &Config,
    plan: Option<&MemoryPlan>,
    (step, dims): (u64, &Dims),
) -> Result<(), ConfigError> {
    let (Some(memory), Some(plan)) = (&config.memory, plan) else { return Ok(()) };
    let mut all = config.dims.clone();
    all.extend(dims.iter().map(|(name, value)| (name.clone(), *value)));
    let budget = &memory.budget;
    let Some(bytes) = plan.bytes(&all).filter(|bytes| *bytes > budget.value) else { return Ok(()) };
    let shown: Vec<String> = dims.iter().map(|(name, value)| format!("{name} = {value}")).collect();
    let message = format!(
        "step {step}: the adjoint takes {bytes} bytes for {}, more than {} (`memory.budget`)",
        shown.join(", "),
        budget.value
    );
    let help = "the table `[memory.dims]` must have the greatest values of symbolic variables";
    Err(ConfigError::new(budget.span, message).with_help(Some(help.to_owned())))
}
