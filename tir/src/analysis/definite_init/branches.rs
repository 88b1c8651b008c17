//! Definite initialization after a condition: what both of its branches wrote, the intersection of what each of them wrote.
//! `version_loops` makes such conditions, with the same nest in both branches.

use super::super::write_coverage::Slice;
use super::{DefiniteWrites, InitAnalysis};
use relax_syntax::ir::tensor::{BufferId, Stmt, TExpr};
use std::collections::BTreeSet;

/// What was written whichever branch ran.
pub(super) struct Joined {
    whole: BTreeSet<BufferId>,
    elements: Vec<(BufferId, Vec<TExpr>)>,
    slices: Vec<(BufferId, Slice)>,
}

impl InitAnalysis<'_> {
    /// Walks through both branches from what is known before them.
    pub(super) fn branches(&mut self, branches: [&[Stmt]; 2]) -> Joined {
        let [then, otherwise] = branches.map(|body| self.at_end(body));
        let is_common = |buffer: &BufferId| self.known.allocated.contains(buffer);
        let (elements, slices) = (self.known.elements.len(), self.known.slices.len());
        let mut joined = Joined {
            whole: then.whole.intersection(&otherwise.whole).copied().filter(is_common).collect(),
            elements: then.elements.get(elements..).unwrap_or_default().to_vec(),
            slices: then.slices.get(slices..).unwrap_or_default().to_vec(),
        };
        // Names that a branch binds are others in the other one.
        joined.elements.retain(|own| is_common(&own.0) && otherwise.elements.contains(own));
        joined.slices.retain(|own| is_common(&own.0) && otherwise.slices.contains(own));
        joined
    }
}

impl DefiniteWrites {
    /// One of the branches has run.
    pub(super) fn join(&mut self, written: Joined) {
        self.whole.extend(written.whole);
        self.elements.extend(written.elements);
        self.slices.extend(written.slices);
    }
}
