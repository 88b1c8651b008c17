//! Rules of a file that is not part of this program: before one is used it is proved, or refused with what is wrong with it.

use super::counterexample::{Counterexample, counterexample};
use super::numeric::evaluate;
use super::proof::{Status, prove};
use super::rule::{Direction, Kind, Node, Rule, rank_of};
use crate::denotation::theorem::assume_conditions;
use relax_syntax::Name;
use relax_syntax::dim::Dim;
use relax_syntax::facts::{Answer, Claim, Facts, Relation};
use std::collections::BTreeSet;
use std::fmt;

/// Classes of dtypes that a rule may have: a proof is repeated for each choice of them.
pub(super) const MOST_TYPES: usize = 4;

/// What is known of a rule of somebody else.
#[derive(Clone, Debug)]
pub enum Verdict {
    /// It is a theorem.
    Proved(Status),
    /// It has no proof, for this reason, and no counterexample among so many cases.
    Tested(String, usize),
    /// It must not be used.
    Refused(Refusal),
}

/// Why a rule must not be used.
#[derive(Clone, Debug)]
pub enum Refusal {
    /// The side that is found is a mere operand or constant: it stands everywhere.
    FoundEverywhere,
    /// The side that is made mentions this, which the side that is found does not determine.
    Undetermined(Name),
    /// It ranges over more than this many classes of dtypes.
    TooManyTypes(usize),
    /// A condition mentions this, which no operand determines.
    UndeterminedCondition(Name),
    /// The conditions contradict each other: the rule would be proved of nothing, and never be used.
    Contradictory,
    /// The sides differ.
    Wrong(Box<Counterexample>),
    /// It has no proof for this reason, and at small sizes there is nothing to compare.
    Untested(String),
}

/// Proves a rule, or finds what is wrong with it. `prover` makes one that knows nothing yet.
pub fn judge(rule: &Rule, prover: &mut dyn FnMut() -> Box<dyn Facts>) -> Verdict {
    if let Some(refusal) = cannot_be_used(rule) {
        return Verdict::Refused(refusal);
    }
    let mut facts = prover();
    assume_conditions(rule, &mut *facts);
    let absurd = Claim::new(Dim::Int(1), Relation::AtMost, Dim::Int(0));
    if facts.decide(&absurd) == Answer::Proved {
        return Verdict::Refused(Refusal::Contradictory);
    }
    let compared = evaluate(rule);
    let wrong = || counterexample(rule).map(|found| Refusal::Wrong(Box::new(found)));
    // Over the real numbers rounding may look like a difference: there a proof counts more. Of what is exact, either is final.
    if rule.kind == Kind::Exact
        && compared.difference.is_some()
        && let Some(refusal) = wrong()
    {
        return Verdict::Refused(refusal);
    }
    let why = match prove(rule, prover) {
        Status::Unproved(why) => why,
        status => return Verdict::Proved(status),
    };
    if compared.difference.is_some()
        && let Some(refusal) = wrong()
    {
        return Verdict::Refused(refusal);
    }
    match compared.equal {
        0 => Verdict::Refused(Refusal::Untested(why)),
        cases => Verdict::Tested(why, cases),
    }
}

fn cannot_be_used(rule: &Rule) -> Option<Refusal> {
    let found = matches!(rule.left, Node::Call(_) | Node::Part(..));
    if !found && rule.direction == Direction::Forward {
        return Some(Refusal::FoundEverywhere);
    }
    if rule.element_types().len() > MOST_TYPES {
        return Some(Refusal::TooManyTypes(MOST_TYPES));
    }
    let forward = rule.undetermined(&rule.left, &rule.right);
    let backward = rule.undetermined(&rule.right, &rule.left);
    if let Some(name) = forward
        && (rule.direction == Direction::Forward || backward.is_some())
    {
        return Some(Refusal::Undetermined(name));
    }
    let (dims, groups) = (rule.variables(), rule.groups());
    let mut mentioned = BTreeSet::new();
    for condition in &rule.conditions {
        for side in [&condition.left, &condition.right] {
            side.visit_vars(&mut |name| _ = mentioned.insert(name.clone()));
        }
    }
    let is_rank = |name: &Name| groups.iter().any(|group| *name == rank_of(group));
    let unknown = mentioned.into_iter().find(|name| !dims.contains(name) && !is_rank(name));
    unknown.map(Refusal::UndeterminedCondition)
}

impl Verdict {
    /// As tables say it.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Verdict::Proved(status) => status.word(),
            Verdict::Tested(..) => "tested",
            Verdict::Refused(_) => "refused",
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::FoundEverywhere => {
                f.write_str("its left side is no call, so it would be found everywhere")
            }
            Refusal::Undetermined(name) => {
                write!(
                    f,
                    "its right side mentions `{name}`, which its left side does not determine"
                )
            }
            Refusal::TooManyTypes(most) => {
                write!(f, "it ranges over more than {most} classes of dtypes")
            }
            Refusal::UndeterminedCondition(name) => {
                write!(f, "its conditions mention `{name}`, which no operand determines")
            }
            Refusal::Contradictory => {
                f.write_str("its conditions contradict each other: it says nothing of any dims")
            }
            Refusal::Wrong(found) => write!(f, "its sides differ at {found}"),
            Refusal::Untested(why) => {
                write!(f, "it has no proof ({why}), and at small sizes there is no case to compare")
            }
        }
    }
}
