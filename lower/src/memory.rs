//! Memory over the course of a function: when tensors are in use, what else names them, and where in
//! a storage they may lie.

pub(crate) mod aliases;
mod apart;
pub(crate) mod extents;
pub(crate) mod packing;
pub(crate) mod timeline;
