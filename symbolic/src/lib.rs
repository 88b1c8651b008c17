//! Decides facts on symbolic dims: the answer to [`relax_syntax::facts::Facts`].
//!
//! A question goes through canonical [polynomials](polynomial), quick [bounds](intervals), linear
//! reasoning over the integers ([problem], [linear]) with case splits ([proof], [tableau]), and a
//! search for small [counterexamples](counterexample). Everything is bounded; what is not decided is
//! `Unknown`, what is decided is right: a proof covers every assignment that satisfies the facts,
//! with mathematical integers, and a counterexample was evaluated.

mod atoms;
mod bounds;
pub mod claims;
mod context;
mod counterexample;
mod division;
mod engine;
mod extremes;
mod hypotheses;
mod intervals;
mod linear;
mod missing;
mod overflow;
mod polynomial;
mod problem;
mod proof;
mod prover;
mod simplify;
pub mod statement;
mod tableau;
mod verdict;

pub use overflow::{Escape, Intermediates};
pub use prover::Prover;
pub use verdict::{Stage, StageStatistics, Statistics, Verdict};
