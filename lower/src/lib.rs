//! Floor 4: from graphs to explicit memory, and on to what a virtual machine runs (paper §4.2 to
//! §4.4). The [`pipeline`] here is the whole one: its first stages are those of `relax-rewrite`.

pub mod certify;
pub mod constants;
pub mod demands;
pub mod gpu;
pub mod lowered;
pub mod maybe_uninit;
pub mod passes;
pub mod pipeline;
pub mod program;
pub mod report;
pub mod static_failures;

mod fresh;
mod memory;
mod writer;
