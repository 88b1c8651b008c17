//! What was answered before: the same question from the same facts has the same answer, and whoever checks a program
//! after each of many passes asks the same ones again.

use crate::atoms::Atom;
use crate::claims::Formula;
use crate::context::Context;
use crate::verdict::Verdict;
use relax_syntax::dim::Dim;
use relax_syntax::facts::Claim;
use relax_syntax::hash::WordMap;
use std::sync::Arc;

/// Answers that are kept; then all are forgotten.
const MOST: usize = 1 << 14;
/// Contexts that are kept, which are larger.
const MOST_CONTEXTS: usize = 1 << 10;

/// The facts of a scope and of those around it, in the order in which they were assumed. These decide every answer:
/// what questions leave behind is forgotten after each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Known(u64);

/// What became of a context as a fact was added. What questions leave behind is forgotten after each, so the same facts
/// have the same atoms.
#[derive(Debug)]
pub(crate) struct Assumed {
    pub(crate) context: Context,
    /// How many atoms there were before.
    pub(crate) mark: usize,
    /// Those that were created.
    pub(crate) atoms: Vec<Atom>,
}

/// Answers by what was known.
#[derive(Clone, Debug, Default)]
pub(crate) struct Memory {
    /// How many lists of facts have a number.
    numbered: u64,
    longer: WordMap<(Known, Claim), Known>,
    assumed: WordMap<(Known, Claim), Arc<Assumed>>,
    verdicts: WordMap<(Known, Formula), Verdict>,
    simple: WordMap<(Known, Dim), Dim>,
}

impl Memory {
    /// These facts and one more.
    pub(crate) fn with(&mut self, key: (Known, Claim)) -> Known {
        self.make_room();
        *self.longer.entry(key).or_insert_with(|| {
            self.numbered += 1;
            Known(self.numbered)
        })
    }

    /// What became of the context before, where there were as many atoms as now.
    pub(crate) fn assumed(&self, key: &(Known, Claim), mark: usize) -> Option<Arc<Assumed>> {
        self.assumed.get(key).filter(|assumed| assumed.mark == mark).cloned()
    }

    /// Keeps what became of a context.
    pub(crate) fn keep_assumed(&mut self, key: (Known, Claim), assumed: Assumed) {
        if self.assumed.len() >= MOST_CONTEXTS {
            self.assumed.clear();
        }
        self.assumed.insert(key, Arc::new(assumed));
    }

    /// What came of a question.
    pub(crate) fn verdict(&self, key: &(Known, Formula)) -> Option<&Verdict> {
        self.verdicts.get(key)
    }

    /// Keeps what came of a question.
    pub(crate) fn keep(&mut self, key: (Known, Formula), verdict: Verdict) {
        self.make_room();
        self.verdicts.insert(key, verdict);
    }

    /// The simpler dim that was found.
    pub(crate) fn simple(&self, key: &(Known, Dim)) -> Option<&Dim> {
        self.simple.get(key)
    }

    /// Keeps a simpler dim.
    pub(crate) fn keep_simple(&mut self, key: (Known, Dim), simple: Dim) {
        self.make_room();
        self.simple.insert(key, simple);
    }

    /// Numbers are never given twice, so that those in use stay right.
    fn make_room(&mut self) {
        if self.longer.len() + self.verdicts.len() + self.simple.len() >= MOST {
            self.forget();
        }
    }

    /// Forgets all answers.
    pub(crate) fn forget(&mut self) {
        *self = Self { numbered: self.numbered, ..Self::default() };
    }
}
