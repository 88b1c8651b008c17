//! Traps: the ways in which a program may stop without a value.

use super::values::{Applied, Call};
use crate::denotation::program::boundary;
use relax_syntax::facts::{Claim, Relation};
use std::sync::Arc;

/// One way to stop.
#[derive(Clone)]
pub(super) enum Stop {
    /// Unless this holds.
    Claim(Claim),
    /// A tensor program, for what elements or dims are.
    Program(String, Arc<Call>),
    /// An operator, for what elements are.
    Operator(String, Arc<Applied>),
    /// Another reason, identified by its text.
    Opaque(String),
    /// Another one, in branches.
    Guarded(Vec<Guard>, Box<Stop>),
}

/// A branch that claims on dims decide.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Guard {
    /// All of them.
    pub(super) claims: Vec<Claim>,
    /// Whether it is taken where they hold, or where some does not.
    pub(super) holds: bool,
}

impl Guard {
    /// What is known in the branch.
    pub(super) fn known(&self) -> Vec<Claim> {
        match (self.holds, self.claims.as_slice()) {
            (true, claims) => claims.to_vec(),
            (false, [claim]) => vec![claim.opposite()],
            (false, _) => Vec::new(),
        }
    }

    /// Whether it is taken where these claims hold, if they tell.
    fn is_taken(&self, known: &[Claim]) -> Option<bool> {
        let mut all = true;
        for claim in &self.claims {
            all &= known.contains(claim);
            if !known.contains(claim) && !known.contains(&claim.opposite()) {
                return None;
            }
        }
        Some(all == self.holds)
    }
}

/// What no dims fulfil: the program stops, whatever it is given.
pub(super) fn never() -> Claim {
    Claim::new(1, Relation::AtMost, 0)
}

impl Stop {
    /// What tells it from others.
    pub(super) fn key(&self) -> String {
        match self {
            Stop::Claim(claim) => claim.to_string(),
            Stop::Program(key, _) | Stop::Operator(key, _) | Stop::Opaque(key) => key.clone(),
            Stop::Guarded(guards, stop) => {
                let mut text = String::new();
                for guard in guards {
                    let claims: Vec<String> = guard.claims.iter().map(Claim::to_string).collect();
                    let word = if guard.holds { "where" } else { "unless" };
                    text += &format!("{word} {}: ", claims.join(" and "));
                }
                format!("{text}{}", stop.key())
            }
        }
    }
}

impl Stop {
    /// What must hold for the program to go on.
    pub(super) fn claim(&self) -> Option<&Claim> {
        match self {
            Stop::Claim(claim) => Some(claim),
            _ => None,
        }
    }

    /// What holds of dims wherever it does not stop.
    pub(super) fn needed(&self) -> Vec<Claim> {
        match self {
            Stop::Claim(claim) => vec![claim.clone()],
            Stop::Program(_, call) => boundary(&call.program, &call.shapes, &call.scalars),
            Stop::Operator(..) | Stop::Opaque(_) | Stop::Guarded(..) => Vec::new(),
        }
    }
}

/// What decides whether stops count, of each claim and its opposite one.
pub(super) fn guards<'s>(stops: impl Iterator<Item = &'s Stop>) -> Vec<Claim> {
    let mut found: Vec<Claim> = Vec::new();
    for stop in stops {
        let Stop::Guarded(guards, _) = stop else { continue };
        for claim in guards.iter().flat_map(|guard| &guard.claims) {
            if !found.contains(claim) && !found.contains(&claim.opposite()) {
                found.push(claim.clone());
            }
        }
    }
    found
}

/// The stops that count where these claims hold: of each guard it or its opposite one.
pub(super) fn where_holds(stops: &[Stop], known: &[Claim]) -> Vec<Stop> {
    let each = stops.iter().filter_map(|stop| {
        let Stop::Guarded(guards, inner) = stop else { return Some(stop.clone()) };
        let taken: Vec<Option<bool>> = guards.iter().map(|guard| guard.is_taken(known)).collect();
        if taken.contains(&Some(false)) {
            None
        } else if taken.contains(&None) {
            Some(stop.clone())
        } else {
            Some((**inner).clone())
        }
    });
    each.collect()
}

impl PartialEq for Stop {
    fn eq(&self, other: &Self) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other) && self.key() == other.key()
    }
}
