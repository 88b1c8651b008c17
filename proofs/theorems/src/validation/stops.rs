//! Traps: the ways in which a program may stop without a value.

use super::values::{Applied, Call};
use relax_syntax::facts::Claim;
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
    /// Something else, told by what it is asked of.
    Opaque(String),
}

impl Stop {
    /// What tells it from others.
    pub(super) fn key(&self) -> String {
        match self {
            Stop::Claim(claim) => claim.to_string(),
            Stop::Program(key, _) | Stop::Operator(key, _) | Stop::Opaque(key) => key.clone(),
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
}

impl PartialEq for Stop {
    fn eq(&self, other: &Self) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other) && self.key() == other.key()
    }
}
