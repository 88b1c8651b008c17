//! What passes say of themselves in a run, for whoever reports it.

use crate::fallback::Fallback;
use crate::pass::Pass;
use crate::pipeline::{Applied, Watch};
use crate::saturation::Report;
use relax_syntax::ir::Module;

/// Notes it, and passes everything on.
pub struct Accounts<'w> {
    inner: &'w mut dyn Watch,
    /// Calls that stay with the reference library, in the order of the text, each place once: versions of a function repeat
    /// its calls.
    pub fallbacks: Vec<Fallback>,
    /// What rewrite rules did, one a pass, in their order.
    pub rewrites: Vec<Report>,
}

impl<'w> Accounts<'w> {
    /// Before another watch.
    pub fn before(inner: &'w mut dyn Watch) -> Self {
        Self { inner, fallbacks: Vec::new(), rewrites: Vec::new() }
    }
}

impl Watch for Accounts<'_> {
    fn before(&mut self, pass: &'static Pass) {
        self.inner.before(pass);
    }

    fn transformed(&mut self, pass: &'static Pass) {
        self.inner.transformed(pass);
    }

    fn after(&mut self, applied: &Applied) -> Result<(), String> {
        self.fallbacks.extend_from_slice(applied.fallbacks);
        self.fallbacks.sort_by_key(|fallback| (fallback.span.start, fallback.span.end));
        self.fallbacks.dedup_by_key(|fallback| (fallback.span.start, fallback.operator));
        self.rewrites.extend(applied.rewrites.cloned());
        self.inner.after(applied)
    }

    fn made(&mut self, what: &'static str, module: &Module) {
        self.inner.made(what, module);
    }
}
