//! Modules as the virtual machine runs them, with what is known of them beside.

use relax_semantics::tensor::Tensor;
use relax_syntax::Name;
use relax_syntax::ir::Module;
use relax_tir::analysis::access_summary::AccessSummaries;
use std::collections::BTreeMap;

/// A module at P2.3 whose tensor programs are scheduled for a device.
#[derive(Clone, Debug)]
pub struct Lowered {
    /// As the machine runs it.
    pub module: Module,
    /// Of external constants that were computed for it.
    pub values: BTreeMap<Name, Tensor>,
    /// What its tensor programs did to elements before they were scheduled for a device with blocks of threads.
    pub summaries: AccessSummaries,
}

impl From<Module> for Lowered {
    /// One that is not scheduled any more.
    fn from(module: Module) -> Self {
        Self { module, values: BTreeMap::new(), summaries: AccessSummaries::default() }
    }
}
