//! Statements on integers, decided for all values.

use crate::errors::Failure;
use pyo3::prelude::*;
use relax_symbolic::claims::Formula;
use relax_symbolic::{Prover, statement};
use relax_syntax::facts::{Answer, Facts};
use std::collections::BTreeMap;

/// Steps that the solver may take for one statement: about a second.
const SOLVER_LIMIT: u32 = 2_000_000;

/// Answer, stage, counterexample, and facts that would each decide the statement.
type Proof = (&'static str, String, Option<BTreeMap<String, i64>>, Vec<String>);

#[pyfunction]
pub(crate) fn prove(py: Python<'_>, goal: &str, assume: Vec<String>) -> PyResult<Proof> {
    py.detach(|| proved(goal, &assume)).map_err(|failure| failure.raised(py))
}

fn proved(goal: &str, assume: &[String]) -> Result<Proof, Failure> {
    let known = assume.iter().map(|text| read(text)).collect::<Result<Vec<_>, _>>()?;
    let goal = read(goal)?;
    let mut prover = Prover::new();
    prover.limit_solver(Some(SOLVER_LIMIT));
    let hypotheses = prover.suppose(known);
    let verdict = prover.judge(&goal.clone().under(&hypotheses));
    let stage = verdict.stage.name().to_owned();
    let missing = match &goal {
        Formula::Claim(claim) if hypotheses.is_empty() && verdict.answer != Answer::Proved => {
            prover.missing(claim).iter().map(ToString::to_string).collect()
        }
        _ => Vec::new(),
    };
    let values = match &verdict.answer {
        Answer::Refuted(values) => {
            Some(values.iter().map(|(name, value)| (name.to_string(), *value)).collect())
        }
        Answer::Proved | Answer::Unknown => None,
    };
    Ok((verdict.answer.word(), stage, values, missing))
}

fn read(text: &str) -> Result<Formula, Failure> {
    statement::formula(text).map_err(|why| Failure::argument(format!("`{text}`: {why}")))
}

/// The version of z3; none where this build has no solver.
#[pyfunction]
pub(crate) fn solver() -> Option<String> {
    relax_symbolic::solver_version()
}
