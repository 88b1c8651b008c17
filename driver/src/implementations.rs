//! Implementations that a module has of its tensor programs and composite functions: which of them the pass `alter_op_impl` may use.
//! Each is compared with what it implements, as two programs are ([`crate::equivalence`]): random cases look for a difference, then a
//! proof is tried.

use crate::differential::{
    Difference, Files, Integers, Known, Routes, Tally, all_externals, of_text,
};
use crate::equivalence::{Trust, Verdict, findings};
use relax_program::compare::Relation;
use relax_rewrite::passes::alter_op_impl::{Candidate, Pair, pair};
use relax_semantics::check::{Checked, Phase, check};
use relax_semantics::tensor::Tensor;
use relax_symbolic::Prover;
use relax_syntax::Name;
use relax_syntax::diagnostic::{Diagnostic, Severity};
use relax_syntax::ir::Module;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

/// How an implementation is compared.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// How many random cases there are.
    pub cases: u32,
    /// Of random dims and data.
    pub seed: u64,
    /// How near the results of random cases must be. Proofs are of every bit all the same.
    pub relation: Relation,
    /// Whose proofs count.
    pub trust: Trust,
}

/// What became of a candidate.
pub enum Judgement {
    /// Equal for all dims and inputs.
    Proved,
    /// Why it is not proved; no case differs.
    Tested(String, Tally),
    /// A case differs; its function is one of this module.
    Different(Box<Difference>, Module),
    /// A proof says that they differ, and how.
    Refuted(String),
    /// It does not take what is given to the other, or not for all dims.
    Unfit(String),
    /// Nothing could be compared, and why.
    Nothing(String),
}

/// Compares an implementation of a checked module with what it implements.
///
/// # Errors
/// When a program that was printed does not read back, which is a bug.
pub fn judged(
    checked: &Checked,
    candidate: &Candidate,
    given: &BTreeMap<Name, Tensor>,
    effort: Effort,
) -> Result<Judgement, String> {
    let Pair { one, other, function } = match pair(checked, candidate) {
        Ok(pair) => pair,
        Err(why) => return Ok(Judgement::Unfit(why)),
    };
    for module in [&one, &other] {
        if let Some(why) = unfit(module, &function) {
            return Ok(Judgement::Unfit(why));
        }
    }
    let externals = match all_externals(given.clone(), &[&one, &other], effort.seed) {
        Ok(externals) => externals,
        Err(why) => return Ok(Judgement::Nothing(why)),
    };
    let routes = Routes {
        other: of_text(&one, other, effort.relation),
        left: one,
        seed: effort.seed,
        cases: effort.cases,
        externals: Arc::new(externals),
        known: Known::default(),
        inputs: Integers::OftenIndices,
        random_constants: false,
        files: Files { left: PathBuf::new(), other: PathBuf::new(), built: None },
    };
    let mut tally = Tally::default();
    if let Some(difference) = routes.function(&function, &mut tally, &mut |_| {}) {
        return Ok(Judgement::Different(Box::new(difference), routes.left));
    }
    let (found, _) = findings(&routes, vec![(function, tally)])?;
    let finding = found.into_iter().next().expect("invariant: a finding a function");
    Ok(match finding.verdict(effort.trust) {
        Verdict::Equal => Judgement::Proved,
        Verdict::Different => Judgement::Refuted(finding.how()),
        Verdict::Open if finding.tally.compared > 0 => {
            Judgement::Tested(finding.how(), finding.tally)
        }
        Verdict::Vacuous | Verdict::Open => Judgement::Nothing("no case had a value".to_owned()),
    })
}

/// Why the call in a function is not one for all arguments of the function.
fn unfit(module: &Module, function: &Name) -> Option<String> {
    let phase = Phase::of_module(module).unwrap_or(Phase::P0);
    let checked = check(module, &mut Prover::new(), phase);
    let is_error = |each: &&Diagnostic| each.severity == Severity::Error;
    if let Some(first) = checked.diagnostics.iter().find(is_error) {
        return Some(first.message.clone());
    }
    let left = checked.obligations.iter().find(|left| left.function == *function)?;
    Some(format!("it is not known for all dims that {}", left.text))
}

#[cfg(test)]
mod tests;
