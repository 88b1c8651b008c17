//! Which slots hold what, at a place in a function.

use relax_syntax::dim::Dim;
use relax_syntax::ir::VarId;
use std::collections::{BTreeMap, BTreeSet};

/// What is known on all ways to this place.
#[derive(Clone, Debug, Default)]
pub(super) struct Scope {
    /// Symbolic variables that are bound, and expressions that were computed.
    pub(super) slots: BTreeMap<Dim, usize>,
    /// Expressions that were found to be no less than 0.
    pub(super) natural: BTreeSet<Dim>,
    /// Variables that hold the integer of a slot.
    pub(super) loaded: BTreeMap<usize, VarId>,
    /// Variables that hold a shape.
    pub(super) shapes: BTreeMap<Vec<Dim>, VarId>,
}
