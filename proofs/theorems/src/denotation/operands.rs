//! What the dtypes of operands say of their elements.

use relax_syntax::Name;
use relax_syntax::dtype::{Class, DType};
use std::collections::BTreeSet;

/// Operands by what is known of every element.
#[derive(Clone, Debug, Default)]
pub(crate) struct Operands {
    truths: BTreeSet<Name>,
    unsigned: BTreeSet<Name>,
}

impl Operands {
    /// Operands with their dtypes.
    pub(crate) fn of(operands: impl Iterator<Item = (Name, DType)>) -> Self {
        let mut known = Self::default();
        for (name, dtype) in operands {
            match dtype.class() {
                Class::Bool => _ = known.truths.insert(name),
                Class::Unsigned => _ = known.unsigned.insert(name),
                _ => {}
            }
        }
        known
    }

    /// Whether all elements are truth values.
    pub(super) fn are_truths(&self, name: &Name) -> bool {
        self.truths.contains(name)
    }

    /// Whether all elements are integers that are at least 0.
    pub(super) fn are_unsigned(&self, name: &Name) -> bool {
        self.unsigned.contains(name)
    }
}
