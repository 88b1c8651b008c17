//! The numbered atoms of polynomials: variables, and operations that are not sums or products.
//!
//! Atoms are numbered in the order of creation and an atom is created after all atoms inside it,
//! so a bigger number is never inside a smaller one. What a query creates is forgotten after it.

use crate::polynomial::{AtomId, Poly};
use relax_syntax::Name;
use relax_syntax::hash::WordMap;

/// How many different atoms may occur in one: bounds the work on deep expressions.
const MAX_INSIDE: usize = 200;

/// What an atom stands for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Atom {
    /// A variable.
    Var(Name),
    /// `numerator // divisor`
    Div(Poly, Poly),
    /// The value of `numerator // divisor`, taken as a variable: a fact gave the remainder.
    Quotient {
        /// What is divided.
        numerator: Poly,
        /// By what.
        divisor: Poly,
        /// What `divisor` times this atom is, by the fact.
        multiple: Poly,
    },
    /// The least of these.
    Min(Vec<Poly>),
    /// The greatest of these.
    Max(Vec<Poly>),
}

impl Atom {
    /// The polynomials inside.
    pub(crate) fn operands(&self) -> Vec<&Poly> {
        match self {
            Atom::Var(_) | Atom::Quotient { .. } => Vec::new(),
            Atom::Div(numerator, divisor) => vec![numerator, divisor],
            Atom::Min(args) | Atom::Max(args) => args.iter().collect(),
        }
    }

    /// Whether an equation is solved for it with preference: it has nothing inside.
    pub(crate) fn is_free(&self) -> bool {
        matches!(self, Atom::Var(_) | Atom::Quotient { .. })
    }
}

/// The table of atoms.
#[derive(Clone, Debug, Default)]
pub(crate) struct Atoms {
    list: Vec<Atom>,
    /// For each atom, all that occur in it at any depth, itself too, in rising order.
    inside: Vec<Vec<AtomId>>,
    ids: WordMap<Atom, AtomId>,
}

impl Atoms {
    /// The number of `atom`; `None` when the table is full.
    pub(crate) fn intern(&mut self, atom: Atom) -> Option<AtomId> {
        if let Some(&id) = self.ids.get(&atom) {
            return Some(id);
        }
        let id = AtomId::try_from(self.list.len() + 1).ok()?;
        let mut inside = vec![id];
        for other in atom.operands().iter().flat_map(|poly| poly.atoms()) {
            inside.extend_from_slice(self.inside(other));
        }
        inside.sort_unstable();
        inside.dedup();
        if inside.len() > MAX_INSIDE {
            return None;
        }
        self.ids.insert(atom.clone(), id);
        self.list.push(atom);
        self.inside.push(inside);
        Some(id)
    }

    /// All atoms that occur in `id` at any depth, itself too, in rising order.
    pub(crate) fn inside(&self, id: AtomId) -> &[AtomId] {
        &self.inside[usize::from(id) - 1]
    }

    /// The atom with this number.
    pub(crate) fn at(&self, id: AtomId) -> &Atom {
        &self.list[usize::from(id) - 1]
    }

    /// How many there are, to give to [`Atoms::forget_from`].
    pub(crate) fn mark(&self) -> usize {
        self.list.len()
    }

    /// What was created after `mark`, in this order.
    pub(crate) fn since(&self, mark: usize) -> &[Atom] {
        &self.list[mark..]
    }

    /// Forgets what was created after `mark`.
    pub(crate) fn forget_from(&mut self, mark: usize) {
        self.inside.truncate(mark);
        for atom in self.list.drain(mark.min(self.list.len())..) {
            self.ids.remove(&atom);
        }
    }

    /// Whether `needle` is `id` or occurs inside it.
    pub(crate) fn atom_mentions(&self, id: AtomId, needle: AtomId) -> bool {
        self.inside(id).binary_search(&needle).is_ok()
    }

    /// Whether `needle` occurs in `poly`, at the top or inside an atom.
    pub(crate) fn mentions(&self, poly: &Poly, needle: AtomId) -> bool {
        poly.terms()
            .iter()
            .flat_map(|(mono, _)| mono.atoms())
            .any(|&id| self.atom_mentions(id, needle))
    }
}
