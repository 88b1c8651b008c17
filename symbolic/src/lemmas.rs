//! What linear reasoning showed from the same facts before: quotients of one question, and of those after it, are often
//! the same, and each is looked at with its own system of inequalities.

use crate::context::Context;
use crate::engine::Engine;
use crate::memory::Known;
use crate::polynomial::{AtomId, Poly};
use crate::thorough::Reach;
use relax_syntax::hash::WordMap;
use std::collections::BTreeMap;

/// Answers that are kept; then all are forgotten.
const MOST: usize = 1 << 12;

/// Which facts a context has, as long as nobody adds to them. A clone does not say: it is made to add facts to it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Stamp(pub(crate) Option<Known>);

impl Clone for Stamp {
    fn clone(&self) -> Self {
        Self(None)
    }
}

/// Whether facts imply that a polynomial is at least 0, and the steps that the answer took.
type Answers = WordMap<Poly, (bool, u32)>;

/// What was answered.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lemmas {
    /// By facts, and by the last atom of the polynomial.
    shown: WordMap<Known, BTreeMap<AtomId, Answers>>,
    count: usize,
}

impl Lemmas {
    /// Forgets what was shown from these facts of atoms that were created after `mark`. The others are the same
    /// whenever the facts are.
    pub(crate) fn forget_from(&mut self, known: Known, mark: usize) {
        let first = AtomId::try_from(mark + 1).unwrap_or(AtomId::MAX);
        if let Some(shown) = self.shown.get_mut(&known) {
            self.count -= shown.split_off(&first).values().map(WordMap::len).sum::<usize>();
        }
    }

    fn get(&self, known: Known, poly: &Poly) -> Option<(bool, u32)> {
        self.shown.get(&known)?.get(&last_atom(poly))?.get(poly).copied()
    }

    fn keep(&mut self, known: Known, poly: &Poly, answer: (bool, u32)) {
        if self.count >= MOST {
            *self = Self::default();
        }
        self.count += 1;
        let shown = self.shown.entry(known).or_default();
        shown.entry(last_atom(poly)).or_default().insert(poly.clone(), answer);
    }
}

fn last_atom(poly: &Poly) -> AtomId {
    poly.atoms().first().copied().unwrap_or_default()
}

impl Engine {
    /// Forgets the atoms that were created after `mark` for a question on a context, and what was shown of them.
    pub(crate) fn forget_from(&mut self, context: &Context, mark: usize) {
        self.atoms.forget_from(mark);
        if let Some(known) = context.stamp.0 {
            self.lemmas.forget_from(known, mark);
        }
    }

    /// What `show` answers, or did for the same polynomial and facts, for as many steps. Where a journal is kept, the
    /// steps themselves are wanted. The second attempt shows more, and keeps nothing.
    pub(crate) fn remembered(
        &mut self,
        stamp: &Stamp,
        poly: &Poly,
        show: impl FnOnce(&mut Self) -> bool,
    ) -> bool {
        let anew = self.journal.is_kept() || self.reach == Reach::Far;
        let Some(known) = stamp.0.filter(|_| !anew) else { return show(self) };
        if let Some((shown, steps)) = self.lemmas.get(known, poly)
            && steps < self.fuel
        {
            self.fuel -= steps;
            return shown;
        }
        let before = self.fuel;
        let shown = show(self);
        // What ended for lack of steps may end otherwise with more.
        if self.fuel > 0 {
            self.lemmas.keep(known, poly, (shown, before - self.fuel));
        }
        shown
    }
}
