//! The table of atoms: an atom that is equal to one of the table is that one.
//!
//! Few atoms of the table can be equal to a new one. So atoms are kept by their kind, folds of different functions are not
//! compared, and an index over which some reduction ran that is over is no other index.

use super::fuel;
use super::normal::Normalizer;
use super::poly::{Atom, AtomId, Poly};
use super::term::{FoldOp, Known};
use relax_syntax::Name;
use relax_syntax::dim::Dim;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};

/// What is known of the atoms of the table, to find those that may be equal to another one.
#[derive(Default)]
pub(super) struct Index {
    by_kind: BTreeMap<u64, Vec<AtomId>>,
    /// Of each atom its function without dims; none where dims are among its operands, for these may change it.
    skeletons: Vec<Option<u64>>,
    /// Variables of reductions that are over: nothing is known of them.
    over: BTreeSet<Name>,
}

impl Index {
    /// Variables of reductions that are over.
    pub(super) fn are_over(&self) -> &BTreeSet<Name> {
        &self.over
    }
}

fn hashed(parts: impl Hash) -> u64 {
    // Always with the same keys.
    let mut hasher = DefaultHasher::new();
    parts.hash(&mut hasher);
    hasher.finish()
}

impl Normalizer<'_> {
    /// The atom in the table that is equal to this one.
    pub(super) fn intern(&mut self, atom: Atom) -> Known<AtomId> {
        let kind = kind(&atom);
        let alike = self.index.by_kind.get(&kind).cloned().unwrap_or_default();
        fuel::spend(1 + alike.len() / 8)?;
        if let Some(&id) = alike.iter().find(|&&id| self.atoms[id] == atom) {
            return Ok(id);
        }
        let skeleton = self.skeleton(&atom);
        for id in alike {
            let other = self.index.skeletons[id];
            if skeleton.is_some() && other.is_some() && skeleton != other {
                continue;
            }
            let known = self.atoms[id].clone();
            if self.same_atom(&known, &atom)? {
                return Ok(id);
            }
        }
        self.atoms.push(atom);
        self.index.skeletons.push(skeleton);
        self.index.by_kind.entry(kind).or_default().push(self.atoms.len() - 1);
        Ok(self.atoms.len() - 1)
    }

    fn skeleton(&self, atom: &Atom) -> Option<u64> {
        let kind = kind(atom);
        match atom {
            Atom::Read(..) | Atom::Literal(_) | Atom::Scalar(_) => Some(kind),
            Atom::Extent(_) => None,
            Atom::Apply(_, _, args) => {
                let args = args.iter().map(|arg| self.skeleton_of(arg));
                let mut args = args.collect::<Option<Vec<_>>>()?;
                // Operands that may change places stand in the order of numbers of atoms.
                args.sort_unstable();
                Some(hashed((kind, args)))
            }
            Atom::Fold(_, _, _, body) | Atom::Sum(body) => {
                Some(hashed((kind, self.skeleton_of(body)?)))
            }
        }
    }

    /// The order of the monomials, and of their factors, is that of numbers of atoms, which says nothing.
    fn skeleton_of(&self, poly: &Poly) -> Option<u64> {
        let mut parts = Vec::with_capacity(poly.0.len());
        for (monomial, coefficient) in &poly.0 {
            let factors = monomial.iter();
            let factors = factors.map(|(&id, &power)| Some((self.index.skeletons[id]?, power)));
            let mut factors = factors.collect::<Option<Vec<_>>>()?;
            factors.sort_unstable();
            parts.push(hashed((factors, format!("{coefficient:?}"))));
        }
        parts.sort_unstable();
        Some(hashed(parts))
    }

    /// Notes that reductions begin, whose variables mean something from here on.
    pub(super) fn begin(&mut self, names: impl Iterator<Item = Name>) {
        names.for_each(|name| _ = self.index.over.remove(&name));
    }

    /// Notes that they are over.
    pub(super) fn end(&mut self, names: impl Iterator<Item = Name>) {
        self.index.over.extend(names);
    }

    /// Whether two dims differ in variables of which nothing is known: for some values of them the dims differ.
    pub(super) fn differ_by_names(&self, a: &Dim, b: &Dim) -> bool {
        let over = |dim: &Dim| {
            let mut found = BTreeSet::new();
            dim.visit_vars(&mut |name| {
                if self.index.over.contains(name) {
                    found.insert(name.clone());
                }
            });
            found
        };
        !self.index.over.is_empty() && over(a) != over(b)
    }
}

/// What equal atoms have in common.
fn kind(atom: &Atom) -> u64 {
    match atom {
        Atom::Read(name, at) => hashed((0, name, at.len())),
        Atom::Literal(bits) => hashed((1, bits)),
        Atom::Scalar(name) => hashed((2, name)),
        Atom::Extent(_) => hashed(3),
        Atom::Apply(domain, name, args) => hashed((4, domain, name, args.len())),
        Atom::Fold(domain, FoldOp::Row(name, at), ..) => hashed((5, domain, name, at.len())),
        Atom::Fold(domain, op, ..) => hashed((6, domain, op)),
        Atom::Sum(_) => hashed(7),
    }
}
