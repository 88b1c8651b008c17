//! One file each.

pub mod attach_global_symbol;
pub mod lower_builtins;
pub mod lower_shapes;
pub mod to_non_dataflow;
