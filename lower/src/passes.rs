//! One file each.

pub mod to_non_dataflow;
