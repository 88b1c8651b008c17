//! Expressions whose values C variables hold already: the element that a store just computed is not loaded again.

use relax_syntax::ir::tensor::TExpr;

/// Expressions, and what C has their values in.
#[derive(Debug, Default)]
pub(crate) struct HeldValues(Vec<(TExpr, String)>);

impl HeldValues {
    pub(crate) fn of(&self, expr: &TExpr) -> Option<String> {
        let found = self.0.iter().rev().find(|(known, _)| known == expr);
        found.map(|(_, text)| text.clone())
    }

    pub(crate) fn push(&mut self, expr: TExpr, text: String) {
        self.0.push((expr, text));
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn truncate(&mut self, len: usize) {
        self.0.truncate(len);
    }
}
