//! Whether two programs have the same values and traps: `relax-validation` compares their functions, with the obligations and certificates
//! of compilations. Random cases are to look for a difference first ([`crate::differential`]).

use crate::differential::{Other, Routes, Tally};
use relax_lower::certify::certified;
use relax_program::compare::{Relation, compare};
use relax_program::frontend::print;
use relax_semantics::tensor::Tensor;
use relax_semantics::value::Value;
use relax_syntax::Name;
use relax_syntax::ir::references::reached_from;
use relax_syntax::ir::{AttrValue, Function, Module, attr};
use relax_validation::certificate::{Certificate, Header};
use relax_validation::derive::{EQUIVALENCE, Stage};
use relax_validation::obligation::{Kind, Outcome as Ended};
use std::collections::BTreeSet;

/// Whose proofs count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trust {
    /// Rules that a checker replays.
    Rules,
    /// Those, and the SMT solver z3.
    Solver,
}

/// What is known of a function.
#[derive(Debug)]
pub struct Finding {
    /// Its name in both programs.
    pub function: Name,
    /// How its proof ended; the reason where none was tried.
    pub ended: Result<Ended, String>,
    /// Its random cases, none of which differs.
    pub tally: Tally,
}

/// What a function comes to, the worst last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// Proved for all dims and inputs.
    Equal,
    /// No case had a value, whatever is proved.
    Vacuous,
    /// Neither proved nor refuted.
    Open,
    /// A case has different values.
    Different,
}

impl Verdict {
    /// Its name in output.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Verdict::Equal => "equal",
            Verdict::Vacuous => "vacuous",
            Verdict::Open => "open",
            Verdict::Different => "different",
        }
    }
}

impl Finding {
    /// What it comes to.
    #[must_use]
    pub fn verdict(&self, trust: Trust) -> Verdict {
        match &self.ended {
            Ok(Ended::Refuted(_)) => Verdict::Different,
            Ok(Ended::Trusted) if trust == Trust::Rules => Verdict::Open,
            Ok(Ended::Proved | Ended::Trusted) if self.tally.compared == 0 => Verdict::Vacuous,
            Ok(Ended::Proved | Ended::Trusted) => Verdict::Equal,
            Ok(Ended::Unproved(_)) | Err(_) => Verdict::Open,
        }
    }

    /// Why it is not proved, or how it is.
    #[must_use]
    pub fn how(&self) -> String {
        match &self.ended {
            Ok(Ended::Proved) => "proved".to_owned(),
            Ok(Ended::Trusted) => "proved, where z3 is trusted (--trust z3)".to_owned(),
            Ok(Ended::Unproved(why) | Ended::Refuted(why)) | Err(why) => why.clone(),
        }
    }
}

fn is_private(function: &Function) -> bool {
    attr(&function.lambda.attrs, "private") == Some(&AttrValue::Bool(true))
}

/// A function that others may call and that one of the programs alone has.
#[must_use]
pub fn alone(left: &Module, right: &Module) -> Option<String> {
    let missing = |module: &Module, other: &Module| {
        let mut functions = module
            .functions()
            .filter(|function| !is_private(function) && function.lambda.body.is_some());
        functions.find(|one| other.function(&one.name).is_none()).map(|one| one.name.clone())
    };
    let of_left = missing(left, right).map(|name| format!("only the first program has `{name}`"));
    of_left.or_else(|| {
        missing(right, left).map(|name| format!("only the second program has `{name}`"))
    })
}

/// A constant of the second program that is not one of the first with the same name and value: proofs take constants of one name for the
/// same.
fn other_constants(routes: &Routes) -> Option<String> {
    let Other::Text { externals: Some(own), .. } = &routes.other else { return None };
    let value = |tensor: &Tensor| Value::Tensor(tensor.clone());
    let is_same = |first: &Tensor, second: &Tensor| {
        compare(Relation::Equal, &value(first), &value(second)).is_ok()
    };
    own.iter().find_map(|(name, second)| match routes.externals.get(name) {
        None => Some(format!("only the second program has a constant `{name}`")),
        Some(first) if is_same(first, second) => None,
        Some(_) => Some(format!("the constant `{name}` has another value in the second program")),
    })
}

/// What became of the functions of two texts, in the order of `tallies`, and the certificate where a proof was tried.
///
/// # Errors
/// When a program that was printed does not read back, which is a bug.
pub fn findings(
    routes: &Routes,
    tallies: Vec<(Name, Tally)>,
) -> Result<(Vec<Finding>, Option<Certificate>), String> {
    let Other::Text { module: other, .. } = &routes.other else {
        return Err("of machine code nothing is proved".to_owned());
    };
    let tested = tallies.iter().map(|(_, tally)| u64::from(tally.compared)).sum();
    let proved = match other_constants(routes) {
        Some(why) => Err(why),
        None => Ok(proof(&routes.left, other, tested)?),
    };
    let functions = routes.left.functions().chain(other.functions());
    let private: BTreeSet<Name> =
        functions.filter(|one| is_private(one)).map(|one| one.name.clone()).collect();
    let found = tallies.into_iter().map(|(function, tally)| {
        let ended = match &proved {
            Ok(certificate) => {
                let reached = reached(&function, [&routes.left, other], &private);
                with_reached(certificate, &function, &reached, &private)
            }
            Err(why) => Err(why.clone()),
        };
        Finding { function, ended, tally }
    });
    Ok((found.collect(), proved.ok()))
}

fn proof(left: &Module, right: &Module, tested: u64) -> Result<Certificate, String> {
    let stage = |name, module| {
        Stage::read(name, &print(module))
            .map_err(|why| format!("a program that was printed does not read back: {why}"))
    };
    let header = Header { route: EQUIVALENCE.to_owned(), target: "any target".to_owned(), tested };
    Ok(certified(header, vec![stage("input", left)?, stage(EQUIVALENCE, right)?]))
}

/// The functions of both programs that a function reaches and that others may call.
fn reached(function: &Name, modules: [&Module; 2], private: &BTreeSet<Name>) -> BTreeSet<Name> {
    let each = modules.iter().flat_map(|module| reached_from(module, vec![function.clone()]));
    let is_public = |name: &Name| {
        name != function
            && !private.contains(name)
            && modules.iter().all(|module| module.function(name).is_some())
    };
    each.filter(is_public).collect()
}

/// How the proof of a function ended, with those of the functions that it reaches: calls of these are taken to be equal by their name.
fn with_reached(
    certificate: &Certificate,
    function: &Name,
    reached: &BTreeSet<Name>,
    private: &BTreeSet<Name>,
) -> Result<Ended, String> {
    let own = ended(certificate, function, private)?;
    Ok(reached.iter().fold(own, |worst, name| {
        let other = ended(certificate, name, private).unwrap_or_else(Ended::Unproved);
        worse(worst, other, || format!("it reaches `{name}`"))
    }))
}

/// One outcome where another one counts, too; `whose` says of what the other is, where that is not proved.
fn worse(one: Ended, other: Ended, whose: impl FnOnce() -> String) -> Ended {
    match (one, other) {
        (Ended::Proved, other @ (Ended::Trusted | Ended::Proved)) => other,
        (Ended::Proved | Ended::Trusted, Ended::Unproved(why) | Ended::Refuted(why)) => {
            Ended::Unproved(format!("{}: {why}", whose()))
        }
        (known, _) => known,
    }
}

/// How the proof of a function ended: the worst of what is to be shown of it, and of the memory of private functions, which it may call.
fn ended(
    certificate: &Certificate,
    function: &Name,
    private: &BTreeSet<Name>,
) -> Result<Ended, String> {
    let mut own = certificate.obligations.iter().filter(|each| {
        let is_memory = each.kind == Kind::Memory && private.contains(&each.function);
        each.function == *function || is_memory
    });
    let first = own.next().ok_or_else(|| "only functions call it".to_owned())?;
    Ok(own.fold(first.outcome.clone(), |worst, each| {
        worse(worst, each.outcome.clone(), || format!("memory: {} {}", each.place, each.what))
    }))
}
