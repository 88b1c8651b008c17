//! What rewrite rules did in a run of passes, for whoever reports it.

use super::Report;
use crate::pass::Pass;
use crate::pipeline::{Applied, Watch};
use relax_syntax::ir::Module;

/// Notes the reports of saturations, and passes everything on.
pub struct Rewrites<'w> {
    inner: &'w mut dyn Watch,
    /// One a pass, in their order.
    pub reports: Vec<Report>,
}

impl<'w> Rewrites<'w> {
    /// Before another watch.
    pub fn before(inner: &'w mut dyn Watch) -> Self {
        Self { inner, reports: Vec::new() }
    }
}

impl Watch for Rewrites<'_> {
    fn before(&mut self, pass: &'static Pass) {
        self.inner.before(pass);
    }

    fn transformed(&mut self, pass: &'static Pass) {
        self.inner.transformed(pass);
    }

    fn after(&mut self, applied: &Applied) -> Result<(), String> {
        self.reports.extend(applied.rewrites.cloned());
        self.inner.after(applied)
    }

    fn made(&mut self, what: &'static str, module: &Module) {
        self.inner.made(what, module);
    }
}
