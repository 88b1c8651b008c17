//! Boolean combinations of claims, as `relax prove` asks them.

use crate::engine::is_moderate;
use relax_syntax::Name;
use relax_syntax::dim::Dim;
use relax_syntax::facts::{Claim, Counterexample};
use std::collections::BTreeMap;
use std::fmt;

/// How many parts a formula may have to be looked at.
const MAX_SIZE: usize = 1000;
/// How deep a formula may nest to be looked at.
const MAX_DEPTH: usize = 100;

/// A statement with connectives, read from left to right: what a part decides, later parts need not
/// have a value for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Formula {
    /// Holds.
    True,
    /// Does not hold.
    False,
    /// A relation of two dims.
    Claim(Claim),
    /// All hold.
    And(Vec<Formula>),
    /// One holds.
    Or(Vec<Formula>),
    /// The operand does not hold.
    Not(Box<Formula>),
    /// The second holds wherever the first does.
    Implies(Box<(Formula, Formula)>),
}

impl Formula {
    /// `if hypothesis then conclusion`
    #[must_use]
    pub fn implies(hypothesis: Formula, conclusion: Formula) -> Self {
        Formula::Implies(Box::new((hypothesis, conclusion)))
    }

    /// The operand does not hold.
    #[must_use]
    pub fn negation(operand: Formula) -> Self {
        Formula::Not(Box::new(operand))
    }

    /// Whether it holds under an assignment; `None` where a part that matters has no value.
    #[must_use]
    pub fn holds(&self, values: &Counterexample) -> Option<bool> {
        match self {
            Formula::True => Some(true),
            Formula::False => Some(false),
            Formula::Claim(claim) => claim.holds(values),
            Formula::And(parts) => holds_in_order(parts, values, Stop::AtFalse),
            Formula::Or(parts) => holds_in_order(parts, values, Stop::AtTrue),
            Formula::Not(operand) => operand.holds(values).map(|holds| !holds),
            Formula::Implies(parts) => {
                if parts.0.holds(values)? {
                    parts.1.holds(values)
                } else {
                    Some(true)
                }
            }
        }
    }

    /// The claim that decides that the formula fails under an assignment; `None` where it does not
    /// fail, or not by a single claim.
    #[must_use]
    pub fn failing(&self, values: &Counterexample) -> Option<&Claim> {
        match self {
            Formula::Claim(claim) => (claim.holds(values) == Some(false)).then_some(claim),
            Formula::And(parts) => {
                parts.iter().find(|part| part.holds(values) == Some(false))?.failing(values)
            }
            Formula::Implies(parts) => {
                if parts.0.holds(values)? {
                    parts.1.failing(values)
                } else {
                    None
                }
            }
            Formula::True | Formula::False | Formula::Or(_) | Formula::Not(_) => None,
        }
    }

    /// Whether the formula has few enough parts to be looked at; walks without recursion.
    pub(crate) fn is_moderate(&self) -> bool {
        let mut stack = vec![(self, 0)];
        let mut size = 0;
        while let Some((formula, depth)) = stack.pop() {
            size += 1;
            if size > MAX_SIZE || depth > MAX_DEPTH {
                return false;
            }
            match formula {
                Formula::True | Formula::False => {}
                Formula::Claim(claim) => {
                    if !is_moderate(&claim.left) || !is_moderate(&claim.right) {
                        return false;
                    }
                }
                Formula::And(parts) | Formula::Or(parts) => {
                    stack.extend(parts.iter().map(|part| (part, depth + 1)));
                }
                Formula::Not(operand) => stack.push((operand, depth + 1)),
                Formula::Implies(parts) => {
                    stack.extend([(&parts.0, depth + 1), (&parts.1, depth + 1)]);
                }
            }
        }
        true
    }

    /// Replaces every variable that `map` knows, all at once.
    pub(crate) fn substitute(&self, map: &BTreeMap<Name, Dim>) -> Self {
        let all = |parts: &[Formula]| parts.iter().map(|part| part.substitute(map)).collect();
        match self {
            Formula::True | Formula::False => self.clone(),
            Formula::Claim(claim) => Formula::Claim(claim.substitute(map)),
            Formula::And(parts) => Formula::And(all(parts)),
            Formula::Or(parts) => Formula::Or(all(parts)),
            Formula::Not(operand) => Formula::negation(operand.substitute(map)),
            Formula::Implies(parts) => {
                Formula::implies(parts.0.substitute(map), parts.1.substitute(map))
            }
        }
    }

    /// Calls `visit` on each claim, left to right.
    pub(crate) fn visit_claims<'a>(&'a self, visit: &mut dyn FnMut(&'a Claim)) {
        match self {
            Formula::True | Formula::False => {}
            Formula::Claim(claim) => visit(claim),
            Formula::And(parts) | Formula::Or(parts) => {
                parts.iter().for_each(|part| part.visit_claims(visit));
            }
            Formula::Not(operand) => operand.visit_claims(visit),
            Formula::Implies(parts) => {
                parts.0.visit_claims(visit);
                parts.1.visit_claims(visit);
            }
        }
    }

    /// Calls `visit` on each dim, left to right.
    pub(crate) fn visit_dims<'a>(&'a self, visit: &mut dyn FnMut(&'a Dim)) {
        self.visit_claims(&mut |claim| {
            visit(&claim.left);
            visit(&claim.right);
        });
    }
}

/// The text of a statement, as `relax prove` reads it: operands of connectives in brackets.
impl fmt::Display for Formula {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Formula::True => f.write_str("True"),
            Formula::False => f.write_str("False"),
            Formula::Claim(claim) => write!(f, "{claim}"),
            Formula::And(parts) => write_chain(f, parts, " and ", "True"),
            Formula::Or(parts) => write_chain(f, parts, " or ", "False"),
            Formula::Not(operand) => write!(f, "not ({operand})"),
            Formula::Implies(parts) => write!(f, "implies({}, {})", parts.0, parts.1),
        }
    }
}

fn write_chain(
    f: &mut fmt::Formatter<'_>,
    parts: &[Formula],
    word: &str,
    empty: &str,
) -> fmt::Result {
    for (index, part) in parts.iter().enumerate() {
        if index > 0 {
            f.write_str(word)?;
        }
        match part {
            Formula::And(_) | Formula::Or(_) => write!(f, "({part})")?,
            _ => write!(f, "{part}")?,
        }
    }
    if parts.is_empty() { f.write_str(empty) } else { Ok(()) }
}

impl From<Claim> for Formula {
    fn from(claim: Claim) -> Self {
        Formula::Claim(claim)
    }
}

/// Which value decides a chain.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stop {
    AtFalse,
    AtTrue,
}

fn holds_in_order(parts: &[Formula], values: &Counterexample, stop: Stop) -> Option<bool> {
    let decisive = stop == Stop::AtTrue;
    for part in parts {
        if part.holds(values)? == decisive {
            return Some(decisive);
        }
    }
    Some(!decisive)
}
