//! Modules after scheduling for a device, with the access summaries that were taken before.

use relax_syntax::ir::Module;
use relax_tir::analysis::access_summary::AccessSummaries;

/// A module whose tensor programs are scheduled for a device.
#[derive(Clone, Debug)]
pub struct ScheduledModule {
    /// As the machine runs it.
    pub module: Module,
    /// What its tensor programs did to elements before they were scheduled.
    pub summaries: AccessSummaries,
}

impl From<Module> for ScheduledModule {
    /// One that is not scheduled any more.
    fn from(module: Module) -> Self {
        Self { module, summaries: AccessSummaries::default() }
    }
}
