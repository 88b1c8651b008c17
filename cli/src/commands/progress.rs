//! Passes on the terminal while a program is built.

use crate::terminal::Terminal;
use relax_rewrite::pass::Pass;
use relax_rewrite::pipeline::{Applied, Watch};
use relax_syntax::ir::Module;

/// Shows the pass that runs, before another watch.
pub(super) struct Progress<'w> {
    pub(super) terminal: &'w mut Terminal,
    pub(super) file: String,
    pub(super) inner: &'w mut dyn Watch,
}

impl Watch for Progress<'_> {
    fn before(&mut self, pass: &'static Pass) {
        self.terminal.doing(format!("building {}: {}", self.file, pass.name));
        self.inner.before(pass);
    }

    fn transformed(&mut self, pass: &'static Pass) {
        self.inner.transformed(pass);
    }

    fn after(&mut self, applied: &Applied) -> Result<(), String> {
        self.inner.after(applied)
    }

    fn made(&mut self, what: &'static str, module: &Module) {
        self.terminal.doing(format!("building {}: compiling and checking kernels", self.file));
        self.inner.made(what, module);
    }
}
