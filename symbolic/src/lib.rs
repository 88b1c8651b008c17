//! Decides facts on symbolic dims: the answer to [`relax_syntax::facts::Facts`].
//!
//! A question goes through canonical [polynomials](polynomial), quick [bounds](intervals), linear
//! reasoning over the integers ([problem], [linear]) with case splits ([proof], [tableau]), a search
//! for small [counterexamples](counterexample), and where that is wanted a [second attempt](thorough) and an SMT [solver]. Everything is bounded; what is not decided is
//! `Unknown`, what is decided is right: a proof covers every assignment that satisfies the facts,
//! with mathematical integers, and a counterexample was evaluated.

pub mod asked;
mod atoms;
mod bounds;
mod certificate;
pub mod claims;
mod context;
mod counterexample;
mod division;
mod egraph;
mod engine;
mod extremes;
mod hypotheses;
mod ideal;
mod intervals;
mod journal;
mod lemmas;
mod linear;
mod memory;
mod missing;
mod overflow;
mod polynomial;
mod problem;
mod proof;
mod prover;
mod simplify;
mod solver;
pub mod statement;
mod tableau;
mod thorough;
mod verdict;

/// The rules of the e-graph, one a line: `name: left == right where conditions  # reason`.
pub const RULES: &str = include_str!("../rules/dims.rules");

pub use overflow::{Escape, Intermediates};
pub use prover::Prover;
pub use solver::{Encoding, Trusted, solver_question, solver_version, text_hash};
#[cfg(feature = "z3")]
pub use solver::{EncodingOutcome, prove_with_encoding};
pub use verdict::{Stage, StageStatistics, Statistics, Verdict};
