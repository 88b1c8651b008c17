//! Analyses of tensor programs, one file for each question.

pub mod access_summary;
pub mod bit_exact;
pub mod definite_init;
pub mod dependence;
pub(crate) mod divergence;
pub mod in_place;
pub mod traps;
pub mod write_coverage;
