//! One text, one verdict: what is said to libz3 and what comes back.

use std::sync::Once;
use z3::ast::Int;
use z3::{Config, Params, SatResult, Solver, StatisticsValue};

/// How much memory the solver may have, in MiB; for the whole process, as z3 counts it.
const MEMORY: &str = "2048";

/// What the solver says of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// No assignment satisfies it.
    Unsatisfiable,
    /// Values of `v0`, `v1`, …; absent where one leaves i64. Not yet checked.
    Satisfiable(Option<Vec<i64>>),
    /// Not decided within the limits.
    Unknown,
}

/// The verdict and what it took.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) outcome: Outcome,
    /// Steps by the solver's count.
    pub(crate) used: u32,
}

/// The version of libz3, as three numbers.
pub(crate) fn version() -> String {
    let full = z3::full_version();
    full.split_whitespace().find(|word| word.starts_with(char::is_numeric)).unwrap_or(full).into()
}

/// Decides a text over integers, in a fresh context, with a fixed seed. `variables` is how many
/// values are wanted.
pub(crate) fn run(text: &str, variables: usize, rlimit: u32) -> Run {
    static LIMITS: Once = Once::new();
    LIMITS.call_once(|| z3::set_global_param("memory_max_size", MEMORY));
    z3::with_z3_config(&Config::new(), || {
        let solver = Solver::new();
        let mut params = Params::new();
        params.set_u32("random_seed", 0);
        params.set_u32("rlimit", rlimit);
        solver.set_params(&params);
        solver.from_string(text);
        let outcome = match solver.check() {
            SatResult::Unsat => Outcome::Unsatisfiable,
            SatResult::Sat => Outcome::Satisfiable(values(&solver, variables)),
            SatResult::Unknown => Outcome::Unknown,
        };
        let used = match solver.get_statistics().value("rlimit count") {
            Some(StatisticsValue::UInt(steps)) => steps,
            _ => rlimit,
        };
        Run { outcome, used }
    })
}

fn values(solver: &Solver, variables: usize) -> Option<Vec<i64>> {
    let model = solver.get_model()?;
    let value = |number| model.eval(&Int::new_const(format!("v{number}")), true)?.as_i64();
    (0..variables).map(value).collect()
}
