//! Results as real numbers: where a pass rounds elsewhere, both modules are run in f64 too, and what differs there is
//! held against the rounding that each of them shows.

use super::{Case, Sides};
use relax_program::frontend::{Ran, RunOptions, run};
use relax_program::printed::floats_of;
use relax_program::reals::{
    Results, agree, largest_magnitude, widened, widened_value, widened_values,
};
use relax_semantics::value::Value;
use relax_syntax::ir::{Function, Module};
use std::sync::Arc;

/// Two modules in f64.
pub(super) struct Wide {
    before: Module,
    after: Module,
    options: RunOptions,
}

impl Wide {
    /// `None` where one has what is not widened: shapes and traps alone are compared then.
    pub(super) fn of(before: &Module, after: &Module, options: &RunOptions) -> Option<Wide> {
        let externals = Arc::new(widened_values(&options.externals));
        let options = RunOptions { externals, ..options.clone() };
        Some(Wide { before: widened(before)?, after: widened(after)?, options })
    }
}

impl Sides<'_> {
    /// What a run before is to one after, and of both to their runs in f64.
    pub(super) fn judged(
        &self,
        function: &Function,
        arguments: &[Value],
        before: Ran,
    ) -> Result<Case, String> {
        let after = || self.after(function, arguments);
        let Some(wide) = &self.wide else { return self.outcomes(arguments, before, after) };
        let (first, mut second) = (everything(&before), None);
        let case = self.outcomes(arguments, before, || {
            let after = after();
            second = everything(&after);
            after
        })?;
        let (Some(first), Some(second)) = (first, second) else { return Ok(case) };
        let inputs = largest_magnitude(arguments);
        let arguments: Vec<Value> = arguments.iter().map(widened_value).collect();
        let left = run(&wide.before, &function.name, arguments.clone(), &wide.options);
        let arguments = self.arguments_after(function, &arguments);
        let right = run(&wide.after, &function.name, arguments, &wide.options);
        match (everything(&left), everything(&right)) {
            (Some(left), Some(right)) => {
                let (rounded, wide) = ((&first, &second), (&left, &right));
                agree(Results { rounded, wide, inputs })?;
                Ok(Case::AsReals)
            }
            _ => Ok(case),
        }
    }
}

/// The result, and the floats that were printed.
fn everything(ran: &Ran) -> Option<Value> {
    let result = ran.result.as_ref().ok()?;
    Some(Value::Tuple(vec![result.clone(), floats_of(&ran.printed).1]))
}
