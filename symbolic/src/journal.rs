//! What the engine concluded, in order: hints from which a certificate is written. Nothing here is
//! trusted: each entry is proved again, from the entries before it, with steps that a checker knows.

use crate::atoms::Atom;
use crate::engine::Engine;
use crate::polynomial::{AtomId, Poly};
use crate::problem::Infeasibility;

/// A conclusion, or the border of a case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// The operation has this value.
    Value(Atom, Poly),
    /// The atom has this value.
    Solved(AtomId, Poly),
    /// At least 0.
    AtLeastZero(Poly),
    /// Is 0.
    Zero(Poly),
    /// Is not 0.
    NonZero(Poly),
    /// So many cases follow, each closed by [`Event::End`].
    Divide(Division, usize),
    /// The end of a case.
    End,
    /// These cannot all be at least 0.
    Absurd(Vec<Poly>),
    /// The first cannot all be at least 0 where the second are 0, by these rows.
    Infeasible(Vec<Poly>, Vec<Poly>, Box<Infeasibility>),
    /// At least 0, because its negation is infeasible by these rows.
    Follows(Poly, Box<Infeasibility>),
}

/// How a question is divided into cases.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Division {
    /// A `min` or `max` is one of its arguments.
    Arguments(AtomId),
    /// A polynomial that is not 0 is above it or below.
    Sides(Poly),
    /// A polynomial is at least 0 or below.
    Sign(Poly),
    /// An atom has one of the values from the first to the second.
    Values(AtomId, i128, i128),
    /// The remainder of an atom by the divisor is one of those from 0 on.
    Residues(AtomId, i128),
}

/// The list of conclusions, where one is kept.
#[derive(Clone, Debug, Default)]
pub(crate) struct Journal {
    events: Option<Vec<Event>>,
}

impl Journal {
    /// Whether anybody reads what is concluded.
    pub(crate) fn is_kept(&self) -> bool {
        self.events.is_some()
    }
}

impl Engine {
    /// Writes an entry, where a journal is kept.
    pub(crate) fn note(&mut self, event: impl FnOnce() -> Event) {
        if let Some(events) = &mut self.journal.events {
            events.push(event());
        }
    }

    /// The result of `work` and the entries that it wrote.
    pub(crate) fn observed<T>(&mut self, work: impl FnOnce(&mut Self) -> T) -> (T, Vec<Event>) {
        let outer = self.journal.events.replace(Vec::new());
        let result = work(self);
        let events = std::mem::replace(&mut self.journal.events, outer);
        (result, events.unwrap_or_default())
    }
}
