//! Floor 3: what must be shown of a compilation, derived from its texts alone, and the checker that shows it by a
//! certificate. Every question on dims goes through `Facts`: at compile time a prover answers and its proofs are
//! noted ([`answers::recording`]); a checker derives the same obligations again and believes only what
//! `relax-proofs` replays ([`answers::replaying`]). So a certificate cannot say what is to be shown, only why it
//! holds.
#![forbid(unsafe_code)]

pub mod answers;
mod applications;
pub mod certificate;
pub mod check;
pub mod derive;
pub mod heaps;
pub mod kernels;
pub mod memory;
mod names;
pub mod obligation;
pub mod ranks;
pub mod report;
pub mod used_rules;

/// The rules that proofs may use: theorems on integers.
pub const RULES: &str = include_str!("../../../symbolic/rules/dims.rules");
