//! Traps: the ways in which a program may stop without a value.

use super::values::{Applied, Call, Id};
use crate::denotation::program::boundary;
use relax_syntax::facts::{Claim, Relation};
use std::collections::BTreeMap;
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

/// A branch.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Guard {
    pub(super) test: Test,
    /// Whether it is taken where the test holds, or where it does not.
    pub(super) holds: bool,
}

/// What decides a branch.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Test {
    /// All of these claims on dims.
    Dims(Vec<Claim>),
    /// The element of an entry without axes.
    Element(Id),
}

/// One of the cases that guards are divided into.
#[derive(Clone, Debug, Default)]
pub(super) struct Case {
    /// Claims that hold: of each that a guard asks it or its opposite one.
    pub(super) claims: Vec<Claim>,
    /// Entries that are true or false.
    pub(super) elements: Vec<(Id, bool)>,
}

impl Guard {
    /// What is known of dims in the branch.
    pub(super) fn known(&self) -> Vec<Claim> {
        match (&self.test, self.holds) {
            (Test::Dims(claims), true) => claims.clone(),
            (Test::Dims(claims), false) => match claims.as_slice() {
                [claim] => vec![claim.opposite()],
                _ => Vec::new(),
            },
            (Test::Element(_), _) => Vec::new(),
        }
    }

    /// Whether claims on dims decide it.
    pub(super) fn is_of_dims(&self) -> bool {
        matches!(self.test, Test::Dims(_))
    }

    /// Whether it is taken in a case, if that tells.
    fn is_taken(&self, case: &Case) -> Option<bool> {
        match &self.test {
            Test::Dims(claims) => {
                let known = &case.claims;
                let told = |claim| known.contains(claim) || known.contains(&claim.opposite());
                let all = claims.iter().all(|claim| known.contains(claim));
                claims.iter().all(told).then_some(all == self.holds)
            }
            Test::Element(id) => {
                let found = case.elements.iter().find(|(other, _)| other == id);
                found.map(|(_, value)| *value == self.holds)
            }
        }
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
                    let test = match &guard.test {
                        Test::Dims(claims) => {
                            let claims: Vec<String> = claims.iter().map(Claim::to_string).collect();
                            claims.join(" and ")
                        }
                        Test::Element(id) => format!("v{id}"),
                    };
                    let word = if guard.holds { "where" } else { "unless" };
                    text += &format!("{word} {test}: ");
                }
                format!("{text}{}", stop.key())
            }
        }
    }
}

impl Stop {
    /// It without the branches around.
    pub(super) fn plain(&self) -> &Stop {
        match self {
            Stop::Guarded(_, stop) => stop.plain(),
            other => other,
        }
    }

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

/// The claims that decide whether stops count, of each and its opposite one, and the entries.
pub(super) fn guards<'s>(stops: impl Iterator<Item = &'s Stop>) -> (Vec<Claim>, Vec<Id>) {
    let (mut claims, mut elements): (Vec<Claim>, Vec<Id>) = (Vec::new(), Vec::new());
    for stop in stops {
        let Stop::Guarded(guards, _) = stop else { continue };
        for guard in guards {
            match &guard.test {
                Test::Dims(all) => {
                    for claim in all {
                        if !claims.contains(claim) && !claims.contains(&claim.opposite()) {
                            claims.push(claim.clone());
                        }
                    }
                }
                Test::Element(id) if !elements.contains(id) => elements.push(*id),
                Test::Element(_) => {}
            }
        }
    }
    (claims, elements)
}

/// Stops with other entries in the place of those that decide branches.
pub(super) fn with_elements(stops: &[Stop], map: &BTreeMap<Id, Id>) -> Vec<Stop> {
    let guard = |guard: &Guard| match &guard.test {
        Test::Element(id) => {
            Guard { test: Test::Element(map.get(id).copied().unwrap_or(*id)), holds: guard.holds }
        }
        Test::Dims(_) => guard.clone(),
    };
    let each = stops.iter().map(|stop| match stop {
        Stop::Guarded(guards, stop) => {
            Stop::Guarded(guards.iter().map(guard).collect(), stop.clone())
        }
        other => other.clone(),
    });
    each.collect()
}

/// The stops that count in a case.
pub(super) fn where_holds(stops: &[Stop], case: &Case) -> Vec<Stop> {
    let each = stops.iter().filter_map(|stop| {
        let Stop::Guarded(guards, inner) = stop else { return Some(stop.clone()) };
        let taken: Vec<Option<bool>> = guards.iter().map(|guard| guard.is_taken(case)).collect();
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
