//! Certificates: a proof of a statement in steps that a small checker replays
//! (`docs/CERTIFICATES.md`).
//!
//! The engine searches as always and keeps a [journal](crate::journal). The [author](prove) proves
//! each of its conclusions again with the steps of a certificate, and what is not needed is left out.
//! So the search may be as clever as it likes: a wrong conclusion cannot be written down.

mod facts;
mod lines;
mod products;
mod prove;
mod replay;
mod statements;

use crate::claims::Formula;
use crate::context::Context;
use crate::engine::Engine;
use lines::{Case, Writer};
use prove::Author;
use relax_syntax::facts::Claim;
use statements::{Pending, Status};

/// Steps of the engine for all lemmas: of a first attempt, and of a last one.
const FUEL: [u32; 2] = [100_000, 1_000_000];

/// A proof that `facts` imply `goal`, as text; `None` where none was found.
pub(crate) fn written(facts: &[Claim], goal: &Formula) -> Option<String> {
    let hypotheses: Vec<Formula> = facts.iter().cloned().map(Formula::Claim).collect();
    let goal = nested(goal);
    FUEL.iter().find_map(|fuel| written_within(*fuel, &hypotheses, &goal))
}

fn written_within(fuel: u32, hypotheses: &[Formula], goal: &Formula) -> Option<String> {
    let mut engine = Engine::default();
    let mut author = Author::new(&mut engine, fuel);
    let ids: Vec<u32> = hypotheses.iter().map(|_| author.fresh()).collect();
    let cases = [Status::Undefined, Status::Fails].map(|status| {
        let known = ids.iter().copied().zip(hypotheses.iter().map(|h| (h, Status::Holds)));
        let mut items: Vec<_> = known.collect();
        let id = author.fresh();
        items.push((id, (goal, status)));
        items.reverse();
        let pending = Pending::new(Context::default(), items);
        let Case { proof, .. } = author.block(&[], |author, _| author.absurd(pending))?;
        Some(Case { ids: vec![id], proof: proof.pruned() })
    });
    let cases: Vec<Case> = cases.into_iter().collect::<Option<_>>()?;
    let proof = Writer::new(&engine.atoms, &ids).cases(&cases);
    Some(format!("{}\n{proof}", header(hypotheses, goal)))
}

fn header(hypotheses: &[Formula], goal: &Formula) -> String {
    let hypotheses = hypotheses.iter().map(|fact| format!("\"{fact}\""));
    let hypotheses = hypotheses.collect::<Vec<String>>().join(", ");
    format!(
        "{{\"relax\": \"certificate\", \"version\": 1, \"hypotheses\": [{hypotheses}], \"goal\": \"{goal}\"}}"
    )
}

/// Connectives with two parts each, nested to the left, as the checker reads them.
fn nested(formula: &Formula) -> Formula {
    let chain = |parts: &[Formula], join: fn(Vec<Formula>) -> Formula, empty: Formula| {
        parts.iter().map(nested).reduce(|a, b| join(vec![a, b])).unwrap_or(empty)
    };
    match formula {
        Formula::True | Formula::False | Formula::Claim(_) => formula.clone(),
        Formula::And(parts) => chain(parts, Formula::And, Formula::True),
        Formula::Or(parts) => chain(parts, Formula::Or, Formula::False),
        Formula::Not(operand) => Formula::negation(nested(operand)),
        Formula::Implies(parts) => Formula::implies(nested(&parts.0), nested(&parts.1)),
    }
}
