//! Certificates: a proof of a statement in steps that a small checker replays
//! (`docs/CERTIFICATES.md`).
//!
//! The engine searches as always and keeps a [journal](crate::journal). The [author](prove) proves
//! each of its conclusions again with the steps of a certificate, and what is not needed is left out.
//! So the search may be as clever as it likes: a wrong conclusion cannot be written down.

mod arguments;
mod facts;
mod instances;
mod lines;
mod products;
mod prove;
mod replay;
mod statements;

use crate::claims::Formula;
use crate::context::Context;
use crate::egraph::{self, Instance};
use crate::engine::Engine;
use crate::solver::{Trusted, text_hash};
use crate::thorough::Reach;
use lines::{Case, Writer};
use prove::{Author, Way};
use relax_syntax::facts::Claim;
use statements::{Pending, Status};
use std::collections::BTreeSet;

/// The attempts, cheap ones first, with the steps for each.
const ATTEMPTS: [(Way, u32); 3] =
    [(Way::Arguments, 10_000), (Way::Engine, 100_000), (Way::Engine, 1_000_000)];
/// Steps of the engine to read the facts.
const READING_FUEL: u32 = 20_000;

/// Which hypotheses a certificate has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keep {
    /// All that were given.
    All,
    /// Those that its proof needs.
    Needed,
}

/// A proof that `facts` imply `goal`, as text; `None` where none was found.
pub(crate) fn written(facts: &[Claim], goal: &Formula, keep: Keep) -> Option<String> {
    let text = Statement::new(facts, goal);
    ATTEMPTS.into_iter().find_map(|attempt| text.proved(attempt, &[], keep))
}

/// The same, with the rows of the second attempt.
pub(crate) fn written_thoroughly(facts: &[Claim], goal: &Formula, keep: Keep) -> Option<String> {
    let text = Statement { reach: Reach::Far, ..Statement::new(facts, goal) };
    ATTEMPTS.into_iter().find_map(|attempt| text.proved(attempt, &[], keep))
}

/// The same, with rules of the e-graph.
pub(crate) fn written_with_rules(facts: &[Claim], goal: &Formula, keep: Keep) -> Option<String> {
    let (mut engine, mut context) = (Engine::default(), Context::default());
    engine.fuel = READING_FUEL;
    facts.iter().for_each(|fact| engine.assume(&mut context, fact));
    let instances = egraph::instances(&mut engine, &context, goal)?.instances;
    let text = Statement::new(facts, goal);
    ATTEMPTS.into_iter().find_map(|attempt| text.proved(attempt, &instances, keep))
}

/// The text that says that nothing is replayed, because the solver decided.
pub(crate) fn trusting(facts: &[Claim], goal: &Formula, trusted: &Trusted) -> String {
    let text = Statement::new(facts, goal);
    let header = text.header(&text.hypotheses.iter().collect::<Vec<_>>(), &[]);
    let Trusted { version, rlimit, question, .. } = trusted;
    let statement = text.hash();
    format!(
        "{header}\n{{\"trust\": \"z3\", \"version\": \"{version}\", \"rlimit\": {rlimit}, \"question\": \"{question}\", \"statement\": \"{statement}\"}}\n"
    )
}

/// What a certificate shows.
struct Statement {
    hypotheses: Vec<Formula>,
    goal: Formula,
    reach: Reach,
}

impl Statement {
    fn new(facts: &[Claim], goal: &Formula) -> Self {
        let hypotheses = facts.iter().cloned().map(Formula::Claim).collect();
        Self { hypotheses, goal: nested(goal), reach: Reach::Near }
    }

    /// What binds the line of a solver to this statement, as the checker computes it from the header.
    fn hash(&self) -> String {
        let known = self.hypotheses.iter().map(|fact| format!("{fact}\n"));
        text_hash(&format!("{}|- {}\n", known.collect::<String>(), self.goal))
    }

    fn proved(
        &self,
        (way, fuel): (Way, u32),
        instances: &[Instance],
        keep: Keep,
    ) -> Option<String> {
        let mut engine = Engine::default();
        engine.reach = self.reach;
        let mut author = Author::new(&mut engine, way, fuel);
        let ids: Vec<u32> = self.hypotheses.iter().map(|_| author.fresh()).collect();
        let cases = [Status::Undefined, Status::Fails].map(|status| {
            let known = self.hypotheses.iter().map(|fact| (fact, Status::Holds));
            let mut items: Vec<_> = ids.iter().copied().zip(known).collect();
            let id = author.fresh();
            items.push((id, (&self.goal, status)));
            items.reverse();
            let mut pending = Pending::new(Context::default(), items);
            pending.instances = instances.to_vec();
            let Case { proof, .. } = author.block(&[], |author, _| author.absurd(pending))?;
            Some(Case { ids: vec![id], proof: proof.pruned() })
        });
        let cases: Vec<Case> = cases.into_iter().collect::<Option<_>>()?;
        let needs: BTreeSet<u32> = cases.iter().flat_map(|case| case.proof.needs()).collect();
        let known = ids.into_iter().zip(&self.hypotheses);
        let (ids, hypotheses): (Vec<u32>, Vec<&Formula>) =
            known.filter(|(id, _)| keep == Keep::All || needs.contains(id)).unzip();
        let proof = Writer::new(&engine.atoms, &ids).cases(&cases);
        Some(format!("{}\n{proof}", self.header(&hypotheses, instances)))
    }

    fn header(&self, hypotheses: &[&Formula], instances: &[Instance]) -> String {
        let hypotheses = hypotheses.iter().map(|fact| format!("\"{fact}\""));
        let hypotheses = hypotheses.collect::<Vec<String>>().join(", ");
        let rules = if instances.is_empty() {
            String::new()
        } else {
            format!(", \"rules\": \"{}\"", text_hash(crate::RULES))
        };
        let goal = &self.goal;
        format!(
            "{{\"relax\": \"certificate\", \"version\": 1, \"hypotheses\": [{hypotheses}], \"goal\": \"{goal}\"{rules}}}"
        )
    }
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
