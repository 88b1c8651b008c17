//! The facts that are known at a place of a proof.

use crate::polynomial::Poly;
use crate::statement::{Fact, Sign};
use crate::{Checks, refuse};

/// The facts of a branch and of those around it, by rising number.
#[derive(Debug, Default)]
pub(crate) struct Known {
    facts: Vec<(u64, Fact)>,
    /// What the next number may be at least: numbers are used once in the whole file.
    free: u64,
}

impl Known {
    /// Adds a fact.
    pub(crate) fn add(&mut self, id: u64, fact: Fact) -> Checks<()> {
        self.reserve(id)?;
        self.add_reserved(id, fact);
        Ok(())
    }

    /// Uses up a number.
    pub(crate) fn reserve(&mut self, id: u64) -> Checks<()> {
        if id < self.free {
            let free = self.free;
            return refuse(format!("the number {id} does not rise: it must be {free} at least"));
        }
        self.free = id.saturating_add(1);
        Ok(())
    }

    /// Adds a fact under a number that was reserved when these same facts were known: its number is
    /// above theirs.
    pub(crate) fn add_reserved(&mut self, id: u64, fact: Fact) {
        self.facts.push((id, fact));
    }

    /// How many facts there are.
    pub(crate) fn count(&self) -> usize {
        self.facts.len()
    }

    /// Forgets the facts of a branch that ends.
    pub(crate) fn forget_after(&mut self, count: usize) {
        self.facts.truncate(count);
    }

    /// A fact by its number.
    pub(crate) fn at(&self, id: u64) -> Checks<&Fact> {
        match self.facts.binary_search_by_key(&id, |(id, _)| *id) {
            Ok(index) => Ok(&self.facts[index].1),
            Err(_) => refuse(format!("the fact {id} is not known here")),
        }
    }

    /// A fact on a polynomial by its number.
    pub(crate) fn number(&self, id: u64) -> Checks<(&Poly, Sign)> {
        match self.at(id)? {
            Fact::Number(poly, sign) => Ok((poly, *sign)),
            Fact::Stated(..) => refuse(format!("the fact {id} is a statement, to be opened first")),
        }
    }

    /// A fact on a polynomial of which it says this.
    pub(crate) fn with_sign(&self, id: u64, sign: Sign) -> Checks<&Poly> {
        match self.number(id)? {
            (poly, found) if found == sign => Ok(poly),
            _ => refuse(format!("the fact {id} is not `{} 0`", sign.symbol())),
        }
    }
}
